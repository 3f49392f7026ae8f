"""How a program tells the lifecycle where Kubernetes is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pulumi

#: Inputs of every resource here that are secret in Pulumi's state. A kubeconfig holds keys and tokens.
SECRET_OUTPUTS = ["kubeconfig"]


@dataclass(frozen=True)
class Connection:
    """How to reach the API server, and through it the Pods.

    context      context of the kubeconfig; pinned, so that switching contexts by hand never redirects an `up`.
                 None means the kubeconfig's current context.
    kubeconfig   contents of a kubeconfig, or the path of one; None means the ambient one ($KUBECONFIG, ~/.kube/config,
                 else the service account of the Pod that Pulumi runs in). Kept as a secret in any case.
    transport    "portForward" reaches Pods through the API server; "direct" dials their addresses, which works only
                 from inside the cluster's network.
    """

    context: pulumi.Input[str] | None = None
    kubeconfig: pulumi.Input[str] | None = None
    transport: str = "portForward"

    def props(self) -> dict[str, Any]:
        """The inputs of a dynamic resource that say how to connect; the kubeconfig is marked as a secret."""
        secret = None if self.kubeconfig is None else pulumi.Output.secret(self.kubeconfig)
        return {"context": self.context, "kubeconfig": secret, "transport": self.transport}


def options(opts: pulumi.ResourceOptions | None) -> pulumi.ResourceOptions:
    """The caller's options with the secret outputs added; nothing of the caller's is overridden."""
    own = pulumi.ResourceOptions(additional_secret_outputs=SECRET_OUTPUTS)
    return pulumi.ResourceOptions.merge(own, opts) if opts is not None else own
