"""``muster check``: documents validated offline; each finding has its place, what was found and expected."""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from admission.cli.failures import CommandFailed

if TYPE_CHECKING:
    from queues.api.check.finding import Finding

_STDIN: Final = "-"
_ENDINGS: Final = (".yaml", ".yml", ".json")


@click.command(short_help="Validate documents without a cluster.")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Form of the findings.",
)
def check(files: tuple[str, ...], output: str) -> int:
    """Validate documents of Volcano (Jobs, PodGroups, Queues, HyperNodes), of Muster, Jobs and Pods without a cluster.

    FILE is YAML or JSON with any number of documents, a directory of such files, or - for standard input. All
    are checked as if they were applied together. Exit code 1 if there are errors; warnings do not count.
    """
    from queues.api.check.check import check_documents
    from queues.api.check.finding import Finding

    texts: list[tuple[str, str]] = []
    findings: list[Finding] = []
    for name, content in _contents(files):
        try:
            texts.append((name, content.decode("utf-8")))
        except UnicodeDecodeError as error:
            line = content[: error.start].count(b"\n") + 1
            found = f"byte 0x{content[error.start]:02x}"
            findings.append(
                Finding(
                    file=name, document=1, line=line, severity="error", found=found, expected="UTF-8 text"
                )
            )
    findings += check_documents(texts)
    if output == "json":
        click.echo(json.dumps([asdict(finding) for finding in findings], indent=2, ensure_ascii=False))
    else:
        for finding in findings:
            click.echo(str(finding))
        click.echo(_summary(len(texts), findings), err=True)
    return 1 if any(finding.severity == "error" for finding in findings) else 0


def _contents(names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    for name in names:
        if name == _STDIN:
            yield "<stdin>", sys.stdin.buffer.read()
            continue
        path = Path(name)
        inside = (
            sorted(file for file in path.glob("*") if file.suffix in _ENDINGS) if path.is_dir() else [path]
        )
        if not inside:
            raise CommandFailed(tried=f"Reading {name}", found=f"no file in it ends in {', '.join(_ENDINGS)}")
        for file in inside:
            try:
                yield str(file), file.read_bytes()
            except OSError as error:
                raise CommandFailed(tried=f"Reading {file}", found=error.strerror or str(error)) from error


def _summary(files: int, findings: "Iterable[Finding]") -> str:
    from queues.text_format import counted

    counts = Counter(str(finding.severity) for finding in findings)
    return f"{counted(files, 'file')}: {counted(counts['error'], 'error')}, {counted(counts['warning'], 'warning')}"
