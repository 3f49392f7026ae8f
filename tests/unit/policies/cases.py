"""For each rule: what it must find, and with which words, and what it must let pass."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from policies.model import Resource
from tests.unit.policies.objects import (
    LABELS,
    STACK,
    budget,
    claim,
    config_map,
    container,
    network_policy,
    pod_spec,
    resource,
    security,
    sentinels,
    service,
    statefulset,
    topology,
    with_server,
)


@dataclass(frozen=True)
class Case:
    """Resources, and the words of each finding in their order; none: there is nothing to find."""

    resources: Sequence[Resource]
    words: Sequence[str] = ()
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])
    config: Mapping[str, str] = field(default_factory=dict[str, str])
    before: Sequence[Resource] = ()


def _one(thing: Resource, *words: str, **params: Any) -> Case:
    return Case([thing], words, params)


def _sidecar(**changes: Any) -> Resource:
    """A server beside a native sidecar."""
    agent = container("agent", image="python:3.13.1-slim", restartPolicy="Always", command=["python"], **changes)
    return statefulset(spec=pod_spec(initContainers=[agent]))


def _without(name: str) -> dict[str, Any]:
    return {key: value for key, value in security().items() if key != name}


def _pods(**changes: Any) -> Resource:
    return statefulset(spec=pod_spec(**changes))


def _shard(number: str, **changes: Any) -> Resource:
    """One of several StatefulSets of an instance."""
    labels = {**LABELS, "shard": number}
    template = {"metadata": {"labels": labels}, "spec": pod_spec(container(**changes))}
    return statefulset(f"cache-s{number}", template=template)


def _required(**changes: Any) -> dict[str, Any]:
    term = {"topologyKey": "kubernetes.io/hostname", **changes}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _zones(labels: Mapping[str, str], **changes: Any) -> dict[str, Any]:
    return {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": labels}, **changes}


def _probing(*command: str) -> Resource:
    return with_server(livenessProbe={"exec": {"command": list(command)}})


NO_SECRET = [{"name": "config", "configMap": {"name": "cache-config"}}]
THIRDS = {"s0": "0-5460", "s1": "5461-10921", "s2": "10922-16383"}
HALVES = {"s0": "0-8191", "s1": "8192-16383"}
MEMORY = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1Gi"}}
TEAM = {**LABELS, "team": "search"}

BAD: dict[str, dict[str, Case]] = {
    "image-pinned": {
        "no tag": _one(with_server(image="valkey/valkey"), "container server runs valkey/valkey, which names neither"),
        "latest": _one(with_server(image="valkey/valkey:latest"), "whose tag latest moves"),
        "a line": _one(with_server(image="mirror.example:5000/valkey/valkey:9.1"), "whose tag 9.1 moves"),
        "not even a line": _one(with_server(image="valkey/valkey:9"), "whose tag 9 moves", require="line"),
        "a tag where a digest is asked for": _one(
            with_server(image="valkey/valkey:9.1.2"),
            "runs valkey/valkey:9.1.2, which names no digest",
            require="digest",
        ),
        "a native sidecar": Case([_sidecar()], ["container agent runs python:3.13.1-slim"], {"require": "digest"}),
        "an init container": _one(
            _pods(initContainers=[container("setup", image="valkey/valkey:9")]), "init container setup runs"
        ),
        "a CronJob": _one(
            resource(
                "CronJob",
                "backup",
                {
                    "spec": {
                        "jobTemplate": {"spec": {"template": {"spec": pod_spec(container(image="valkey/tool:edge"))}}}
                    }
                },
            ),
            "whose tag edge moves",
        ),
    },
    "approved-registries": {
        "another place": _one(
            with_server(image="elsewhere.example/valkey:9.1.2"),
            "runs elsewhere.example/valkey, and approved are only valkey, mirror.example",
            registries=["valkey", "mirror.example/"],
        ),
        "a place whose name only begins alike": _one(
            with_server(image="valkeyfake/valkey:9.1.2"), "runs valkeyfake/valkey", registries=["valkey"]
        ),
        "the same folder of another registry": _one(
            with_server(image="quay.io/valkey/valkey:9.1.2"), "runs quay.io/valkey/valkey", registries=["valkey"]
        ),
        "no registry where another is approved": _one(
            with_server(image="valkey/valkey:9.1.2"), "runs valkey/valkey", registries=["quay.io"]
        ),
    },
    "resources-declared": {
        "nothing": _one(
            with_server(resources={}),
            "container server has no request for cpu and no request for memory and no limit of memory",
        ),
        "no limit": _one(with_server(resources={"requests": MEMORY["requests"]}), "has no limit of memory"),
        "a native sidecar": _one(_sidecar(resources={}), "container agent has no request for cpu"),
        "a limit of zero, which is none": _one(
            with_server(resources={"requests": MEMORY["requests"], "limits": {"memory": "0"}}), "has no limit of memory"
        ),
        "a limit of CPU where it is asked for": _one(statefulset(), "has no limit of cpu", required=["limits.cpu"]),
    },
    "maxmemory-below-limit": {
        "at the limit": Case([statefulset(), config_map("maxmemory 1gb\n")], ["maxmemory is 1073741824 bytes"]),
        "above the share": Case([statefulset(), config_map("maxmemory 900mb\n")], ["80 % of"], {"maxPercent": 80}),
        "none": Case([statefulset(), config_map("port 6379\n")], ["no maxmemory, and a memory limit"]),
        "beside a sidecar's ConfigMap that isn't the program's": Case(
            [
                statefulset(
                    spec=pod_spec(
                        container(volumeMounts=[{"name": "config"}]),
                        volumes=[
                            {"name": "config", "configMap": {"name": "cache-config"}},
                            {"name": "code", "configMap": {"name": "cache-agent"}},
                        ],
                    )
                ),
                config_map("maxmemory 2gb\n"),
            ],
            ["maxmemory is 2147483648 bytes"],
        ),
        "zero": Case([statefulset(), config_map("maxmemory 0\n")], ["no maxmemory"]),
        "no amount": Case([statefulset(), config_map("maxmemory 90%\n")], ["maxmemory is 90%, which no server takes"]),
        "of a later shard": Case(
            [_shard("0"), _shard("1", args=["--maxmemory", "2gb"]), config_map()], ["maxmemory is 2147483648 bytes"]
        ),
        "in a script": Case(
            [with_server(command=["sh", "-c", "exec valkey-server /x.conf --maxmemory 2gb; true"]), config_map()],
            ["maxmemory is 2147483648 bytes"],
        ),
        "on the command line": Case(
            [statefulset(spec=pod_spec(container(command=["valkey-server", "--maxmemory", "2gb"]), volumes=[]))],
            ["maxmemory is 2147483648 bytes"],
        ),
    },
    "grace-period": {
        "too short": _one(_pods(terminationGracePeriodSeconds=10.0), "have 10 s to stop, and a server that writes"),
        "Kubernetes' default with a volume": _one(_pods(terminationGracePeriodSeconds=None), "have 30 s"),
        "in memory": _one(
            statefulset(spec=pod_spec(terminationGracePeriodSeconds=5.0), volumeClaimTemplates=[]),
            "have 5 s to stop, and a server needs 30",
        ),
    },
    "replicas-declared": {
        "none": _one(statefulset(replicas=1.0), "has no replica beside the primary, and at least 1"),
        "Kubernetes' default": _one(statefulset(replicas=None), "has no replica"),
        "too few": _one(statefulset(replicas=2.0), "has 1 replica beside", minReplicas=2),
    },
    "sentinel-quorum": {
        "two": Case(sentinels(2.0), ["there are 2 Sentinels"]),
        "an even number": Case(sentinels(4.0, "sentinel monitor cache h 6379 3"), ["there are 4 Sentinels"]),
        "quorum of a minority": Case(sentinels(5.0), ["the quorum is 2, and a majority of 5 is 3"]),
        "quorum before other lines": Case(
            sentinels(3.0, "sentinel monitor c h 6379 1\nsentinel down-after-milliseconds c 5000"),
            ["the quorum is 1"],
        ),
        "quorum that is never met": Case(sentinels(3.0, "sentinel monitor c h 6379 4"), ["the quorum is 4"]),
    },
    "anti-affinity": {
        "none": _one(_pods(affinity=None), "nothing keeps its Pods on nodes of their own"),
        "by another key": _one(
            _pods(
                affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "x"}]}}
            ),
            "nothing keeps",
        ),
        "for other Pods": _one(_pods(affinity=_required(labelSelector={"matchLabels": {"app": "x"}})), "nothing keeps"),
        "for no Pods": _one(_pods(affinity=_required()), "nothing keeps"),
        "for Pods of another namespace": _one(
            _pods(affinity=_required(labelSelector={}, namespaces=["other"])), "nothing keeps"
        ),
        "only preferred where it is required": _one(
            _pods(
                affinity={
                    "podAntiAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {"weight": 1.0, "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname"}}
                        ]
                    }
                }
            ),
            "nothing strictly keeps",
            strength="required",
        ),
    },
    "zone-spread": {
        "none": _one(_pods(topologySpreadConstraints=[]), "nothing spreads its Pods over zones"),
        "of other Pods": _one(_pods(topologySpreadConstraints=[_zones({"app": "x"})]), "nothing spreads its Pods"),
        "that all Pods of a zone meet": _one(
            _pods(topologySpreadConstraints=[_zones(LABELS, maxSkew=3.0)]), "nothing spreads its Pods"
        ),
        "only tried where it is required": _one(
            _pods(
                topologySpreadConstraints=[
                    {"topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}
                ]
            ),
            "nothing strictly spreads",
            strength="required",
        ),
    },
    "disruption-budget": {
        "none": Case([statefulset()], ["no PodDisruptionBudget takes its Pods"]),
        "of others": Case(
            [statefulset(), budget(selector={"matchLabels": {"app": "other"}})], ["no PodDisruptionBudget takes"]
        ),
        "by an expression": Case(
            [statefulset(), budget(selector={"matchExpressions": [{"key": "app", "operator": "Exists"}]})],
            ["no PodDisruptionBudget takes"],
        ),
        "too many at once": Case([statefulset(), budget(maxUnavailable=2.0)], ["lets 2 of 3 Pods go at once"]),
        "all at once": Case([statefulset(), budget(maxUnavailable="100%")], ["lets 3 of 3 Pods go"]),
        "half of them": Case([statefulset(), budget(maxUnavailable="50%")], ["lets 2 of 3 Pods go"]),
        "nothing must stay": Case(
            [statefulset(), budget(maxUnavailable=None, minAvailable="0%")], ["lets 3 of 3 Pods go"]
        ),
        "too few must stay": Case(
            [statefulset(), budget(maxUnavailable=None, minAvailable=1.0)], ["lets 2 of 3 Pods go"]
        ),
        "it says nothing": Case([statefulset(), budget(maxUnavailable=None)], ["lets 3 of 3 Pods go"]),
        "without a selector": Case([statefulset(), budget(selector=None)], ["no PodDisruptionBudget takes"]),
        "of one shard of two": Case(
            [_shard("0"), _shard("1"), budget(selector={"matchLabels": {"shard": "0"}})], ["no PodDisruptionBudget"]
        ),
    },
    "tls": {
        "plaintext": Case([statefulset(), config_map("port 6379\n")], ["don't listen for TLS"]),
        "both": Case([statefulset(), config_map("tls-port 6380\n")], ["listen in plaintext beside TLS"]),
    },
    "default-user-closed": {
        "no Secret at all": _one(_pods(volumes=NO_SECRET), "its Pods get no Secret"),
        "nopass": _one(config_map("user default on nopass ~* +@all\n"), "valkey.conf opens the user default"),
        "nopass in an ACL file": _one(
            resource("ConfigMap", "cache-acl", {"data": {"users.acl": "user default on nopass ~* &* +@all\n"}}),
            "users.acl opens the user default",
        ),
    },
    "no-plain-password": {
        "requirepass": _one(
            config_map("requirepass hunter2\n"), "valkey.conf holds a password in plain text (requirepass)"
        ),
        "the server's former word": _one(config_map('masterauth "hunter2"\n'), "(masterauth)"),
        "a user": _one(config_map("user app on >hunter2 ~* +@all\n"), "(user)"),
        "a Sentinel's": _one(config_map("sentinel auth-pass cache hunter2\n"), "(sentinel)"),
        "on the command line": _one(
            with_server(command=["valkey-server", "--requirepass", "hunter2"]), "on its command line (--requirepass)"
        ),
        "in the environment": _one(
            with_server(env=[{"name": "VALKEY_PASSWORD", "value": "hunter2"}]), "in its environment (VALKEY_PASSWORD)"
        ),
        "in a script": _one(
            with_server(command=["sh", "-c", "exec valkey-server --requirepass hunter2"]), "line (--requirepass)"
        ),
        "of a probe": _one(_probing("valkey-cli", "-a", "hunter2", "ping"), "on its command line (-a)"),
        "of a probe's script": _one(_probing("sh", "-c", "valkey-cli --pass hunter2 ping"), "command line (--pass)"),
        "for the client": _one(
            with_server(env=[{"name": "REDISCLI_AUTH", "value": "hunter2"}]), "in its environment (REDISCLI_AUTH)"
        ),
        "in a URL": _one(
            with_server(env=[{"name": "VALKEY_URL", "value": "redis://:hunter2@cache:6379"}]), "(VALKEY_URL)"
        ),
        "among the image's flags": _one(
            with_server(env=[{"name": "VALKEY_EXTRA_FLAGS", "value": "--requirepass hunter2"}]), "(VALKEY_EXTRA_FLAGS)"
        ),
        "a kubeconfig": Case(
            [STACK],
            ["holds valkey:kubernetes.kubeconfig in plain text"],
            config={"valkey:kubernetes": json.dumps({"kubeconfig": "users:\n- user:\n    token: hunter2\n"})},
        ),
        "a number": Case([STACK], ["holds app:db.password"], config={"app:db": json.dumps({"password": 123456})}),
        "in the stack config": Case(
            [STACK],
            ["the stack config holds app:adminPassword in plain text", "holds app:db.users.0.password in plain text"],
            config={
                "app:adminPassword": "hunter2",
                "app:db": json.dumps({"users": [{"password": "hunter2", "passwordFile": "/x"}]}),
            },
        ),
    },
    "pod-security": {
        "the node's network": _one(_pods(hostNetwork=True), "share the node's namespace (hostNetwork)"),
        "a folder of the node": _one(
            _pods(volumes=[{"name": "data", "hostPath": {"path": "/data"}}]), "volume of the kind hostPath (data)"
        ),
        "privileged": _one(with_server(securityContext={**security(), "privileged": True}), "server is privileged"),
        "escalation": _one(with_server(securityContext=_without("allowPrivilegeEscalation")), "may gain privileges"),
        "capabilities kept": _one(with_server(securityContext=_without("capabilities")), "capabilities.drop lacks ALL"),
        "capabilities added": _one(
            with_server(securityContext={**security(), "capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]}}),
            "adds capabilities",
        ),
        "root": _one(
            _pods(
                securityContext={"runAsNonRoot": True, "runAsUser": 0.0, "seccompProfile": {"type": "RuntimeDefault"}}
            ),
            "runs as root (runAsUser is 0)",
        ),
        "perhaps root": _one(
            _pods(securityContext={"seccompProfile": {"type": "RuntimeDefault"}}), "may run as root (runAsNonRoot"
        ),
        "no seccomp": _one(_pods(securityContext={"runAsNonRoot": True}), "no seccomp profile"),
        "a writable root": _one(
            with_server(securityContext=_without("readOnlyRootFilesystem")), "may write to its root"
        ),
        "a port of the node": _one(with_server(ports=[{"containerPort": 6379.0, "hostPort": 6379.0}]), "(hostPort)"),
        "a process of the node": _one(
            with_server(securityContext={**security(), "windowsOptions": {"hostProcess": True}}), "process of its node"
        ),
        "an unsafe sysctl": _one(
            _pods(
                securityContext={
                    **pod_spec()["securityContext"],
                    "sysctls": [{"name": "kernel.msgmax"}, {"name": "net.ipv4.tcp_syncookies"}],
                }
            ),
            "sysctl that isn't safe (kernel.msgmax)",
        ),
        "no AppArmor": _one(
            with_server(securityContext={**security(), "appArmorProfile": {"type": "Unconfined"}}), "AppArmor off"
        ),
        "another SELinux type": _one(
            with_server(securityContext={**security(), "seLinuxOptions": {"type": "spc_t"}}), "SELinux context"
        ),
        "all of /proc": _one(with_server(securityContext={**security(), "procMount": "Unmasked"}), "(procMount)"),
        "a native sidecar": _one(
            _sidecar(securityContext={**security(), "privileged": True}), "container agent is privileged"
        ),
    },
    "network-policy": {
        "none": Case([statefulset()], ["no NetworkPolicy for ingress takes its Pods"]),
        "for egress only": Case([statefulset(), network_policy(policyTypes=["Egress"])], ["no NetworkPolicy"]),
        "of another namespace": Case(
            [
                statefulset(),
                resource("NetworkPolicy", "cache", {"metadata": {"name": "cache", "namespace": "other"}, "spec": {}}),
            ],
            ["no NetworkPolicy"],
        ),
        "the bus for everybody": Case(
            [statefulset(), network_policy({"ports": [{"port": 16379.0}]})], ["lets everybody reach the cluster bus"]
        ),
        "everything for everybody": Case([statefulset(), network_policy({})], ["lets everybody reach the cluster bus"]),
        "the world but some": Case(
            [
                statefulset(),
                network_policy({"from": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8"]}}]}),
            ],
            ["the cluster bus"],
        ),
        "by the port's own name": Case(
            [
                with_server(ports=[{"name": "gossip", "containerPort": 16379.0}]),
                network_policy({"ports": [{"port": "gossip"}]}),
            ],
            ["the cluster bus"],
        ),
        "a range for everybody": Case(
            [statefulset(), network_policy({"ports": [{"port": 6379.0, "endPort": 20000.0}]})], ["the cluster bus"]
        ),
    },
    "exposed-service": {
        "a load balancer without TLS": Case(
            [statefulset(), config_map("port 6379\n"), service("LoadBalancer")], ["is a LoadBalancer without TLS"]
        ),
        "a port of the nodes, open to all": Case(
            [_pods(volumes=NO_SECRET), config_map("port 6379\n"), service("NodePort")],
            ["is a NodePort without TLS and without a password"],
        ),
        "one Pod of it": Case(
            [
                statefulset(),
                config_map("port 6379\n"),
                service("LoadBalancer", selector={"statefulset.kubernetes.io/pod-name": "cache-0"}),
            ],
            ["is a LoadBalancer without TLS"],
        ),
        "the plaintext port beside TLS": Case(
            [
                statefulset(),
                config_map("tls-port 6380\nport 6379\n"),
                service("LoadBalancer", ports=[{"port": 1.0, "targetPort": 6379.0}]),
            ],
            ["is a LoadBalancer without TLS"],
        ),
        "Sentinels": Case([*sentinels(3.0), service("NodePort")], ["is a NodePort without TLS"]),
        "external addresses": Case(
            [statefulset(), config_map("port 6379\n"), service(externalIPs=["203.0.113.7"])],
            ["is a ClusterIP without TLS"],
        ),
    },
    "persistence-retained": {
        "in memory": _one(statefulset(volumeClaimTemplates=None), "in memory only: there is no volume"),
        "a Deployment in memory": _one(
            resource("Deployment", "cache", {"spec": {"template": {"spec": pod_spec()}}}), "in memory only"
        ),
        "a class that says nothing": _one(
            resource("StorageClass", "fast", {"provisioner": "csi.example"}), "(reclaimPolicy: Delete)"
        ),
        "claims that go": _one(
            statefulset(persistentVolumeClaimRetentionPolicy={"whenDeleted": "Delete", "whenScaled": "Retain"}),
            "deletes its volume claims (persistentVolumeClaimRetentionPolicy.whenDeleted)",
        ),
        "a component's claims that go": _one(
            resource(
                "PersistentVolumeClaim",
                "data-cache-0",
                {"metadata": {"labels": LABELS, "annotations": {"valkeyctl/reclaim-policy": "Delete"}}, "spec": {}},
            ),
            "is deleted with its instance",
        ),
        "a class that lets volumes go": _one(
            resource("StorageClass", "fast", {"reclaimPolicy": "Delete"}), "(reclaimPolicy: Delete)"
        ),
        "a volume that goes": _one(
            resource("PersistentVolume", "v", {"spec": {"persistentVolumeReclaimPolicy": "Delete"}}), "Policy: Delete)"
        ),
    },
    "approved-storage-classes": {
        "another one": _one(claim(storageClassName="slow"), "takes storage class slow", classes=["fast"]),
        "whichever": _one(claim(storageClassName=None), "the cluster's default storage class", classes=["fast"]),
        "in a template": _one(statefulset(), "takes storage class fast", classes=["gold"]),
    },
    "protected": {
        "a StatefulSet": _one(resource("StatefulSet", "cache"), "isn't protected from deletion"),
        "a claim": _one(resource("PersistentVolumeClaim", "data-cache-0"), "isn't protected"),
        "a Secret where it is asked for": _one(resource("Secret", "cache-auth"), "isn't protected", kinds=["Secret"]),
    },
    "data-kept": {
        "deleted": Case([STACK], ["would be deleted"], before=[statefulset()]),
        "a claim deleted": Case([STACK], ["would be deleted"], before=[claim()]),
        "replaced": Case(
            [statefulset(serviceName="other")],
            ["would be replaced, all its Pods or its data at once (spec.serviceName"],
            before=[statefulset()],
        ),
        "a label more to select by": Case(
            [statefulset(selector={"matchLabels": {**LABELS, "x": "y"}})], ["spec.selector"], before=[statefulset()]
        ),
        "without its templates": Case(
            [statefulset(volumeClaimTemplates=None)], ["(spec.volumeClaimTemplates changed)"], before=[statefulset()]
        ),
        "all Pods at once": Case(
            [statefulset(podManagementPolicy="Parallel")], ["spec.podManagementPolicy"], before=[statefulset()]
        ),
        "a claim replaced": Case(
            [claim(storageClassName="slow")], ["(spec.storageClassName changed)"], before=[claim()]
        ),
    },
    "slots-moved": {
        "half of them": Case(
            [topology(HALVES)], ["would move 8192 slots"], {"maxSlots": 100}, before=[topology({"s0": "0-16383"})]
        ),
        "to more shards": Case(
            [topology({"s0": "0-4095", "s1": "4096-8191", "s2": "8192-12287", "s3": "12288-16383"})],
            ["would move 8191 slots"],
            {"maxSlots": 4096},
            before=[topology(THIRDS)],
        ),
        "from what was planned, whatever it became": Case(
            [topology(THIRDS)], ["slots in one"], {"maxSlots": 0}, before=[topology({}, planned_layout=HALVES)]
        ),
    },
    "required-labels": {
        "one missing": _one(
            resource("Service", "cache", {"metadata": {"labels": {"app.kubernetes.io/name": "valkey"}}}),
            "has no label app.kubernetes.io/instance and no label app.kubernetes.io/managed-by",
        ),
        "a team's own": _one(statefulset(), "has no label team", labels=["team"]),
    },
}

GOOD: dict[str, dict[str, Case]] = {
    "image-pinned": {
        "a line where that will do": _one(with_server(image="valkey/valkey:9.1"), require="line"),
        "a release": _one(with_server(image="valkey/valkey:9.1.2-alpine")),
        "a digest without a tag": _one(with_server(image="valkey/valkey@sha256:" + "1" * 64), require="digest"),
        "a registry's port is no tag": _one(with_server(image="mirror.example:5000/valkey:9.1.2")),
    },
    "approved-registries": {
        "any place": _one(with_server(image="elsewhere.example/valkey:9.1.2")),
        **{
            f"{of} is in {place}": _one(with_server(image=of), registries=[place])
            for of, place in (
                ("docker.io/valkey/valkey:9.1.2", "valkey"),
                ("index.docker.io/valkey/valkey:9.1.2", "valkey/valkey"),
                ("valkey/valkey:9.1.2", "docker.io/valkey"),
                ("valkey/valkey:9.1.2", "docker.io"),
                ("docker.io/library/valkey:9.1.2", "valkey"),
                ("valkey:9.1.2", "docker.io/library"),
                ("valkey:9.1.2", "index.docker.io/library/valkey"),
                ("localhost/valkey:9.1.2", "localhost"),
                ("Mirror.example:5000/valkey:9.1.2", "mirror.example:5000"),
            )
        },
        "a folder of an approved one": _one(
            with_server(image="mirror.example/a/valkey:9.1.2"), registries=["mirror.example"]
        ),
    },
    "resources-declared": {"with a sidecar": _one(_sidecar())},
    "maxmemory-below-limit": {
        "below": Case([statefulset(), config_map("maxmemory 900mb\n")]),
        "no limit to be below": Case([with_server(resources={}), config_map("maxmemory 0\n")]),
        "a ConfigMap of somebody else's program": Case([statefulset()]),
        "a file that includes another": Case([statefulset(), config_map("include /etc/own.conf\n")]),
        "by a variable": Case([with_server(args=["--maxmemory", "$(MAXMEMORY)"]), config_map()]),
    },
    "grace-period": {
        "in memory": _one(statefulset(spec=pod_spec(terminationGracePeriodSeconds=30.0), volumeClaimTemplates=[]))
    },
    "replicas-declared": {
        "none asked for": _one(statefulset(replicas=1.0), minReplicas=0),
        "a Sentinel has none": Case(sentinels(1.0)),
        "paused": _one(statefulset(replicas=0.0)),
    },
    "sentinel-quorum": {
        "three": Case(sentinels(3.0)),
        "five": Case(sentinels(5.0, "sentinel monitor cache h 6379 3")),
        "servers are none": Case([statefulset(replicas=2.0)]),
    },
    "anti-affinity": {
        "a single Pod has no copies": _one(statefulset(replicas=1.0, spec=pod_spec(affinity=None))),
        "by a spread constraint": _one(
            _pods(
                affinity=None,
                topologySpreadConstraints=[{"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}],
            ),
            strength="required",
        ),
    },
    "zone-spread": {
        "a single Pod": _one(statefulset(replicas=1.0, spec=pod_spec(topologySpreadConstraints=[]))),
        "paused": _one(statefulset(replicas=0.0, spec=pod_spec(topologySpreadConstraints=[]))),
    },
    "disruption-budget": {
        "by an expression": Case(
            [
                statefulset(),
                budget(
                    selector={
                        "matchExpressions": [
                            {"key": "app.kubernetes.io/name", "operator": "In", "values": ["valkey"]},
                            {"key": "x", "operator": "DoesNotExist"},
                            {"key": "x", "operator": "NotIn", "values": ["y"]},
                        ]
                    }
                ),
            ]
        ),
        "by what must stay": Case([statefulset(), budget(maxUnavailable=None, minAvailable=2.0)]),
    },
    "tls": {"nothing but TLS": Case([statefulset(), config_map()])},
    "default-user-closed": {
        "by the environment": _one(
            statefulset(
                spec=pod_spec(
                    container(env=[{"name": "P", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]), volumes=[]
                )
            )
        ),
        "by a projected Secret": _one(
            _pods(volumes=[{"name": "s", "projected": {"sources": [{"secret": {"name": "cache-auth"}}]}}])
        ),
        "the default user off": _one(config_map("user default off nopass\n")),
    },
    "no-plain-password": {
        "empty": _one(config_map('requirepass ""\nuser app on #0123 ~* +@all\n')),
        "by a Secret": _one(with_server(env=[{"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "s"}}}])),
        "the name of a variable": _one(
            with_server(
                command=["valkey-server", "--requirepass", "$(P)"],
                env=[{"name": "PASSWORD", "value": "$(P)"}, {"name": "URL", "value": "redis://:$(P)@cache"}],
                livenessProbe={"exec": {"command": ["sh", "-c", 'valkey-cli -a "$P" ping; ls -a x']}},
            )
        ),
        "a template's": _one(config_map("requirepass ${PASSWORD}\nuser app on >${PASSWORD}\n")),
        "words that end alike": Case([STACK], config={"app:bypass": "x", "app:compass": "north"}),
        "a kubeconfig's path": Case([STACK], config={"valkey:kubernetes": json.dumps({"kubeconfig": "~/.kube/x"})}),
        "the name of a Secret": Case(
            [STACK], config={"app:x": json.dumps({"passwordSecret": {"name": "s"}, "secretName": "s"})}
        ),
        "which Secret it is": _one(with_server(env=[{"name": "PASSWORD_SECRET", "value": "cache-auth"}])),
        "an empty one": Case([STACK], config={"app:password": ""}),
    },
    "pod-security": {
        "the container's own word": _one(
            statefulset(
                spec=pod_spec(
                    container(
                        securityContext={
                            **security(),
                            "runAsNonRoot": True,
                            "seccompProfile": {"type": "Localhost"},
                            "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
                        }
                    ),
                    securityContext=None,
                )
            )
        ),
        "a writable root where nobody minds": _one(
            with_server(securityContext=_without("readOnlyRootFilesystem")), readOnlyRoot=False
        ),
    },
    "network-policy": {
        "for the whole namespace": Case([statefulset(), network_policy(podSelector={})]),
        "closed": Case([statefulset(), network_policy(ingress=[])]),
    },
    "exposed-service": {
        "with both": Case([statefulset(), config_map(), service("LoadBalancer")]),
        "only TLS of both": Case(
            [
                statefulset(),
                config_map("tls-port 6380\nport 6379\n"),
                service("LoadBalancer", ports=[{"port": 6379.0, "targetPort": 6380.0}]),
            ]
        ),
        "inside": Case([_pods(volumes=NO_SECRET), config_map("port 6379\n"), service()]),
        "of other Pods": Case([statefulset(), config_map("port 1\n"), service("NodePort", selector={"app": "web"})]),
    },
    "persistence-retained": {
        "in memory where that is meant": _one(statefulset(volumeClaimTemplates=None), required=False),
        "a claim of its own": _one(
            statefulset(
                volumeClaimTemplates=None, spec=pod_spec(volumes=[{"persistentVolumeClaim": {"claimName": "mine"}}])
            )
        ),
    },
    "approved-storage-classes": {
        "any": _one(claim(storageClassName=None)),
        "that one": _one(claim(), classes=["fast"]),
    },
    "protected": {"a Service needs no protection": _one(service())},
    "data-kept": {
        "changed in place": Case([statefulset(replicas=5.0)], before=[statefulset()]),
        "the default said": Case([statefulset(podManagementPolicy="OrderedReady")], before=[statefulset()]),
        "paused": Case([statefulset(replicas=0.0)], before=[statefulset()]),
        "back from a pause": Case([statefulset()], before=[statefulset(replicas=0.0)]),
        "allowed": Case([STACK], params={"allowed": ["cach*"]}, before=[statefulset()]),
        "a Service goes": Case([STACK], before=[service()]),
        "ignored": Case(
            [Resource(**{**vars(claim(storageClassName="slow")), "ignore_changes": ["spec.storageClassName"]})],
            before=[claim()],
        ),
        "retained": Case([STACK], before=[Resource(**{**vars(claim()), "retained": True})]),
        "new": Case([statefulset()]),
    },
    "slots-moved": {
        "nothing moves": Case([topology(THIRDS)], params={"maxSlots": 0}, before=[topology(THIRDS)]),
        "nobody had them": Case([topology(THIRDS)], params={"maxSlots": 0}, before=[topology({"s0": "0-5460"})]),
        "a new instance": Case([topology(THIRDS)], params={"maxSlots": 0}),
    },
    "required-labels": {
        "a team's own": _one(resource("Service", "x", {"metadata": {"labels": TEAM}}), labels=["team"])
    },
}
