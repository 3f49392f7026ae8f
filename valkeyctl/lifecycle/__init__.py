"""Dynamic resources: they turn what the program declares into what the data plane has to do, and its result back."""

from valkeyctl.lifecycle.agent_code import AgentCode
from valkeyctl.lifecycle.connection import Connection
from valkeyctl.lifecycle.guard import ShardGuard
from valkeyctl.lifecycle.namespace import Namespace
from valkeyctl.lifecycle.password import Password
from valkeyctl.lifecycle.prepare import Prepare
from valkeyctl.lifecycle.topology import Topology

__all__ = ["AgentCode", "Connection", "Namespace", "Password", "Prepare", "ShardGuard", "Topology"]
