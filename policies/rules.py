"""All rules: what each asks for, why, what to do where it isn't so, and which of its settings a profile may change."""

from __future__ import annotations

from typing import Any

from .checks import access, data, images, metadata, passwords, pod_security, redundancy, resources
from .model import Parameter, Rule


def _choice(default: str, *values: str, means: str) -> Parameter:
    return Parameter({"type": "string", "enum": list(values), "description": means}, default)


def _number(default: int, lowest: int, means: str) -> Parameter:
    return Parameter({"type": "integer", "minimum": lowest, "description": means}, default)


def _flag(*, default: bool, means: str) -> Parameter:
    return Parameter({"type": "boolean", "description": means}, default)


def _texts(default: list[str], means: str) -> Parameter:
    items: dict[str, Any] = {"type": "string"}
    return Parameter({"type": "array", "items": items, "description": means}, default)


_STRENGTH = _choice(
    "preferred", "preferred", "required", means="`preferred`: the scheduler tries to. `required`: it must."
)

RULES: tuple[Rule, ...] = (
    Rule(
        "image-pinned",
        "Images are pinned.",
        "a floating tag runs another server after the next restart of a Pod, unseen and untested",
        "name a whole release (`valkey/valkey:9.1.2`), and its digest where the profile asks for it "
        "(`valkey/valkey:9.1.2@sha256:…`); in a stack config under `image`, and for the container agent under "
        "`agent.image`",
        check=images.pinned,
        parameters={
            "require": _choice(
                "release",
                "line",
                "release",
                "digest",
                means="What pins an image: a tag that names a line at least (`9.1`), one that names a release, "
                "or nothing but a digest.",
            )
        },
    ),
    Rule(
        "approved-registries",
        "Images come from approved places.",
        "an image from elsewhere is scanned by nobody and may be gone or another one tomorrow",
        "take the image from one of the approved places (in a stack config under `image`, and for the container agent "
        "under `agent.image`), or have its place approved (`registries` of the profile)",
        check=images.approved_registries,
        parameters={
            "registries": _texts(
                [],
                "Beginnings of image references, whole folders: `valkey` (`docker.io/valkey`). Empty: any place.",
            )
        },
    ),
    Rule(
        "resources-declared",
        "Every container says what it needs, and has a memory limit.",
        "without requests a node is overcommitted, and without a limit one server takes the memory of its neighbours",
        "write requests and limits of the container; in a stack config under `resources`, and for the container agent "
        "under `agent.resources`",
        check=resources.declared,
        parameters={
            "required": Parameter(
                {
                    "type": "array",
                    "items": {
                        "type": "string",
                        "enum": [f"{a}.{b}" for a in ("requests", "limits") for b in ("cpu", "memory")],
                    },
                    "description": "What each container has to say.",
                },
                ["requests.cpu", "requests.memory", "limits.memory"],
            )
        },
    ),
    Rule(
        "maxmemory-below-limit",
        "maxmemory stays below the memory limit.",
        "what a server takes beside its dataset (copies of pages while it forks, buffers, fragmentation) must fit in "
        "too, or the kernel kills it under its heaviest writes",
        "lower `config.maxmemory`, raise `resources.limits.memory`, or leave maxmemory out: it then follows the limit",
        stack_check=resources.maxmemory,
        parameters={
            "maxPercent": Parameter(
                {
                    "type": "number",
                    "exclusiveMinimum": 0,
                    "maximum": 100,
                    "description": "Per cent of the memory limit that maxmemory may be at most.",
                },
                90,
            )
        },
    ),
    Rule(
        "grace-period",
        "A server has the time to stop in good order.",
        "a primary that is killed before it has handed over loses the writes that its replicas lack",
        "raise terminationGracePeriodSeconds of the Pods",
        check=resources.grace_period,
        parameters={
            "seconds": _number(30, 0, "Seconds that every server has at least."),
            "secondsPersistent": _number(60, 0, "The same for servers with a volume."),
        },
    ),
    Rule(
        "replicas-declared",
        "Every dataset has copies.",
        "without a replica a lost Pod or node is lost data, or at best an outage until it is back",
        "raise `replicas` (of a raw StatefulSet: spec.replicas)",
        check=redundancy.replicas,
        parameters={"minReplicas": _number(1, 0, "Copies beside the primary, at least.")},
    ),
    Rule(
        "sentinel-quorum",
        "Sentinels are an odd number, at least 3, and their quorum is a majority.",
        "fewer can't outvote a lost one, and with less than a majority two halves may promote two primaries",
        "run 3 or 5 Sentinels, and set the quorum to more than half of them",
        stack_check=redundancy.sentinels,
    ),
    Rule(
        "anti-affinity",
        "Copies run on nodes of their own.",
        "copies on one node are lost with it together",
        f"give the Pods an anti-affinity or a spread constraint with the key {redundancy.HOST}",
        check=redundancy.anti_affinity,
        parameters={"strength": _STRENGTH},
    ),
    Rule(
        "zone-spread",
        "Copies run in several zones.",
        "copies in one zone are lost with it together, and so is a majority of votes",
        f"give the Pods a spread constraint with the key {redundancy.ZONE}",
        check=redundancy.zone_spread,
        parameters={"strength": _STRENGTH},
    ),
    Rule(
        "disruption-budget",
        "A PodDisruptionBudget takes the Pods.",
        "a drain of nodes may otherwise take a shard's last copy, or the majority's last vote",
        "add a PodDisruptionBudget whose selector takes the Pods, with maxUnavailable: 1",
        stack_check=redundancy.disruption_budget,
        parameters={"maxUnavailable": _number(1, 1, "Pods of an instance that may go at once.")},
    ),
    Rule(
        "tls",
        "Servers talk TLS, and nothing else.",
        "passwords and data otherwise cross the network readable",
        "set tls-port and certificates, and `port 0`. This project's instances can't yet; keep them off networks that "
        "others share",
        stack_check=access.tls,
    ),
    Rule(
        "default-user-closed",
        "Nobody gets in without a password.",
        "whoever reaches an open server reads, changes and deletes everything in it",
        "give the server its password from a Secret, and no user `nopass`",
        check=access.default_user,
        by_relation=True,
    ),
    Rule(
        "no-plain-password",
        "No password stands where anybody reads it.",
        "configs, ConfigMaps, command lines and environments are read by many, kept in histories, and shown in logs",
        "put it into a Secret and name that; in a stack config under `auth.passwordSecret`, or by `pulumi config set "
        "--secret`. Then change the password: it has been read",
        check=passwords.plain_password,
        by_relation=True,
    ),
    Rule(
        "pod-security",
        "Pods meet the `restricted` Pod Security Standard.",
        "a server that is broken into must not become a node that is broken into",
        "set the field as the standard asks: https://kubernetes.io/docs/concepts/security/pod-security-standards/",
        check=pod_security.restricted,
        parameters={"readOnlyRoot": _flag(default=True, means="Asks for a read-only root as well.")},
    ),
    Rule(
        "network-policy",
        "A NetworkPolicy lets in who has to, and strangers never on the cluster bus.",
        "the bus has no password: who reaches it can join the cluster, or merge it with another",
        f"add a NetworkPolicy for ingress that takes the Pods, and opens port {access.BUS_PORT} to them alone",
        stack_check=access.network_policy,
    ),
    Rule(
        "exposed-service",
        "What is reached from outside has TLS and a password.",
        "NodePorts and load balancers are reached by anybody, and found within minutes",
        "make the Service a ClusterIP, or give its servers TLS and a password first",
        stack_check=access.exposed_service,
    ),
    Rule(
        "persistence-retained",
        "Data is on volumes, and they stay.",
        "data in memory goes with the last Pod, and a volume that is deleted with its claim can't be brought back",
        "declare `persistence` with `reclaimPolicy: Retain`",
        check=data.retained,
        by_relation=True,
        parameters={"required": _flag(default=True, means="Whether there must be volumes at all.")},
    ),
    Rule(
        "approved-storage-classes",
        "Volumes are of an approved storage class.",
        "a class that nobody has looked at may be slow, not be backed up, or not be able to grow",
        "name an approved class (`persistence.storageClassName`), or have this one approved (`classes` of the profile)",
        check=data.storage_classes,
        by_relation=True,
        parameters={"classes": _texts([], "Names of classes. Empty: any class.")},
    ),
    Rule(
        "protected",
        "What holds data is protected from deletion.",
        "a wrong key or a renamed stack otherwise deletes it with the next `up`",
        "set `protect: true` for the instance (in a program: ResourceOptions(protect=True))",
        check=data.protected,
        by_relation=True,
        parameters={"kinds": _texts(["StatefulSet", "PersistentVolumeClaim"], "Kinds of objects that are protected.")},
    ),
    Rule(
        "data-kept",
        "Nothing that holds data is deleted or replaced.",
        "a replaced StatefulSet restarts all its Pods at once; a deleted one, or a deleted claim, takes its data along",
        "take the change back. Where it is meant, name the resource in `allowed` for the one change",
        stack_check=data.kept,
        parameters={"allowed": _texts([], "Names of resources that may go; `*` stands for anything.")},
    ),
    Rule(
        "slots-moved",
        "One `up` moves a bounded number of slots.",
        "moving slots costs memory, network and latency while clients are served",
        "change the layout in smaller steps, or raise `maxSlots` for the one change",
        check=data.slots_moved,
        parameters={"maxSlots": _number(8192, 0, "Slots that one `up` may move, of 16384.")},
    ),
    Rule(
        "required-labels",
        "Objects say what they are and who they belong to.",
        "whoever finds an object at night has to find its owner by its labels",
        "add the labels to the object's metadata",
        check=metadata.required_labels,
        parameters={
            "labels": _texts(
                [f"app.kubernetes.io/{label}" for label in ("name", "instance", "managed-by")],
                "Labels that every object has to have.",
            )
        },
    ),
)

BY_NAME = {rule.name: rule for rule in RULES}
