"""Console sessions in documents: commands after ``$``, then what they print.

In expected lines ``…`` stands for any text; alone on a line, for any number of lines. Runs of blanks are one blank.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ANY_LINES = r"(?:.*\n)*?"


@dataclass(frozen=True, slots=True)
class Exchange:
    """One command and what is printed."""

    command: str
    expected: tuple[str, ...]

    def matches(self, printed: str) -> bool:
        """Whether a text is what was promised."""
        lines = [_ANY_LINES if line == "…" else _pattern(_plain(line)) for line in self.expected]
        text = "".join(f"{_plain(line)}\n" for line in printed.rstrip("\n").splitlines())
        return re.fullmatch("".join(lines), text) is not None


def exchanges(document: Path) -> Iterator[Exchange]:
    """Every command of a document, in order."""
    for block in _BLOCK.findall(document.read_text(encoding="utf-8")):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *expected = part.rstrip("\n").split("\n")
            yield Exchange(command, tuple(expected))


def _plain(line: str) -> str:
    return re.sub(r"\s+", " ", line).strip()


def _pattern(line: str) -> str:
    return ".*".join(re.escape(part) for part in line.split("…")) + "\n"
