"""The program: the instances that the stack config declares, on Kubernetes."""

import pulumi

from components import ManagedProvider, Namespace, ValkeyCluster
from settings import load

settings = load()
stack = f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}"

kubernetes = ManagedProvider("kubernetes", settings.connection)
namespace = Namespace(settings.namespace, connection=settings.connection, namespace=settings.namespace, owner=stack)
for name, args in settings.instances.items():
    options = pulumi.ResourceOptions(
        providers=[kubernetes], depends_on=[namespace], protect=name in settings.protected or None
    )
    cluster = ValkeyCluster(name, args, options)
    pulumi.export(name, cluster.summary)
