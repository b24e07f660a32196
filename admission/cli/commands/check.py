"""``muster check``: documents validated offline; each finding has its place, what was found and expected."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from admission.cli.document_files import document_files

if TYPE_CHECKING:
    from queues.api.check.finding import Finding


@click.command(short_help="Validate documents without a cluster.")
@click.argument("files", metavar="FILE...", nargs=-1)
@click.option("-f", "--filename", "more", multiple=True, metavar="FILE", help="The same, as kubectl has it.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Form of the findings.",
)
def check(files: tuple[str, ...], more: tuple[str, ...], output: str) -> int:
    """Validate documents of Volcano (Jobs, PodGroups, Queues, HyperNodes), of Muster, Jobs, Pods and other owners of
    pods without a cluster.

    FILE is YAML or JSON with any number of documents, a directory of such files, or - for standard input. All
    are checked as if they were applied together. Exit code 1 if there are errors; warnings do not count.

    Pod templates are checked against the fields of Kubernetes 1.36. Of several files, a line for each says on standard
    error whether it is refused, not supported, different (by which fields) or supported. Of kinds that others make
    pods of a note says which of their pods start together, and in which queue. Kinds that Muster does not act on are
    passed over with a note, with a warning if they name a queue.
    """
    from admission.workloads.kinds.document_checks import check_as_in_cluster
    from queues.api.check.check import check_documents
    from queues.api.check.summary import summary_lines

    if not (files := files + more):
        raise click.UsageError("Missing argument 'FILE...'.")
    texts, findings = document_files(files)
    findings += check_documents(texts, check_as_in_cluster)
    if output == "json":
        click.echo(json.dumps([asdict(finding) for finding in findings], indent=2, ensure_ascii=False))
    else:
        for finding in findings:
            click.echo(str(finding))
        if len(texts) > 1:
            for line in summary_lines(texts, findings):
                click.echo(line, err=True)
        click.echo(_summary(len(texts), findings), err=True)
    return 1 if any(finding.severity == "error" for finding in findings) else 0


def _summary(files: int, findings: "Iterable[Finding]") -> str:
    from queues.text_format import counted

    counts = Counter(str(finding.severity) for finding in findings)
    return f"{counted(files, 'file')}: {counted(counts['error'], 'error')}, {counted(counts['warning'], 'warning')}"
