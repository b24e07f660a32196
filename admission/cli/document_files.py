"""Documents that are named on the command line: files, directories of files, standard input."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from admission.cli.command_line import CommandFailed

if TYPE_CHECKING:
    from queues.api.check.finding import Finding

_STDIN: Final = "-"
_ENDINGS: Final = (".yaml", ".yml", ".json")


def document_files(names: Iterable[str]) -> "tuple[list[tuple[str, str]], list[Finding]]":
    """Name and text of each file, and a finding for each that is no text. Raises CommandFailed.

    Of a directory: the YAML and JSON files in it and in the directories below, hidden ones left out.
    """
    from queues.api.check.finding import Finding

    texts: list[tuple[str, str]] = []
    findings: list[Finding] = []
    for name, content in _contents(names):
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
    return texts, findings


def _contents(names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    for name in names:
        if name == _STDIN:
            yield "<stdin>", sys.stdin.buffer.read()
            continue
        path = Path(name)
        inside = sorted(_files_below(path)) if path.is_dir() else [path]
        if not inside:
            raise CommandFailed(tried=f"Reading {name}", found=f"no file in it ends in {', '.join(_ENDINGS)}")
        for file in inside:
            try:
                yield str(file), file.read_bytes()
            except OSError as error:
                raise CommandFailed(tried=f"Reading {file}", found=error.strerror or str(error)) from error


def _files_below(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.suffix in _ENDINGS and path.is_file() and not hidden:
            yield path
