"""What this agent knows of its dataset: what is declared, and whose names and addresses are whose."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from valkeyctl.agent.dataset.council import Council
from valkeyctl.agent.environment import Environment
from valkeyctl.dataplane.errors import ValkeyctlError
from valkeyctl.dataplane.model import Member
from valkeyctl.kube.declared_dataset import DeclaredDataset, parse_declared_dataset
from valkeyctl.kube.declared_text import KEY


class Known:
    """From any thread. What the API server told last counts for more than a mount, which may be a minute old; a mount
    that has changed since then is newer.
    """

    def __init__(self, environment: Environment, addresses: Callable[[], Mapping[Member, str]]) -> None:
        """`addresses` are where the other members are, as far as is known."""
        self._environment = environment
        self._addresses = addresses
        self._told: DeclaredDataset | None = None
        self._mounted_then: DeclaredDataset | None = None

    def learn(self, declared: DeclaredDataset | None) -> None:
        """Take over what the API server told; nothing is learned where it told that nothing is declared."""
        if declared is not None:
            self._told, self._mounted_then = declared, self._mounted()

    @property
    def declared(self) -> DeclaredDataset | None:
        """What is declared, as far as is known."""
        mounted = self._mounted()
        return mounted if self._told is None or mounted not in (None, self._mounted_then) else self._told

    @property
    def members(self) -> tuple[Member, ...]:
        """The declared members; none where that isn't known."""
        declared = self.declared
        return declared.members if declared is not None else ()

    @property
    def others(self) -> tuple[Member, ...]:
        """The declared members but this one."""
        return tuple(member for member in self.members if member != self._environment.member)

    def member_at(self, host: str) -> Member | None:
        """Whose host name or address something is; None for a stranger's."""
        named = self._environment.member_named(host)
        if named is not None:
            return named
        if host == self._environment.address:
            return self._environment.member
        return next((member for member, address in self._addresses().items() if address == host), None)

    def named_by(self, found: Council) -> Member | None:
        """The member that the Sentinels' newest configuration names; None where it isn't sure, or a stranger's."""
        return self.member_at(found.named.host) if found.is_sure and found.named is not None else None

    def _mounted(self) -> DeclaredDataset | None:
        try:
            text = self._environment.declared.read_text()
            return parse_declared_dataset({"data": {KEY: text}}, self._environment.instance)
        except (OSError, ValkeyctlError):
            return None
