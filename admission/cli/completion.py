"""``kubectl_complete-muster``: kubectl runs it to complete ``kubectl muster …`` in a shell.

Prints candidates with descriptions, one per line, and last a directive: ``:4`` means no file names.
"""

import sys
from collections.abc import Sequence
from typing import Final

import click
from click.shell_completion import ShellComplete

from admission.cli.kubectl_muster import kubectl_muster
from queues.errors import MusterError

_NO_FILES: Final = ":4"


def main() -> None:
    """The script ``kubectl_complete-muster``."""
    for value, description in candidates(sys.argv[1:] or [""]):
        print(f"{value}\t{description}" if description else value)
    print(_NO_FILES)


def candidates(words: Sequence[str]) -> list[tuple[str, str]]:
    """Candidates for the last word with descriptions, sorted. Empty after an error, since a shell cannot show it."""
    try:
        found = ShellComplete(kubectl_muster, {}, "kubectl muster", "").get_completions(
            list(words[:-1]), words[-1]
        )
    except (MusterError, click.ClickException, OSError, ValueError, KeyError):
        return []
    # What a flag stands for without it is no description.
    return sorted((item.value, (item.help or "").partition(" [")[0]) for item in found)


if __name__ == "__main__":
    main()
