"""The quota in a Queue's document: read, changed and compared with another version of the document.

Works on plain JSON data, whatever is in it, and without the models of ``queues.api.types``: versions that were recorded
long ago may break today's rules, and a command line has no time to load models.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from queues.api.names import ROOT_QUEUE
from queues.api.quota.loans import entries
from queues.api.resource_names import resource_named
from queues.errors import InvalidQuantity
from queues.json_values import list_at, mapping_at, text_at
from queues.read_api.bodies import FieldChangeBody
from queues.resources import amount, show

#: What a queue may state for a resource, from the smallest to the largest.
LIMITS: Final = ("guarantee", "deserved", "capability")
#: Characters of a value, and changed fields of one version, that are shown.
SHOWN_CHARACTERS: Final = 200
SHOWN_CHANGES: Final = 200
#: Steps into a document. Fields further down are compared as one value.
_COMPARED_DEPTH: Final = 6

Spec = Mapping[str, Any]


class QuotaField(NamedTuple):
    """One limit of a queue for one resource."""

    #: "": the plain field, which counts on every node.
    flavor: str
    #: One of ``LIMITS``.
    limit: str
    resource: str

    def __str__(self) -> str:
        place = f"flavors[{self.flavor}]." if self.flavor else ""
        return f"{place}{self.limit}[{self.resource}]"


Quota = Mapping[QuotaField, str]


def quota_of(spec: Spec) -> dict[QuotaField, str]:
    """The limits that a spec states, as quantities. What is no quantity is left as it is written."""
    found: dict[QuotaField, str] = {}
    for flavor, part in _parts(spec):
        for limit in LIMITS:
            for resource, text in _amounts(part, limit, plain=not flavor).items():
                found[QuotaField(flavor, limit, resource)] = shown_amount(resource, text)
    return found


def shown_amount(resource: str, text: Any) -> str:
    """A quantity in its usual form (``0.5k`` GPUs are ``500``); what is none is cut to a bounded length."""
    try:
        return show(resource, amount(resource, text))
    except InvalidQuantity:
        return shown_value(text)


def parent_of(name: str, spec: Spec) -> str | None:
    """The queue above; None if this is root."""
    if name == ROOT_QUEUE:
        return None
    return text_at(spec, "parent") or ROOT_QUEUE


def patch_for(spec: Spec, changes: Mapping[QuotaField, str | None]) -> dict[str, Any]:
    """A merge patch of a spec that makes these changes. None removes a limit.

    Flavors are a list, which a merge patch replaces as a whole: it may only be applied to this very spec.
    """
    patch: dict[str, Any] = {}
    flavors = [dict(part) for flavor, part in _parts(spec) if flavor]
    for field, text in changes.items():
        if not field.flavor:
            plain = patch.setdefault(field.limit, {})
            amounts = plain.setdefault("resource", {}) if field.limit == "guarantee" else plain
            amounts[field.resource] = text
            continue
        patch["flavors"] = flavors
        part = next((part for part in flavors if part.get("name") == field.flavor), None)
        if part is None:
            part = {"name": field.flavor}
            flavors.append(part)
        amounts = dict(_amounts(part, field.limit, plain=False))
        if text is None:
            amounts.pop(field.resource, None)
        else:
            amounts[field.resource] = text
        part[field.limit] = amounts
    return patch


def merged(document: Any, patch: Any) -> Any:
    """A document after a merge patch (RFC 7386)."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(document) if isinstance(document, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def changes_between(before: Spec | None, after: Spec | None) -> tuple[FieldChangeBody, ...]:
    """Fields that differ, limits first, each with its value in both. A spec is None if there was no queue, or is none.

    At most ``SHOWN_CHANGES`` fields; quantities of the same amount do not differ.
    """
    old, new = quota_of(before or {}), quota_of(after or {})
    found = [
        FieldChangeBody(field=str(field), before=old.get(field), after=new.get(field))
        for field in sorted(
            {*old, *new}, key=lambda each: (each.flavor, each.resource, LIMITS.index(each.limit))
        )
        if old.get(field) != new.get(field)
    ]
    old_rest, new_rest = dict(_rest(before or {})), dict(_rest(after or {}))
    found += [
        FieldChangeBody(field=path, before=old_rest.get(path), after=new_rest.get(path))
        for path in sorted({*old_rest, *new_rest})
        if old_rest.get(path) != new_rest.get(path)
    ]
    return tuple(
        FieldChangeBody(field=each.field, before=_cut(each.before), after=_cut(each.after))
        for each in found[:SHOWN_CHANGES]
    )


def _parts(spec: Spec) -> Iterator[tuple[str, Spec]]:
    """The plain fields under "", then each flavor under its name."""
    yield "", spec
    for part in list_at(spec, "flavors"):
        if name := text_at(part, "name"):
            yield name, part


def _amounts(part: Spec, limit: str, *, plain: bool) -> Mapping[str, Any]:
    return mapping_at(part, *(("guarantee", "resource") if plain and limit == "guarantee" else (limit,)))


def _rest(spec: Spec) -> Iterator[tuple[str, str]]:
    """The other fields, by path."""
    for key, value in spec.items():
        if key in LIMITS or key == "flavors":
            continue
        if key == "loans":
            yield from _loans(spec)
            continue
        yield from _flat(str(key), value, _COMPARED_DEPTH)
    names = [flavor for flavor, _ in _parts(spec) if flavor]
    if names:  # the order in which they are tried
        yield "flavors", ", ".join(names)


def _loans(spec: Spec) -> Iterator[tuple[str, str]]:
    """The amounts that are lent, by queue and resource, each with its end; several to one queue one after the other."""
    found: dict[str, list[str]] = {}
    for entry in entries(spec):
        flavor = shown_value(entry.get("flavor") or "")
        for resource, text in sorted(mapping_at(entry, "resources").items()):
            field = f"loans[{shown_value(entry.get('to'))}].{QuotaField(flavor, 'deserved', str(resource))}"
            found.setdefault(field, []).append(
                f"{shown_amount(resource, text)} until {shown_value(entry.get('until'))}"
            )
    for field, texts in found.items():
        yield field, ", ".join(texts)


def _flat(path: str, value: Any, depth: int) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and depth:
        for key, inner in value.items():
            text = str(key)
            inside = f"{path}[{text}]" if "/" in text or "." in text else f"{path}.{text}"
            yield from _flat(inside, inner, depth - 1)
    elif value is not None:
        yield path, _whole(value)


def _whole(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)


def shown_value(value: Any) -> str:
    """Any value of a document as text, cut to a bounded length."""
    return str(_cut(_whole(value)))


def _cut(text: str | None) -> str | None:
    return text if text is None or len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 1]}…"


# ── changes that are asked for ──────────────────────────────────────────────────────────────────────────────


#: What a change makes of limits; None removes one.
Changes = Mapping[QuotaField, str | None]
#: Amounts that remove a limit.
_REMOVED: Final = ("", "-")
#: Why queue root is not changed.
ROOT_HAS_NO_LIMITS: Final = (
    "Queue root has what the usable nodes can allocate, and no quota to set. Set that of the queues below it."
)


def limit_asked(option: str, field: QuotaField, quantity: str) -> tuple[QuotaField, str | None]:
    """A limit with its new amount, in its usual form; None if it is to be removed. Raises NoSuchResource.

    The name of one that is to be removed is taken as it is: see ``with_whole_names``.
    """
    if quantity in _REMOVED:
        return field, None
    resource = resource_named(option, field.resource)
    return field._replace(resource=resource), shown_amount(resource, quantity)


def with_whole_names(spec: Spec, changes: Changes, option: str | None = None) -> Changes:
    """The changes with short names written out; one that the queue states by that very name is removed by it.

    ``option``: the option that has the names; None if it is the option of their limit. Raises NoSuchResource.
    """
    stated = quota_of(spec)
    return {
        field
        if text is not None or field in stated
        else field._replace(resource=resource_named(option or f"--{field.limit}", field.resource)): text
        for field, text in changes.items()
    }
