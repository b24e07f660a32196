"""Text that stays, and a table below it: redrawn in place on a terminal, printed when it changes elsewhere."""

import os
import shutil
import sys
from collections.abc import Sequence
from typing import Final, TextIO

from deploy.demo.table import WIDTH

_UP_AND_CLEAR: Final = "\x1b[{lines}F\x1b[J"
_BOLD: Final = "\x1b[1m{text}\x1b[0m"


class TerminalOutput:
    """The output of the demo."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self._terminal = self._out.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._drawn = 0
        self._shown: object = None

    def say(self, text: str = "") -> None:
        """Text that stays. The table is shown again below it, also if it did not change."""
        self._write(text + "\n")
        self._shown = None

    def head(self, text: str) -> None:
        """A headline that stays."""
        plain = "NO_COLOR" in os.environ or not self._terminal
        self.say(text if plain else _BOLD.format(text=text))

    def show(self, lines: Sequence[str], key: object) -> None:
        """The table as it is now. An equal ``key`` means an unchanged table."""
        if self._terminal:
            size = shutil.get_terminal_size((WIDTH, 40))
            # Lines are cut to the window: a line that wraps, or a table that is too high, cannot be redrawn.
            fitting = [line[: size.columns - 1] for line in ["", *lines, ""]][: size.lines - 1]
            self._write("\n".join(fitting) + "\n")
            self._drawn = len(fitting)
        elif key != self._shown:
            self._write("\n".join(["", *lines, "", ""]))
        self._shown = key

    def keep(self) -> None:
        """Leave the table as it stands."""
        self._drawn = 0

    def _write(self, text: str) -> None:
        """Write over the table, if one is drawn."""
        wipe = _UP_AND_CLEAR.format(lines=self._drawn) if self._drawn else ""
        self._drawn = 0
        self._out.write(wipe + text)
        self._out.flush()
