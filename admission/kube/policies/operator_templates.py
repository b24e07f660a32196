"""Pod templates in objects of other projects, as expressions in CEL made from the descriptions of their kinds. Pure."""

from collections.abc import Iterable, Iterator
from typing import Final

from admission.kube.policies.cel import text, texts
from queues.api.json_patch import escaped
from queues.api.types.workload_kind import PassedOn, Path, Templates, WorkloadKindSpec

_CLASS: Final = ("priorityClassName",)
#: An object's name and uid do not change, and are not in every request.
_OBJECT: Final = "oldObject.metadata.name + '/' + oldObject.metadata.uid + '/'"


def classes_of(of: str, kinds: Iterable[WorkloadKindSpec]) -> str:
    """All priority classes that an object names, a list: its own, and those of its templates; "": one names none."""

    def of_kind(description: WorkloadKindSpec) -> Iterator[str]:
        if description.priority_class:
            yield f"[{_at(of, description.priority_class)}.orValue('')]"
        for templates in description.templates:
            inner = _CLASS if templates.computed else (*templates.template, "spec", *_CLASS)
            yield _each(templates, of, f"{_at('e', inner)}.orValue('')")

    return _by_kind((each, " + ".join(of_kind(each))) for each in kinds)


def places_of(of: str, kinds: Iterable[WorkloadKindSpec]) -> str:
    """What has the labels and annotations of pods, of each template: its JSON pointer, whether it is there, itself, and
    the annotation of its pods."""

    def of_template(description: WorkloadKindSpec, templates: Templates) -> str:
        name = {
            "one": text(templates.name),
            "element": f"e.?{templates.named_by}.orValue('')",
            "entry": "i.lowerAscii()",
        }[templates.each]
        metadata = _at("e", templates.metadata_at)
        place = (
            f"{{'at': dyn({_pointer_to(templates)} + {text(_pointer(templates.metadata_at))}),"
            f" 'there': dyn({metadata}.hasValue()),"
            f" 'metadata': dyn({metadata}.orValue({{}})),"
            f" 'member': dyn({text(f'{description.kind}/')} + {_OBJECT} + {name})}}"
        )
        return _each(templates, of, place, f"{_at('e', templates.template)}.hasValue()")

    return _by_kind(
        (each, " + ".join(of_template(each, templates) for templates in each.templates)) for each in kinds
    )


def places_passed_on(of: str, kinds: Iterable[WorkloadKindSpec]) -> str:
    """Places into which an object's queue is written: the JSON pointer of what has the labels, pointers from there to
    the labels and to what contains them, how many of these are there, the key, what it says, and what is written
    instead of the queue."""

    def of_place(place: PassedOn) -> str:
        holder = _at("e", place.holder)
        inner = [place.labels[:depth] for depth in range(1, len(place.labels) + 1)]
        there = "0"
        for depth, path in enumerate(inner, 1):
            there = f"({_at('e', (*place.holder, *path))}.hasValue() ? {depth} : {there})"
        said = f"{_at('e', (*place.holder, *place.labels))}[?{text(place.key)}].orValue('')"
        if not (place.holder or place.labels):
            said = f"e[?{text(place.key)}].orValue('')"
        found = (
            f"{{'at': dyn({_pointer_to(place)} + {text(_pointer(place.holder))}),"
            f" 'levels': dyn({texts(map(_pointer, inner))}),"
            f" 'there': dyn({there}),"
            f" 'key': dyn({text(f'{_pointer(place.labels)}/{escaped(place.key)}')}),"
            f" 'said': dyn({said}),"
            f" 'value': dyn({text(place.value)})}}"
        )
        return _each(place, of, found, f"{holder}.hasValue()")

    return _by_kind((each, " + ".join(map(of_place, each.passes_on))) for each in kinds)


def templates_of(kinds: Iterable[WorkloadKindSpec]) -> str:
    """All pod templates of an object, each with its path and itself."""

    def of_template(templates: Templates) -> str:
        template = _at("e", templates.template)
        found = (
            f"{{'at': dyn({_pointer_to(templates)} + {text(_pointer(templates.template))}),"
            f" 'of': dyn({template}.value())}}"
        )
        return _each(templates, "object", found, f"{template}.hasValue()")

    return _by_kind((each, " + ".join(map(of_template, each.templates))) for each in kinds)


def is_readable(of: str, kinds: Iterable[WorkloadKindSpec]) -> str:
    """Whether the parts of an object that policies look at are of the types that objects of its kind have.

    What is absent is, but for what has the field that suspends the object. Where a part is of another type, to look for
    what is in it is an error; a conjunction with something false is false all the same.
    """

    def of_kind(description: WorkloadKindSpec) -> Iterator[str]:
        if not description.passes_on:
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

    described = ((each, " && ".join(dict.fromkeys(of_kind(each)))) for each in kinds)
    return _by_kind(described, otherwise="true")


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


def _pointer_to(templates: Templates | PassedOn) -> str:
    """The JSON pointer of what has a template, for ``i`` of a list of these."""
    at = _pointer(templates.at)
    match templates.each:
        case "one":
            return text(at)
        case "element":
            return f"{text(at + '/')} + string(i)"
        case "entry":
            return f"{text(at + '/')} + i.replace('~', '~0').replace('/', '~1')"


def _each(templates: Templates | PassedOn, of: str, value: str, condition: str = "true") -> str:
    """A list of what is found at each place that has a template. There ``e`` is, and ``i``: its index or its key."""
    at = _at(of, templates.at)
    match templates.each:
        case "one":
            return f"({at}.hasValue() ? [{at}.value()] : []).transformList(i, e, {condition}, {value})"
        case "element":
            return f"{at}.orValue([]).transformList(i, e, {condition}, {value})"
        case "entry":
            return f"{at}.orValue({{}}).transformList(i, e, {condition}, {value})"


def _by_kind(lists: Iterable[tuple[WorkloadKindSpec, str]], otherwise: str = "[]") -> str:
    """The list for the kind of an object. Kinds without templates at places that are known have none."""
    chain = otherwise
    for description, found in lists:
        if found:
            chain = f"object.kind == {text(description.resource.kind)} ? {found}\n: {chain}"
    return f"({chain})"


def _at(of: str, path: Path) -> str:
    """The part at a place, which may be absent."""
    return f"optional.of({of})" if not path else of + "".join(f".?{field}" for field in path)


def _pointer(path: Path) -> str:
    return "".join(f"/{escaped(field)}" for field in path)
