"""Names and addresses of a cluster, and what its parts are told about them."""

import json
from ipaddress import IPv4Network
from itertools import islice
from pathlib import Path

import pytest
import yaml

from local.cluster import addons, control_plane, kubeconfigs, node
from local.cluster.api import path_of
from local.cluster.layout import (
    API_SERVICE,
    CONTROL_PLANE,
    DNS_SERVICE,
    FABRIC,
    HOST_LINKS,
    NODE_VOLUMES,
    PODS,
    SERVICES,
    STORAGE_CLASS,
    Layout,
)
from local.cluster.network import api_side, host_side, networks_of
from local.errors import LocalError

LAYOUT = Layout(Path("/somewhere/state"))


def test_nothing_of_a_cluster_overlaps() -> None:
    networks = [FABRIC, SERVICES, PODS, HOST_LINKS]
    assert not [(a, b) for a in networks for b in networks if a is not b and a.overlaps(b)]
    pods = [each.pods for each in LAYOUT.nodes]
    assert not [(a, b) for a in pods for b in pods if a is not b and a.overlaps(b)]
    assert all(network.subnet_of(PODS) for network in pods)
    addresses = {LAYOUT.control_plane_address, *(each.address for each in LAYOUT.nodes)}
    assert len(addresses) == 4
    assert all(address in FABRIC for address in addresses)
    assert API_SERVICE in SERVICES
    assert DNS_SERVICE in SERVICES


def test_three_nodes_stand_in_three_zones() -> None:
    assert [(each.name, each.zone) for each in LAYOUT.nodes] == [
        ("node1", "zone1"),
        ("node2", "zone2"),
        ("node3", "zone3"),
    ]
    assert LAYOUT.node(2).name == "node2"
    with pytest.raises(LocalError, match="there is no node 4"):
        LAYOUT.node(4)


def test_two_clusters_share_nothing_on_the_host() -> None:
    other = Layout(Path("/somewhere/else"))
    assert LAYOUT.id != other.id
    assert LAYOUT.host_device != other.host_device
    assert next(iter(LAYOUT.host_links())) != next(iter(other.host_links()))
    assert Layout(Path("/somewhere/state")).id == LAYOUT.id


def test_a_device_name_fits_the_kernel() -> None:
    assert len(LAYOUT.host_device) <= 15


def test_host_links_are_distinct_pairs_of_addresses() -> None:
    links = list(islice(LAYOUT.host_links(), 4096))
    assert len(set(links)) == 4096
    assert all(link.prefixlen == 30 and link.subnet_of(HOST_LINKS) for link in links)
    link = IPv4Network("198.18.4.8/30")
    assert (str(host_side(link)), str(api_side(link))) == ("198.18.4.9/30", "198.18.4.10/30")


def test_a_node_sends_from_its_own_address_and_its_pods() -> None:
    assert networks_of(LAYOUT, "node2") == ("10.201.0.12", "10.244.2.0/24")
    assert networks_of(LAYOUT, CONTROL_PLANE) == ("10.201.0.1",)


def test_a_node_is_told_its_own_names_and_addresses() -> None:
    each = LAYOUT.node(3)
    files = node.files(LAYOUT, each, "registry/pause:1", Path("/plugins"))
    etc = LAYOUT.machine_folder("node3") / "etc"
    kubelet = yaml.safe_load(files[etc / "kubelet.yaml"])
    assert kubelet["cgroupRoot"] == f"/{LAYOUT.id}/node3"
    assert kubelet["clusterDNS"] == [str(DNS_SERVICE)]
    assert kubelet["maxPods"] == 240
    assert kubelet["authentication"]["anonymous"] == {"enabled": False}
    network = json.loads(files[etc / "cni" / "10-pods.conflist"])
    assert network["name"] == "pods-node3"
    assert network["plugins"][0]["ipam"]["ranges"] == [[{"subnet": "10.244.3.0/24"}]]
    proxy = yaml.safe_load(files[etc / "kube-proxy.yaml"])
    assert proxy["hostnameOverride"] == "node3"
    # Anything else would write the whole host's connection tracking settings.
    assert proxy["conntrack"]["maxPerCore"] == 0
    assert 'sandbox_image = "registry/pause:1"' in files[etc / "containerd.toml"]
    assert 'bin_dir = "/plugins"' in files[etc / "containerd.toml"]


def test_every_node_has_a_cni_network_of_its_own() -> None:
    names: set[str] = set()
    for each in LAYOUT.nodes:
        files = node.files(LAYOUT, each, "pause", Path("/plugins"))
        conflist = next(text for path, text in files.items() if path.suffix == ".conflist")
        names.add(json.loads(conflist)["name"])
    assert len(names) == 3


def test_dns_has_the_usual_settings() -> None:
    corefile = control_plane.files(LAYOUT)[LAYOUT.machine_folder(CONTROL_PLANE) / "etc" / "Corefile"]
    for setting in ("kubernetes cluster.local", "ttl 30", "cache 30", "loadbalance", "pods insecure"):
        assert setting in corefile


def test_the_provisioner_writes_where_the_nodes_look() -> None:
    settings = json.loads(control_plane.files(LAYOUT)[LAYOUT.machine_folder(CONTROL_PLANE) / "etc" / "volumes.json"])
    for each in LAYOUT.nodes:
        covers = node.spec(LAYOUT, each, (), {}).covers
        assert settings["host_folders"][each.name] == NODE_VOLUMES.replace("/var", covers["/var"], 1)
    assert settings["node_folder"] == NODE_VOLUMES


def test_a_components_kubeconfig_names_its_own_key_only() -> None:
    config = yaml.safe_load(kubeconfigs.of_component(LAYOUT, "kube-proxy-node1"))
    assert config["users"][0]["user"] == {
        "client-certificate": "/somewhere/state/pki/kube-proxy-node1.crt",
        "client-key": "/somewhere/state/pki/kube-proxy-node1.key",
    }
    assert config["clusters"][0]["cluster"]["server"] == "https://10.201.0.1:6443"


def test_a_cluster_is_given_dns_and_one_default_storage_class() -> None:
    manifests = {(item["kind"], item["metadata"]["name"]): item for item in addons.manifests(LAYOUT)}
    assert manifests["Service", "kube-dns"]["spec"]["clusterIP"] == str(DNS_SERVICE)
    assert manifests["EndpointSlice", "kube-dns"]["endpoints"][0]["addresses"] == ["10.201.0.1"]
    storage = manifests["StorageClass", STORAGE_CLASS]
    assert storage["metadata"]["annotations"]["storageclass.kubernetes.io/is-default-class"] == "true"
    assert storage["volumeBindingMode"] == "WaitForFirstConsumer"


@pytest.mark.parametrize(
    ("manifest", "path"),
    [
        (
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "namespace": "b"}},
            "/api/v1/namespaces/b/services/a",
        ),
        (
            {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "a"}},
            "/apis/storage.k8s.io/v1/storageclasses/a",
        ),
        (
            {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "a", "namespace": "b"}},
            "/apis/discovery.k8s.io/v1/namespaces/b/endpointslices/a",
        ),
    ],
)
def test_the_path_of_an_object(manifest: dict[str, object], path: str) -> None:
    assert path_of(manifest) == path
