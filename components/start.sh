#!/bin/sh
# Starts the server of this Pod, once the agent beside it permits that. POSIX shell; needs od, tr, mv and mkdir, which
# every image of the server has.
#
# The agent decides, and writes the files that the server starts with; here is only asked and waited. Both sides may end
# and come back at any moment: what counts is in the files `request` and `permit`, the pipes only wake the other side.
set -eu
umask 077

run="${VALKEY_RUN:-/run/valkey}"
door="$run/start"

# A container that waits is asked to end like any other.
trap 'exit 143' TERM INT

# The agent starts first, and makes both.
until [ -p "$door/wake" ] && [ -p "$door/go" ]; do sleep 0.1; done
# Open for reading and writing: so that neither opening nor writing waits for the other side.
exec 3<>"$door/wake" 4<>"$door/go"

token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
printf '%s\n' "$token" >"$door/request.new"
mv -f "$door/request.new" "$door/request"
echo >&3

answered="" why=""
until [ "$answered" = "$token" ]; do
  { read -r answered why <"$door/permit"; } 2>/dev/null || answered=""
  [ "$answered" = "$token" ] || read -r _ <&4
done
if [ -n "$why" ]; then
  echo "start.sh: $why" >&2
  exit 1
fi

# What a former member left on the disk goes where no server looks. The node table goes last: as long as it is there, the
# agent finds again what it says.
if [ -f "$run/set-aside" ]; then
  read -r folder <"$run/set-aside"
  data="${VALKEY_DATA:-/data}"
  mkdir -p "$data/$folder"
  for left in appendonlydir dump.rdb nodes.conf; do
    if [ -e "$data/$left" ]; then mv -f "$data/$left" "$data/$folder/"; fi
  done
fi

exec 3>&- 4>&-
exec "${VALKEY_SERVER:-valkey-server}" "$run/valkey.conf"
