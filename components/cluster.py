"""A Valkey cluster: the Kubernetes objects that it is made of, and the resources that make Valkey what is declared."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
from pulumi import ResourceOptions

from valkeyctl.agent.rights import rules as agent_rules
from valkeyctl.dataplane.model import CLIENT_PORT
from valkeyctl.lifecycle import AgentCode, Password, Prepare, ShardGuard, Topology
from valkeyctl.lifecycle.bundle import agent_bundle

from . import claims, rights, rules, statefulset
from .agent import PodAgent
from .args import ClusterArgs, SecretKey
from .config_files import config_data, node_timeout_ms, settings_input, start_hash
from .disruption import budget_spec
from .labels import NO_WAIT, Identity
from .names import Names, instance_name_problem
from .network_policy import policy_spec
from .pod import ServerPod
from .provider import access_of
from .services import headless_spec, service_spec
from .versions import version_label

PASSWORD_KEY = "password"  # noqa: S105 - the key in a Secret


class ValkeyCluster(pulumi.ComponentResource):
    """A Valkey cluster of `args.shards` shards, formed and healthy when its creation ends.

    `name` is the instance's. Its objects in Kubernetes are called `<name>-…`, so it is a DNS label of at most 47
    characters.

    Order: `Prepare` refuses what belongs to others before anything is written; then password, files, Services,
    policies, the agents' account and claims; then a StatefulSet and a guard for each shard; last the topology, which
    returns when Valkey itself is right. Destroyed in reverse.
    """

    namespace: pulumi.Output[str]
    phase: pulumi.Output[str]
    conditions: pulumi.Output[list[dict[str, str]]]
    endpoints: pulumi.Output[dict[str, Any]]
    secret_name: pulumi.Output[str]
    secret_key: pulumi.Output[str]
    layout: pulumi.Output[dict[str, str]]
    primaries: pulumi.Output[dict[str, str]]
    server_version: pulumi.Output[str]

    def __init__(self, name: str, args: ClusterArgs | None = None, opts: ResourceOptions | None = None) -> None:
        """Raises pulumi.RunError when `name` can't name an instance."""
        if problem := instance_name_problem(name):
            raise pulumi.RunError(f"{name!r} can't name a Valkey instance: {problem}")
        for wrong in rules.secret_problem(name, args or ClusterArgs()):
            raise pulumi.RunError(f"instance {name}: {wrong.reason}")
        super().__init__("valkey:index:Cluster", name, {}, opts)
        self._instance = name
        self._args = args or ClusterArgs()
        self._names = Names(name)
        self._owner = f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}/{name}"
        self._identity = Identity(name, self._args.namespace, self._owner, version_label(self._args.server_image))
        self._access = access_of(self, name, self._args.connection)
        self._files = config_data(self._args)
        own = self._args.auth.password_secret
        self._password = own or SecretKey(name=self._names.secret, key=PASSWORD_KEY)

        prepare = self._prepare(opts)
        surroundings = self._surroundings(prepare, generate_password=own is None)
        shards = [self._shard(shard, prepare, surroundings) for shard in range(self._args.shards)]
        topology = self._topology(prepare, [resource for shard in shards for resource in shard])

        self.namespace = pulumi.Output.from_input(self._args.namespace)
        self.phase = topology.phase
        self.conditions = topology.conditions
        self.endpoints = topology.endpoints
        self.secret_name = pulumi.Output.from_input(self._password.name)
        self.secret_key = pulumi.Output.from_input(self._password.key)
        self.layout = topology.layout
        self.primaries = topology.primaries
        self.server_version = topology.server_version
        self.register_outputs(self.summary)

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
            "layout": self.layout,
            "primaries": self.primaries,
            "serverVersion": self.server_version,
        }

    def _below(
        self, *depends_on: pulumi.Resource, provider: pulumi.ProviderResource | None = None, **more: Any
    ) -> ResourceOptions:
        return ResourceOptions(parent=self, depends_on=list(depends_on), provider=provider, **more)

    def _prepare(self, opts: ResourceOptions | None) -> Prepare:
        """What the program says the component depends on (its namespace, say), its first resource depends on."""
        return Prepare(
            self._instance,
            connection=self._access.connection,
            owner=self._owner,
            namespace=self._args.namespace,
            instance=self._instance,
            objects=self._objects(),
            storage=claims.storage_of(self._args.persistence),
            settings=settings_input(self._args)["live"],
            version=version_label(self._args.server_image),
            replicas=self._args.replicas,
            port=CLIENT_PORT,
            credentials=self._credentials,
            paused=self._args.paused,
            opts=ResourceOptions(parent=self, depends_on=opts.depends_on if opts else None),
        )

    def _objects(self) -> list[dict[str, str]]:
        """Every object that this component writes by itself."""
        names, args = self._names, self._args
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
        for shard in range(args.shards):
            objects.append(("apps/v1", "StatefulSet", names.workload(shard)))
            if args.persistence is not None:
                objects += [("v1", "PersistentVolumeClaim", claim) for claim in self._claim_names(shard)]
        return [{"apiVersion": version, "kind": kind, "name": name} for version, kind, name in objects]

    def _surroundings(self, prepare: Prepare, *, generate_password: bool) -> list[pulumi.Resource]:
        """What is there before the first Pod."""
        names, metadata, first = (
            self._names,
            self._identity.metadata,
            self._below(prepare, provider=self._access.objects),
        )
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
                spec=headless_spec(self._instance),
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
                names.service, metadata=metadata(names.service), spec=policy_spec(self._instance), opts=first
            ),
            *self._agents_own(prepare),
        ]
        if generate_password:
            password = Password(
                names.secret,
                connection=self._access.connection,
                namespace=self._args.namespace,
                secret_name=names.secret,
                key=PASSWORD_KEY,
                owner=self._owner,
                labels=self._identity.labels(),
                opts=self._below(prepare),
            )
            resources.append(password)
        return resources

    def _agents_own(self, prepare: Prepare) -> list[pulumi.Resource]:
        """The agents' code, their account, and what it may do."""
        names, args = self._names, self._args
        metadata, first = self._identity.metadata(names.agent), self._below(prepare, provider=self._access.objects)
        allowed = agent_rules(
            self._instance,
            shards=args.shards,
            replicas=args.replicas,
            config_map=names.config_map,
            secret=self._password.name,
        )
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
            kubernetes.rbac.v1.Role(names.agent, metadata=metadata, rules=rights.policy_rules(allowed), opts=first),
            kubernetes.rbac.v1.RoleBinding(
                names.agent,
                metadata=metadata,
                role_ref=rights.role_ref(names),
                subjects=rights.subjects(names, args.namespace),
                opts=first,
            ),
        ]

    def _shard(self, shard: int, prepare: Prepare, before: Sequence[pulumi.Resource]) -> list[pulumi.Resource]:
        """The StatefulSet of a shard, with its claims before it and the guard that must let it go after it."""
        args, name = self._args, self._names.workload(shard)
        pod = self._pod(shard)
        workload = kubernetes.apps.v1.StatefulSet(
            name,
            metadata=self._identity.metadata(name, shard=shard, annotations=NO_WAIT),
            spec=statefulset.statefulset_spec(
                pod, replicas=args.replicas, persistence=args.persistence, paused=args.paused
            ),
            opts=self._below(
                *before,
                *self._claims(shard, prepare),
                provider=self._access.objects,
                ignore_changes=statefulset.IGNORED_CHANGES,
            ),
        )
        guard = ShardGuard(
            name,
            connection=self._access.connection,
            namespace=args.namespace,
            instance=self._instance,
            shard=shard,
            credentials=self._credentials,
            opts=self._below(workload),
        )
        return [workload, guard]

    def _pod(self, shard: int) -> ServerPod:
        args = self._args
        return ServerPod(
            names=self._names,
            identity=self._identity,
            shard=shard,
            image=args.server_image,
            resources=args.resources,
            password=self._password,
            agent=PodAgent(self._names, args.agent, self._password, agent_bundle().digest),
            config_hash=start_hash(self._files),
            persistent=args.persistence is not None,
            restart=args.restart,
        )

    def _claim_names(self, shard: int) -> list[str]:
        return [self._names.claim(shard, ordinal) for ordinal in range(self._args.replicas + 1)]

    def _claims(self, shard: int, prepare: Prepare) -> list[pulumi.Resource]:
        """A claim that is to be retained leaves Pulumi's state on destroy, and stays in Kubernetes."""
        persistence = self._args.persistence
        if persistence is None:
            return []
        return [
            kubernetes.core.v1.PersistentVolumeClaim(
                claim,
                metadata=self._identity.metadata(
                    claim, shard=shard, annotations={**NO_WAIT, claims.RECLAIM_ANNOTATION: persistence.reclaim_policy}
                ),
                spec=claims.claim_spec(persistence),
                opts=self._below(
                    prepare,
                    provider=self._access.objects,
                    ignore_changes=claims.IGNORED_CHANGES,
                    retain_on_delete=persistence.reclaim_policy == "Retain",
                ),
            )
            for claim in self._claim_names(shard)
        ]

    @property
    def _credentials(self) -> dict[str, pulumi.Input[str] | None]:
        return {"user": None, "secretName": self._password.name, "key": self._password.key}

    def _topology(self, prepare: Prepare, shards: Sequence[pulumi.Resource]) -> Topology:
        args = self._args
        return Topology(
            self._instance,
            connection=self._access.connection,
            owner=self._owner,
            namespace=args.namespace,
            instance=self._instance,
            shards=args.shards,
            replicas=args.replicas,
            slots={str(shard): slots for shard, slots in sorted(args.slots.items())} if args.slots else None,
            port=CLIENT_PORT,
            credentials=self._credentials,
            timeout_s=args.timeout_s,
            allow_data_loss=args.allow_data_loss,
            node_timeout_ms=node_timeout_ms(args),
            persistent=args.persistence is not None,
            takeover_after_s=args.takeover.after_s if args.takeover else None,
            heal=args.agent.heal,
            migration=args.migration.model_dump(),
            settings=settings_input(args),
            workload_revision=self._revision(),
            version=version_label(args.server_image),
            primary_ordinals={str(shard): ordinal for shard, ordinal in args.primary_ordinals.items()} or None,
            # None where it isn't declared: an instance that was made before there was such a thing has no update to do.
            spread_primaries=args.spread_primaries or None,
            prefer_ordinal_zero=(args.spread_primaries and args.prefer_ordinal_zero) or None,
            parallel_shards=args.rollout.max_parallel_shards,
            paused=args.paused,
            opts=self._below(prepare, *shards),
        )

    def _revision(self) -> str:
        """Changes when the Pod templates do, so that the topology looks again at which Pods are outdated."""
        template = statefulset.pod_template(self._pod(0))
        return sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()[:16]
