#!/bin/sh
# Starts the server of this Pod by start.sh, and ends it when it may not take writes any more: where the agents fail over
# by themselves, a primary whose agent is frozen or gone must not go on beside the next one. POSIX shell; needs what
# start.sh needs, and a sleep that takes fractions.
#
# The agent writes `writable-until`, by replacing the file: `primary` and a time in hundredths of a second as
# /proc/uptime counts it, which both containers read from one kernel; `alone` for a primary that nobody may take over
# from; `replica` for a server that takes no writes. Nothing else that stands there, and no file at all, is a reason to
# go on.
set -eu

here="${0%/*}"
start="${VALKEY_START:-$here/start.sh}"
if [ -z "${VALKEY_AUTOMATIC_FAILOVER:-}" ]; then
  exec sh "$start"
fi
file="${VALKEY_RUN:-/run/valkey}/writable-until"

# What stands there now is of a server that has ended: before this one is let start, the agent writes something else.
former=""
{ read -r former <"$file"; } 2>/dev/null || former=""

# It becomes the server: the process stays the same.
sh "$start" &
server=$!
trap 'kill -TERM "$server" 2>/dev/null || :' TERM INT

watch() {
  while kill -0 "$server" 2>/dev/null; do
    line=""
    { read -r line <"$file"; } 2>/dev/null || line=""
    role="${line%% *}" until="${line#* }" pause=100
    case "$until" in "" | *[!0-9]*) if [ "$role" = primary ]; then role=unknown; fi ;; esac
    if [ "$line" = "$former" ]; then
      :
    elif [ "$role" = primary ]; then
      former="-"
      read -r now _ </proc/uptime
      left=$((until - ${now%.*}${now#*.}))
      if [ "$left" -le 0 ]; then
        echo "watchdog.sh: the time in which this server may take writes is over; it is ended" >&2
        kill -KILL "$server" 2>/dev/null || :
        return
      fi
      if [ "$left" -lt "$pause" ]; then pause=$left; fi
    elif [ "$role" = replica ] || [ "$role" = alone ]; then
      former="-"
    else
      echo "watchdog.sh: nothing says how long this server may take writes; it is ended" >&2
      kill -KILL "$server" 2>/dev/null || :
      return
    fi
    sleep "$((pause / 100)).$((pause / 10 % 10))$((pause % 10))"
  done
}

# Not a child of the shell that waits: only the server's end ends that.
watch &

# A signal that is forwarded ends the wait, and not the server at once.
while :; do
  became=0
  wait "$server" || became=$?
  kill -0 "$server" 2>/dev/null || break
done
exit "$became"
