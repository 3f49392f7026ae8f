"""A dataset with its Pods for the resource `Dataset`: real servers, an API server in this process.

There is no DNS here, so an address is a server's name.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.dataplane.datasets import Dataset, spec_of
from tests.dataplane.servers import PORT
from tests.unit.kube.fake_api import FakeApi
from tests.unit.lifecycle.stateful_sets import StatefulSets
from valkeyctl.dataplane import Member
from valkeyctl.kube import directory, endpoints, watched
from valkeyctl.lifecycle.dataset import DatasetProvider

PASSWORD = "very-secret-password"  # noqa: S105 - of these servers alone
SECRET = "/api/v1/namespaces/valkey/secrets/sessions-auth"  # noqa: S105 - a path
STATUS = "/api/v1/namespaces/valkey/configmaps/sessions-status"
DECLARED = "/api/v1/namespaces/valkey/configmaps/sessions-declared"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/valkey/endpointslices"
FIRST, SECOND, THIRD = (Member(0, ordinal) for ordinal in range(3))


@dataclass
class Stage:
    """A dataset with its Pods, the resource's state, and who makes Pods anew."""

    fake: FakeApi
    dataset: Dataset
    sets: StatefulSets
    outs: dict[str, Any] = field(default_factory=dict[str, Any])
    more: dict[str, Any] = field(default_factory=dict[str, Any])

    def inputs(self, **more: Any) -> dict[str, Any]:
        declared = {
            "kubeconfig": self.fake.kubeconfig,
            "transport": "direct",
            "owner": "acme/valkey/prod/sessions",
            "namespace": "valkey",
            "instance": "sessions",
            "architecture": "replica",
            "replicas": float(self.dataset.spec.replicas),
            "port": float(PORT),
            "timeout_s": 60.0,
            "credentials": {"user": None, "secretName": "sessions-auth", "key": "password"},
            "workload_revision": "r1",
            **self.more,
            **more,
        }
        checked = DatasetProvider().check(self.outs, declared)
        assert checked.failures == []
        return checked.inputs

    def create(self, **more: Any) -> dict[str, Any]:
        made = DatasetProvider().create(self.inputs(**more))
        assert made.id == "valkey/sessions"
        self.outs = made.outs or {}
        return self.outs

    def update(self, **more: Any) -> dict[str, Any]:
        self.outs = DatasetProvider().update("valkey/sessions", self.outs, self.inputs(**more)).outs or {}
        return self.outs

    def changes(self, **more: Any) -> bool | None:
        return DatasetProvider().diff("valkey/sessions", self.outs, self.inputs(**more)).changes

    def told(self, capsys: pytest.CaptureFixture[str], **more: Any) -> list[str]:
        """What a preview says there is to do."""
        capsys.readouterr()
        self.changes(**more)
        return [line for line in capsys.readouterr().err.splitlines() if line.startswith("to do:")]

    def done(self) -> list[str]:
        return json.loads(self.fake.objects[STATUS]["data"]["done"])

    def behind(self, service: str) -> tuple[str, ...]:
        """The Pods behind a Service."""
        return endpoints.members_in(self.fake.objects[f"{SLICES}/sessions-{service}"])

    def roles(self) -> dict[Member, str]:
        """What each server calls itself."""
        return {member: str(self.dataset.told(member)["role"]) for member in self.dataset.servers}


def named_by_address(monkeypatch: pytest.MonkeyPatch, dataset: Dataset) -> None:
    """Where nothing resolves the Pods' names."""

    def host(_instance: str, _namespace: str, pod: str) -> str:
        member = Member(0, int(pod.rpartition("-")[2]))
        return dataset.servers[member].host if member in dataset.servers else pod

    monkeypatch.setattr(directory, "pod_host", host)
    monkeypatch.setattr(watched, "pod_host", host)


@contextmanager
def staged(fake: FakeApi, monkeypatch: pytest.MonkeyPatch, replicas: int, line: str = "9.1") -> Iterator[Stage]:
    fake.put(SECRET, {"data": {"password": base64.b64encode(PASSWORD.encode()).decode()}})
    with Dataset(spec_of(replicas), line, password=PASSWORD) as dataset:
        named_by_address(monkeypatch, dataset)
        dataset.start()
        sets = StatefulSets(fake, dataset)
        sets.declare("r1")
        for member in dataset.spec.members:
            sets.publish(member, "r1")
        # While the servers that it starts are needed: they end with its thread.
        with sets:
            yield Stage(fake, dataset, sets)
