"""Faults that are played on purpose: nodes that go down, networks that are cut."""

from ..errors import LocalError
from . import network
from .cluster import Cluster


def played(cluster: Cluster) -> bool:
    return False


def heal_all(cluster: Cluster) -> None:
    pass
