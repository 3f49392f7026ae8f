"""What runs in a node's machine: containerd, the kubelet, kube-proxy, and the firewall of network policies. Pure."""

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import yaml

from ..tools import Tools
from .control_plane import environment
from .kubeconfigs import of_component
from .layout import API_PORT, CLUSTER_DOMAIN, DNS_SERVICE, NODE_VOLUMES, PODS, SERVICES, Layout, Node
from .machine import Service, Spec

CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
CONTAINERD_ROOT = "/var/lib/containerd"
KUBELET = "kubelet"

_SEEMING = {
    # What the kubelet would set on the whole host, or refuse to start without.
    "/proc/sys/vm/overcommit_memory": "1",
    "/proc/sys/vm/panic_on_oom": "0",
    "/proc/sys/kernel/panic": "10",
    "/proc/sys/kernel/panic_on_oops": "1",
    "/proc/sys/kernel/keys/root_maxkeys": "1000000",
    "/proc/sys/kernel/keys/root_maxbytes": "25000000",
}


def spec(layout: Layout, node: Node, keep: tuple[str, ...], snapshots: Mapping[str, str]) -> Spec:
    """`snapshots`: folder in the machine → folder of the shared images that is seen there."""
    folder = layout.machine_folder(node.name)
    return Spec(
        hostname=node.name,
        covers={"/var": str(folder / "var")},
        keep=keep,
        folders=("/run/tmp", "/run/containerd", "/run/netns", "/run/lock", NODE_VOLUMES, "/var/log"),
        read_only=snapshots,
        seeming=_SEEMING,
        sysctls={
            "/proc/sys/net/ipv4/ip_forward": "1",
            "/proc/sys/net/ipv4/conf/all/rp_filter": "0",
            "/proc/sys/net/ipv4/conf/default/rp_filter": "0",
            "/proc/sys/net/ipv6/conf/all/disable_ipv6": "1",
            "/proc/sys/net/ipv6/conf/default/disable_ipv6": "1",
        },
    )


def files(layout: Layout, node: Node, sandbox_image: str, cni_folder: Path) -> dict[Path, str]:
    """Configuration files by path."""
    etc = layout.machine_folder(node.name) / "etc"
    components = {
        KUBELET: node.name,
        "kube-proxy": f"kube-proxy-{node.name}",
        "kube-router": f"kube-router-{node.name}",
    }
    return {
        **{etc / f"{name}.kubeconfig": of_component(layout, user) for name, user in components.items()},
        etc / "cni" / "10-pods.conflist": _cni(node),
        etc / "containerd.toml": containerd_config(sandbox_image, cni_folder, etc / "cni"),
        etc / "kubelet.yaml": _kubelet_config(layout, node),
        etc / "kube-proxy.yaml": _proxy_config(node, etc),
    }


def services(layout: Layout, node: Node, tools: Tools, containerd: Path) -> tuple[Service, ...]:
    etc = layout.machine_folder(node.name) / "etc"
    api = f"tcp:{layout.control_plane_address}:{API_PORT}"
    runtime = f"unix:{CONTAINERD_SOCKET}"
    kubelet = [
        f"--config={etc / 'kubelet.yaml'}",
        f"--kubeconfig={etc / 'kubelet.kubeconfig'}",
        f"--hostname-override={node.name}",
        f"--node-ip={node.address}",
        f"--node-labels=topology.kubernetes.io/zone={node.zone},topology.kubernetes.io/region=local",
        "--root-dir=/var/lib/kubelet",
        "--cert-dir=/run/kubelet-pki",
    ]
    router = [
        f"--kubeconfig={etc / 'kube-router.kubeconfig'}",
        f"--hostname-override={node.name}",
        "--run-firewall=true",
        "--run-router=false",
        "--run-service-proxy=false",
        "--run-loadbalancer=false",
        f"--service-cluster-ip-range={SERVICES}",
    ]
    return (
        containerd_service(containerd, etc / "containerd.toml"),
        _service(KUBELET, tools.kubelet, kubelet, (runtime, api)),
        _service("kube-proxy", tools.kube_proxy, [f"--config={etc / 'kube-proxy.yaml'}"], (api,)),
        # At each change of a Pod it calls iptables some thirty times, which may come after the Pod's start.
        replace(_service("kube-router", tools.kube_router, router, (api,)), nice=5),
    )


def containerd_service(containerd: Path, config: Path) -> Service:
    return _service("containerd", containerd, ["--config", str(config)])


def containerd_config(sandbox_image: str, cni_folder: Path, cni_config: Path) -> str:
    return f"""\
version = 2
root = {_toml(CONTAINERD_ROOT)}
state = "/run/containerd"
oom_score = 0
disabled_plugins = [
  "io.containerd.internal.v1.opt",
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.native",
  "io.containerd.snapshotter.v1.zfs",
  "io.containerd.internal.v1.tracing",
  "io.containerd.tracing.processor.v1.otlp",
]
[grpc]
address = {_toml(CONTAINERD_SOCKET)}
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = {_toml(sandbox_image)}
# Where root lacks CAP_SYS_RESOURCE, in many sandboxes, no sandbox starts without this.
restrict_oom_score_adj = true
# A profile would be loaded into the host's kernel.
disable_apparmor = true
tolerate_missing_hugetlb_controller = true
disable_hugetlb_controller = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = {_toml(os.fspath(cni_folder))}
conf_dir = {_toml(os.fspath(cni_config))}
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
"""


def _service(name: str, program: Path, arguments: list[str], needs: tuple[str, ...] = ()) -> Service:
    return Service(name, (os.fspath(program), *arguments), needs=needs, environment=environment())


def _cni(node: Node) -> str:
    ptp = {
        "type": "ptp",
        "ipMasq": False,
        "ipam": {
            "type": "host-local",
            # A folder of the node's own, in memory: what a power loss leaves behind there would never be freed.
            "dataDir": "/run/cni",
            "ranges": [[{"subnet": str(node.pods)}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    portmap = {"type": "portmap", "capabilities": {"portMappings": True}}
    return json.dumps({"cniVersion": "0.4.0", "name": f"pods-{node.name}", "plugins": [ptp, portmap]}, indent=1)


def _kubelet_config(layout: Layout, node: Node) -> str:
    pki = layout.pki
    return _yaml(
        {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{layout.id}/{node.name}",
            "failCgroupV1": False,
            "failSwapOn": False,
            "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
            "volumePluginDir": "/var/lib/kubelet/volume-plugins",
            "clusterDNS": [str(DNS_SERVICE)],
            "clusterDomain": CLUSTER_DOMAIN,
            "resolvConf": "",
            "tlsCertFile": str(pki / f"{node.name}.crt"),
            "tlsPrivateKeyFile": str(pki / f"{node.name}.key"),
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(pki / "ca.crt")},
            },
            "authorization": {"mode": "Webhook"},
            "enableServer": True,
            "maxPods": 240,
            "serializeImagePulls": False,
            "kubeAPIQPS": 200,
            "kubeAPIBurst": 400,
            "eventRecordQPS": 0,
            "syncFrequency": "20s",
            "nodeLeaseDurationSeconds": 20,
            "nodeStatusUpdateFrequency": "5s",
            # All nodes share one disk with all that the host does: what counts is that it isn't full.
            "imageGCHighThresholdPercent": 100,
            "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
            "containerLogMaxSize": "5Mi",
            "containerLogMaxFiles": 2,
            "volumeStatsAggPeriod": "10m",
        }
    )


def _proxy_config(node: Node, etc: Path) -> str:
    return _yaml(
        {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "clientConnection": {"kubeconfig": str(etc / "kube-proxy.kubeconfig")},
            "mode": "iptables",
            "iptables": {"minSyncPeriod": "100ms"},
            "hostnameOverride": node.name,
            "clusterCIDR": str(PODS),
            "detectLocalMode": "ClusterCIDR",
            # Zero leaves the host's connection tracking as it is.
            "conntrack": {
                "maxPerCore": 0,
                "min": 0,
                "tcpEstablishedTimeout": "0s",
                "tcpCloseWaitTimeout": "0s",
            },
        }
    )


def _yaml(content: dict[str, object]) -> str:
    return yaml.safe_dump(content, sort_keys=False)


def _toml(text: str) -> str:
    return json.dumps(text)
