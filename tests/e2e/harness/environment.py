"""The variables with which pulumi and kubectl reach the local cluster: those that `make env` exports."""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[3]


@cache
def environment() -> dict[str, str]:
    """This process's environment with the exports of `python -m local env`.

    Raises RuntimeError, saying what to do, when the local cluster is not there.
    """
    told = subprocess.run(
        [sys.executable, "-m", "local", "env"], cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=60
    )
    if told.returncode:
        raise RuntimeError(f"No local cluster: {told.stderr.strip()}\nRun `make test T=tests/e2e`, which brings it up.")
    # The exports are shell; only a shell reads them as a person's shell would.
    script = f"{told.stdout}\nexec env -0"
    shown = subprocess.run(["bash", "-ceu", script], capture_output=True, text=True, check=True, timeout=60).stdout
    variables = dict(line.split("=", 1) for line in shown.split("\0") if "=" in line)
    # Passphrases and backends are each test's own.
    for name in ("PULUMI_BACKEND_URL", "PULUMI_CONFIG_PASSPHRASE", "PULUMI_CONFIG_PASSPHRASE_FILE", "PULUMI_STACK"):
        variables.pop(name, None)
    # Pulumi and kubectl run for seconds: most of the garbage that they collect isn't worth it.
    return {**os.environ, "GOGC": "400", **variables}
