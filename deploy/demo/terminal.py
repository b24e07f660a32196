"""The output of the demo: text, a line for each change, and the table of all workloads where it is to stay."""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Final, TextIO

_BOLD: Final = "\x1b[1m{text}\x1b[0m"


class TerminalOutput:
    """The output of the demo."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        terminal = self._out.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._is_plain = "NO_COLOR" in os.environ or not terminal
        self._last: Sequence[str] = ()
        self._said: dict[str, str] = {}

    def say(self, text: str = "") -> None:
        """A line, or several."""
        self._out.write(text + "\n")
        self._out.flush()

    def head(self, text: str) -> None:
        """A headline."""
        self.say(text if self._is_plain else _BOLD.format(text=text))

    def show(self, lines: Sequence[str], states: Mapping[str, str]) -> None:
        """The table as it is now, for ``keep``. ``states``: lines, by what they are about."""
        for what, line in states.items():
            if line and self._said.get(what) != line:
                self._said[what] = line
                self.say(line)
        self._last = lines

    def keep(self) -> None:
        """Write the table as it was shown last."""
        if self._last:
            self.say("\n".join(["", *self._last, ""]))
        self._last = ()

    def drop(self) -> None:
        """Forget the table: what it had to show has been said."""
        self._last = ()
