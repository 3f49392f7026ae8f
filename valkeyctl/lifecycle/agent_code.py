"""AgentCode: the code of the agents, in a ConfigMap, and of that only a digest in Pulumi's state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pulumi
from pulumi import dynamic

from valkeyctl.lifecycle.changes import owners
from valkeyctl.lifecycle.connection import Connection, options
from valkeyctl.lifecycle.engine import engine
from valkeyctl.lifecycle.props import CONNECTION_KEYS, changed, place_of
from valkeyctl.lifecycle.provider import WRITE_PATIENCE_S, Props, Provider

if TYPE_CHECKING:
    from valkeyctl.kube.access import Object


class AgentCodeProvider(Provider):
    """Pickled by reference into Pulumi's state: the path of this class may never change."""

    def diff_it(self, olds: Props, news: Props) -> dynamic.DiffResult:
        """Looks at the ConfigMap itself: another code in it is put back."""
        from valkeyctl.dataplane.errors import ValkeyctlError  # noqa: PLC0415

        replaces = changed(olds, news, ("namespace", "config_map"))
        differs = bool(changed(olds, news, ("digest", "owner", "labels", *CONNECTION_KEYS)))
        if not replaces and not differs:
            try:
                differs = _digest(_known(news)) != news["digest"]
            except ValkeyctlError as error:
                engine().warn(str(error))
        return dynamic.DiffResult(changes=bool(replaces) or differs, replaces=replaces)

    def create_it(self, props: Props) -> dynamic.CreateResult:
        """Writes it; one of ours that is there already is adopted."""
        return dynamic.CreateResult(f"{props['namespace']}/{props['config_map']}", self.update_it({}, props))

    def read_it(self, id_: str, props: Props) -> dynamic.ReadResult:
        """Which code is there. Gone is only what the API server says is gone."""
        from valkeyctl.dataplane.errors import ValkeyctlError  # noqa: PLC0415

        try:
            known = _known(props)
        except ValkeyctlError as error:
            engine().warn(str(error))
            return dynamic.ReadResult(id_, props)
        if known is None:
            return dynamic.ReadResult(None, props)
        return dynamic.ReadResult(id_, {**props, "digest": _digest(known)})

    def update_it(self, olds: Props, news: Props) -> Props:
        """Writes the code that the program declared by its digest."""
        from valkeyctl.dataplane.errors import ValkeyctlError  # noqa: PLC0415
        from valkeyctl.kube.code import write_code  # noqa: PLC0415
        from valkeyctl.lifecycle.bundle import BUNDLE_FILE, agent_bundle  # noqa: PLC0415
        from valkeyctl.lifecycle.session import api_of  # noqa: PLC0415

        place, bundle = place_of(news), agent_bundle()
        if bundle.digest != news["digest"]:
            raise ValkeyctlError(
                "the sources of the agent were changed while pulumi ran", remedy="Run `pulumi up` again."
            )
        write_code(
            api_of(place, patience_s=WRITE_PATIENCE_S),
            place.namespace,
            str(news["config_map"]),
            files={BUNDLE_FILE: bundle.base64},
            owners=owners(olds, news),
            labels={str(key): str(value) for key, value in (news.get("labels") or {}).items()},
        )
        return dict(news)

    def delete_it(self, props: Props) -> None:
        """Deletes our ConfigMap, and no other's."""
        from valkeyctl.kube.access import path_of  # noqa: PLC0415
        from valkeyctl.kube.ownership import owner_of  # noqa: PLC0415
        from valkeyctl.lifecycle.session import api_of  # noqa: PLC0415

        place = place_of(props)
        known = _known(props)
        if known is not None and owner_of(known) == place.owner:
            path = path_of("v1", "configmaps", place.namespace, str(props["config_map"]))
            api_of(place).delete(path, uid=str(known["metadata"]["uid"]))


def _known(props: Props) -> Object | None:
    from valkeyctl.kube.code import read_code  # noqa: PLC0415
    from valkeyctl.lifecycle.session import api_of  # noqa: PLC0415

    place = place_of(props)
    return read_code(api_of(place), place.namespace, str(props["config_map"]))


def _digest(known: Object | None) -> str:
    """The digest of the code in a ConfigMap; "" where there is none that could run."""
    from valkeyctl.kube.code import code_in  # noqa: PLC0415
    from valkeyctl.lifecycle.bundle import BUNDLE_FILE, opened  # noqa: PLC0415

    bundle = opened(code_in(known, BUNDLE_FILE))
    return bundle.digest if bundle else ""


class AgentCode(dynamic.Resource, module="valkey", name="AgentCode"):
    """The ConfigMap with the agents' code.

    Not one of Pulumi's own ConfigMaps: its state would hold four hundred kilobytes twice for each instance, be written
    with them at every step of every `up`, and `pulumi preview --diff` would compare two such texts letter by letter,
    with no bound on the time that it takes.
    """

    def __init__(
        self,
        name: str,
        *,
        connection: Connection,
        namespace: pulumi.Input[str],
        config_map: pulumi.Input[str],
        digest: str,
        owner: pulumi.Input[str],
        labels: Mapping[str, pulumi.Input[str]] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`digest`: of the bundle that this very process and the provider's find installed."""
        props: dict[str, Any] = {
            **connection.props(),
            "namespace": namespace,
            "config_map": config_map,
            "digest": digest,
            "owner": owner,
            "labels": dict(labels or {}),
        }
        super().__init__(AgentCodeProvider(), name, props, options(opts))
