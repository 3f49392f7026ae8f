"""Password: a generated password that lives in a Kubernetes Secret and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi
from pulumi import dynamic

from valkeyctl.lifecycle.connection import Connection, options
from valkeyctl.lifecycle.provider import Provider


class PasswordProvider(Provider):
    """Pickled by reference into Pulumi's state: the path of this class may never change."""


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
