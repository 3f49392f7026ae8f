"""What all our dynamic providers have in common.

Facts about Pulumi that shape them: an instance is pickled by reference to its class, so it has no state and the class's
path is permanent; `check` gets the old inputs, `diff`, `update` and `delete` the old outputs; numbers come as floats;
what is not known yet at preview comes as rpc.UNKNOWN; four methods run at once.
"""

from __future__ import annotations

from typing import Any

from pulumi import dynamic

from valkeyctl.dataplane.errors import ValkeyctlError
from valkeyctl.lifecycle.engine import engine
from valkeyctl.lifecycle.rendering import render_plainly

Props = dict[str, Any]
#: How long an API server that does not answer is put up with before a write gives up.
WRITE_PATIENCE_S = 10.0

render_plainly()
engine()  # Made here, under the lock of the import, so that all methods share one.


class Provider(dynamic.ResourceProvider):
    """Base of the providers: subclasses fill in the methods that end in `_it`, whose meaning is Pulumi's."""

    # The pickle is nothing but a class name, so hiding it would only add noise to every diff.
    serialize_as_secret_always: bool = False

    # --- what subclasses say -----------------------------------------------------------------------------------------

    def check_it(self, olds: Props, news: Props) -> Props:  # noqa: ARG002
        """The inputs to go on with. Runs at preview too. Errors are shown as a problem of the resource."""
        return news

    def diff_it(self, olds: Props, news: Props) -> dynamic.DiffResult:
        """Whether an update is needed."""
        raise NotImplementedError

    def create_it(self, props: Props) -> dynamic.CreateResult:
        """Makes it so; adopts what already is."""
        raise NotImplementedError

    def read_it(self, id_: str, props: Props) -> dynamic.ReadResult:
        """What it is now. Never raises for what cannot be reached: a raising `read` makes `destroy` fail."""
        return dynamic.ReadResult(id_, props)

    def update_it(self, olds: Props, news: Props) -> Props:
        """Makes it so, and returns the outputs."""
        raise NotImplementedError

    def delete_it(self, props: Props) -> None:
        """Takes it away; what is gone already is fine."""

    # --- what Pulumi calls -------------------------------------------------------------------------------------------

    def check(self, _olds: Props, news: Props) -> dynamic.CheckResult:
        """See check_it."""
        with engine().working():
            try:
                return dynamic.CheckResult(self.check_it(_own(_olds), _own(news)), [])
            except ValkeyctlError as error:
                return dynamic.CheckResult(_own(news), [dynamic.CheckFailure("", str(error))])

    def diff(self, _id: str, _olds: Props, _news: Props) -> dynamic.DiffResult:
        """See diff_it."""
        with engine().working():
            return self.diff_it(_own(_olds), _own(_news))

    def create(self, props: Props) -> dynamic.CreateResult:
        """See create_it."""
        with engine().working():
            return self.create_it(_own(props))

    def read(self, id_: str, props: Props) -> dynamic.ReadResult:
        """See read_it."""
        with engine().working():
            return self.read_it(id_, _own(props))

    def update(self, _id: str, _olds: Props, _news: Props) -> dynamic.UpdateResult:
        """See update_it."""
        with engine().working():
            return dynamic.UpdateResult(self.update_it(_own(_olds), _own(_news)))

    def delete(self, _id: str, _props: Props) -> None:
        """See delete_it."""
        with engine().working():
            self.delete_it(_own(_props))


def _own(props: Props) -> Props:
    """The props without Pulumi's reserved one, which its server adds again."""
    return {key: value for key, value in props.items() if key != "__provider"}
