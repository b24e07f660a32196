"""``kubectl muster try``: what would become of objects if they were submitted now. Nothing changes."""

import time
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from typing import Final

import click
from msgspec import json, structs

from admission.cli.access.requests import Route, Unanswered, ask
from admission.cli.command_line import WRONGLY_CALLED, CommandFailed
from admission.cli.document_files import document_files
from admission.cli.options import QUEUE, namespace, route
from admission.cli.output import Output, output
from admission.cli.plugin.dry_runs import (
    Create,
    create_in_dry_run,
    dry_runs,
    to_be_tried,
    with_dry_runs,
    workloads_among,
)
from admission.cli.rendering.terminal import filled, say
from queues.api.api_resources import Document
from queues.read_api.trials import TrialBody, TrialList, TrialRequestBody
from queues.reason_codes import ReasonCode
from queues.text_format import rfc3339


@click.command("try", short_help="Would it start now, where, or why not; what other quota would do.")
@click.option("-f", "--filename", "files", multiple=True, metavar="FILE", help="What would be submitted.")
@click.option("-q", "--queue", default="", type=QUEUE, help="Try it in this queue [the one it names].")
@click.option(
    "--quota",
    multiple=True,
    metavar="QUEUE.[LIMIT.]RESOURCE=AMOUNT",
    help="With this limit of a queue [LIMIT: deserved]: tenant-a.gpu=64.",
)
@click.option("--flavor", default="", metavar="FLAVOR", help="The limits of this flavor [the plain ones].")
@namespace
@output
@route
def try_(
    files: tuple[str, ...],
    queue: str,
    quota: tuple[str, ...],
    flavor: str,
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

    With --quota: who would start, wait or be evicted if queues had these limits. -f tries objects in that cluster.
    --quota takes what `kubectl muster quota set` takes, and is refused what that is refused. It is for those who may
    list everything, and for the administrators of the queue.
    """
    if not (files or quota):
        raise click.UsageError("Expected -f FILE, or --quota.")
    if flavor and not quota:
        raise click.UsageError("--flavor is for --quota.")
    documents = tuple(documents_of_files(files, namespace)) if files else ()
    question = TrialRequestBody(
        documents=documents, namespace=route.namespace(namespace), queue=queue, quota=quota, flavor=flavor
    )
    create = create_in_dry_run(route) if documents else None
    body = answer_of(route, question) if create is None else _dry_run_first(route, question, create)
    text = output.document(body)
    if text is None:
        from admission.cli.plugin.trial_text import trial_text

        text = filled(trial_text(body, output), output.room)
    click.echo(text, nl=False)
    for warning in body.comparison.warnings if body.comparison is not None else ():
        say(f"Warning: {warning}", err=True)
    return 1 if any(map(_is_lost, body.items)) else 0


def _dry_run_first(route: Route, question: TrialRequestBody, create: Create) -> TrialList:
    """The answer to a trial of the objects as the API server would store them. Raises CommandFailed."""
    check_size(question)
    runs = dry_runs(question, workloads_among(question.documents, route), create)
    tried = structs.replace(question, documents=to_be_tried(runs))
    if tried.documents or tried.quota:
        body = answer_of(route, tried)
    else:
        body = TrialList(now=rfc3339(int(time.time())), items=())
    return structs.replace(body, items=with_dry_runs(body.items, runs))


def _is_lost(item: TrialBody) -> bool:
    """Whether an object would be refused, or wait in a queue that there is not."""
    is_lost = item.reason is not None and item.reason.code == ReasonCode.UNKNOWN_QUEUE
    return item.state == "refused" or is_lost


def answer_of(route: Route, question: TrialRequestBody) -> TrialList:
    """The answer to a trial. Raises CommandFailed."""
    content = check_size(question)
    try:
        return ask(route, "trials", TrialList, content=content)
    except Unanswered as error:
        # What is wrong with an option is told with its name.
        if error.status == HTTPStatus.BAD_REQUEST and str(error).startswith("--"):
            error.exit_code = WRONGLY_CALLED
        raise


def check_size(question: TrialRequestBody) -> bytes:
    """The question as JSON. Raises CommandFailed: it is too large."""
    content = json.encode(question)
    if len(content) > MOST_BYTES:
        raise CommandFailed(
            found=f"{len(content) // 1024} KiB of documents, expected at most {MOST_BYTES // 1024} KiB",
            hint="Try fewer of them at a time.",
        )
    return content


#: Documents, and bytes of all of them, that one trial takes.
MOST_DOCUMENTS: Final = 64
MOST_BYTES: Final = 256 * 1024


def documents_of_files(names: Iterable[str], namespace: str | None) -> list[Document]:
    """The objects of files, directories and standard input; lists taken apart.

    ``namespace``: of ``-n``; objects of others are refused, as by kubectl. Raises CommandFailed.
    """
    from queues.api.check.document import documents_of

    texts, findings = document_files(names)
    for finding in findings:
        raise CommandFailed(
            tried=f"Reading {finding.file}", found=f"{finding.found}, expected {finding.expected}"
        )
    found: list[Document] = []
    for name, text in texts:
        for document in documents_of(text):
            for problem in document.problems:
                if document.value is None:
                    raise CommandFailed(
                        tried=f"Reading {name}, line {problem.line}",
                        found=f"{problem.found}, expected {problem.expected}",
                    )
            for each in _objects(document.value, f"{name}, line {document.line}"):
                _check_namespace(each, namespace, name)
                found.append(each)
    if not found:
        raise click.UsageError("-f: there is no document in what was named.")
    if len(found) > MOST_DOCUMENTS:
        raise CommandFailed(found=f"{len(found)} documents, expected at most {MOST_DOCUMENTS} at a time")
    return found


def _objects(value: object, where: str) -> Iterator[Document]:
    """The object, or the items of a List."""
    if not isinstance(value, dict):
        raise CommandFailed(
            tried=f"Reading {where}", found=f"{value!r:.60}, expected an object of Kubernetes"
        )
    items = value.get("items")
    if value.get("kind") == "List" and isinstance(items, list):
        for item in items:
            yield from _objects(item, where)
        return
    yield value


def _check_namespace(document: Document, namespace: str | None, file: str) -> None:
    metadata = document.get("metadata")
    named = metadata.get("namespace") if isinstance(metadata, dict) else None
    if namespace is not None and named not in (None, namespace):
        raise CommandFailed(
            tried=f"Reading {file}",
            found=f"an object in namespace {named}, but -n names {namespace}",
            hint="Leave -n out, or the namespace of the object.",
        )
