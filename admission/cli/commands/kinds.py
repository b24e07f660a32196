"""``muster kinds``: kinds of objects that wait in queues, added, removed and listed."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import click

from admission.cli.access.administration import connected
from admission.cli.command_line import CommandFailed, CommandGroup
from admission.cli.commands.run import CONNECTION, SettingsCommand, settings_from

if TYPE_CHECKING:
    from admission.kube.client.client import Client
    from admission.kube.install.workload_kinds import ListedKind
    from queues.api.types.workload_kind import WorkloadKindDocument

_DRAIN = click.option(
    "--drain",
    is_flag=True,
    help="If objects of the kind hold seats: admit nothing more of it, and wait until they have given these back, as "
    "they do when they end, are suspended or deleted. Nothing is evicted.",
)


@click.group(cls=CommandGroup, short_help="Add, remove and list kinds that wait in queues.")
def kinds() -> None:
    """Add, remove and list kinds of objects that wait in queues by a field that suspends them.

    Muster brings some. A site adds others by a document, a WorkloadKind; no code and no restart are needed.
    """


@kinds.command(cls=SettingsCommand, only=CONNECTION, short_help="Add a kind, or change one.")
@click.argument("file", metavar="FILE")
@_DRAIN
def add(file: str, drain: bool, **flags: Any) -> None:
    """Add the kind of a WorkloadKind, or change it. FILE is YAML or JSON with one document, or - for standard input.

    The document is checked against the definition of its objects in the cluster. The role and the policies that follow
    from it are shown and applied with your rights, then the document; Muster uses it from then on. Doing it again
    changes nothing, or brings role and policies up to date after an upgrade; and it calls back a kind that is drained.
    A kind whose objects hold seats is not changed, unless --drain is given.
    """
    from admission.kube.install.workload_kinds import add_kind

    document = _document(file)
    _run(flags, lambda client: add_kind(client, document, click.echo, drain=drain))


@kinds.command(cls=SettingsCommand, only=CONNECTION, short_help="Remove a kind.")
@click.argument("name", metavar="NAME")
@_DRAIN
def remove(name: str, drain: bool, **flags: Any) -> None:
    """Remove a kind with its role and its policies. NAME is that of the WorkloadKind.

    While objects of the kind hold seats it is refused with their number, unless --drain is given. Objects that wait
    stay suspended, and are their owners' to start. Doing it again finishes an interrupted run; `muster kinds add` with
    the same document calls it back.
    """
    from admission.kube.install.workload_kinds import remove_kind

    _run(flags, lambda client: remove_kind(client, name, click.echo, drain=drain))


@kinds.command(
    name="list", cls=SettingsCommand, only=CONNECTION, short_help="List kinds, and whether they are used."
)
def list_kinds(**flags: Any) -> None:
    """List the kinds that documents describe: those that Muster brings, and those of the site."""
    from admission.cli.rendering.terminal import table
    from admission.kube.install.workload_kinds import listed_kinds

    async def show(client: "Client") -> None:
        rows = [_row(each) for each in await listed_kinds(client)]
        click.echo(table(("NAME", "RESOURCE", "FROM", "STATE", ""), rows), nl=False)

    _run(flags, show)


def _row(kind: "ListedKind") -> tuple[str, ...]:
    whose = "muster" if kind.is_built_in else "site"
    told = "" if kind.reason in ("", "InUse") else kind.message
    return kind.name, kind.resource, whose, kind.reason or "InUse", told


def _document(file: str) -> "WorkloadKindDocument":
    """The only document of a file. Raises CommandFailed."""
    from admission.cli.document_files import document_files
    from queues.api.check.check import read_subjects
    from queues.api.types.workload_kind import WorkloadKindDocument
    from queues.api.validation.validation import kind_of, unknown_fields, violations_of

    tried = f"Reading {file}"
    texts, findings = document_files([file])
    unreadable, subjects = read_subjects(texts)
    if problems := [*findings, *unreadable]:
        raise CommandFailed(tried=tried, found=str(problems[0]))
    if len(subjects) != 1 or kind_of(subjects[0].value) is not WorkloadKindDocument:
        found = ", ".join(str(each.value.get("kind")) for each in subjects) or "no document"
        raise CommandFailed(
            tried=tried, found=f"found {found}, expected one WorkloadKind of muster.dev/v1alpha1"
        )
    # What the API server has added to it when it was stored.
    value = {key: part for key, part in subjects[0].value.items() if key != "status"}
    wrong = [each.message for each in violations_of(value) if not each.tolerable]
    wrong += [
        f"{path}: found a field that is not known, expected a field of the kind"
        for path in unknown_fields(value)
    ]
    if wrong:
        raise CommandFailed(tried=tried, found="; ".join(wrong), hint="Nothing was changed.")
    return WorkloadKindDocument.parse(value)


def _run(flags: dict[str, Any], work: "Callable[[Client], Awaitable[None]]") -> None:
    import asyncio

    async def run() -> None:
        async with connected(settings_from(flags)) as client:
            await work(client)

    asyncio.run(run())
