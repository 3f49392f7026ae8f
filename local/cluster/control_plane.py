"""What runs in the control plane's machine: etcd, the API server, its two controllers, DNS, and the volumes. Pure."""

import json
import os
from pathlib import Path

from ..tools import Tools
from .kubeconfigs import of_component
from .layout import (
    API_PORT,
    CLUSTER_DOMAIN,
    CONTROL_PLANE,
    NODE_VOLUMES,
    SERVICES,
    STORAGE_CLASS,
    VOLUME_PROVISIONER,
    Layout,
)
from .machine import Service, Spec

_ETCD = "127.0.0.1:2379"
_NOT_SERVING = ("--secure-port=0", "--profiling=false")
"""Nobody asks the two controllers for anything, and each certificate to serve with takes one of the host's watchers."""
_API_LOCAL = f"tcp:127.0.0.1:{API_PORT}"


def spec(layout: Layout, keep: tuple[str, ...]) -> Spec:
    folder = layout.machine_folder(CONTROL_PLANE)
    return Spec(
        hostname=CONTROL_PLANE,
        covers={"/var": str(folder / "var")},
        keep=keep,
        folders=("/run/tmp",),
        sysctls={
            "/proc/sys/net/ipv4/ip_forward": "0",
            # What the nodes send one another passes through the bridge, and is none of this machine's packet filter.
            "/proc/sys/net/bridge/bridge-nf-call-iptables": "0",
            "/proc/sys/net/bridge/bridge-nf-call-ip6tables": "0",
            "/proc/sys/net/bridge/bridge-nf-call-arptables": "0",
            "/proc/sys/net/ipv4/conf/all/rp_filter": "0",
            "/proc/sys/net/ipv4/conf/default/rp_filter": "0",
            "/proc/sys/net/ipv6/conf/all/disable_ipv6": "1",
            "/proc/sys/net/ipv6/conf/default/disable_ipv6": "1",
        },
    )


def files(layout: Layout) -> dict[Path, str]:
    """Configuration files by path."""
    folder = layout.machine_folder(CONTROL_PLANE) / "etc"
    components = ("kube-controller-manager", "kube-scheduler", "coredns")
    return {
        **{folder / f"{name}.kubeconfig": of_component(layout, name) for name in components},
        folder / "Corefile": _corefile(layout, folder / "coredns.kubeconfig"),
        folder / "volumes.json": _volume_settings(layout),
    }


def services(layout: Layout, tools: Tools, python: str) -> tuple[Service, ...]:
    folder = layout.machine_folder(CONTROL_PLANE)
    return (
        _etcd(tools, folder),
        _api_server(layout, tools),
        _controller_manager(layout, tools, folder),
        _scheduler(tools, folder),
        _coredns(tools, folder),
        _volumes(folder, python),
    )


def environment() -> dict[str, str]:
    """Of every service: nothing of the caller's own, so that the same cluster comes out wherever it is started."""
    return {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/run",
        "TMPDIR": "/run/tmp",
        "LC_ALL": "C.UTF-8",
        # On a machine that does everything else too, processors are scarcer than memory.
        "GOGC": "200",
    }


def _service(name: str, program: Path, arguments: list[str], *, needs: tuple[str, ...] = ()) -> Service:
    return Service(name, (os.fspath(program), *arguments), needs=needs, environment=environment())


def _etcd(tools: Tools, folder: Path) -> Service:
    arguments = [
        f"--data-dir={folder / 'var/lib/etcd'}",
        f"--listen-client-urls=http://{_ETCD}",
        f"--advertise-client-urls=http://{_ETCD}",
        "--listen-peer-urls=http://127.0.0.1:2380",
        "--auto-compaction-retention=10m",
        # Only a crash of the whole machine could lose what was written, and then the cluster is built anew.
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]
    return _service("etcd", tools.etcd, arguments)


def _api_server(layout: Layout, tools: Tools) -> Service:
    pki = layout.pki
    arguments = [
        f"--etcd-servers=http://{_ETCD}",
        "--bind-address=0.0.0.0",
        f"--secure-port={API_PORT}",
        f"--advertise-address={layout.control_plane_address}",
        f"--service-cluster-ip-range={SERVICES}",
        f"--client-ca-file={pki / 'ca.crt'}",
        f"--tls-cert-file={pki / 'apiserver.crt'}",
        f"--tls-private-key-file={pki / 'apiserver.key'}",
        f"--kubelet-certificate-authority={pki / 'ca.crt'}",
        f"--kubelet-client-certificate={pki / 'apiserver-kubelet-client.crt'}",
        f"--kubelet-client-key={pki / 'apiserver-kubelet-client.key'}",
        "--kubelet-preferred-address-types=InternalIP",
        f"--service-account-key-file={pki / 'sa.pub'}",
        f"--service-account-signing-key-file={pki / 'sa.key'}",
        f"--service-account-issuer=https://kubernetes.default.svc.{CLUSTER_DOMAIN}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        "--profiling=false",
    ]
    return _service("kube-apiserver", tools.kube_apiserver, arguments, needs=(f"tcp:{_ETCD}",))


def _controller_manager(layout: Layout, tools: Tools, folder: Path) -> Service:
    pki = layout.pki
    arguments = [
        f"--kubeconfig={folder / 'etc/kube-controller-manager.kubeconfig'}",
        "--use-service-account-credentials",
        f"--service-account-private-key-file={pki / 'sa.key'}",
        f"--root-ca-file={pki / 'ca.crt'}",
        "--allocate-node-cidrs=false",
        "--node-monitor-period=2s",
        "--node-monitor-grace-period=30s",
        "--leader-elect=false",
        "--kube-api-qps=300",
        "--kube-api-burst=600",
        *_NOT_SERVING,
    ]
    return _service("kube-controller-manager", tools.kube_controller_manager, arguments, needs=(_API_LOCAL,))


def _scheduler(tools: Tools, folder: Path) -> Service:
    arguments = [
        f"--kubeconfig={folder / 'etc/kube-scheduler.kubeconfig'}",
        "--leader-elect=false",
        "--kube-api-qps=300",
        "--kube-api-burst=600",
        *_NOT_SERVING,
    ]
    return _service("kube-scheduler", tools.kube_scheduler, arguments, needs=(_API_LOCAL,))


def _coredns(tools: Tools, folder: Path) -> Service:
    return _service("coredns", tools.coredns, ["-conf", str(folder / "etc/Corefile")], needs=(_API_LOCAL,))


def _corefile(layout: Layout, kubeconfig: Path) -> str:
    """The settings that kubeadm gives a cluster, but that names outside are unknown, as nobody could reach them."""
    return f"""\
{CLUSTER_DOMAIN}:53 in-addr.arpa:53 ip6.arpa:53 {{
    bind {layout.control_plane_address}
    errors
    health 127.0.0.1:8080 {{
       lameduck 5s
    }}
    ready 127.0.0.1:8181
    kubernetes {CLUSTER_DOMAIN} in-addr.arpa ip6.arpa {{
       kubeconfig {kubeconfig}
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }}
    cache 30 {{
       disable success {CLUSTER_DOMAIN}
       disable denial {CLUSTER_DOMAIN}
    }}
    loadbalance
}}
.:53 {{
    bind {layout.control_plane_address}
    errors
    template ANY ANY . {{
       rcode NXDOMAIN
    }}
}}
"""


def _volumes(folder: Path, python: str) -> Service:
    script = Path(__file__).with_name("volumes.py")
    return _service(
        "volumes", Path(python), ["-I", "-S", str(script), str(folder / "etc/volumes.json")], needs=(_API_LOCAL,)
    )


def _volume_settings(layout: Layout) -> str:
    settings = {
        "server": f"https://127.0.0.1:{API_PORT}",
        "ca": str(layout.pki / "ca.crt"),
        "cert": str(layout.pki / "volumes.crt"),
        "key": str(layout.pki / "volumes.key"),
        "provisioner": VOLUME_PROVISIONER,
        "storage_class": STORAGE_CLASS,
        "node_folder": NODE_VOLUMES,
        # /var of a node is this folder of its machine.
        "host_folders": {node.name: f"{layout.machine_folder(node.name)}{NODE_VOLUMES}" for node in layout.nodes},
    }
    return json.dumps(settings, indent=1)
