"""What the agents of an instance have been told, of any architecture, as far as pausing goes by it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from valkeyctl.kube.access import Api, path_of
from valkeyctl.kube.declared import (
    DeclaredState,
    DeclaredUnreadable,
    declared_architecture,
    parse_declared,
    write_declared,
)
from valkeyctl.kube.declared_dataset import (
    DATASETS,
    DeclaredDataset,
    parse_declared_dataset,
    write_declared_dataset,
)
from valkeyctl.kube.labels import declared_name
from valkeyctl.lifecycle.props import Place


@dataclass(frozen=True)
class Told:
    """`state` is the whole of it; the others are what every architecture has."""

    state: DeclaredState | DeclaredDataset
    members: int
    formed: bool
    paused: bool


def read_told(api: Api, place: Place) -> Told | None:
    """What they have been told; None where that is nothing, or isn't understood: then it is written anew.

    Errors: those of the API.
    """
    known = api.find(path_of("v1", "configmaps", place.namespace, declared_name(place.instance)))
    if known is None:
        return None
    try:
        if declared_architecture(known) in DATASETS:
            dataset = parse_declared_dataset(known, place.instance)
            return dataset and Told(dataset, len(dataset.members), dataset.formed, dataset.paused)
        state = parse_declared(known, place.instance)
        return state and Told(state, len(state.spec.members), state.spec.formed, state.paused)
    except DeclaredUnreadable:
        return None


def tell_paused(api: Api, place: Place, told: Told, *, paused: bool) -> None:
    """Says that the instance is paused, or isn't, and nothing else. Errors: those of the API."""
    state = told.state
    if isinstance(state, DeclaredState):
        write_declared(api, place.namespace, place.instance, replace(state, owner=place.owner, paused=paused))
    else:
        write_declared_dataset(api, place.namespace, replace(state, owner=place.owner, paused=paused))
