"""Writes the pages of ``docs/reference`` that follow from tables in the code, by the templates in ``deploy/pages``.

    python -m deploy.reference_pages

A test compares them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import cleandoc
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import click
from jinja2 import Environment, FileSystemLoader

from admission.agent.xids import XIDS, Xid, XidClass
from admission.cli.examples import commands_of, examples
from admission.cli.kubectl_muster import kubectl_muster
from admission.cli.muster import muster
from admission.cli.options import namespaces, route
from admission.cli.output import output
from admission.figures import catalogue
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


# ── the page of commands ────────────────────────────────────────────────────────────────────────────────────


def _added_by(decorator: Callable[..., Any]) -> list[click.Option]:
    """The options that a decorator adds to a command."""

    @click.command
    @decorator
    def probe(**_: Any) -> None:
        """A command without options of its own."""

    return _options_of(probe)


def _options_of(command: click.Command) -> list[click.Option]:
    """The options of a command, without that of its help and those that were removed."""
    return [
        option
        for option in command.get_params(click.Context(command))
        if isinstance(option, click.Option) and "--help" not in option.opts and not option.hidden
    ]


#: Options that many commands have, by their heading: described once.
_COMMON: Final = {
    "Form of the answer": _added_by(output),
    "Namespaces": _added_by(namespaces),
    "Who is asked": _added_by(route),
}


def cli_values() -> dict[str, Any]:
    """What the template ``cli.md.j2`` is rendered with."""
    return {
        "common": _COMMON,
        "examples": examples(),
        "plugin": kubectl_muster,
        "plugin_commands": list(commands_of(kubectl_muster, "kubectl muster")),
        "administration": muster,
        "administration_commands": list(commands_of(muster, "muster")),
        "usage_of": _usage_of,
        "own_options_of": _own_options_of,
        "shared_options_of": _shared_options_of,
        "names_of": _names_of,
        "meaning_of": _meaning_of,
        "help_of": _help_of,
        "cell": _cell,
    }


def _usage_of(name: str, command: click.Command) -> str:
    return " ".join(command.collect_usage_pieces(click.Context(command, info_name=name)))


def _own_options_of(command: click.Command) -> list[click.Option]:
    """The options of a command that are described with it."""
    return [
        option
        for option in _options_of(command)
        if not any(_is_in(option, group) for group in _COMMON.values())
    ]


def _shared_options_of(command: click.Command) -> dict[str, list[click.Option]]:
    """The other ones, by the heading below which they are described."""
    options = _options_of(command)
    shared = {
        heading: [option for option in options if _is_in(option, group)] for heading, group in _COMMON.items()
    }
    return {heading: found for heading, found in shared.items() if found}


def _is_in(option: click.Option, group: Sequence[click.Option]) -> bool:
    return any((each.opts, each.help) == (option.opts, option.help) for each in group)


def _names_of(option: click.Option) -> str:
    context = click.Context(click.Command("any"))
    is_number = option.metavar is None and isinstance(option.type, click.IntRange)
    value = "" if option.is_flag else " N" if is_number else f" {option.make_metavar(context)}"
    return f"`{', '.join(option.opts)}{value}`".replace("|", "\\|")


def _meaning_of(option: click.Option) -> str:
    text = _cell(option.help or "")
    if option.show_default and option.default is not None and not option.is_flag:
        text += f" Default: `{option.default}`."
    if option.multiple and "repeated" not in text:
        text += " May be repeated."
    return text


def _help_of(command: click.Command) -> str:
    """The help of a command, a line for each paragraph."""
    text = cleandoc(command.help or "").replace("\b\n", "")
    return "\n\n".join(_prose(" ".join(part.split())) for part in text.split("\n\n"))


def _prose(text: str) -> str:
    return text.replace("<", "&lt;")


def _cell(text: str) -> str:
    return _prose(" ".join(text.split())).replace("|", "\\|")


def main() -> None:
    """Write all pages."""
    for name, text in pages().items():
        (DOCS / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
