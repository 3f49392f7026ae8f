"""What a host must have left for a cluster, asked before one is made: nothing says it as clearly afterwards."""

import ctypes
import os
from pathlib import Path

from ..errors import LocalError

_WATCHERS = 32
"""Inotify instances of one cluster: 28, and a few for what comes and goes."""
_LIMIT = Path("/proc/sys/fs/inotify/max_user_instances")
_IN_CLOEXEC = os.O_CLOEXEC


def check(watchers: int = _WATCHERS) -> None:
    """Raises LocalError, saying what to do, where a cluster couldn't run."""
    free = _free_watchers(watchers)
    if free < watchers:
        raise LocalError(
            f"a cluster watches about {watchers} sets of files, and this user may watch {free} more; "
            f"the limit is {_LIMIT.read_text().strip()} (fs.inotify.max_user_instances). End what uses them, such as "
            "another local cluster, or raise it: sysctl -w fs.inotify.max_user_instances=1024"
        )


def _free_watchers(wanted: int) -> int:
    """How many inotify instances can be had now, at most `wanted`. The kernel counts them for each user."""
    libc = ctypes.CDLL(None, use_errno=True)
    handles: list[int] = []
    try:
        while len(handles) < wanted:
            handle = libc.inotify_init1(_IN_CLOEXEC)
            if handle < 0:
                break
            handles.append(handle)
        return len(handles)
    finally:
        for handle in handles:
            os.close(handle)
