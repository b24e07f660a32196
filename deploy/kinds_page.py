"""The page ``docs/reference/kinds.md``: every field of every kind that Muster defines, from the definitions."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from queues.api.crd import crds

_HEAD: Final = """\
# Kinds and their fields

<!-- Written by `python -m deploy.reference_pages` from queues/api/types; do not edit. -->

Every field of the kinds that `muster install` defines; `kubectl explain vcjob.spec.tasks` shows the same. Kinds of
`volcano.sh` have Volcano's fields, with what Muster does with them. Fields that are not here are kept and have no
effect. Amounts are quantities of Kubernetes (`500m`, `32Gi`), durations those of Go (`90s`, `1h30m`). Rows of `status`
are written by Muster.
"""

#: Not shown: they are the same in every kind.
_COMMON: Final = frozenset({"apiVersion", "kind", "metadata"})


def kinds_page() -> str:
    """The whole page."""
    return _HEAD + "".join(f"\n{_section(definition)}" for definition in crds())


def _section(definition: Mapping[str, Any]) -> str:
    names, version = definition["spec"]["names"], definition["spec"]["versions"][0]
    schema = version["schema"]["openAPIV3Schema"]
    short = ", ".join(f"`{name}`" for name in names.get("shortNames", ()))
    scope = "in a namespace" if definition["spec"]["scope"] == "Namespaced" else "of the cluster"
    group = definition["spec"]["group"]
    lines = [
        f"## {names['kind']}",
        "",
        f"`{group}/{version['name']}`, {scope}" + (f"; short {short}" if short else "") + ".",
        "",
        "| field | type | default | meaning |",
        "|---|---|---|---|",
        *(_row(path, field) for path, field in _fields(schema) if path not in _COMMON),
    ]
    return "\n".join(lines) + "\n"


def _fields(schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, field in schema.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        yield here, field
        if field.get("type") == "array":
            yield from _fields(field.get("items", {}), f"{here}[]")
        else:
            yield from _fields(field, here)


def _row(path: str, field: Mapping[str, Any]) -> str:
    default = f"`{field['default']}`" if "default" in field else ""
    if isinstance(field.get("default"), bool):
        default = f"`{str(field['default']).lower()}`"
    meaning = str(field.get("description", "")).replace("|", "\\|")
    return f"| `{path}` | {_type(field)} | {default} | {meaning} |"


def _type(field: Mapping[str, Any]) -> str:
    if field.get("x-kubernetes-int-or-string"):
        return "quantity"
    if choices := field.get("enum"):
        return " or ".join(f"`{each}`" for each in choices if each)
    if field.get("type") == "array":
        return f"list of {_type(field.get('items', {}))}"
    if "additionalProperties" in field:
        return f"map of {_type(field['additionalProperties'])}"
    kind = str(field.get("type", "object"))
    low, high = field.get("minimum"), field.get("maximum")
    bounds = f" ≥ {low}" if low is not None else ""
    return kind + bounds + (f" ≤ {high}" if high is not None else "")
