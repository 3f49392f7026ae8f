"""What the components of all architectures have in common: the objects around the Pods, and the Pods' workloads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pulumi
import pulumi_kubernetes as kubernetes
from pulumi import ResourceOptions

from valkeyctl.agent.rights import Rule
from valkeyctl.dataplane.model import CLIENT_PORT
from valkeyctl.lifecycle import AgentCode, Dataset, Password, Prepare, Topology
from valkeyctl.lifecycle.bundle import agent_bundle

from . import claims, rights, rules, statefulset
from .agent import PodAgent
from .args import ClusterArgs, SecretKey
from .config_files import config_data, settings_input, start_hash, start_script
from .dataset_args import FailoverArgs, ReplicaArgs
from .disruption import budget_spec
from .identity import component_type, owner_of, revision_of
from .labels import NO_WAIT, Identity
from .names import Names, instance_name_problem
from .network_policy import policy_spec
from .pod import ServerPod
from .provider import access_of
from .services import headless_spec, service_spec
from .versions import version_label

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import VolumeArgsDict, VolumeMountArgsDict

PASSWORD_KEY = "password"  # noqa: S105 - the key in a Secret

Args = ClusterArgs | ReplicaArgs | FailoverArgs


class ValkeyInstance(pulumi.ComponentResource):
    """The base of the components. A subclass says how many shards there are, and what becomes of them in the end.

    `name` is the instance's. Its objects in Kubernetes are called `<name>-…`, so it is a DNS label of at most 47
    characters.
    """

    namespace: pulumi.Output[str]
    phase: pulumi.Output[str]
    conditions: pulumi.Output[list[dict[str, str]]]
    endpoints: pulumi.Output[dict[str, Any]]
    secret_name: pulumi.Output[str]
    secret_key: pulumi.Output[str]
    server_version: pulumi.Output[str]

    def __init__(self, architecture: str, name: str, args: Args, opts: ResourceOptions | None, *, shards: int) -> None:
        """Raises pulumi.RunError when `name` can't name an instance."""
        if problem := instance_name_problem(name):
            raise pulumi.RunError(f"{name!r} can't name a Valkey instance: {problem}")
        for wrong in rules.secret_problem(name, args):
            raise pulumi.RunError(f"instance {name}: {wrong.reason}")
        super().__init__(component_type(architecture), name, {}, opts)
        self._instance = name
        self._settings = args
        self._shards = shards
        self._names = Names(name)
        self._owner = owner_of(name)
        self._identity = Identity(
            name, args.namespace, self._owner, version_label(args.server_image), architecture=architecture
        )
        self._access = access_of(self, name, args.connection)
        self._files = config_data(args)
        self._password = args.auth.password_secret or SecretKey(name=self._names.secret, key=PASSWORD_KEY)

    def _tell(self, brought_about: Topology | Dataset) -> None:
        """Takes the outputs that all instances have from the resource that makes Valkey what is declared."""
        self.namespace = pulumi.Output.from_input(self._settings.namespace)
        self.phase = brought_about.phase
        self.conditions = brought_about.conditions
        self.endpoints = brought_about.endpoints
        self.secret_name = pulumi.Output.from_input(self._password.name)
        self.secret_key = pulumi.Output.from_input(self._password.key)
        self.server_version = brought_about.server_version

    @property
    def summary(self) -> Mapping[str, pulumi.Output[Any]]:
        """All outputs under the names that a stack exports. No password is among them, only where it is."""
        return {
            "namespace": self.namespace,
            "phase": self.phase,
            "conditions": self.conditions,
            "endpoints": self.endpoints,
            "secretName": self.secret_name,
            "secretKey": self.secret_key,
            "serverVersion": self.server_version,
        }

    @property
    def _credentials(self) -> dict[str, pulumi.Input[str] | None]:
        return {"user": None, "secretName": self._password.name, "key": self._password.key}

    def _below(
        self, *depends_on: pulumi.Resource, provider: pulumi.ProviderResource | None = None, **more: Any
    ) -> ResourceOptions:
        return ResourceOptions(parent=self, depends_on=list(depends_on), provider=provider, **more)

    def _prepare(self, opts: ResourceOptions | None, **more: Any) -> Prepare:
        """What the program says the component depends on (its namespace, say), its first resource depends on.

        `more`: what the architecture has to say beside.
        """
        args = self._settings
        return Prepare(
            self._instance,
            connection=self._access.connection,
            owner=self._owner,
            namespace=args.namespace,
            instance=self._instance,
            objects=[{"apiVersion": version, "kind": kind, "name": name} for version, kind, name in self._objects()],
            storage=claims.storage_of(args.persistence),
            settings=settings_input(args)["live"],
            version=version_label(args.server_image),
            replicas=args.replicas,
            port=CLIENT_PORT,
            credentials=self._credentials,
            paused=args.paused,
            **more,
            opts=ResourceOptions(parent=self, depends_on=opts.depends_on if opts else None),
        )

    def _objects(self) -> list[tuple[str, str, str]]:
        """Every object that this component writes by itself: API version, kind, name."""
        names, args = self._names, self._settings
        objects = [
            ("v1", "ConfigMap", names.config_map),
            ("v1", "Service", names.headless),
            ("v1", "Service", names.service),
            ("policy/v1", "PodDisruptionBudget", names.service),
            ("networking.k8s.io/v1", "NetworkPolicy", names.service),
            ("v1", "ConfigMap", names.agent),
            ("v1", "ServiceAccount", names.agent),
            (f"{rights.RBAC}/v1", "Role", names.agent),
            (f"{rights.RBAC}/v1", "RoleBinding", names.agent),
        ]
        if args.auth.password_secret is None:
            objects.append(("v1", "Secret", names.secret))
        for shard in range(self._shards):
            objects.append(("apps/v1", "StatefulSet", names.workload(shard)))
            if args.persistence is not None:
                objects += [("v1", "PersistentVolumeClaim", claim) for claim in self._claim_names(shard)]
        return objects

    def _surroundings(self, prepare: Prepare) -> list[pulumi.Resource]:
        """What is there before the first Pod."""
        names, metadata, cluster = self._names, self._identity.metadata, self._settings.cluster_mode
        first = self._below(prepare, provider=self._access.objects)
        resources: list[pulumi.Resource] = [
            kubernetes.core.v1.ConfigMap(
                names.config_map,
                metadata=metadata(names.config_map),
                data=self._files,
                opts=self._below(prepare, provider=self._access.files),
            ),
            kubernetes.core.v1.Service(
                names.headless,
                metadata=metadata(names.headless, annotations=NO_WAIT),
                spec=headless_spec(self._instance, cluster=cluster),
                opts=first,
            ),
            kubernetes.core.v1.Service(
                names.service,
                metadata=metadata(names.service, annotations=NO_WAIT),
                spec=service_spec(self._instance),
                opts=first,
            ),
            kubernetes.policy.v1.PodDisruptionBudget(
                names.service, metadata=metadata(names.service), spec=budget_spec(self._instance), opts=first
            ),
            kubernetes.networking.v1.NetworkPolicy(
                names.service,
                metadata=metadata(names.service),
                spec=policy_spec(self._instance, cluster=cluster),
                opts=first,
            ),
            *self._agents_own(prepare),
        ]
        if self._settings.auth.password_secret is None:
            resources.append(self._generated(names.secret, PASSWORD_KEY, prepare))
        return resources

    def _generated(self, secret: str, key: str, *after: pulumi.Resource) -> Password:
        return Password(
            secret,
            connection=self._access.connection,
            namespace=self._settings.namespace,
            secret_name=secret,
            key=key,
            owner=self._owner,
            labels=self._identity.labels(),
            opts=self._below(*after),
        )

    def _allowed(self) -> Sequence[Rule]:
        """What the agents may do."""
        raise NotImplementedError

    def _agents_own(self, prepare: Prepare) -> list[pulumi.Resource]:
        """The agents' code, their account, and what it may do."""
        names, args = self._names, self._settings
        metadata, first = self._identity.metadata(names.agent), self._below(prepare, provider=self._access.objects)
        return [
            AgentCode(
                names.agent,
                connection=self._access.connection,
                namespace=args.namespace,
                config_map=names.agent,
                digest=agent_bundle().digest,
                owner=self._owner,
                labels=self._identity.labels(),
                opts=self._below(prepare),
            ),
            kubernetes.core.v1.ServiceAccount(
                names.agent, metadata=metadata, automount_service_account_token=False, opts=first
            ),
            kubernetes.rbac.v1.Role(
                names.agent, metadata=metadata, rules=rights.policy_rules(self._allowed()), opts=first
            ),
            kubernetes.rbac.v1.RoleBinding(
                names.agent,
                metadata=metadata,
                role_ref=rights.role_ref(names),
                subjects=rights.subjects(names, args.namespace),
                opts=first,
            ),
        ]

    def _workload(
        self, shard: int, prepare: Prepare, before: Sequence[pulumi.Resource]
    ) -> kubernetes.apps.v1.StatefulSet:
        """The StatefulSet of a shard, with its claims before it."""
        args, name = self._settings, self._names.workload(shard)
        return kubernetes.apps.v1.StatefulSet(
            name,
            metadata=self._identity.metadata(name, shard=shard, annotations=NO_WAIT),
            spec=statefulset.statefulset_spec(
                self._pod(shard), replicas=args.replicas, persistence=args.persistence, paused=args.paused
            ),
            opts=self._below(
                *before,
                *self._claims(shard, prepare),
                provider=self._access.objects,
                ignore_changes=statefulset.IGNORED_CHANGES,
            ),
        )

    def _pod(self, shard: int) -> ServerPod:
        """What the Pods of a shard are made of."""
        args = self._settings
        return ServerPod(
            names=self._names,
            identity=self._identity,
            shard=shard,
            image=args.server_image,
            resources=args.resources,
            password=self._password,
            agent=PodAgent(
                self._names,
                args.agent,
                self._password,
                agent_bundle().digest,
                self._environment(),
                self._agent_mounts(),
            ),
            config_hash=start_hash(self._files),
            persistent=args.persistence is not None,
            restart=args.restart,
            volumes=self._volumes(),
            cluster=args.cluster_mode,
            environment=self._environment(),
            script=start_script(args),
        )

    def _environment(self) -> Mapping[str, str]:
        """What agents and scripts are told beside what all are told."""
        return {}

    def _volumes(self) -> Sequence[VolumeArgsDict]:
        """What the Pods mount beside."""
        return ()

    def _agent_mounts(self) -> Sequence[VolumeMountArgsDict]:
        """What of it the agents see."""
        return ()

    def _claim_names(self, shard: int) -> list[str]:
        return [self._names.claim(shard, ordinal) for ordinal in range(self._settings.replicas + 1)]

    def _claims(self, shard: int, prepare: Prepare) -> list[pulumi.Resource]:
        persistence = self._settings.persistence
        if persistence is None:
            return []
        return [
            claims.claim(
                name,
                self._identity.metadata(name, shard=shard, annotations=claims.own_annotations(persistence)),
                persistence,
                self._below(prepare, provider=self._access.objects),
            )
            for name in self._claim_names(shard)
        ]

    def _revision(self) -> str:
        """Changes when the Pod templates do, so that whoever rolls them looks again at which Pods are outdated."""
        return revision_of(statefulset.pod_template(self._pod(0)))
