#!/bin/sh
# Tells the kubelet how the server of this Pod is: `probe.sh live` or `probe.sh ready`. Exit code 0 means yes; what it
# prints shows in the Pod's events.
#
# live   it answers. A server that loads its dataset, runs a long script, or can't write to its disk does answer:
#        killing it would only make things worse.
# ready  it serves: it is not loading, it knows a cluster in which slots are served, and if it is a replica, its link to
#        the primary is up and it is in sync. So a disruption budget counts a shard's copies, not its processes.
set -eu

run="${VALKEY_RUN:-/run/valkey}"

# The command line tool takes the password from its environment: 8.1 knows the old name of the variable only. The x keeps
# line breaks at the password's end.
password="$(cat "$run/password" && printf x)"
password="${password%x}"
export VALKEYCLI_AUTH="$password" REDISCLI_AUTH="$password"

ask() {
  "${VALKEY_CLI:-valkey-cli}" -p "${VALKEY_PORT:-6379}" 2>&1 | tr -d '\r'
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
ready)
  # These are the words of the wire: slave, master.
  answer=$(printf 'PING\nINFO replication\nCLUSTER INFO\n' | ask) || true
  case "$answer" in
  *PONG*) ;;
  *) no "does not serve: $(echo "$answer" | sed -n 1p)" ;;
  esac
  case "$answer" in
  *role:slave*)
    case "$answer" in
    *master_link_status:up*) ;;
    *) no "is a replica without its primary" ;;
    esac
    case "$answer" in
    *master_sync_in_progress:0*) ;;
    *) no "is a replica that is not yet in sync" ;;
    esac
    ;;
  esac
  case "$answer" in
  *cluster_size:0*) no "knows no cluster in which slots are served" ;;
  *cluster_size:*) exit 0 ;;
  *) no "does not tell about its cluster" ;;
  esac
  ;;
*)
  no "usage: probe.sh live|ready"
  ;;
esac
