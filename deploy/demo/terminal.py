"""Text that stays, and a table below it, redrawn in place; off a terminal a line for each change instead."""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
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
        self._last: Sequence[str] = ()
        self._told: dict[str, str] = {}

    def say(self, text: str = "") -> None:
        """Text that stays, above the table."""
        self._write(text + "\n")

    def head(self, text: str) -> None:
        """A headline that stays."""
        plain = "NO_COLOR" in os.environ or not self._terminal
        self.say(text if plain else _BOLD.format(text=text))

    def show(self, lines: Sequence[str], states: Mapping[str, str]) -> None:
        """The table as it is now. ``states``: a line about each thing in it; off a terminal those that changed."""
        if self._terminal:
            size = shutil.get_terminal_size((WIDTH, 40))
            # Lines are cut to the window: a line that wraps, or a table that is too high, cannot be redrawn.
            fitting = [line[: size.columns - 1] for line in ["", *lines, ""]][: size.lines - 1]
            self._write("\n".join(fitting) + "\n")
            self._drawn = len(fitting)
        else:
            for what, line in states.items():
                if line and self._told.get(what) != line:
                    self._told[what] = line
                    self._write(line + "\n")
        self._last = lines

    def keep(self) -> None:
        """Leave the table as it stands."""
        if not self._terminal and self._last:
            self._write("\n".join(["", *self._last, "", ""]))
        self._drawn = 0
        self._last = ()

    def drop(self) -> None:
        """Take the table away: what it had to show has been said."""
        self._write("")
        self._last = ()

    def _write(self, text: str) -> None:
        """Write over the table, if one is drawn."""
        wipe = _UP_AND_CLEAR.format(lines=self._drawn) if self._drawn else ""
        self._drawn = 0
        self._out.write(wipe + text)
        self._out.flush()
