"""Writes the pages of ``docs/reference`` that follow from tables in the code, by the templates in ``deploy/pages``.

    python -m deploy.reference_pages

A test compares them.
"""

from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader

from admission.agent.xids import XIDS, Xid, XidClass
from admission.figures import catalogue
from deploy.cli_page import cli_values
from queues.api.crd import crds
from queues.api.metadata_keys import TABLES
from queues.api.validation.scheduler_fields import FIELDS

DOCS = Path(__file__).parents[1] / "docs"
#: Fields of objects that are not shown: they are the same in every kind.
_OF_ALL_KINDS: Final = frozenset({"apiVersion", "kind", "metadata"})


def pages() -> dict[str, str]:
    """Path below ``docs`` → content."""
    return {
        "reference/annotations.md": _rendered("annotations", tables=TABLES),
        "reference/cli.md": _rendered("cli", **cli_values()),
        "reference/dcgm.md": _rendered("dcgm", catalogue=catalogue),
        "reference/kinds.md": _rendered("kinds", definitions=crds(), fields_of=_fields_of, type_of=_type_of),
        "reference/metrics.md": _rendered("metrics", catalogue=catalogue),
        "reference/scheduler-fields.md": _rendered("scheduler-fields", fields=FIELDS),
        "reference/xids.md": _rendered("xids", groups=_xid_groups()),
    }


def _rendered(page: str, **values: Any) -> str:
    folder = Environment(
        loader=FileSystemLoader(Path(__file__).with_name("pages")),
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    folder.filters["code"] = "`{}`".format
    return folder.get_template(f"{page}.md.j2").render(values)


def _xid_groups() -> list[list[Xid]]:
    """XIDs that the node agent knows, those together that mean the same."""
    ordered = sorted(XIDS.values(), key=lambda known: (*_alike(known), known.code))
    groups = [list(group) for _, group in groupby(ordered, key=_alike)]
    return sorted(groups, key=lambda group: (list(XidClass).index(group[0].xid_class), group[0].code))


def _alike(known: Xid) -> tuple[str, str, str]:
    return known.xid_class, known.meaning, known.source


def _fields_of(schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The fields of a kind with their schemas, each followed by those inside of it."""
    for name, field in schema.get("properties", {}).items():
        if not path and name in _OF_ALL_KINDS:
            continue
        inside = f"{path}.{name}" if path else name
        yield inside, field
        if field.get("type") == "array":
            yield from _fields_of(field.get("items", {}), f"{inside}[]")
        else:
            yield from _fields_of(field, inside)


def _type_of(field: Mapping[str, Any]) -> str:
    if field.get("x-kubernetes-int-or-string"):
        return "quantity"
    if choices := field.get("enum"):
        return " or ".join(f"`{each}`" for each in choices if each)
    if field.get("type") == "array":
        return f"list of {_type_of(field.get('items', {}))}"
    if "additionalProperties" in field:
        return f"map of {_type_of(field['additionalProperties'])}"
    kind = str(field.get("type", "object"))
    low, high = field.get("minimum"), field.get("maximum")
    bounds = f" ≥ {low}" if low is not None else ""
    return kind + bounds + (f" ≤ {high}" if high is not None else "")


def main() -> None:
    """Write all pages."""
    for name, text in pages().items():
        (DOCS / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
