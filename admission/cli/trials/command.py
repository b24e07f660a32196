"""``kubectl muster try``: what would become of objects if they were submitted now. Nothing changes."""

import json
from typing import Any

import click

from admission.cli.access.read_api import Route, ask
from admission.cli.failures import CommandFailed
from admission.cli.options import namespace, route
from admission.cli.output import Output, output
from admission.cli.trials.files import MOST_BYTES, documents_of_files
from admission.kube.client.kubeconfig import current_namespace


@click.command("try", short_help="Would it start now, where, or why not: before it is submitted.")
@click.option(
    "-f", "--filename", "files", multiple=True, required=True, metavar="FILE", help="What would be submitted."
)
@click.option("-q", "--queue", default="", metavar="QUEUE", help="Try it in this queue [the one it names].")
@namespace
@output
@route
def try_(files: tuple[str, ...], queue: str, namespace: str | None, output: Output, route: Route) -> int:
    """Show what would become of Jobs, PodGroups with their pods, and objects of other kinds that wait, if they were
    submitted now: where they would start, which quota they would take, who would be evicted for them; or why they
    would wait, and what would let them in. Nothing is stored.

    FILE is YAML or JSON with any number of documents, a directory of such files, or - for standard input; -f may be
    given several times. All of them are decided together, in their order. Exit code 1: one of them would be refused.
    """
    documents = documents_of_files(files, namespace)
    here = namespace or current_namespace(route.kubeconfig, route.context)
    body = answer_of(route, {"documents": documents, "namespace": here, "queue": queue})
    text = output.document(body)
    if text is None:
        from admission.cli.rendering.trial import trial_text

        text = trial_text(body, wide=output.is_wide, headers=output.headers)
    click.echo(text, nl=False)
    return 1 if any(each["state"] == "refused" for each in body["items"]) else 0


def answer_of(route: Route, question: dict[str, Any]) -> Any:
    """The answer to a trial. Raises CommandFailed."""
    content = json.dumps(question).encode()
    if len(content) > MOST_BYTES:
        raise CommandFailed(
            tried="",
            found=f"{len(content) // 1024} KiB of documents, expected at most {MOST_BYTES // 1024} KiB",
            hint="Try fewer of them at a time.",
        )
    return ask(route, "trials", content=content)
