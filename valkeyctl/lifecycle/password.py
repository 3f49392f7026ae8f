"""Password: a generated password that lives in a Kubernetes Secret and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi
from pulumi import dynamic

from valkeyctl.lifecycle.changes import owners
from valkeyctl.lifecycle.connection import Connection, options
from valkeyctl.lifecycle.engine import engine
from valkeyctl.lifecycle.props import CONNECTION_KEYS, changed, is_unknown, place_of
from valkeyctl.lifecycle.provider import WRITE_PATIENCE_S, Props, Provider


class PasswordProvider(Provider):
    """Pickled by reference into Pulumi's state: the path of this class may never change."""

    def check_it(self, olds: Props, news: Props) -> Props:
        """Refuses at preview a Secret of somebody else."""
        from valkeyctl.kube.secrets import refuse_foreign_secret  # noqa: PLC0415

        if not is_unknown(news):
            known = _secret(news)
            if known is not None:
                refuse_foreign_secret(known, *owners(olds, news))
        return news

    def diff_it(self, olds: Props, news: Props) -> dynamic.DiffResult:
        """Looks at the Secret itself: one without the key is filled again."""
        from valkeyctl.dataplane.errors import ValkeyctlError  # noqa: PLC0415
        from valkeyctl.kube.secrets import has_key  # noqa: PLC0415

        replaces = changed(olds, news, ("namespace", "secret_name"))
        differs = bool(changed(olds, news, ("key", "owner", "labels", *CONNECTION_KEYS)))
        if not replaces and not differs:
            try:
                differs = not has_key(_secret(news), str(news["key"]))
            except ValkeyctlError as error:
                engine().warn(str(error))
        return dynamic.DiffResult(changes=bool(replaces) or differs, replaces=replaces)

    def create_it(self, props: Props) -> dynamic.CreateResult:
        """Generates it, unless it is there."""
        return dynamic.CreateResult(f"{props['namespace']}/{props['secret_name']}", self.update_it({}, props))

    def read_it(self, id_: str, props: Props) -> dynamic.ReadResult:
        """Gone is only what the API server says is gone."""
        from valkeyctl.dataplane.errors import ValkeyctlError  # noqa: PLC0415

        try:
            known = _secret(props)
        except ValkeyctlError as error:
            engine().warn(str(error))
            return dynamic.ReadResult(id_, props)
        return dynamic.ReadResult(id_ if known is not None else None, props)

    def update_it(self, olds: Props, news: Props) -> Props:
        """As create."""
        from valkeyctl.kube.labels import INSTANCE_LABEL  # noqa: PLC0415
        from valkeyctl.kube.secrets import ensure_password  # noqa: PLC0415
        from valkeyctl.lifecycle.session import api_of  # noqa: PLC0415

        place = place_of(news)
        ensure_password(
            api_of(place, patience_s=WRITE_PATIENCE_S),
            place.namespace,
            str(news["secret_name"]),
            key=str(news["key"]),
            owners=owners(olds, news),
            instance=str((news.get("labels") or {}).get(INSTANCE_LABEL) or ""),
            labels={str(key): str(value) for key, value in (news.get("labels") or {}).items()},
        )
        return dict(news)

    def delete_it(self, props: Props) -> None:
        """Deletes our Secret, and no other's."""
        from valkeyctl.kube.access import path_of  # noqa: PLC0415
        from valkeyctl.kube.ownership import owner_of  # noqa: PLC0415
        from valkeyctl.lifecycle.session import api_of  # noqa: PLC0415

        place = place_of(props)
        known = _secret(props)
        if known is not None and owner_of(known) == place.owner:
            path = path_of("v1", "secrets", place.namespace, str(props["secret_name"]))
            api_of(place).delete(path, uid=str(known["metadata"]["uid"]))


def _secret(props: Props) -> dict[str, Any] | None:
    from valkeyctl.kube.access import path_of  # noqa: PLC0415
    from valkeyctl.lifecycle.session import api_of  # noqa: PLC0415

    place = place_of(props)
    return api_of(place).find(path_of("v1", "secrets", place.namespace, str(props["secret_name"])))


class Password(dynamic.Resource, module="valkey", name="Password"):
    """Generates the password into a Secret if that is absent; tells only the Secret's name and key.

    Idempotent: an existing key of our Secret is kept as it is. The password never enters Pulumi's state.
    """

    secret_name: pulumi.Output[str]
    key: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        *,
        connection: Connection,
        namespace: pulumi.Input[str],
        secret_name: pulumi.Input[str],
        owner: pulumi.Input[str],
        key: pulumi.Input[str] = "password",
        labels: Mapping[str, pulumi.Input[str]] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        props: dict[str, Any] = {
            **connection.props(),
            "namespace": namespace,
            "secret_name": secret_name,
            "key": key,
            "owner": owner,
            "labels": dict(labels or {}),
        }
        super().__init__(PasswordProvider(), name, props, options(opts))
