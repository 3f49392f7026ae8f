#!/bin/sh
# Tells the kubelet whether the Sentinel of this Pod answers. Exit code 0 means yes; what it prints shows in the Pod's
# events. It doesn't sign in: that one is asked to is an answer, too.
set -eu

answer=$(echo PING | "${VALKEY_CLI:-valkey-cli}" -p "${VALKEY_PORT:-26379}" 2>&1 | tr -d '\r') || true
case "$answer" in
*PONG* | *NOAUTH* | *NOPERM*) exit 0 ;;
*)
  echo "no answer: $answer"
  exit 1
  ;;
esac
