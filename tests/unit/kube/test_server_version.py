"""Too old a Kubernetes is refused, before anything is written."""

from typing import Any

import pytest

from tests.unit.kube.fake_api import FakeApi
from tests.unit.lifecycle.test_providers import OBJECTS, props
from valkeyctl.kube.access import Api
from valkeyctl.kube.errors import ApiUnreachable
from valkeyctl.kube.server_version import KubernetesTooOld, numbers_of, refuse_too_old
from valkeyctl.lifecycle.prepare import PrepareProvider


def tells(fake: FakeApi, version: dict[str, Any]) -> None:
    """Let the API server say that it is of this version."""
    otherwise = fake.serve

    def serve(method: str, target: str, body: Any) -> tuple[int, Any]:
        return (200, version) if target == "/version" else otherwise(method, target, body)

    fake.serve = serve  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    ("told", "numbers"),
    [
        ({"major": "1", "minor": "34", "gitVersion": "v1.34.2"}, (1, 34)),
        ({"major": "1", "minor": "29+", "gitVersion": "v1.29.6-eks-db838b0"}, (1, 29)),
        ({"major": "1", "minor": "28+"}, (1, 28)),
        ({"gitVersion": "v2.0.0-alpha.1"}, (2, 0)),
        ({"major": "", "minor": "", "gitVersion": "unknown"}, None),
        ({}, None),
    ],
)
def test_numbers(told: dict[str, str], numbers: tuple[int, int] | None) -> None:
    assert numbers_of(told) == numbers


def test_an_old_one_is_refused_with_both_versions(fake: FakeApi, api: Api) -> None:
    tells(fake, {"major": "1", "minor": "28", "gitVersion": "v1.28.15"})
    with pytest.raises(KubernetesTooOld, match=r"this Kubernetes is 1\.28, and an instance needs 1\.29 or newer"):
        refuse_too_old(api)


@pytest.mark.parametrize("version", [{"gitVersion": "v1.29.0"}, {"gitVersion": "v1.35.1"}, {"gitVersion": "own"}])
def test_others_are_not(fake: FakeApi, api: Api, version: dict[str, str]) -> None:
    tells(fake, version)
    refuse_too_old(api)


@pytest.mark.parametrize("status", [403, 404, 503])
def test_one_that_does_not_say_is_not_refused(fake: FakeApi, api: Api, status: int) -> None:
    fake.fault = lambda _method, path: status if path == "/version" else None
    refuse_too_old(api)


def test_one_that_cannot_be_reached_is_not_taken_for_new(fake: FakeApi, api: Api) -> None:
    fake.close()
    with pytest.raises(ApiUnreachable):
        refuse_too_old(api)


def test_prepare_refuses_at_preview_and_before_the_first_write(fake: FakeApi) -> None:
    tells(fake, {"gitVersion": "v1.28.15"})
    news = props(fake, objects=OBJECTS)
    (failure,) = PrepareProvider().check({}, news).failures
    assert "this Kubernetes is 1.28" in failure.reason
    assert "Upgrade the cluster" in failure.reason
    for attempt in (lambda: PrepareProvider().create(news), lambda: PrepareProvider().update("id", news, news)):
        with pytest.raises(KubernetesTooOld):
            attempt()
    assert {method for method, _ in fake.seen} == {"GET"}


def test_an_instance_on_an_old_one_can_still_be_destroyed(fake: FakeApi) -> None:
    tells(fake, {"gitVersion": "v1.28.15"})
    PrepareProvider().delete("valkey/sessions", props(fake, objects=OBJECTS))
