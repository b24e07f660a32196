"""The commands of runbooks, as pages show them."""

import re
from pathlib import Path
from typing import Final

RUNBOOKS: Final = Path(__file__).parents[1] / "docs" / "runbooks"
PAGES: Final = sorted(RUNBOOKS.glob("*.md"))
_BLOCK: Final = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INLINE: Final = re.compile(r"`((?:kubectl|muster)\s[^`]+)`")


def commands(page: Path) -> list[str]:
    """Every command of a page: lines of shell blocks, and those in the text."""
    text = page.read_text(encoding="utf-8")
    blocks = [line for block in _BLOCK.findall(text) for line in block.splitlines() if line.strip()]
    inline = [" ".join(found.split()) for found in _INLINE.findall(_BLOCK.sub("", text))]
    return [*blocks, *inline]


def every_command() -> list[str]:
    """The commands of all pages, each once."""
    return sorted({command for page in PAGES for command in commands(page)})
