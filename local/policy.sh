#!/bin/sh
# The preview of a stack with the policy pack, as CI runs it. STACK: which one; PROFILE: the rules, where they are others
# than those of the stack's own name. Where the shell has no pulumi, the local platform's is taken, and its backend unless
# one is set.
set -eu
cd "$(dirname "$0")/.."
stack=${STACK:-local}
profile=${PROFILE:-$stack}
profiles=policies/profiles
# The local stack is judged by the mildest rules. Any other says itself which rules are its own.
if [ "$profile" = local ] && [ ! -f "$profiles/local.json" ]; then
  profile=dev
fi
rules=$profiles/$profile.json
if [ ! -f "$rules" ]; then
  {
    echo "There are no rules for $profile: $rules doesn't exist. Name those that $stack is to be judged by"
    echo "(there are $(cd "$profiles" && printf '%s\n' *.json | sed 's/\.json$//' | paste -sd ' ' -)):"
    echo "  make policy STACK=$stack PROFILE=dev"
    echo "or give it rules of its own:"
    echo "  cp $profiles/dev.json $profiles/$stack.json"
  } >&2
  exit 2
fi

init="pulumi stack init $stack"
if ! command -v pulumi >/dev/null; then
  exports=$("${PY:-.venv/bin/python}" -m local env)
  # What is set holds. A backend that is set is somebody's own: so are the cluster and the passphrase then, set or not.
  own=
  [ -z "${PULUMI_HOME+set}" ] || own="$own|PULUMI_HOME"
  if [ -n "${PULUMI_BACKEND_URL+set}" ]; then
    own="$own|PULUMI_BACKEND_URL|KUBECONFIG|PULUMI_CONFIG_PASSPHRASE"
  else
    [ -z "${KUBECONFIG+set}" ] || own="$own|KUBECONFIG"
    [ -z "${PULUMI_CONFIG_PASSPHRASE+set}${PULUMI_CONFIG_PASSPHRASE_FILE+set}" ] || own="$own|PULUMI_CONFIG_PASSPHRASE"
  fi
  eval "$(printf '%s\n' "$exports" | grep '^export ' | grep -Ev "^export (${own#|})=")"
  case $own in
    *PULUMI_*) init="PATH=\"$(dirname "$(command -v pulumi)"):\$PATH\" $init" ;;
    *) init="eval \"\$(make -s env)\" && $init" ;;
  esac
fi
# Pulumi runs the program and the pack by the Python that is first on PATH.
PATH="$PWD/.venv/bin:$PATH"
export PATH

echo "Stack $stack, judged by $rules" >&2
code=0
pulumi preview --stack "$stack" --non-interactive --diff --policy-pack policies --policy-pack-config "$rules" || code=$?
if [ "$code" != 0 ] && pulumi stack export --stack "$stack" --non-interactive 2>&1 >/dev/null | grep -q 'no stack named'; then
  backend=${PULUMI_BACKEND_URL:-$(pulumi whoami --verbose --non-interactive 2>/dev/null | sed -n 's/^Backend URL: //p')}
  {
    echo "The backend that was asked: $backend. PULUMI_BACKEND_URL names another one. To make the stack in it:"
    echo "  $init"
  } >&2
fi
exit "$code"
