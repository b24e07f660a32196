"""Definitions with bounds that stored objects exceed, on a real API server."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from deploy.local.client import LocalClient
from deploy.local.cluster import LocalCluster
from queues.api.crd import crds
from queues.errors import ApiError
from tests.waiting import until

GROUP = "bounds.example.org"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OBJECTS = f"/apis/{GROUP}/v1beta1/queues"
_BOUNDS = ("maxItems", "maxProperties", "maxLength")


def without_bounds(schema: Any) -> Any:
    """A schema as it was before there were bounds."""
    if isinstance(schema, dict):
        return {name: without_bounds(part) for name, part in schema.items() if name not in _BOUNDS}
    return [without_bounds(part) for part in schema] if isinstance(schema, list) else schema


def definition() -> dict[str, Any]:
    """Muster's definition of Queues, in a group of the test's own."""
    (found,) = (deepcopy(each) for each in crds() if each["spec"]["names"]["kind"] == "Queue")
    found["metadata"]["name"] = f"queues.{GROUP}"
    found["spec"]["group"] = GROUP
    found["spec"]["names"].pop("shortNames")
    return found


def amounts(count: int) -> dict[str, str]:
    return {f"r{number}.com/x": "1" for number in range(count)}


@pytest.fixture
def stored(local_cluster: LocalCluster) -> Iterator[tuple[LocalClient, str]]:
    """A Queue with more of everything than the bounds allow, from before there were bounds."""
    spec = {
        "capability": amounts(70),
        "flavors": [{"name": f"f{number}", "capability": amounts(2)} for number in range(70)],
        "access": {"admins": [{"user": f"u{number}"} for number in range(300)]},
    }
    queue = {"apiVersion": f"{GROUP}/v1beta1", "kind": "Queue", "metadata": {"name": "wide"}, "spec": spec}

    with local_cluster.client() as api:

        def is_served() -> bool:
            try:
                api.create(OBJECTS, queue)
            except ApiError as error:
                return error.facts.get("status") == 409
            return True

        def has_bounds() -> bool:
            try:
                api.create(OBJECTS, {**queue, "metadata": {"name": "probe"}})
            except ApiError:
                return True
            api.delete(f"{OBJECTS}/probe")
            return False

        api.create(DEFINITIONS, without_bounds(definition()))
        until(is_served, "the definition")
        api.merge(f"{DEFINITIONS}/queues.{GROUP}", {"spec": definition()["spec"]})
        until(has_bounds, "its bounds")
        yield api, f"{OBJECTS}/wide"
        api.delete(f"{DEFINITIONS}/queues.{GROUP}")


def test_what_is_stored_beyond_a_bound_can_be_edited_and_does_not_grow(
    stored: tuple[LocalClient, str],
) -> None:
    api, path = stored
    api.merge(path, {"spec": {"weight": 7}})
    api.merge(path, {"metadata": {"labels": {"a": "b"}}})
    api.merge(path, {"spec": {"policy": {"paused": True}}})
    for wider in ({"capability": {"one.more/x": "1"}}, {"access": {"admins": [{"user": "u"}] * 301}}):
        with pytest.raises(ApiError, match="must have at most"):
            api.merge(path, {"spec": wider})
    api.merge(path, {"spec": {"capability": None}})
    with pytest.raises(ApiError, match="must have at most 64 items"):
        api.merge(path, {"spec": {"capability": amounts(65)}})
    api.merge(path, {"spec": {"capability": amounts(64)}})
