#!/bin/sh
# Starts the Sentinel of this Pod. POSIX shell; needs sed, mv, sha1sum and sha256sum, which every image of the server has.
#
# A Sentinel writes what it knows into its own file: whom it monitors, what it has voted for, whom it has met. The file
# is written anew at each start: what the program declares, the id that belongs to this Pod, and of what the last run
# left only what is known to be good. An address in it is one that a Pod had once, and whoever has it now is somebody else.
set -eu
umask 077

config="${VALKEY_CONFIG_DIR:-/etc/valkey}"
secrets="${VALKEY_SENTINEL_SECRETS:-/etc/valkey-sentinel}"
kept="${VALKEY_DATA:-/data}/sentinel.conf"
domain=".${POD_HOST#*.}"

# Passwords go into the file in the form in which Sentinel reads them: their hashes where others sign in here, and in
# quotes where it signs in elsewhere. The x keeps line breaks at the end.
hash_of() {
  sha256sum <"$secrets/$1" | { read -r hash _ && echo "$hash"; }
}
operator="$(cat "$secrets/operator" && printf x)"
operator="${operator%x}"
case "$operator" in
"" | *"
"*)
  echo "sentinel.sh: the Sentinels' password is empty, or has a line break" >&2
  exit 1
  ;;
esac
quoted=$(printf '%s' "$operator" | sed -e 's/\\/\\\\/g' -e 's/"/\\"/g')
id=$(printf '%s' "$POD_NAMESPACE/$POD_NAME" | sha1sum | { read -r hash _ && echo "$hash"; })

is_name() { # a host as our Pods announce it, and no address
  case "$1" in
  *[!A-Za-z0-9.-]* | -* | .* | "") return 1 ;;
  *[A-Za-z]*.*) return 0 ;;
  *) return 1 ;;
  esac
}
is_number() {
  case "$1" in
  "" | *[!0-9]* | ???????????????????*) return 1 ;;
  *) return 0 ;;
  esac
}
is_monitored() { # one whose line `monitor` is good
  case " $monitored " in
  *" $1 "*) return 0 ;;
  *) return 1 ;;
  esac
}

# Of what is monitored: by its name only, and under a name that can be no pattern.
monitored=""
if [ -f "$kept" ]; then
  while read -r word what name host port quorum more; do
    [ "$word $what" = "sentinel monitor" ] && [ -z "$more" ] || continue
    case "$name" in "" | *[!A-Za-z0-9._-]*) continue ;; esac
    if is_name "$host" && is_number "$port" && is_number "$quorum" && ! is_monitored "$name"; then
      monitored="$monitored $name"
    fi
  done <"$kept"
fi

# Each line of the last run that goes on to hold.
kept_lines() {
  [ -f "$kept" ] || return 0
  written=" "
  while read -r word what name one two three more; do
    [ "$word" = sentinel ] || continue
    if [ "$what" = current-epoch ]; then
      if is_number "$name"; then echo "sentinel current-epoch $name"; fi
      continue
    fi
    is_monitored "$name" || continue
    case "$what" in
    monitor)
      case "$written" in *" $name "*) continue ;; esac
      if [ -z "$more" ] && is_name "$one" && is_number "$two" && is_number "$three"; then
        written="$written$name "
        echo "sentinel monitor $name $one $two $three"
        echo "sentinel auth-user $name _sentinel"
        # Some shells' echo reads backslashes.
        printf 'sentinel auth-pass %s "%s"\n' "$name" "$quoted"
      fi
      ;;
    down-after-milliseconds | failover-timeout | parallel-syncs | config-epoch | leader-epoch)
      if is_number "$one" && [ -z "$two" ]; then echo "sentinel $what $name $one"; fi
      ;;
    known-replica | known-slave)
      if is_name "$one" && is_number "$two" && [ -z "$three" ]; then echo "sentinel known-replica $name $one $two"; fi
      ;;
    known-sentinel)
      # Those of this set alone, and not ourselves.
      case "$three" in "$id" | *[!0-9a-f]*) continue ;; esac
      case "$one" in
      "$POD_HOST") ;;
      *"$domain") if is_number "$two" && [ ${#three} -eq 40 ] && [ -z "$more" ]; then echo "sentinel known-sentinel $name $one $two $three"; fi ;;
      esac
      ;;
    esac
  done <"$kept"
}

{
  cat "$config/sentinel.conf"
  sed -e "s/#CLIENTS/#$(hash_of password)/" -e "s/#OPERATOR/#$(hash_of operator)/" "$config/sentinel-users.conf"
  echo "dir ${kept%/*}"
  echo "sentinel myid $id"
  echo "sentinel announce-ip $POD_HOST"
  echo "sentinel sentinel-user _sentinel"
  printf 'sentinel sentinel-pass "%s"\n' "$quoted"
  kept_lines
} >"$kept.new"
mv -f "$kept.new" "$kept"

exec "${VALKEY_SERVER:-valkey-server}" "$kept" --sentinel
