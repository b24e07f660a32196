"""``kubectl muster try``: what would become of objects if they were submitted now. Nothing changes."""

import json
from collections.abc import Mapping
from functools import wraps
from http import HTTPStatus
from typing import Any, Final

import click

from admission.cli.access.read_api import Route, Unanswered, ask
from admission.cli.failures import WRONGLY_CALLED, CommandFailed
from admission.cli.options import Command, namespace, route
from admission.cli.output import Output, output
from admission.cli.rendering.terminal.sentences import filled, say
from admission.cli.trials.dry_runs import create_in_dry_run, with_dry_runs
from admission.cli.trials.files import MOST_BYTES, documents_of_files
from admission.kube.client.kubeconfig import current_namespace
from queues.reason_codes import ReasonCode

#: As ``admission.trials.changes`` has it, which takes long to load.
MOST_ADDED: Final = 5000


def changes(command: Command) -> Command:
    """Add the options that change the cluster in which it is tried; the command gets ``changed``, as the read API takes
    it. Raises UsageError."""

    @wraps(command)
    def with_changes(
        quota: tuple[str, ...],
        flavor: str,
        drain: tuple[str, ...],
        add_nodes: int | None,
        like: str | None,
        **given: Any,
    ) -> Any:
        if (add_nodes is None) != (like is None):
            raise click.UsageError("--add-nodes N and --like NODE belong together.")
        if flavor and not quota:
            raise click.UsageError("--flavor is for --quota.")
        added = [] if add_nodes is None else [{"count": add_nodes, "like": like}]
        named = {"quota": quota, "flavor": flavor, "drain": drain, "addNodes": added}
        return command(changed={name: value for name, value in named.items() if value}, **given)

    with_options: Command = with_changes
    for option in (
        click.option("--like", metavar="NODE", help="The node that these are like."),
        click.option(
            "--add-nodes",
            type=click.IntRange(1, MOST_ADDED),
            metavar="N",
            help="With so many nodes more, like --like.",
        ),
        click.option(
            "--drain",
            multiple=True,
            metavar="NODES",
            help="Without a node, a domain (rack-3), or nodes by KEY=VALUE,…",
        ),
        click.option(
            "--flavor", default="", metavar="FLAVOR", help="The limits of this flavor [the plain ones]."
        ),
        click.option(
            "--quota",
            multiple=True,
            metavar="QUEUE.[LIMIT.]RESOURCE=AMOUNT",
            help="With this limit of a queue [LIMIT: deserved]: tenant-a.gpu=64.",
        ),
    ):
        with_options = option(with_options)
    return with_options


@click.command("try", short_help="Would it start now, where, or why not; what other quota or nodes would do.")
@click.option("-f", "--filename", "files", multiple=True, metavar="FILE", help="What would be submitted.")
@click.option("-q", "--queue", default="", metavar="QUEUE", help="Try it in this queue [the one it names].")
@changes
@namespace
@output
@route
def try_(
    files: tuple[str, ...],
    queue: str,
    changed: Mapping[str, Any],
    namespace: str | None,
    output: Output,
    route: Route,
) -> int:
    """Show what would become of Jobs, PodGroups with their pods, and objects of other kinds that wait, if they were
    submitted now: where they would start, which quota they would take, who would be evicted for them; or why they
    would wait, and what would let them in. Nothing is stored.

    FILE is YAML or JSON with any number of documents, a directory of such files, or - for standard input; -f may be
    given several times. All of them are decided together, in their order. The API server is asked about each in a dry
    run, with strict validation of fields, as kubectl apply asks it. Exit code 1: one of them would be refused, or
    names a queue that there is not.

    With --quota, --drain or --add-nodes: who would start, wait, move or be evicted if queues and nodes were so. -f
    tries objects in that cluster. --quota takes what `kubectl muster quota set` takes, and is refused what that is
    refused. --drain and --add-nodes are for those who may list everything; --quota is for the
    administrators of the queue too.
    """
    if not (files or changed):
        raise click.UsageError("Expected -f FILE, or a change: --quota, --drain or --add-nodes.")
    question = {
        "documents": documents_of_files(files, namespace) if files else [],
        "namespace": namespace or current_namespace(route.kubeconfig, route.context),
        "queue": queue,
        **changed,
    }
    body = answer_of(route, question)
    if files and (create := create_in_dry_run(route)) is not None:
        documents, where = question["documents"], question["namespace"]
        body = with_dry_runs(body, documents, namespace=where, queue=queue, create=create)
    text = output.document(body)
    if text is None:
        from admission.cli.rendering.trials.trial import trial_text

        shown = trial_text(body, wide=output.is_wide, headers=output.headers, width=output.room)
        text = filled(shown, output.room)
    click.echo(text, nl=False)
    for warning in (body["comparison"] or {}).get("warnings", ()):
        say(f"Warning: {warning}", err=True)
    return 1 if any(map(_is_lost, body["items"])) else 0


def _is_lost(item: Mapping[str, Any]) -> bool:
    """Whether an object would be refused, or wait in a queue that there is not."""
    reason = item["reason"]
    return item["state"] == "refused" or (reason is not None and reason["code"] == ReasonCode.UNKNOWN_QUEUE)


def answer_of(route: Route, question: dict[str, Any]) -> Any:
    """The answer to a trial. Raises CommandFailed."""
    content = json.dumps(question).encode()
    if len(content) > MOST_BYTES:
        raise CommandFailed(
            tried="",
            found=f"{len(content) // 1024} KiB of documents, expected at most {MOST_BYTES // 1024} KiB",
            hint="Try fewer of them at a time.",
        )
    try:
        return ask(route, "trials", content=content)
    except Unanswered as error:
        # What is wrong with an option is told with its name.
        if error.status == HTTPStatus.BAD_REQUEST and str(error).startswith("--"):
            error.exit_code = WRONGLY_CALLED
        raise
