#!/bin/sh
# Makes (or brings up to date) the project's Python environment .venv from constraints.txt, every file checked by its hash.
# Takes nothing when it is current. A half-made one, left by an interruption, is finished by the next run.
set -eu
cd "$(dirname "$0")/.."

# The last word tells how it is made: a change of that makes it anew.
want="$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])') $(sha256sum <constraints.txt) compiled"
if [ "$(cat .venv/.made-from 2>/dev/null || true)" = "$want" ]; then
  exit 0
fi
if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
  echo "The project needs Python 3.11 or newer; python3 here is $(python3 --version 2>&1)." >&2
  exit 1
fi
echo "  python environment .venv …" >&2
if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
  # Debian's Python leaves these two modules to a package of their own.
  echo "  installing Debian package python3-venv" >&2
  apt-get update -qq >/dev/null && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv >/dev/null
fi
started=$(date +%s)
[ -x .venv/bin/python ] && .venv/bin/python -c 'import pip' 2>/dev/null || python3 -m venv --clear .venv
# uv installs the whole list several times faster than pip does; pip brings uv itself, by its hash.
awk '/^[a-z0-9]/ {take = /^uv==/} take' constraints.txt >.venv/uv-constraints.txt
.venv/bin/pip install --quiet --disable-pip-version-check --require-hashes -r .venv/uv-constraints.txt
# Compiled here, as pip does: where Python may not write bytecode (PYTHONDONTWRITEBYTECODE), every run of a program would
# compile the SDKs anew, which takes longer than all else that it does.
.venv/bin/uv pip sync --quiet --compile-bytecode --python .venv/bin/python --require-hashes constraints.txt
# uv's sync removes what the list does not name, pip among it; `pulumi install` wants it.
.venv/bin/python -m ensurepip >/dev/null
printf '%s\n' "$want" >.venv/.made-from
echo "  python environment .venv: made in $(($(date +%s) - started)) s" >&2
