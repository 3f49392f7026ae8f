"""What is in each image, and how it behaves when it is run.

An image stands in for a public one and bears its name, so that a configuration written for a cluster with a registry
runs here unchanged. What makes it up comes from Debian's packages. The tags are made of the version that is found in
it; the servers also bear the tag that they stand for, since a configuration that pins it must find an image.
"""

import re
from dataclasses import dataclass, field

from ..toolchain.recipes import PAUSE
from ..toolchain.recipes import Recipe as Tool

_SYSTEM_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# A shell, the small tools that start and probe scripts use, and the folders of every Debian system.
_BASE = ("base-files", "coreutils", "dash", "grep", "libc-bin", "sed")
# Valkey's packages want one of several programs that make system users; this one brings nothing else along.
_VALKEY = ("valkey-server", "valkey-sentinel", "valkey-tools", "systemd-standalone-sysusers")
VALKEY_USER = 999


@dataclass(frozen=True)
class Debian:
    """Packages of one release of Debian with all that they depend on, unpacked."""

    suite: str
    packages: tuple[str, ...]


@dataclass(frozen=True)
class Program:
    """One static program that is built here."""

    tool: Tool


@dataclass(frozen=True)
class File:
    """A file, link or folder that no package brings."""

    path: str
    content: str = ""
    mode: int = 0o644
    owner: int = 0
    target: str | None = None
    """Of a symbolic link."""
    folder: bool = False


@dataclass(frozen=True)
class Config:
    """What an image says about running it, as in a Dockerfile."""

    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    environment: tuple[str, ...] = (_SYSTEM_PATH,)
    ports: tuple[str, ...] = ()
    user: str = ""
    folder: str = ""
    volumes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Recipe:
    """An image under a public name."""

    name: str
    """Short, for people and for the name of the archive."""
    repository: str
    """docker.io/valkey/valkey"""
    tag: str
    """The tag of the public image that it stands for, which is pulled where a registry answers."""
    source: Debian | Program
    config: Config
    files: tuple[File, ...] = ()
    ask_version: tuple[str, ...] = ()
    """The command, run in the image, that tells the version in it. Without one the tag is taken as it is."""
    stands_for_tag: bool = False
    """Whether the image bears `tag` too when another release of the same line is inside."""
    tags: tuple[str, ...] = field(default=("{version}",))
    """Patterns of the tags, of {version} (9.1.2) and {minor} (9.1)."""

    def tags_of(self, version: str) -> tuple[str, ...]:
        minor = ".".join(version.split(".")[:2])
        return tuple(pattern.format(version=version, minor=minor) for pattern in self.tags)

    def refs_of(self, version: str) -> tuple[str, ...]:
        """The names of an image that has this version in it, the one that it stands for among them.

        A configuration pins a release, and Debian serves the one that it has: the server itself says which it is.
        """
        tags = dict.fromkeys((*self.tags_of(version), *((self.tag,) if self.stands_for_tag else ())))
        return tuple(f"{self.repository}:{tag}" for tag in tags)

    @property
    def public_ref(self) -> str:
        return f"{self.repository}:{self.tag}"


def version_in(text: str) -> str:
    """The first version of three numbers in what a program says of itself. Raises ValueError if there is none."""
    found = re.search(r"\d+\.\d+\.\d+", text)
    if found is None:
        raise ValueError(f"no version in {text!r}")
    return found.group()


def _users(*named: tuple[str, int, str]) -> tuple[File, ...]:
    users = (("root", 0, "/root"), *named, ("nobody", 65534, "/nonexistent"))
    passwd = "".join(f"{name}:x:{number}:{number}:{name}:{home}:/usr/sbin/nologin\n" for name, number, home in users)
    group = "".join(f"{name}:x:{number}:\n" for name, number, _ in users)
    return (File("etc/passwd", passwd.replace("/root:/usr/sbin/nologin", "/root:/bin/sh")), File("etc/group", group))


_ENTRYPOINT = """#!/bin/sh
# Options or a configuration file alone mean the server; anything else is the command to run.
case "${1:-}" in
  -* | *.conf) set -- valkey-server "$@" ;;
esac
exec "$@"
"""


def _valkey(tag: str, suite: str) -> Recipe:
    minor = ".".join(tag.split(".")[:2])
    return Recipe(
        name=f"valkey-{minor}",
        repository="docker.io/valkey/valkey",
        tag=tag,
        source=Debian(suite, (*_BASE, *_VALKEY)),
        config=Config(
            entrypoint=("docker-entrypoint.sh",),
            command=("valkey-server",),
            ports=("6379/tcp",),
            folder="/data",
            volumes=("/data",),
        ),
        files=(
            *_users(("valkey", VALKEY_USER, "/data")),
            File("data", mode=0o755, owner=VALKEY_USER, folder=True),
            File("usr/local/bin/docker-entrypoint.sh", _ENTRYPOINT, mode=0o755),
        ),
        ask_version=("valkey-server", "--version"),
        tags=("{version}", "{minor}"),
        stands_for_tag=True,
    )


ALL = (
    _valkey("9.1.2", "forky"),
    _valkey("8.1.8", "trixie"),
    Recipe(
        name="python-3.13",
        repository="docker.io/library/python",
        tag="3.13-slim",
        source=Debian("trixie", (*_BASE, "python3", "tzdata")),
        config=Config(command=("python3",), environment=(_SYSTEM_PATH, "LANG=C.UTF-8")),
        files=(*_users(), File("usr/local/bin/python", target="/usr/bin/python3")),
        ask_version=("python3", "--version"),
        tags=("{minor}-slim", "{version}-slim"),
    ),
    Recipe(
        name="redis-exporter",
        repository="docker.io/oliver006/redis_exporter",
        tag="v1.86.0",
        source=Debian("forky", ("base-files", "libc-bin", "prometheus-redis-exporter")),
        config=Config(entrypoint=("/redis_exporter",), ports=("9121/tcp",), user="59000:59000"),
        files=(*_users(), File("redis_exporter", target="/usr/bin/prometheus-redis-exporter")),
        ask_version=("prometheus-redis-exporter", "--version"),
        tags=("v{version}",),
    ),
    Recipe(
        name="pause",
        repository="registry.k8s.io/pause",
        tag="3.10",
        source=Program(PAUSE),
        config=Config(entrypoint=("/pause",), user="65535:65535"),
    ),
)
