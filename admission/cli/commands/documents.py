"""``muster check``, ``convert`` and ``crds``: documents without a cluster."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
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


@click.command(short_help="Turn queues of Kueue into Muster's.")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option(
    "--kueue-names",
    is_flag=True,
    help="Have Kueue's labels count in the namespaces of its LocalQueues, where Kueue no longer runs.",
)
def convert(files: tuple[str, ...], kueue_names: bool) -> int:
    """Print Muster's Queues, ResourceFlavors, Topologies, PriorityClasses and Namespaces for those of Kueue.

    Reads ClusterQueues, Cohorts, LocalQueues, ResourceFlavors, Topologies and WorkloadPriorityClasses. Volcano's Queues
    need no conversion. FILE is YAML or JSON with any number of documents, a directory of such files, or - for standard
    input; give all that belong together at once. What has no counterpart is printed to standard error, line by line.
    Exit code 1 if something cannot be converted; nothing is printed then.
    """
    from queues.api.convert.conversion import line_of
    from queues.api.convert.convert import convert_documents
    from queues.text_format import counted

    texts, unreadable = document_files(files)
    done = convert_documents(texts, kueue_names=kueue_names)
    for finding in unreadable:
        click.echo(str(finding), err=True)
    for difference in done.differences:
        click.echo(line_of(difference), err=True)
    failed = bool(unreadable) or done.has_errors()
    if not failed:
        click.echo(done.as_yaml(), nl=False)
    errors = len(unreadable) + sum(each.severity == "error" for each in done.differences)
    warnings = sum(each.severity == "warning" for each in done.differences)
    objects = "nothing converted" if failed else counted(len(done.documents), "object")
    files_read = counted(len(texts) + len(unreadable), "file")
    click.echo(
        f"{files_read}: {objects}, {counted(errors, 'error')}, {counted(warnings, 'warning')}", err=True
    )
    return 1 if failed else 0


@click.command(short_help="Print the CustomResourceDefinitions.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIRECTORY",
    help="Write a file for each instead.",
)
def crds(out: Path | None) -> None:
    """Print the CustomResourceDefinitions as YAML, ready for `kubectl apply -f -`."""
    from queues.api.crd import crd_files

    files = crd_files()
    if out is None:
        click.echo("---\n".join(files.values()), nl=False)
        return
    out.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (out / name).write_text(text, encoding="utf-8")
        click.echo(out / name)
