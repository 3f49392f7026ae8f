"""Room for too few Pods, and the end of it."""

from tests.e2e.harness.kube import Kube, eventually

NAME = "few"


def allow_pods(kube: Kube, namespace: str, pods: int) -> None:
    """From now on there may be so many Pods in the namespace."""
    kube.create("resourcequotas", namespace, {"metadata": {"name": NAME}, "spec": {"hard": {"pods": str(pods)}}})

    def in_force() -> bool:
        """A quota counts once its controller has counted what is there."""
        quota = kube.get("resourcequotas", namespace, NAME) or {}
        return bool(quota.get("status", {}).get("hard"))

    eventually("the quota is in force", in_force, timeout_s=60)


def lift(kube: Kube, namespace: str) -> None:
    """As many Pods as wanted again, and at once.

    The controller of StatefulSets tries ever less often, minutes apart in the end, and doesn't see that the quota is
    gone; a change of the StatefulSet makes it try.
    """
    kube.delete("resourcequotas", namespace, NAME)
    for workload in kube.items("statefulsets", namespace):
        poked = {"metadata": {"annotations": {"tests/quota": "lifted"}}}
        kube.patch("statefulsets", namespace, workload["metadata"]["name"], poked)
