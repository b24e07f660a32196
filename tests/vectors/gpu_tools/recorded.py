"""A vendor's tool that prints what a folder of recorded outputs has."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from admission.agent.vendors.command_line import ToolRefused

HERE = Path(__file__).parent


class RecordedTool:
    """Runs commands by printing files; ``commands`` are those that were run."""

    def __init__(self, folder: str) -> None:
        self._folder = HERE / folder
        self._instead: dict[str, bytes | Exception] = {}
        self.commands: list[tuple[str, ...]] = []

    def __call__(self, command: Sequence[str]) -> bytes:
        self.commands.append(tuple(command))
        name = self.name(command)
        if name in self._instead:
            printed = self._instead[name]
            if isinstance(printed, Exception):
                raise printed
            return printed
        try:
            return next(self._folder.glob(f"{name}.*")).read_bytes()
        except StopIteration:
            raise refusal(command) from None

    @staticmethod
    def name(command: Sequence[str]) -> str:
        """Name of the file that has what a command prints."""
        if command[1] == "-v":
            return "version"
        return f"{command[1]}-{command[command.index('-d') + 1]}" if "-d" in command else command[1]

    def prints(self, name: str, printed: bytes) -> None:
        """From now on these bytes are printed in place of the file."""
        self._instead[name] = printed

    def refuses(self, name: str, found: str = "exit code 1, not supported") -> None:
        """From now on the command fails."""
        self._instead[name] = ToolRefused(command=name, found=found, expected="JSON")

    def edits(self, name: str, change: Callable[[Any], Any]) -> None:
        """From now on the document is printed as ``change`` leaves it (in place) or gives it back."""
        text = next(self._folder.glob(f"{name}.*")).read_text()
        document = json.loads(text[min(place for place in map(text.find, "[{") if place >= 0) :])
        changed = change(document)
        self.prints(name, json.dumps(document if changed is None else changed).encode())

    def as_recorded(self) -> None:
        """From now on the files are printed again."""
        self._instead.clear()

    def subcommands(self) -> list[str]:
        """Names of the commands that were run, and none of them any more."""
        found = [self.name(command) for command in self.commands]
        self.commands.clear()
        return found


def refusal(command: Sequence[str]) -> ToolRefused:
    return ToolRefused(command=" ".join(command), found="exit code 2, invalid command", expected="JSON")
