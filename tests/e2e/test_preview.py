"""What `preview` says: the planned layout before anything exists, and the effect of changing one setting."""

from typing import Any

import pytest

from tests.e2e.conftest import Formed
from tests.e2e.harness.kube import Kube
from tests.e2e.harness.sandbox import INSTANCE, Sandbox, small

pytestmark = pytest.mark.xdist_group("preview")

LAYOUT = {"s0": "0-5460", "s1": "5461-10921", "s2": "10922-16383"}


def test_preview_of_an_empty_stack_names_the_layout_and_writes_nothing(sandbox: Sandbox, kube: Kube) -> None:
    stack = sandbox.stack()
    seen = stack.run("preview", "--diff")
    for shard, slots in LAYOUT.items():
        assert f'{shard}: "{slots}"' in seen.output
    assert kube.namespace(sandbox.namespace) is None
    assert stack.resources() == []


#: Nothing is replaced for all of them together, and so for none of them.
CHANGES: dict[str, dict[str, Any]] = {
    "many settings": {
        "replicas": 2,
        "image": "valkey/valkey:9.1.3",
        "config": {"maxmemory-policy": "allkeys-lru"},
        "resources": {"requests": {"cpu": "20m", "memory": "48Mi"}, "limits": {"memory": "96Mi"}},
        "slots": {0: "0-5460", 1: "5461-10921", 2: "10922-16383"},
        "timeoutSeconds": 900,
    },
    "one more replica": {"replicas": 2},
    "a password of one's own": {"auth": {"passwordSecret": {"name": "mine", "key": "password"}}},
}


@pytest.mark.parametrize("change", CHANGES)
def test_changing_settings_replaces_nothing(formed: Formed, change: str) -> None:
    formed.stack.configure({INSTANCE: small(**CHANGES[change])})
    try:
        seen = formed.stack.run("preview", expect=None)
    finally:
        formed.stack.configure({INSTANCE: small()})
    operations = seen.log.operations()
    assert f"Topology {INSTANCE}" in operations, seen.output
    assert seen.code == 0, seen.output
    forbidden = {name: op for name, op in operations.items() if "replace" in op or "delete" in op}
    if change == "a password of one's own":
        # The generated one is no longer declared; it leaves only after everything else was updated.
        forbidden = {name: op for name, op in forbidden.items() if not name.startswith("Password ")}
    assert forbidden == {}
    assert seen.changes() != {}


def test_an_older_version_is_refused_at_preview(formed: Formed) -> None:
    formed.stack.configure({INSTANCE: small(version="8.1")})
    try:
        refused = formed.stack.run("preview", expect=-1)
    finally:
        formed.stack.configure({INSTANCE: small()})
    assert "Valkey 8.1.8 is declared where servers run 9.1" in refused.output
    assert "Traceback" not in refused.output
