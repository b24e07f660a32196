"""The page ``docs/reference/cli.md``: every command, argument and option, from the commands themselves."""

from collections.abc import Callable, Sequence
from inspect import cleandoc
from typing import Any, Final, NamedTuple

import click

from admission.cli.examples import NamedCommand, commands_of, examples
from admission.cli.kubectl_muster import kubectl_muster
from admission.cli.muster import muster
from admission.cli.options import cluster, namespace, namespaces, route
from admission.cli.output import output

_HEAD: Final = """\
# Command line

<!-- Written by `python -m deploy.reference_pages` from the help of the commands; do not edit. -->

There are two programs: [`muster`](#muster) for administrators, and the kubectl plugin [`kubectl
muster`](#kubectl-muster) for users. Both exit with 0 on success, 1 on failure (not found, not reachable, errors in
documents), 2 for a wrong command line, 130 if Ctrl-C ended them, and `kubectl muster` with 3 if the answer is [too
old](cli-output.md#how-old-an-answer-is). Errors say what was tried, what was found and what to do, on standard error.
[What commands print](cli-output.md) has the columns of tables, the fields of JSON, and whose rights count.

`kubectl` finds the plugin by its name, `kubectl-muster`, on `PATH`. Flags come after the plugin's name: `kubectl
muster pending -n team`. Shells complete subcommands, flags, queues, users, and jobs that wait or run through
`kubectl_complete-muster`, as for kubectl itself.

TIME is how long ago (`90m`, `12h`, `30d`, `2w`), a date (`2026-11-20`), or a time (`2026-11-20T14:00`, in UTC unless
it has a zone). `NAME=AMOUNT[,…]` is `nvidia.com/gpu=32,cpu=128`. In brackets: the default, or the environment
variable that is read.

"""
#: Where more is said about a command.
_MORE: Final = {
    "kubectl muster jobs": "[columns](cli-output.md#jobs)",
    "kubectl muster who": "[columns](cli-output.md#who)",
    "kubectl muster nodes": (
        "[columns](cli-output.md#nodes), "
        "[fields](cli-output.md#nodes-as-json), "
        "[recovery](../how-to/gpu-recovery.md), "
        "[the node agent](../how-to/gpu-nodes.md)"
    ),
    "kubectl muster explain": (
        "[the smallest changes that would admit it](http.md#outlook), [kinds](names.md#kinds-of-workloads)"
    ),
    "kubectl muster events": "[how long they are kept](../how-to/operate.md#history)",
    "kubectl muster usage": (
        "[GPU-hours and costs](../how-to/accounting.md), [columns for programs](cli-output.md#use-as-csv)"
    ),
    "kubectl muster page": "[the page](../how-to/page.md)",
    "muster page": "[the page in the cluster](../how-to/page-in-the-cluster.md)",
    "kubectl muster job suspend": "[suspend and resume](../how-to/gangs.md#suspend-and-resume-a-job)",
    "kubectl muster quota": "[change quota](../how-to/queues-and-quotas.md#change-quota)",
    "kubectl muster quota history": (
        "[who changed what, and why](../how-to/queues-and-quotas.md#who-changed-what-and-why)"
    ),
    "kubectl muster queue": "[operate](../how-to/operate.md)",
    "muster run": "[settings](settings.md)",
    "muster agent": "[the node agent](../how-to/gpu-nodes.md#settings)",
    "muster install": (
        "[install](../how-to/install.md), [what is left](../explanation/security.md#what-is-left)"
    ),
    "muster ledger": "[backup and restore](../how-to/operate.md#backup-and-restore)",
    "muster check": "[other kinds](../how-to/other-kinds.md)",
    "muster convert": (
        "[from Kueue](../how-to/migrate-from-kueue.md), [from Volcano](../how-to/migrate-from-volcano.md)"
    ),
    "muster snapshot": "[saved turns](snapshots.md)",
    "muster replay": "[saved turns](snapshots.md)",
}


class _Group(NamedTuple):
    """Options that many commands have: described once."""

    heading: str
    params: tuple[click.Parameter, ...]


def _added_by(*decorators: Callable[..., Any]) -> tuple[click.Parameter, ...]:
    """The options that a decorator adds to a command, without those that were removed."""

    def probe(**_: Any) -> None:
        """A command without options."""

    command: Any = probe
    for decorator in decorators:
        command = decorator(command)
    return tuple(each for each in reversed(command.__click_params__) if not getattr(each, "hidden", False))


_OUTPUT: Final = _Group("Form of the answer", _added_by(output))
_PLACE: Final = _Group("Namespaces", (*_added_by(namespaces), *_added_by(namespace)))
_ROUTE: Final = _Group("Who is asked", (*_added_by(route), *_added_by(cluster)))
_COMMON: Final = (_OUTPUT, _PLACE, _ROUTE)


def cli_page() -> str:
    """The whole page."""
    return _HEAD + "\n".join(
        (_program("kubectl muster", kubectl_muster), _common_options(), _program("muster", muster))
    )


def _program(name: str, program: click.Group) -> str:
    commands = [each for each in commands_of(program, name) if not isinstance(each.command, click.Group)]
    told: dict[int, str] = {}
    rows, sections = [], []
    group: NamedCommand | None = None
    for each in commands:
        first = told.setdefault(id(each.command), each.name)
        rows.append(
            f"| [`{each.name}`](#{_anchor(first)}) | {_cell(each.command.get_short_help_str(200))} |\n"
        )
        if (found := _group_of(each, program, name)) != group:
            group = found
            sections += [] if group is None else [_opening(group)]
        if first == each.name:
            sections.append(_section(each))
    table = "| command | what it does |\n|---|---|\n" + "".join(rows)
    return f"## {name}\n\n{_help(program)}\n{table}\n" + "\n".join(sections)


def _group_of(each: NamedCommand, program: click.Group, name: str) -> NamedCommand | None:
    """The group that a command is in. None if that is the program itself."""
    word = each.name.removeprefix(f"{name} ").split()[0]
    found = program.commands[word]
    return NamedCommand(f"{name} {word}", found) if isinstance(found, click.Group) else None


def _opening(group: NamedCommand) -> str:
    return "\n".join(filter(None, (f"### {group.name}\n", _help(group.command), _more(group.name))))


def _section(each: NamedCommand) -> str:
    command = each.command
    context = click.Context(command, info_name=each.name)
    usage = " ".join(command.collect_usage_pieces(context))
    parts = [f"### {each.name}\n", f"```sh\n{each.name} {usage}\n```\n", _help(command)]
    params = _options_of(command, context)
    shared = [(each, found) for each in _COMMON if (found := [one for one in params if _is_in(one, each)])]
    own = [one for one in params if not any(_is_in(one, each) for each in _COMMON)]
    if own:
        parts.append(_options(own))
    if shared:
        parts.append(f"Common options: {'; '.join(_shared(*each) for each in shared)}.\n")
    parts.append(_more(each.name))
    if lines := examples().get(each.name):
        parts.append("```sh\n" + "".join(f"{line}\n" for line in lines) + "```\n")
    return "\n".join(filter(None, parts))


def _more(name: str) -> str:
    return f"More: {_MORE[name]}.\n" if name in _MORE else ""


def _options_of(command: click.Command, context: click.Context) -> list[click.Option]:
    """The options of a command, without that of its help and those that were removed."""
    return [
        each
        for each in command.get_params(context)
        if isinstance(each, click.Option) and "--help" not in each.opts and not each.hidden
    ]


def _is_in(option: click.Option, group: _Group) -> bool:
    return any(
        isinstance(each, click.Option) and (each.opts, each.help) == (option.opts, option.help)
        for each in group.params
    )


def _shared(group: _Group, found: Sequence[click.Option]) -> str:
    names = ", ".join(f"`{each.opts[0]}`" for each in found)
    return f"{names} ([{group.heading.lower()}](#{_anchor(group.heading)}))"


def _common_options() -> str:
    parts = ["## Common options\n"]
    for group in _COMMON:
        options = {tuple(each.opts): each for each in group.params if isinstance(each, click.Option)}
        parts.append(f"### {group.heading}\n\n{_options(list(options.values()))}")
    return "\n".join(parts)


def _options(options: Sequence[click.Option]) -> str:
    rows = (f"| {_names(each)} | {_meaning(each)} |\n" for each in options)
    return "| option | meaning |\n|---|---|\n" + "".join(rows)


def _names(option: click.Option) -> str:
    context = click.Context(click.Command("any"))
    is_number = option.metavar is None and isinstance(option.type, click.IntRange)
    value = "" if option.is_flag else " N" if is_number else f" {option.make_metavar(context)}"
    return f"`{', '.join(option.opts)}{value}`".replace("|", "\\|")


def _meaning(option: click.Option) -> str:
    text = _cell(option.help or "")
    if option.show_default and option.default is not None and not option.is_flag:
        text += f" Default: `{option.default}`."
    if option.multiple and "repeated" not in text:
        text += " May be repeated."
    return text


def _help(command: click.Command) -> str:
    """The help of a command, a line for each paragraph."""
    text = cleandoc(command.help or "").replace("\b\n", "")
    paragraphs = (" ".join(part.split()) for part in text.split("\n\n"))
    return "\n\n".join(map(_prose, paragraphs)) + "\n"


def _prose(text: str) -> str:
    return text.replace("<", "&lt;")


def _cell(text: str) -> str:
    return _prose(" ".join(text.split())).replace("|", "\\|")


def _anchor(heading: str) -> str:
    return heading.lower().replace(" ", "-")
