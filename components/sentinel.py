"""A set of Sentinels: who watches the primaries of datasets, and elects others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
from pulumi import ResourceOptions

from valkeyctl.dataplane.sentinel.model import SENTINEL_PORT
from valkeyctl.dataplane.sentinel.rights import CLIENTS_KEY, OPERATOR, OPERATOR_KEY
from valkeyctl.kube.labels import SENTINEL
from valkeyctl.lifecycle import Password, Prepare, Sentinels

from . import claims, sentinel_pod, statefulset
from .config_files import CLIENT_PORT
from .identity import component_type, owner_of, revision_of
from .labels import NO_WAIT
from .names import SentinelNames, sentinel_name_problem
from .provider import Access, access_of
from .sentinel_args import SentinelArgs
from .sentinel_files import config_data, start_hash
from .sentinel_pod import SentinelPods
from .versions import version_label


@dataclass(frozen=True)
class OfInstance:
    """Whose Sentinels they are, where an instance has its own.

    `prepare` has looked at the objects already, `access` is the instance's, and `paused` says whether it rests.
    """

    prepare: Prepare
    access: Access
    paused: bool


class ValkeySentinel(pulumi.ComponentResource):
    """A set of `args.replicas` Sentinels, for one instance or for several in its namespace.

    Its objects in Kubernetes are called `<name>-sentinel`. Clients ask the Service of that name where a primary is,
    with the password under `secret_key`. Whom the Sentinels monitor each instance says.
    """

    namespace: pulumi.Output[str]
    service: pulumi.Output[str]
    port: pulumi.Output[int]
    secret_name: pulumi.Output[str]
    secret_key: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        args: SentinelArgs | None = None,
        opts: ResourceOptions | None = None,
        *,
        of: OfInstance | None = None,
    ) -> None:
        """`of`: the instance that it belongs to, for that one to say. Raises pulumi.RunError when `name` can't name a
        set of Sentinels.
        """
        if problem := sentinel_name_problem(name):
            raise pulumi.RunError(f"{name!r} can't name a set of Sentinels: {problem}")
        super().__init__(component_type(SENTINEL), name, {}, opts)
        self._name = name
        self._args = args or SentinelArgs()
        self._names = SentinelNames(name)
        self._owner = owner_of(name)
        self._access = of.access if of else access_of(self, self._names.everything, self._args.connection)
        self._files = config_data()
        self._pods = SentinelPods(
            names=self._names,
            namespace=self._args.namespace,
            owner=self._owner,
            image=self._args.server_image,
            settings=self._args,
            config_hash=start_hash(self._files),
            paused=of is not None and of.paused,
        )
        prepare = of.prepare if of else self._prepare(opts)
        self.workload = self._workload(prepare)
        #: Ends when all Sentinels answer.
        self.pods_run = self._sentinels(self.workload)

        self.namespace = pulumi.Output.from_input(self._args.namespace)
        self.service = pulumi.Output.from_input(self._names.everything)
        self.port = pulumi.Output.from_input(SENTINEL_PORT)
        self.secret_name = pulumi.Output.from_input(self._names.everything)
        self.secret_key = pulumi.Output.from_input(CLIENTS_KEY)
        self.register_outputs(self.summary)

    @property
    def summary(self) -> Mapping[str, pulumi.Output[Any]]:
        """All outputs under the names that a stack exports. No password is among them, only where it is."""
        return {
            "namespace": self.namespace,
            "service": self.service,
            "port": self.port,
            "secretName": self.secret_name,
            "secretKey": self.secret_key,
        }

    def _below(
        self, *depends_on: pulumi.Resource, provider: pulumi.ProviderResource | None = None, **more: Any
    ) -> ResourceOptions:
        return ResourceOptions(parent=self, depends_on=list(depends_on), provider=provider, **more)

    def _prepare(self, opts: ResourceOptions | None) -> Prepare:
        """Refuses what belongs to others; what the program says the component depends on, this depends on."""
        args = self._args
        objects = sentinel_objects(self._names, args.replicas, persistent=args.persistence is not None)
        return Prepare(
            self._names.everything,
            connection=self._access.connection,
            owner=self._owner,
            namespace=args.namespace,
            instance=self._names.everything,
            objects=[{"apiVersion": version, "kind": kind, "name": name} for version, kind, name in objects],
            storage=claims.storage_of(args.persistence),
            version=version_label(args.server_image),
            port=CLIENT_PORT,
            architecture=SENTINEL,
            opts=ResourceOptions(parent=self, depends_on=opts.depends_on if opts else None),
        )

    def _workload(self, prepare: Prepare) -> kubernetes.apps.v1.StatefulSet:
        """The StatefulSet, with all that is there before the first Pod."""
        name, pods = self._names.everything, self._pods
        first = self._below(prepare, provider=self._access.objects)
        before: Sequence[pulumi.Resource] = [
            kubernetes.core.v1.ConfigMap(
                name,
                metadata=pods.metadata(name),
                data=self._files,
                opts=self._below(prepare, provider=self._access.files),
            ),
            kubernetes.core.v1.Service(
                name,
                metadata=pods.metadata(name, NO_WAIT),
                spec=sentinel_pod.headless_spec(pods),
                opts=first,
            ),
            kubernetes.policy.v1.PodDisruptionBudget(
                name, metadata=pods.metadata(name), spec=sentinel_pod.budget_spec(pods), opts=first
            ),
            kubernetes.networking.v1.NetworkPolicy(
                name, metadata=pods.metadata(name), spec=sentinel_pod.policy_spec(pods), opts=first
            ),
            *self._passwords(prepare),
            *self._claims(prepare),
        ]
        return kubernetes.apps.v1.StatefulSet(
            name,
            metadata=pods.metadata(name, NO_WAIT),
            spec=sentinel_pod.workload_spec(pods),
            opts=self._below(*before, provider=self._access.objects, ignore_changes=statefulset.IGNORED_CHANGES),
        )

    def _passwords(self, prepare: Prepare) -> list[pulumi.Resource]:
        """One for clients, and one for ourselves and the Sentinels among themselves: both in one Secret."""
        made: list[pulumi.Resource] = []
        for key in (CLIENTS_KEY, OPERATOR_KEY):
            password = Password(
                self._names.everything if key == CLIENTS_KEY else f"{self._names.everything}-{key}",
                connection=self._access.connection,
                namespace=self._args.namespace,
                secret_name=self._names.everything,
                key=key,
                owner=self._owner,
                labels=dict[str, pulumi.Input[str]](self._pods.labels),
                # One after the other: the first makes the Secret.
                opts=self._below(prepare, *made),
            )
            made.append(password)
        return made

    def _claims(self, prepare: Prepare) -> list[pulumi.Resource]:
        persistence = self._args.persistence
        if persistence is None:
            return []
        return [
            claims.claim(
                name,
                self._pods.metadata(name, claims.own_annotations(persistence)),
                persistence,
                self._below(prepare, provider=self._access.objects),
            )
            for name in map(self._names.claim, range(self._args.replicas))
        ]

    def _sentinels(self, workload: pulumi.Resource) -> Sentinels:
        return Sentinels(
            self._names.everything,
            connection=self._access.connection,
            owner=self._owner,
            namespace=self._args.namespace,
            set_name=self._names.everything,
            replicas=self._args.replicas,
            port=SENTINEL_PORT,
            credentials=operator_of(self._names),
            workload_revision=revision_of(sentinel_pod.pod_template(self._pods)),
            paused=self._pods.paused,
            opts=self._below(workload),
        )


def operator_of(names: SentinelNames) -> dict[str, pulumi.Input[str] | None]:
    """How `up` and the agents sign in at the Sentinels."""
    return {"user": OPERATOR, "secretName": names.everything, "key": OPERATOR_KEY}


def sentinel_objects(names: SentinelNames, replicas: int, *, persistent: bool) -> list[tuple[str, str, str]]:
    """Every object that a set is made of: API version, kind, name."""
    kinds = (
        ("v1", "ConfigMap"),
        ("v1", "Service"),
        ("policy/v1", "PodDisruptionBudget"),
        ("networking.k8s.io/v1", "NetworkPolicy"),
        ("v1", "Secret"),
        ("apps/v1", "StatefulSet"),
    )
    claimed = [names.claim(ordinal) for ordinal in range(replicas)] if persistent else []
    return [
        *((version, kind, names.everything) for version, kind in kinds),
        *(("v1", "PersistentVolumeClaim", claim) for claim in claimed),
    ]
