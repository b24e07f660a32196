"""``muster convert``: queues of Kueue as Muster's, without a cluster."""

import click

from admission.cli.document_files import document_files


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
