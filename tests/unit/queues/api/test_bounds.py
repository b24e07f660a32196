"""Every list, map and text that a user writes has a bound: in the definitions, at creation, and for the readers."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
import pytest

from admission.decode.admin_documents import (
    closure_fact,
    flavor_fact,
    hypernode_fact,
    queue_fact,
    topology_fact,
)
from queues.api.bounds import LARGEST_PART, excesses, within_bounds
from queues.api.crd import RESOURCES, crds
from queues.api.model import MOST_AMOUNTS, Model
from queues.api.types.queue import MOST_FLAVORS
from queues.api.validation.known import Known
from queues.api.validation.validation import KINDS, violations_of
from queues.node_closures import ClosureKind
from tests.builders.valid_documents import of_kind

_NOT_OF_USERS = ("apiVersion", "kind", "metadata", "status")
Schema = Mapping[str, Any]


def parts(schema: Schema, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Schema]]:
    """All parts of a schema that users write, by their paths; ``[]``: an entry of a list, ``{}``: a value of a map."""
    yield path, schema
    for name, part in schema.get("properties", {}).items():
        if path or name not in _NOT_OF_USERS:
            yield from parts(part, (*path, name))
    if isinstance(part := schema.get("items"), Mapping):
        yield from parts(part, (*path, "[]"))
    if isinstance(part := schema.get("additionalProperties"), Mapping):
        yield from parts(part, (*path, "{}"))


def definitions() -> Iterator[tuple[type[Model], Schema]]:
    for resource, crd in zip(RESOURCES, crds(), strict=True):
        if (model := KINDS.get((resource.api_version, resource.kind))) is not None:
            yield model, crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


BOUNDS = [
    pytest.param(model, path, part, id=f"{model.__name__}.{'.'.join(path)}")
    for model, schema in definitions()
    for path, part in parts(schema)
    if part.get("type") in ("array", "string") or "additionalProperties" in part
]


def word_of(part: Schema) -> str | None:
    """The word of a schema that bounds a part; None: it is bounded by what it is."""
    if part.get("type") == "array":
        return "maxItems"
    if "additionalProperties" in part:
        return "maxProperties"
    return None if "enum" in part or part.get("format") == "date-time" else "maxLength"


def test_the_definitions_state_a_bound() -> None:
    for each in BOUNDS:
        model, path, part = each.values
        word = word_of(part)  # type: ignore[arg-type]
        assert word is None or 0 < part[word] <= 256 * 1024, (model, path)  # type: ignore[index]


def beyond(part: Schema) -> Any:
    """A value that is beyond its bound by one."""
    match word_of(part):
        case "maxItems":
            return [None] * (part["maxItems"] + 1)
        case "maxProperties":
            return {f"k{number}": "1" for number in range(part["maxProperties"] + 1)}
        case _:
            return "x" * (part["maxLength"] + 1)


def holding(value: Any, path: tuple[str, ...]) -> Any:
    """A document with a value at a path."""
    for step in reversed(path):
        value = [value] if step == "[]" else {"k" if step == "{}" else step: value}
    return value


TOO_MUCH = [each for each in BOUNDS if word_of(each.values[2]) is not None]  # type: ignore[arg-type]


@pytest.mark.parametrize(("model", "path", "part"), TOO_MUCH)
def test_what_is_beyond_a_bound_is_named_and_lists_and_maps_are_read_up_to_it(
    model: type[Model], path: tuple[str, ...], part: Schema
) -> None:
    document = holding(beyond(part), path)
    (excess,) = excesses(document, model)
    bound = part[word_of(part) or ""]
    assert (excess.most, excess.found) == (bound, bound + 1)
    read, _ = within_bounds(document, model)
    for step in path:
        read = read[0] if step == "[]" else read["k" if step == "{}" else step]
    assert isinstance(read, str) or len(read) == bound


COUNTED = [
    each for each in TOO_MUCH if each.values[1][:1] == ("spec",) and word_of(each.values[2]) != "maxLength"
]


@pytest.mark.parametrize(("model", "path", "part"), COUNTED)
def test_a_list_is_counted_before_an_entry_is_read_and_a_stored_one_can_still_be_edited(
    model: type[Model], path: tuple[str, ...], part: Schema
) -> None:
    kind = model.model_fields["kind"].default
    document = of_kind(kind, holding(beyond(part), path)["spec"])
    (only,) = violations_of(document)
    bound = part[word_of(part) or ""]
    assert (only.found, only.expected) == (f"{bound + 1} entries", f"at most {bound}")
    edited = {**document, "spec": {**document["spec"], "weight": 7}}
    about = [each for each in violations_of(edited, old=document) if each.expected == only.expected]
    assert all(each.tolerable for each in about), "what is stored may stay"


def queue(**spec: Any) -> dict[str, Any]:
    return of_kind("Queue", spec, uid="u", resourceVersion="1")


def amounts(count: int) -> dict[str, str]:
    return {f"r{number}.com/x": "1" for number in range(count)}


def test_a_queue_with_tens_of_thousands_of_resource_names_is_read_up_to_the_bound(golden: Any) -> None:
    flavors = [{"name": f"f{number}", "capability": amounts(2)} for number in range(MOST_FLAVORS + 6)]
    fact = queue_fact(msgspec.json.encode(queue(capability=amounts(45_000), flavors=flavors)))
    assert fact.queue.broken is None
    assert len(fact.queue.limits.capability) == MOST_AMOUNTS
    assert len(fact.queue.flavors) == MOST_FLAVORS
    assert len(fact.document["spec"]["capability"]) == MOST_AMOUNTS, "nobody stores or serves the rest"  # type: ignore[index]
    assert fact.unread == golden


AT = "2026-01-01T00:00:00Z"
#: Of each kind that is read up to its bounds: what its reader says of the rest, a list or map of its spec, an entry by
#: number, and what the spec needs besides.
READERS: Mapping[str, tuple[Callable[[bytes], str], str, Callable[[int], Any], Mapping[str, Any]]] = {
    "Queue": (lambda raw: queue_fact(raw).unread, "flavors", lambda number: {"name": f"f{number}"}, {}),
    "ResourceFlavor": (lambda raw: flavor_fact(raw).unread, "nodeLabels", str, {}),
    "Topology": (
        lambda raw: topology_fact(raw).unread,
        "levels",
        lambda number: {"nodeLabel": f"level-{number}"},
        {},
    ),
    "HyperNode": (
        lambda raw: "; ".join(hypernode_fact(raw).problems),
        "members",
        lambda number: {"type": "Node", "selector": {"exactMatch": {"name": f"n{number}"}}},
        {"tier": 1},
    ),
    "NodeDrain": (
        lambda raw: closure_fact(raw, ClosureKind.DRAIN).unread,
        "nodes",
        lambda number: f"n{number}",
        {"at": AT},
    ),
}


@pytest.mark.parametrize("kind", READERS)
def test_what_a_stored_object_has_beyond_a_bound_is_said_where_the_rest_is_read(kind: str) -> None:
    unread, name, entry, spec = READERS[kind]
    schema = next(schema for model, schema in definitions() if model.model_fields["kind"].default == kind)
    part = schema["properties"]["spec"]["properties"][name]
    most = part[word_of(part) or ""]
    many: Any = [entry(number) for number in range(most + 1)]
    if word_of(part) == "maxProperties":
        many = {f"example.com/r{number}": value for number, value in enumerate(many)}
    document = of_kind(kind, {**spec, name: many}, uid="u", resourceVersion="1")
    said = f"spec.{name}: found {most + 1} entries, expected at most {most}"
    assert unread(msgspec.json.encode(document)) == said


def test_a_queue_with_too_many_limits_in_all_holds_none_of_them() -> None:
    flavors = [{"name": f"f{number}", "capability": amounts(60)} for number in range(20)]
    fact = queue_fact(msgspec.json.encode(queue(flavors=flavors)))
    assert "found 1200 limits" in (fact.queue.broken or "")
    assert not fact.queue.flavors


def test_a_new_bound_is_no_reason_against_other_changes_of_a_queue() -> None:
    stored, wider = queue(capability=amounts(70)), queue(capability=amounts(71))
    edited = queue(capability=amounts(70), weight=3)
    known = Known(queues={})
    assert [each.tolerable for each in violations_of(edited, known, old=stored)] == [True]
    refused = [each.message for each in violations_of(wider, known, old=stored) if not each.tolerable]
    assert refused == ["spec.capability: found 71 entries, expected at most 64"]


def test_pod_templates_are_bounded_by_their_bytes() -> None:
    container = {"name": "c", "image": "i", "args": ["x" * LARGEST_PART]}
    task = {"name": "t", "replicas": 1, "template": {"spec": {"containers": [container]}}}
    (wrong,) = violations_of(of_kind("Job", {"tasks": [task]}))
    assert wrong.path == "spec.tasks[0].template"
    assert wrong.expected == f"at most {LARGEST_PART}"
