"""Two `up` of the same instance at once, from two machines: one works, the other says who holds it."""

import re

from tests.e2e.harness import probe
from tests.e2e.harness.kube import Kube, eventually
from tests.e2e.harness.quota import allow_pods, lift
from tests.e2e.harness.sandbox import INSTANCE, Sandbox, tiny


def test_the_second_says_who_holds_it(sandbox: Sandbox, kube: Kube) -> None:
    # A quota keeps the last Pod away, so that the first `up` stays at its converge until it is lifted.
    kube.create_namespace(sandbox.namespace)
    allow_pods(kube, sandbox.namespace, 5)
    first, second = sandbox.stack("same"), sandbox.stack("same")
    working = first.start("up", "--yes", "--skip-preview")
    working.until(lambda mark: mark.startswith("start create Topology"))
    eventually("the lease is taken", lambda: _holder(kube, sandbox.namespace), timeout_s=20)
    holder = _holder(kube, sandbox.namespace)
    assert holder is not None

    refused = second.up(expect=-1)
    assert holder in refused.output
    assert "Traceback" not in refused.output
    assert _holder(kube, sandbox.namespace) == holder

    lift(kube, sandbox.namespace)
    first.finish(working)
    probe.assert_ready(kube, sandbox.namespace, INSTANCE)
    # Now that nobody works on it, the second finds everything done.
    second.up()
    probe.assert_ready(kube, sandbox.namespace, INSTANCE)


def test_a_race_from_nothing_ends_well(sandbox: Sandbox, kube: Kube) -> None:
    stacks = [sandbox.stack("same"), sandbox.stack("same")]
    ended = [
        stack.finish(run, expect=None) for stack, run in [(s, s.start("up", "--yes", "--skip-preview")) for s in stacks]
    ]
    assert 0 in [result.code for result in ended], ended[0].output + ended[1].output
    for result in ended:
        assert "Traceback" not in result.output
        assert result.code == 0 or re.search(r"held|holds|conflict|already exists|changed", result.output), (
            result.output
        )
    nodes = probe.assert_ready(kube, sandbox.namespace, INSTANCE)
    assert probe.spread(nodes) == [5461, 5461, 5462]
    for stack in stacks:
        stack.up()
    assert probe.layout(probe.assert_ready(kube, sandbox.namespace, INSTANCE)) == probe.layout(nodes)


def test_a_stale_lease_is_taken_over(sandbox: Sandbox, kube: Kube) -> None:
    # A holder whose machine is gone renews no more.
    stack = sandbox.stack(config=tiny())
    stack.up()
    gone = {"spec": {"holderIdentity": "somebody@gone", "renewTime": "2020-01-01T00:00:00.000000Z"}}
    kube.patch("leases", sandbox.namespace, INSTANCE, gone)
    nodes = probe.ask(kube, sandbox.namespace, INSTANCE)
    probe.command(kube, sandbox.namespace, probe.replica_of(nodes, 0).pod, "CLUSTER RESET SOFT")
    stack.up()
    probe.assert_ready(kube, sandbox.namespace, INSTANCE, shards=1)
    assert _holder(kube, sandbox.namespace) != "somebody@gone"


def _holder(kube: Kube, namespace: str) -> str | None:
    lease = kube.get("leases", namespace, INSTANCE)
    return (lease or {}).get("spec", {}).get("holderIdentity") or None
