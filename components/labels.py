"""Labels and annotations of an instance's objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi

from valkeyctl.kube.labels import INSTANCE_LABEL, NAME_LABEL, OWNER_ANNOTATION, SHARD_LABEL, instance_labels

if TYPE_CHECKING:
    from pulumi_kubernetes.meta.v1 import ObjectMetaArgsDict

VERSION_LABEL = "app.kubernetes.io/version"
#: Changes when a server must be started anew to have its files in effect. In the Pod template, so that Pods count as
#: outdated then.
CONFIG_ANNOTATION = "valkeyctl/config"
#: Changes when the agent's code does: a mounted ConfigMap changes under a running agent, which takes no notice.
AGENT_ANNOTATION = "valkeyctl/agent"
#: A person's word that all Pods are to be replaced: any text, and another one than before.
RESTART_ANNOTATION = "valkeyctl/restart"
#: Pulumi would otherwise wait for Pods or endpoints, and one stuck Pod would keep the correcting `up` from its turn.
#: What is waited for, and how long, is the topology resource's business.
NO_WAIT = {"pulumi.com/skipAwait": "true"}
#: Server-side apply refuses a field that somebody else has written since (`kubectl patch`, `edit`, `scale`), and so
#: fails the `up` that is to put it back. Only the instance's own objects carry this: `Prepare` has refused all others.
#: An annotation and no option of the provider's: it holds under a provider of the program's own too.
PUT_BACK = {"pulumi.com/patchForce": "true"}


def selector(instance: str, shard: int | None = None) -> dict[str, str]:
    """The labels by which an instance's Pods are selected, or those of one shard. Immutable once written."""
    labels = {NAME_LABEL: "valkey", INSTANCE_LABEL: instance}
    return labels if shard is None else {**labels, SHARD_LABEL: str(shard)}


@dataclass(frozen=True)
class Identity:
    """What the metadata of all objects of an instance have in common.

    `owner` is `<organization>/<project>/<stack>/<instance>`; `version` the server's, None where the image tells none.
    """

    instance: str
    namespace: pulumi.Input[str]
    owner: str
    version: str | None

    def labels(self, shard: int | None = None) -> dict[str, str]:
        """The standard labels, with the shard where the object is one's."""
        return instance_labels(self.instance) | selector(self.instance, shard)

    def pod_labels(self, shard: int) -> dict[str, str]:
        """Those of a Pod. Only Pods carry the version: else a new one would be a change of every object there is."""
        labels = self.labels(shard)
        return labels | {VERSION_LABEL: self.version} if self.version else labels

    def metadata(
        self, name: str, *, shard: int | None = None, annotations: Mapping[str, str] | None = None
    ) -> ObjectMetaArgsDict:
        """The metadata of one object."""
        return {
            "name": name,
            "namespace": self.namespace,
            "labels": self.labels(shard),
            "annotations": {OWNER_ANNOTATION: self.owner, **PUT_BACK, **(annotations or {})},
        }
