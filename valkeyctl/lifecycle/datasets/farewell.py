"""Has Sentinels forget a dataset that they are not to watch any more."""

from __future__ import annotations

from valkeyctl.dataplane import Credentials
from valkeyctl.dataplane.errors import ErrorReply, ValkeyctlError
from valkeyctl.dataplane.links import Links
from valkeyctl.dataplane.observe import MAX_PARALLEL, TIMEOUT_S
from valkeyctl.dataplane.session import Session
from valkeyctl.kube.access import Api
from valkeyctl.kube.secrets import read_credentials
from valkeyctl.kube.status import mark_destroying
from valkeyctl.kube.watched import Watch, side_of
from valkeyctl.lifecycle.datasets.declaration import DatasetDeclaration, declaration_of
from valkeyctl.lifecycle.engine import Engine
from valkeyctl.lifecycle.props import Props
from valkeyctl.lifecycle.session import api_of

_UNKNOWN = "No such master"


class NotForgotten(ValkeyctlError):  # noqa: N818 - reads as what happened
    """Sentinels that are to forget a dataset couldn't be told: they would fail it over still."""


def forget(watch: Watch, declaration: DatasetDeclaration, api: Api, servers: Credentials) -> list[str]:
    """Tells each Sentinel of the set to monitor the name no more; a line for each that did. Idempotent.

    `servers`: how this program signs in at the servers. Errors: NotForgotten, where Sentinels stay and couldn't be told
    (of those that go with the instance that is no matter); those of the API.
    """
    side = side_of(watch, declaration.members, api, declaration.place.transport, servers)

    def tell(session: Session) -> bool:
        reply = session.ask([("SENTINEL", "REMOVE", watch.name)])[0]
        if isinstance(reply, ErrorReply) and _UNKNOWN in reply.what:
            return False
        if isinstance(reply, ValkeyctlError):
            raise reply
        return True

    with Links(side.dialer, timeout_s=TIMEOUT_S, max_parallel=MAX_PARALLEL) as links:
        told = links.each(side.directory(), tell)
    failed = {member: outcome for member, outcome in told.items() if isinstance(outcome, ValkeyctlError)}
    if failed and not watch.own:
        member, error = next(iter(failed.items()))
        raise NotForgotten(
            f"{member} couldn't be told to monitor {watch.name} no more: {error.what}",
            where=declaration.place.instance,
            remedy="See that all Sentinels answer, and run it again.",
        ) from error
    return [f"{member}: monitor {watch.name} no more" for member, outcome in told.items() if outcome is True]


def take_leave(props: Props, engine: Engine) -> None:
    """Says that the whole instance goes; Sentinels that stay forget it. Errors: those of the API."""
    declaration = declaration_of(props)
    place, watch = declaration.place, declaration.watch
    api = api_of(place)
    mark_destroying(api, place.namespace, place.instance, place.owner)
    if watch is None or watch.own:
        return
    try:
        servers = read_credentials(api, place.namespace, declaration.credentials, instance=place.instance)
        forget(watch, declaration, api, servers)
    except ValkeyctlError as error:
        engine.warn(f"Sentinels go on monitoring {watch.name}, which is being destroyed: {error}")
