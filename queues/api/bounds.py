"""Bounds of what users write: every list, map and text of a document has one, in the schema and for its readers.

The bounds of a kind are in its schema: those that its model states, else the ones below. The API server refuses what is
beyond them, and lets what is stored already stay as long as it is not changed; readers take no more than they allow.
Parts of free form (pod templates, selectors) have no schema, and are bounded by their bytes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import msgspec

from queues.api.model import MOST_PAIRS, Model

#: Entries of a list and characters of a text, where the model states no bound, as ``MOST_PAIRS`` of a map: far more
#: than work needs.
MOST_ITEMS: Final = 1024
LONGEST_TEXT: Final = 32 * 1024
#: Of a value in a map: the API server lets all annotations of an object have as much.
LONGEST_VALUE: Final = 256 * 1024
#: Characters of a quantity.
LONGEST_QUANTITY: Final = 64
#: Bytes of a part of free form, such as a pod template, as JSON: what etcd takes of an object, with room for the rest.
LARGEST_PART: Final = 1280 * 1024

_INT32 = (-(2**31), 2**31 - 1)

#: Syntax of the quantities that queues.resources reads.
QUANTITY_PATTERN = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,2}|[numkMGTPE]|[KMGTPE]i)?$"

_FREE: Final = "x-kubernetes-preserve-unknown-fields"


@dataclass(frozen=True, slots=True)
class Excess:
    """A part of a document that is beyond its bound."""

    path: str
    found: int
    most: int
    #: ``entries``, ``characters`` or ``bytes``.
    unit: str
    value: Any

    def __str__(self) -> str:
        return f"{self.path}: found {self.found} {self.unit}, expected at most {self.most}"


def bounded(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema in which all that users write has a bound: statuses are Muster's."""
    for name, part in schema["properties"].items():
        if name not in ("apiVersion", "kind", "metadata", "status"):
            schema["properties"][name] = _with_bounds(part)
    return schema


def _with_bounds(schema: dict[str, Any], *, in_map: bool = False) -> dict[str, Any]:
    """A structural schema in which every list, map and text has a bound."""
    kind = schema.get("type")
    if schema.get("x-kubernetes-int-or-string"):
        schema.setdefault("maxLength", LONGEST_QUANTITY)
    elif kind == "string" and "enum" not in schema and schema.get("format") != "date-time":
        schema.setdefault("maxLength", LONGEST_VALUE if in_map else LONGEST_TEXT)
    elif kind == "array":
        schema.setdefault("maxItems", MOST_ITEMS)
        schema["items"] = _with_bounds(schema["items"])
    elif isinstance(inner := schema.get("additionalProperties"), dict):
        schema.setdefault("maxProperties", MOST_PAIRS)
        schema["additionalProperties"] = _with_bounds(inner, in_map=True)
    for name, inner in schema.get("properties", {}).items():
        schema["properties"][name] = _with_bounds(inner)
    return schema


def excesses(document: Mapping[str, Any], model: type[Model]) -> list[Excess]:
    """Parts of a document that are beyond their bounds. Its metadata and its status are not looked at."""
    return within_bounds(document, model)[1]


def within_bounds(document: Mapping[str, Any], model: type[Model]) -> tuple[dict[str, Any], list[Excess]]:
    """A document as far as it is read: lists and maps up to their bounds. And what is beyond them."""
    found: list[Excess] = []
    written = {name: part for name, part in document.items() if name not in ("metadata", "status")}
    cut = _cut(written, _schema_of(model), "", found)
    return ({**document, **cut} if found else dict(document)), found


@cache
def _schema_of(model: type[Model]) -> Mapping[str, Any]:
    json_schema = model.model_json_schema(by_alias=True)
    return bounded(structural(json_schema, json_schema.get("$defs", {})))


def _cut(value: Any, schema: Mapping[str, Any], path: str, found: list[Excess]) -> Any:
    """A value with its lists and maps up to their bounds. What is beyond a bound is added to ``found``."""

    def most(size: int, bound: str, unit: str) -> int | None:
        limit: int | None = schema.get(bound)
        if limit is not None and size > limit:
            found.append(Excess(path, size, limit, unit, value))
        return limit

    if isinstance(value, str):
        most(len(value), "maxLength", "characters")
    elif isinstance(value, list):
        entries = value[: most(len(value), "maxItems", "entries")]
        items = schema.get("items", {})
        return [_cut(entry, items, f"{path}[{index}]", found) for index, entry in enumerate(entries)]
    elif isinstance(value, dict) and schema.get(_FREE) and "properties" not in schema:
        if (size := len(msgspec.json.encode(value))) > LARGEST_PART:
            found.append(Excess(path, size, LARGEST_PART, "bytes", value))
    elif isinstance(value, dict):
        names = sorted(value)[: most(len(value), "maxProperties", "entries")]
        properties, inner = schema.get("properties", {}), schema.get("additionalProperties", {})
        return {
            name: _cut(value[name], properties.get(name, inner), f"{path}.{name}" if path else name, found)
            for name in names
        }
    return value


def structural(
    node: Mapping[str, Any], definitions: Mapping[str, Any], *, in_list: bool = False
) -> dict[str, Any]:
    """A JSON schema of pydantic as the structural schema that the API server wants: no references, no unions.

    ``in_list``: it is of a part of a list, where no default is stored. To the API server a list is one value: with
    defaults in it, it would differ from what its owner applies, and conflict with any other client that applies the
    same.
    """
    merged = _resolved(node, definitions)
    schema: dict[str, Any] = {}
    if description := merged.get("description"):
        schema["description"] = " ".join(description.split())
    for word in (
        "type",
        "format",
        "pattern",
        "enum",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "maxProperties",
    ):
        if word in merged:
            schema[word] = merged[word]
    for word, implied in (("minimum", _INT32[0]), ("maximum", _INT32[1])):  # by format int32
        if word in merged and merged[word] != implied:
            schema[word] = merged[word]
    # Empty defaults are the model's only, and left out; the others are Volcano's.
    if not in_list and merged.get("default") and not isinstance(merged["default"], Mapping | list):
        schema["default"] = merged["default"]
    if "properties" in merged:
        schema["properties"] = {
            name: structural(value, definitions, in_list=in_list)
            for name, value in merged["properties"].items()
        }
    if merged.get("required"):
        schema["required"] = merged["required"]
    # A structural schema has no patterns of keys: the reader holds keys to them.
    values = next(iter(merged.get("patternProperties", {}).values()), merged.get("additionalProperties"))
    if isinstance(values, Mapping):
        schema["additionalProperties"] = structural(values, definitions, in_list=in_list)
    if "items" in merged:
        schema["items"] = structural(merged["items"], definitions, in_list=True)
    schema.update({word: value for word, value in merged.items() if word.startswith("x-kubernetes-")})
    if schema.get("x-kubernetes-int-or-string"):
        schema["pattern"] = QUANTITY_PATTERN
    return schema


def _resolved(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """A schema node with its reference resolved; of ``anyOf`` with null, the other alternative."""
    merged = {word: value for word, value in node.items() if word not in ("$ref", "anyOf", "allOf", "$defs")}
    inner: list[Mapping[str, Any]] = list(node.get("allOf", ()))
    inner += [choice for choice in node.get("anyOf", ()) if choice.get("type") != "null"]
    if "$ref" in node:
        inner.append(definitions[node["$ref"].rpartition("/")[2]])
    for part in inner:
        merged = {**_resolved(part, definitions), **merged}
    return merged
