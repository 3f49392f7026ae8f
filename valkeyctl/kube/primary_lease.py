"""The Lease `<instance>-primary`: who may take writes, where agents fail over by themselves (ADR 0120).

Its holder is a seat: a Pod's name with a token that a Pod of the same name doesn't get again, so that what is left of a
Pod on a lost node never passes for the one that took its place. `up` makes the Lease, appoints the first holder and
wishes for another one; after that only agents write it, each write naming the resourceVersion that was read.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from valkeyctl.dataplane.model import Member, member_of_host, pod_name
from valkeyctl.kube.labels import OWNER_ANNOTATION, REPLICA, instance_labels, primary_lease_name

if TYPE_CHECKING:
    # The agent reads the records before what speaks to the API server is imported (ADR 0051).
    from valkeyctl.kube.access import Api, Object

API_VERSION = "coordination.k8s.io/v1"
#: The former holder, while it may still take writes: its successor isn't to be promoted by anybody but its server.
FROM_ANNOTATION = "valkeyctl/primary-from"
#: The ordinals of the members that may take the Lease when it has run out; each of them is asked for a promise.
CANDIDATES_ANNOTATION = "valkeyctl/primary-candidates"
#: The Pod that is to have the role, or `any` for any other one; gone when the holder changes.
WISH_ANNOTATION = "valkeyctl/primary-wish"
ANY = "any"
DEFAULT_DURATION_S = 10


@dataclass(frozen=True, order=True)
class Seat:
    """One life of a Pod. `token` is "" where `up` appointed a member: its Pod then puts its own token in."""

    member: Member
    token: str = ""

    def identity(self, instance: str) -> str:
        """What the Lease shows."""
        pod = pod_name(instance, self.member)
        return f"{pod}/{self.token}" if self.token else pod


@dataclass(frozen=True)
class PrimaryLease:
    """The Lease as it was read.

    `holder` is None where nobody has held it yet. `yielding` is the former holder of a handover that is under way: it
    may take writes until its own time is over, and the holder does only when that one's server has made it the primary.
    `candidates` may take the Lease when it has run out. `wish` names who is to have the role (`wishes_any`: any
    other member than the holder). `body` is the object, for writing it again.
    """

    instance: str
    holder: Seat | None
    yielding: Seat | None = None
    candidates: frozenset[Member] = frozenset()
    wish: Member | None = None
    wishes_any: bool = False
    duration_s: int = DEFAULT_DURATION_S
    version: str = ""
    transitions: int = 0
    body: Object = field(default_factory=dict[str, object], compare=False, repr=False)


def ensure_primacy(
    api: Api, namespace: str, instance: str, owner: str, *, duration_s: int = DEFAULT_DURATION_S
) -> None:
    """Make the Lease, held by nobody, where there is none: agents may take it and not make it. Idempotent."""
    from valkeyctl.kube.errors import ApiConflict  # noqa: PLC0415 - see above

    if api.find(path_of_primacy(namespace, instance)) is not None:
        return
    metadata = {
        "name": primary_lease_name(instance),
        "namespace": namespace,
        "labels": instance_labels(instance, REPLICA),
        "annotations": {OWNER_ANNOTATION: owner},
    }
    spec = {"holderIdentity": "", "leaseDurationSeconds": duration_s, "leaseTransitions": 0}
    with suppress(ApiConflict):
        api.create(
            path_of_primacy(namespace), {"apiVersion": API_VERSION, "kind": "Lease", "metadata": metadata, "spec": spec}
        )


def read_primacy(api: Api, namespace: str, instance: str) -> PrimaryLease | None:
    """The Lease now; None where there is none. Errors: those of the API."""
    known = api.find(path_of_primacy(namespace, instance))
    return None if known is None else parse_primacy(known, instance)


def appoint(api: Api, namespace: str, instance: str, member: Member, *, candidates: Iterable[Member]) -> bool:
    """Name a member the first holder, where nobody has held the Lease yet; whether it was so, or is so already.

    Its Pod takes it over, and promotes its server. Never to be done where somebody holds it, however old that is: a
    holder that the API server doesn't hear of may take writes by the promises of the others. Idempotent. Errors: those
    of the API; ApiConflict where somebody else wrote it meanwhile.
    """
    lease = read_primacy(api, namespace, instance)
    if lease is None or lease.holder is not None:
        return lease is not None and lease.holder is not None and lease.holder.member == member
    api.replace(path_of_primacy(namespace, instance), handed_to(lease, Seat(member), candidates=candidates))
    return True


def wish_for(api: Api, namespace: str, instance: str, member: Member | None) -> None:
    """Have the holder hand its role over to a member (None: to any other one); the caller waits for another holder.

    A wish for who is the holder already does nothing. Errors: those of the API.
    """
    wanted = ANY if member is None else pod_name(instance, member)
    api.merge(path_of_primacy(namespace, instance), {"metadata": {"annotations": {WISH_ANNOTATION: wanted}}})


def drop_wish(api: Api, namespace: str, instance: str) -> None:
    """Take a wish back. Idempotent. Errors: those of the API."""
    api.merge(path_of_primacy(namespace, instance), {"metadata": {"annotations": {WISH_ANNOTATION: None}}})


def remove_primacy(api: Api, namespace: str, instance: str) -> None:
    """Take the Lease away, where nobody decides by it any more. Idempotent. Errors: those of the API."""
    api.delete(path_of_primacy(namespace, instance))


def path_of_primacy(namespace: str, instance: str | None = None) -> str:
    """Where the Lease is; the collection where no instance is given."""
    from valkeyctl.kube.access import path_of  # noqa: PLC0415 - see above

    return path_of(API_VERSION, "leases", namespace, instance and primary_lease_name(instance))


def parse_primacy(known: Object, instance: str) -> PrimaryLease:
    """Read the object. What isn't understood counts as not there. Pure."""
    metadata, spec = known.get("metadata") or {}, known.get("spec") or {}
    notes = metadata.get("annotations") or {}
    wish = str(notes.get(WISH_ANNOTATION) or "")
    ordinals = str(notes.get(CANDIDATES_ANNOTATION) or "").split(",")
    return PrimaryLease(
        instance=instance,
        holder=_seat(str(spec.get("holderIdentity") or ""), instance),
        yielding=_seat(str(notes.get(FROM_ANNOTATION) or ""), instance),
        candidates=frozenset(Member(0, int(one)) for one in ordinals if one.isdigit()),
        wish=member_of_host(instance, wish),
        wishes_any=wish == ANY,
        duration_s=int(spec.get("leaseDurationSeconds") or DEFAULT_DURATION_S),
        version=str(metadata.get("resourceVersion") or ""),
        transitions=int(spec.get("leaseTransitions") or 0),
        body=known,
    )


def handed_to(
    lease: PrimaryLease,
    seat: Seat,
    *,
    candidates: Iterable[Member],
    yielding: Seat | None = None,
    duration_s: int | None = None,
) -> Object:
    """The object with this holder, renewed now; `yielding` as there. A wish is kept until the holder changes. Pure."""
    before = lease.holder
    changes = before is None or before.member != seat.member
    notes = dict((lease.body.get("metadata") or {}).get("annotations") or {})
    for name, value in (
        (FROM_ANNOTATION, yielding.identity(lease.instance) if yielding else None),
        (CANDIDATES_ANNOTATION, ",".join(str(one.ordinal) for one in sorted(candidates))),
        (WISH_ANNOTATION, None if changes else notes.get(WISH_ANNOTATION)),
    ):
        if value is None:
            notes.pop(name, None)
        else:
            notes[name] = value
    spec = dict(lease.body.get("spec") or {})
    now = datetime.datetime.now(tz=datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec |= {
        "holderIdentity": seat.identity(lease.instance),
        "leaseDurationSeconds": duration_s or lease.duration_s,
        "renewTime": now,
        "acquireTime": now if before != seat else spec.get("acquireTime") or now,
        "leaseTransitions": lease.transitions + changes,
    }
    return {**lease.body, "metadata": {**lease.body.get("metadata", {}), "annotations": notes}, "spec": spec}


def _seat(identity: str, instance: str) -> Seat | None:
    pod, _, token = identity.partition("/")
    member = member_of_host(instance, pod)
    return None if member is None else Seat(member, token)
