#!/bin/sh
# Starts the server of this Pod. POSIX shell; needs od, tr, sed and cat, which every image of the server has.
#
# The password comes from a mounted Secret and goes into files on a memory volume that only this user can read. It is
# never an argument or an environment variable: `printf` is built into the shell. What differs between Pods is written
# here; valkey.conf is the same for all Pods of the instance.
set -eu
umask 077

config="${VALKEY_CONFIG:-/etc/valkey/valkey.conf}"
secret="${VALKEY_SECRET:-/etc/valkey-secret/password}"
run="${VALKEY_RUN:-/run/valkey}"

if [ ! -s "$secret" ]; then
  # An empty password would open the server to everyone.
  echo "start.sh: the password is empty or missing: $secret" >&2
  exit 1
fi

# Probes and cli.sh sign in with the password that this server was started with, whatever the Secret says later.
cat "$secret" >"$run/password"

# Every byte as \xHH between double quotes: no character of a password has a meaning in the file.
escaped=$(od -An -v -tx1 "$secret" | tr -d ' \n' | sed 's/../\\x&/g')

{
  printf 'include "%s"\n' "$config" "${config%/*}/live.conf"
  printf 'requirepass "%s"\n' "$escaped"
  # Peers have the same password: this server signs in to the primary that it copies.
  printf 'primaryauth "%s"\n' "$escaped"
  printf 'cluster-announce-ip "%s"\n' "$POD_IP"
  printf 'cluster-announce-hostname "%s"\n' "$POD_HOST"
  printf 'cluster-announce-human-nodename "%s"\n' "$POD_NAME"
} >"$run/valkey.conf"

exec "${VALKEY_SERVER:-valkey-server}" "$run/valkey.conf"
