"""Rules of WorkloadKinds: what a document says by itself, and what the definition of its objects must have. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from queues import kind_names
from queues.api.types.workload_kind import (
    PassedOn,
    Path,
    PodCount,
    Templates,
    WorkloadKindDocument,
    WorkloadKindSpec,
)
from queues.api.validation.violations import Violation
from queues.api.workload_kinds import SHIPPED_KINDS
from queues.text_format import excerpt

#: Words that CEL keeps for itself: an expression cannot name a field so.
_RESERVED: Final = frozenset(
    (
        *("as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in"),
        *("let", "loop", "null", "package", "namespace", "return", "true", "var", "void", "while"),
    )
)
#: Parts of a path through a list or a map.
_ELEMENT, _ENTRY = "[]", "{}"
_PARTS: Final[Mapping[str, Path]] = {"one": (), "element": (_ELEMENT,), "entry": (_ENTRY,)}
#: Fields that a message names.
_MOST_NAMED: Final = 8
_FREE: Final = "x-kubernetes-preserve-unknown-fields"


# ── by itself ───────────────────────────────────────────────────────────────────────────────────────────────


def kind_violations(document: WorkloadKindDocument) -> Iterator[Violation]:
    """Violations of a WorkloadKind, whatever the cluster has."""
    spec = document.spec
    name, resource = document.metadata.name, spec.resource
    if spec.kind in kind_names.BUILT_IN or any(spec.kind == each.kind for each in SHIPPED_KINDS):
        yield Violation(
            "spec.resource.kind", excerpt(resource.kind), "a kind that Muster does not bring itself"
        )
    elif name != spec.kind:
        expected = f"{spec.kind}: the kind in lower case, so that each kind has one document"
        yield Violation("metadata.name", excerpt(name), expected)
    if "." not in resource.group:
        expected = "group and version of a custom resource, such as example.com/v1"
        yield Violation("spec.resource.apiVersion", excerpt(resource.api_version), expected)
    if not (spec.templates or spec.passes_on):
        expected = "pod templates, or spec.passesOn for a kind that does not wait itself"
        yield Violation("spec.templates", "nothing", expected)
    for use in _uses(spec):
        if use.path and use.part and use.path[0] != use.part:
            yield Violation(use.place, _shown(use.path), f"a field of the object's {use.part}")
        if reserved := _RESERVED.intersection(use.path):
            expected = "fields that policies can name: this word is one of CEL"
            yield Violation(use.place, sorted(reserved)[0], expected)
    if not (spec.passes_on or spec.ended.conditions or spec.ended.fields):
        expected = "how an object shows that it has ended: without it, it holds its seats until it is deleted"
        yield Violation("spec.ended", "nothing", expected, tolerable=True)
    yield from _names_of_pod_sets(spec)


def _names_of_pod_sets(spec: WorkloadKindSpec) -> Iterator[Violation]:
    seen: set[str] = set()
    for index, templates in enumerate(spec.templates):
        place = f"spec.templates[{index}].name"
        if templates.each != "one":
            continue
        if not templates.name:
            yield Violation(place, "nothing", "the name of the pod set of this template")
        elif templates.name in seen:
            yield Violation(place, excerpt(templates.name), "another name for each template")
        seen.add(templates.name)


# ── by the definition of its objects ────────────────────────────────────────────────────────────────────────


def definition_violations(spec: WorkloadKindSpec, definition: Mapping[str, Any]) -> Iterator[Violation]:
    """Violations of a WorkloadKind by the CustomResourceDefinition of its objects: fields that it lacks, or has in
    another form."""
    resource, defined = spec.resource, definition["spec"]
    if defined["names"]["kind"] != resource.kind:
        yield Violation("spec.resource.kind", excerpt(resource.kind), defined["names"]["kind"])
    if defined["scope"] != "Namespaced":
        yield Violation("spec.resource", "objects outside of namespaces", "objects that are in namespaces")
    served = {each["name"]: each for each in defined["versions"] if each["served"]}
    if (version := served.get(resource.version)) is None:
        expected = f"a version that is served: {', '.join(sorted(served))}"
        yield Violation("spec.resource.apiVersion", excerpt(resource.api_version), expected)
        return
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if schema is not None:
        yield from _schema_violations(spec, schema)


def _schema_violations(spec: WorkloadKindSpec, schema: Mapping[str, Any]) -> Iterator[Violation]:
    absent: set[Path] = set()
    for use in _uses(spec):
        # What is below a field that is not there is not named again. Every object has metadata.
        if not use.path or use.path[0] == "metadata" or any(use.path[: len(path)] == path for path in absent):
            continue
        found, depth = _part_of(schema, use.path)
        if found is None:
            absent.add(use.path[: depth + 1])
            yield Violation(use.place, _shown(use.path), _what_is_there(schema, use.path[:depth]))
        elif not _is_of(found, use.form):
            yield Violation(
                use.place, f"{_shown(use.path)}, {_form_of(found)}", f"a field that is {use.form}"
            )


class _Use(NamedTuple):
    """A field of objects that a document names."""

    #: Where the document names it.
    place: str
    #: The field, from the object; ``[]`` and ``{}`` stand for each part of a list or a map.
    path: Path
    #: What has to be there: a type of JSON schema; "": any.
    form: str
    #: ``spec`` or ``status``: which part of the object it has to be in; "": any.
    part: str = "spec"


def _uses(spec: WorkloadKindSpec) -> Iterator[_Use]:
    """All fields that a document names, outer ones before those in them."""
    yield from _uses_of_places(spec.passes_on)
    for index, templates in enumerate(spec.templates):
        yield from _uses_of_templates(templates, f"spec.templates[{index}]")
    if spec.passes_on:
        return
    yield _Use("spec.suspend", spec.suspend, "boolean")
    for index, values in enumerate(spec.ended.fields):
        yield _Use(f"spec.ended.fields[{index}].at", values.at, "string", "status")
    if (progress := spec.progress) is not None:
        at = (*progress.at, _ELEMENT if progress.each == "element" else _ENTRY)
        yield _Use("spec.progress.at", progress.at, _form(progress.each), "status")
        for name, field in (("succeeded", progress.succeeded), ("ready", progress.ready)):
            if field != type(progress).model_fields[name].default:
                yield _Use(f"spec.progress.{name}", (*at, field), "integer", "status")
    if (source := spec.queue_from) is not None:
        yield _Use("spec.queueFrom.template", (*source.template, "metadata", "labels"), "object")
    yield _Use("spec.priorityClass", spec.priority_class, "string")
    for index, demand in enumerate(spec.demands):
        form = "" if demand.must == "absent" else "boolean"
        yield _Use(f"spec.demands[{index}].at", demand.at, form)
    for index, default in enumerate(spec.defaults):
        yield _Use(f"spec.defaults[{index}].at", default.at, "boolean")
    if spec.managed_by:
        yield _Use("spec.managedBy", spec.managed_by_at, "string")
    for index, fewer in enumerate(spec.fewer_pods):
        yield _Use(f"spec.fewerPods[{index}].at", fewer.at, "integer")
    yield _Use("spec.otherQueue", spec.other_queue, "string")


def _uses_of_places(places: Sequence[PassedOn]) -> Iterator[_Use]:
    for index, place in enumerate(places):
        at = (*place.at, *_PARTS[place.each], *place.holder)
        yield _Use(f"spec.passesOn[{index}].at", place.at, _form(place.each), "")
        # What is below an object's own metadata is no part of its definition.
        if place.labels and place.at[:1] == ("spec",):
            yield _Use(f"spec.passesOn[{index}].labels", (*at, *place.labels), "object")


def _uses_of_templates(templates: Templates, place: str) -> Iterator[_Use]:
    at = (*templates.at, *_PARTS[templates.each])
    yield _Use(f"{place}.at", templates.at, _form(templates.each))
    if templates.each == "element":
        yield _Use(f"{place}.namedBy", (*at, templates.named_by), "string")
    if not templates.computed:
        template = (*at, *templates.template)
        yield _Use(f"{place}.template", (*template, "spec", "containers"), "array")
        # Muster writes both: what a definition lacks there, the API server would drop, and no pod would wait.
        for name in ("labels", "annotations"):
            yield _Use(f"{place}.template", (*template, "metadata", name), "object")
    for number, count in enumerate(templates.counts):
        yield from _uses_of_count(count, at, f"{place}.counts[{number}]")
    if templates.depends_on:
        yield _Use(f"{place}.dependsOn", (*at, *templates.depends_on), "array")
    if templates.made_if is not None:
        yield _Use(f"{place}.madeIf.at", templates.made_if.at, "string")


def _uses_of_count(count: PodCount, at: Path, place: str) -> Iterator[_Use]:
    for name, path, form in (
        ("at", count.at, "integer"),
        ("most", count.most, "integer"),
        ("least", count.least, "integer"),
        ("unless", count.unless, "boolean"),
    ):
        if path:
            yield _Use(f"{place}.{name}", (*at, *path), form)


def _form(each: str) -> str:
    return "array" if each == "element" else "object"


def _part_of(schema: Mapping[str, Any], path: Path) -> tuple[Mapping[str, Any] | None, int]:
    """The schema of a field, and how many of its path's fields are there; {}: anything may be there. None: it is not
    there."""
    for depth, field in enumerate(path):
        match field:
            case "[]":
                inner = schema.get("items")
            case "{}":
                inner = schema.get("additionalProperties")
            case _:
                inner = (schema.get("properties") or {}).get(field)
        if not isinstance(inner, Mapping):
            is_free = schema.get(_FREE) or schema.get("x-kubernetes-embedded-resource") or not schema
            return ({}, len(path)) if is_free or inner is True else (None, depth)
        schema = inner
    return schema, len(path)


def _is_of(schema: Mapping[str, Any], form: str) -> bool:
    if not form:
        return True
    if schema.get("x-kubernetes-int-or-string"):
        return form in ("integer", "string")
    return bool(schema.get("type", form) == form)


def _form_of(schema: Mapping[str, Any]) -> str:
    return str(schema.get("type", "something else"))


def _what_is_there(schema: Mapping[str, Any], path: Path) -> str:
    """What a definition has at a place, for a message."""
    found, _ = _part_of(schema, path)
    fields = sorted((found or {}).get("properties") or {})
    told = ", ".join(fields[:_MOST_NAMED]) + (", and more" if len(fields) > _MOST_NAMED else "")
    where = f"{_shown(path)} has" if path else "objects have"
    return f"a field of the definition, where {where} {told or 'no fields'}"


def _shown(path: Path) -> str:
    return ".".join(path).replace(".[]", "[]").replace(".{}", "{}")
