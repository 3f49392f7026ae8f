"""What a shell needs so that plain `pulumi` and `kubectl` work on the local stack and cluster."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from shlex import quote

from . import paths
from .toolchain import plugin
from .tools import Tools

PULUMI_FOLDERS = ("pulumi", "pulumi-home")
"""In the state folder: the stacks of whoever uses this environment, maybe of other clusters than the local one."""

_PROXIES = ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")


def exports(tools: Tools, api_address: str) -> dict[str, str]:
    """The variables that differ from this process's own. Makes what they point to; idempotent."""
    state = paths.state_dir()
    (state / "pulumi").mkdir(parents=True, exist_ok=True)
    plugin.provide(tools.provider, state / "pulumi-home")
    variables = {
        "KUBECONFIG": str(paths.kubeconfig()),
        # Pulumi runs the program by the Python that is first on PATH: this one's environment has what it imports.
        "PATH": _in_front(f"{tools.bin}", _in_front(str(Path(sys.prefix) / "bin"), os.environ.get("PATH", ""))),
        # Also which stack is selected, so that the user's own selection in this checkout stays.
        "PULUMI_HOME": str(state / "pulumi-home"),
        # A pulumi that is killed while it writes the metadata beside a stack's state would leave the stack unreadable.
        "PULUMI_BACKEND_URL": f"file://{state / 'pulumi'}?metadata=skip",
        # The local stack has no secrets in its state. Its config carries the salt of the empty passphrase, so that
        # making the stack leaves the checkout as it is.
        "PULUMI_CONFIG_PASSPHRASE": "",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
    }
    if any(os.environ.get(name) for name in _PROXIES):
        # The cluster's address leads nowhere but to this machine.
        for name in ("no_proxy", "NO_PROXY"):
            variables[name] = _in_front(api_address, os.environ.get(name, ""), separator=",")
    return variables


def merged(variables: Mapping[str, str]) -> dict[str, str]:
    """This process's environment with these variables, for a child."""
    environment = {**os.environ, **variables}
    environment.pop("PULUMI_CONFIG_PASSPHRASE_FILE", None)  # It would win over the variable.
    return environment


def as_shell(variables: Mapping[str, str]) -> str:
    """Lines for `eval`."""
    lines = [f"export {name}={quote(value)}" for name, value in variables.items()]
    return "\n".join([*lines, "unset PULUMI_CONFIG_PASSPHRASE_FILE"])


def _in_front(first: str, rest: str, separator: str = os.pathsep) -> str:
    """Once, at the front, however often this is evaluated."""
    others = [part for part in rest.split(separator) if part and part != first]
    return separator.join([first, *others])
