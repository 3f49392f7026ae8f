#!/bin/sh
# Before the server of this Pod is stopped: has the agent hand the shard over to a replica, and waits until that is done.
# For servers before 9.0, which don't do it themselves. Always ends well, and in time: the server stops in any case.
# Asks in the same way as start.sh does.
set -eu
umask 077

door="${VALKEY_RUN:-/run/valkey}/handover"
if [ ! -p "$door/wake" ] || [ ! -p "$door/go" ]; then
  exit 0
fi
exec 3<>"$door/wake" 4<>"$door/go"

token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
printf '%s\n' "$token" >"$door/request.new"
mv -f "$door/request.new" "$door/request"
echo >&3

# An agent that doesn't answer must not take the time that the server needs to stop in.
(
  sleep "${VALKEY_HANDOVER_S:-12}"
  echo late >&4
) >/dev/null 2>&1 &
alarm=$!

answered="" what="" rung=""
until [ "$answered" = "$token" ] || [ "$rung" = late ]; do
  { read -r answered what <"$door/permit"; } 2>/dev/null || answered=""
  [ "$answered" = "$token" ] || read -r rung <&4
done
kill "$alarm" 2>/dev/null || true
echo "handover.sh: ${what:-the agent did not answer in time}"
