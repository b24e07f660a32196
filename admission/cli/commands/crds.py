"""``muster crds``: the CustomResourceDefinitions as YAML."""

from pathlib import Path

import click


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
