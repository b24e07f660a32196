"""Where objects of other projects have parts that policies read, as data in CEL made from the documents of their kinds.

Pure.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from admission.kube.policies.cel import text
from queues.api.types.workload_kind import PassedOn, Path, Templates, WorkloadKindSpec

_CLASS: Final = ("priorityClassName",)

Forms = dict[str, list[list[list[str]]]]


def templates_by_kind(kinds: Iterable[WorkloadKindSpec]) -> Forms:
    """The places of pod templates, by the kinds of objects: fields to the place and from there to the template, what is
    at the place with what names its pod set, and whether the template is without metadata and spec of its own."""

    def form(place: Templates) -> list[list[str]]:
        named = place.name if place.each == "one" else place.named_by
        bare = ["bare"] if place.computed else []
        return [[*place.at], [*place.template], [place.each, named], bare, [], []]

    return {each.resource.kind: [form(place) for place in each.templates] for each in kinds}


def places_by_kind(kinds: Iterable[WorkloadKindSpec]) -> Forms:
    """The places into which a queue is written, by the kinds of objects: the same, then fields from there to the label,
    what is written instead of the queue, and the field with its value that Muster's element of a list has."""

    def form(place: PassedOn) -> list[list[str]]:
        named, own = [place.each, ""], [part for pair in place.own.items() for part in pair]
        label = [*place.labels, place.key]
        return [[*place.at], [*place.holder], named, label, [place.value], own]

    return {each.resource.kind: [form(place) for place in each.passes_on] for each in kinds}


def longest(forms: Forms, part: int) -> int:
    """How many fields the longest path has."""
    return max((len(form[part]) for places in forms.values() for form in places), default=0)


def own_value(place: PassedOn, queue: str) -> str:
    """The element that Muster adds to a list, with the queue in it. ``queue``: CEL."""
    value = queue
    for field in reversed((*place.holder, *place.labels, place.key)):
        value = f"{{{text(field)}: dyn({value})}}"
    own = "".join(f"{text(field)}: dyn({text(said)}), " for field, said in place.own.items())
    return f"{{{own}{value[1:]}"


def is_readable(of: str, kinds: Iterable[WorkloadKindSpec], passing: Iterable[WorkloadKindSpec]) -> str:
    """Whether the parts of an object that policies look at are of the types that objects of its kind have.

    ``kinds``: those that are suspended. ``passing``: others, whose queue what is made of them has.

    What is absent is, but for what has the field that suspends the object. Where a part is of another type, to look for
    what is in it is an error; a conjunction with something false is false all the same.
    """

    def of_kind(description: WorkloadKindSpec) -> Iterator[str]:
        if description in suspended:
            yield f"{_at(of, description.suspend[:1])}.hasValue()"
            yield from _typed(of, description.suspend, "bool")
            yield from _typed(of, description.priority_class, "string")
        for demand in description.demands:
            yield from _typed(of, demand.at, "" if demand.must == "absent" else "bool")
        for templates in description.templates:
            labels = (*templates.metadata_at, "labels")
            inner = _CLASS if templates.computed else (*templates.template, "spec", *_CLASS)
            parts = (*_typed("e", labels, "map"), *_typed("e", (*labels[:-1], "annotations"), "map"))
            named = _typed("e", (templates.named_by,), "string") if templates.each == "element" else ()
            yield from _all_typed(templates, of, (*named, *parts, *_typed("e", inner, "string")))
        for place in description.passes_on:
            yield from _all_typed(place, of, _typed("e", (*place.holder, *place.labels), "map"))

    suspended, chain = [*kinds], "true"
    for each in (*suspended, *passing):
        found = " && ".join(dict.fromkeys(of_kind(each)))
        chain = f"object.kind == {text(each.resource.kind)} ? {found}\n: {chain}"
    return f"({chain})"


def _typed(of: str, path: Path, type_: str) -> Iterator[str]:
    """That what leads to a part are maps, and the part is of a type; "": any."""
    for depth in range(1, len(path)):
        yield f"{_at(of, path[:depth])}.optMap(x, type(x) == map).orValue(true)"
    if path and type_:
        yield f"{_at(of, path)}.optMap(x, type(x) == {type_}).orValue(true)"


def _all_typed(place: Templates | PassedOn, of: str, parts: Iterable[str]) -> Iterator[str]:
    """The same of a place that has a template, or of each in a list or map of these. There it is ``e``."""
    of_each = " && ".join(("type(e) == map", *dict.fromkeys(parts)))
    inner, type_ = {
        "one": (f"[y].all(e, {of_each})", "map"),
        "element": (f"y.all(e, {of_each})", "list"),
        "entry": (f"y.map(i, y[i]).all(e, {of_each})", "map"),
    }[place.each]
    yield from _typed(of, place.at, type_)
    yield f"{_at(of, place.at)}.optMap(y, {inner}).orValue(true)"


def _at(of: str, path: Path) -> str:
    """The part at a place, which may be absent."""
    return f"optional.of({of})" if not path else of + "".join(f".?{field}" for field in path)
