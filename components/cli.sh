#!/bin/sh
# A prompt on the server of this Pod, signed in; with arguments it runs one command:
#   kubectl exec -it POD -c server -- sh /etc/valkey/cli.sh
#   kubectl exec POD -c server -- sh /etc/valkey/cli.sh cluster nodes
set -eu

# The tool takes both from its environment: 8.1 knows the old names of the variables only.
password="$(cat "${VALKEY_RUN:-/run/valkey}/password" && printf x)"
password="${password%x}"
export VALKEYCLI_AUTH="$password" REDISCLI_AUTH="$password"
# The root file system is read-only, and a history of commands may hold data.
export VALKEYCLI_HISTFILE=/dev/null REDISCLI_HISTFILE=/dev/null

exec "${VALKEY_CLI:-valkey-cli}" -c -p "${VALKEY_PORT:-6379}" "$@"
