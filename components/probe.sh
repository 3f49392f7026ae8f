#!/bin/sh
# Tells the kubelet whether the server of this Pod lives: `probe.sh live`. Exit code 0 means yes; what it prints shows in
# the Pod's events. Whether it is started and ready, the agent tells.
#
# A server that loads its dataset, runs a long script, or can't write to its disk does answer, so it lives: killing it
# would only make things worse. The agent isn't asked: a server that serves isn't stopped because of a fault beside it.
set -eu

run="${VALKEY_RUN:-/run/valkey}"

# The command line tool takes the password from its environment: 8.1 knows the old name of the variable only. The x keeps
# line breaks at the password's end.
password="$(cat "$run/password" && printf x)"
password="${password%x}"
export VALKEYCLI_AUTH="$password" REDISCLI_AUTH="$password"

ask() {
  "${VALKEY_CLI:-valkey-cli}" -p "${VALKEY_PORT:-6379}" 2>&1
}

no() {
  echo "$1"
  exit 1
}

case "${1:-}" in
live)
  answer=$(echo PING | ask) || true
  case "$answer" in
  *PONG* | *LOADING* | *BUSY* | *MASTERDOWN* | *MISCONF* | *NOAUTH* | *WRONGPASS* | *NOPERM*) exit 0 ;;
  *) no "no answer: $answer" ;;
  esac
  ;;
*)
  no "usage: probe.sh live"
  ;;
esac
