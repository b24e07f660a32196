"""A name of a resource that no pod can ask for is found wherever amounts by resource are written."""

import re
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Final, get_args

import msgspec
import pytest
from pydantic import BaseModel

from admission.decode.admin_documents import queue_fact
from admission.reconcile.status import queue_status, settled
from queues.api.model import Quantities
from queues.api.resource_names import NoSuchResource, meant_by, resource_named, usual_name
from queues.api.types.batch_job import Pod
from queues.api.types.flavor import ResourceFlavor
from queues.api.types.node_closures import Reservation
from queues.api.types.podgroup import PodGroup
from queues.api.types.queue import QueueDocument
from queues.api.validation.validation import KINDS, violations_of
from queues.errors import InvalidQuantity
from queues.resources import amount
from tests.builders.valid_documents import of_kind
from tests.tables import with_rows

#: Where Volcano takes any name. Everywhere else a wrong one is refused.
OF_VOLCANO: Final = {
    "Queue spec.capability",
    "Queue spec.deserved",
    "Queue spec.guarantee.resource",
    "PodGroup spec.minResources",
}
CONTAINER: Final = {"name": "main", "image": "x"}
SPECS: Final[dict[type[BaseModel], dict[str, Any]]] = {
    QueueDocument: {
        "flavors": [{"name": "h100"}],
        "loans": [{"to": "b", "until": "2027-01-01T00:00:00Z", "resources": {"cpu": 1}}],
    },
    PodGroup: {},
    ResourceFlavor: {"nodeLabels": {"gpu": "h100"}},
    Reservation: {"queue": "a", "resources": {"cpu": 1}, "from": "2027-01-01T00:00:00Z", "for": "1h"},
    Pod: {"containers": [{**CONTAINER}], "initContainers": [{**CONTAINER, "name": "first"}]},
}
#: The dictionary by resource, as fields of models have it, and the fields of a pod's spec, which is no model.
AMOUNTS: Final = get_args(Quantities)[0]
OF_PODS: Final = [
    *("spec.resources.requests", "spec.resources.limits", "spec.overhead"),
    *("spec.containers.resources.requests", "spec.containers.resources.limits"),
    *("spec.initContainers.resources.requests", "spec.initContainers.resources.limits"),
]


def places() -> list[tuple[type[BaseModel], str]]:
    """Every field with amounts by resource below the spec of a kind: a new one is tried by itself."""
    of_models: list[tuple[type[BaseModel], str]] = [
        (model, path)
        for model in KINDS.values()
        if "spec" in model.model_fields
        for path in amounts_in(model.model_fields["spec"].annotation, "spec")
    ]
    return [*of_models, *((Pod, path) for path in OF_PODS)]


def amounts_in(annotation: Any, path: str) -> Iterator[str]:
    if annotation == AMOUNTS:
        yield path
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        for name, field in annotation.model_fields.items():
            yield from amounts_in(field.annotation, f"{path}.{field.alias or name}")
    else:
        for part in get_args(annotation):
            yield from amounts_in(part, path)


def with_amount(model: type[BaseModel], path: str, name: str) -> dict[str, Any]:
    """A document of the kind with 1 of the resource there."""
    document = of_kind(model.model_fields["kind"].default, deepcopy(SPECS[model]), namespace="team")
    part: Any = document
    *above, last = path.split(".")
    for field in above:
        inner = part.setdefault(field, {})
        part = inner[0] if isinstance(inner, list) else inner
    part[last] = {name: 1}
    return document


PLACES: Final = places()


def test_there_are_as_many_places_as_have_to_be_tried() -> None:
    assert len(PLACES) >= 15
    assert {model for model, _ in PLACES} == set(SPECS)


@pytest.mark.parametrize(("model", "path"), PLACES, ids=lambda value: getattr(value, "__name__", value))
def test_a_wrong_name_is_refused_with_the_right_one_where_volcano_does_not_take_it(
    model: type[BaseModel], path: str
) -> None:
    for name in ("gpu", "mem", "GPU", "CPU", "Memory", "nvidia.com/", "requests.cpu"):
        if path.endswith("minResources") and name == "requests.cpu":
            continue  # Volcano itself writes it there
        document = with_amount(model, path, name)
        of_name = [each for each in violations_of(document) if f"resource {name!r}" in each.found]
        assert of_name, f"nothing is said about {name}"
        assert {each.expected for each in of_name} == {f"{meant_by(name)}?"}
        taken = f"{document['kind']} {path}" in OF_VOLCANO
        assert all(each.tolerable == taken for each in of_name), name


@pytest.mark.parametrize(("model", "path"), PLACES, ids=lambda value: getattr(value, "__name__", value))
def test_a_right_name_is_taken(model: type[BaseModel], path: str) -> None:
    for name in ("cpu", "memory", "nvidia.com/gpu", "hugepages-2Mi", "nvidia.com/mig-1g.5gb"):
        found = violations_of(with_amount(model, path, name))
        assert [each for each in found if f"resource {name!r}" in each.found] == []


@with_rows("name", "meant")
def test_what_a_name_means(name: str, meant: str) -> None:
    assert meant_by(name) == meant


def test_commands_read_names_by_the_same_rules() -> None:
    assert resource_named("-r", "GPU") == "nvidia.com/gpu"
    assert usual_name("nvidia.com/") is None
    with pytest.raises(NoSuchResource, match=r"Did you mean nvidia.com/gpu\?"):
        resource_named("-r", "nvidia.com/")
    with pytest.raises(NoSuchResource, match="found resource 'Memory'"):
        resource_named("-r", "Memory")


@with_rows("text", "expected")
def test_a_wrong_amount_says_what_to_write(text: str, expected: str) -> None:
    with pytest.raises(InvalidQuantity, match=re.escape(f"found {text!r}, expected {expected}")):
        amount("memory", text)


@pytest.mark.parametrize("length", [63, 64, 253])
def test_a_queue_has_no_longer_name_than_work_can_write_in_a_label(length: int) -> None:
    queue = a_queue({}, name="q" * length)
    refused = [each.path for each in violations_of(queue) if not each.tolerable]
    assert refused == (["metadata.name"] if length > 63 else [])


def a_queue(spec: dict[str, Any], name: str = "team") -> dict[str, Any]:
    return of_kind("Queue", spec, name)


WRONG: Final = {
    "flavors": [{"name": "h100", "deserved": {"gpu": 8}}],
    "access": {"maxPerUser": {"mem": "1Gi"}},
}


@pytest.mark.parametrize(("name", "spec"), [("q" * 64, {}), ("team", WRONG)], ids=["name", "resources"])
def test_a_queue_that_is_there_can_be_changed_otherwise(name: str, spec: dict[str, Any]) -> None:
    old, new = a_queue(spec, name), a_queue({**spec, "weight": 2}, name)
    assert [each for each in violations_of(old) if not each.tolerable]
    found = violations_of(new, old=old)
    assert found
    assert all(each.tolerable for each in found)


def test_a_change_that_adds_a_wrong_name_is_refused() -> None:
    new = a_queue({**WRONG, "access": {"maxPerUser": {"GPU": 1}}})
    refused = [each.path for each in violations_of(new, old=a_queue(WRONG)) if not each.tolerable]
    assert refused == ["spec.access.maxPerUser.GPU"]


def condition_of(queue: dict[str, Any], before: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The status of a queue, and the message of its condition; "": it has none."""
    status = settled(queue_status(queue_fact(msgspec.json.encode(queue))), before, 1000)
    told = [each for each in status.get("conditions", ()) if each["type"] == "UnsupportedField"]
    return status, told[0]["message"] if told else ""


def test_a_queue_says_which_of_its_names_no_pod_can_ask_for_until_they_are_right(golden: Any) -> None:
    both = a_queue({"capability": {"mem": "400Gi"}, "deserved": {"gpu": 8}})
    status, told = condition_of(both, {})
    assert told == golden
    status, told = condition_of(a_queue({"capability": {"mem": "400Gi"}}), status)
    assert "gpu" not in told
    assert "'mem'" in told
    assert condition_of(a_queue({}), status)[1] == ""


def test_a_queue_says_that_its_name_is_too_long() -> None:
    _, told = condition_of(a_queue({}, "q" * 64), {})
    assert told.startswith("metadata.name: found 64 characters, expected at most 63")


@pytest.mark.parametrize("name", ["nvidia.com/", "gpu", "no name"])
def test_a_queue_with_a_name_that_volcano_takes_can_be_used(name: str) -> None:
    fact = queue_fact(
        msgspec.json.encode(a_queue({"capability": {name: 8, "cpu": 4}, "deserved": {name: 8}}))
    )
    assert fact.queue.broken is None
    assert fact.queue.limits.capability["cpu"] == 4000
    assert any(repr(name) in each for each in fact.without_effect)
