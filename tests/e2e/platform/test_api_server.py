"""The API server ends in the middle of an `up`: nothing is lost, and the next `up` finishes what was begun."""

from collections.abc import Callable

from local.cluster.layout import Layout
from local.paths import state_dir
from tests.e2e.harness import probe
from tests.e2e.harness.kube import Kube
from tests.e2e.harness.program import Stack
from tests.e2e.harness.sandbox import INSTANCE, Sandbox, small
from tests.e2e.platform.host import kill, running
from tests.e2e.platform.platform import local


def test_a_scale_out_goes_on_after_the_api_server_was_killed(
    sandbox: Sandbox, form: Callable[..., Stack], kube: Kube
) -> None:
    stack = form()
    client = sandbox.client(stack)
    written = client.write(INSTANCE, 3000)
    stack.configure({INSTANCE: small(shards=4)})
    scaling = stack.start("up", "--yes", "--skip-preview")
    scaling.until(lambda mark: mark.startswith("say Topology"))
    kill(running(Layout(state_dir()).id, "kube-apiserver"))
    interrupted = stack.finish(scaling, expect=None)
    assert "Traceback" not in interrupted.output

    assert local("up").code == 0
    stack.up()
    nodes = probe.assert_ready(kube, sandbox.namespace, INSTANCE, shards=4)
    assert {len(slots) for slots in probe.layout(nodes).values()} == {4096}
    assert client.lost(INSTANCE, written) == []
    stack.up("--expect-no-changes")
