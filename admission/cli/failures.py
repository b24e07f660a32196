"""Exit codes of commands, and errors as sentences instead of tracebacks.

0 it worked; 1 it did not; 2 it was called wrongly; 3 the answer is too old to rely on; 130 interrupted.
"""

import os
import sys
from collections.abc import Sequence
from typing import Final

import click

from admission.cli.rendering.sentences import columns_of, filled, say
from queues.errors import MusterError

#: Environment variable: set, an unexpected error shows its traceback.
TRACEBACK = "MUSTER_TRACEBACK"

#: Exit codes.
WRONGLY_CALLED: Final = 2
INTERRUPTED: Final = 130

#: Advice where no API server answers.
UNREACHABLE: Final = (
    "Is the cluster up, and is this the right context? `kubectl cluster-info` asks the same server."
)


class CommandFailed(MusterError):
    """{tried}: {found}. {hint}"""

    def __init__(self, *, found: str, tried: str = "", hint: str = "") -> None:
        """``tried``: what was tried, before a colon; "": ``found`` says it all."""
        #: Exit code of the command.
        self.exit_code = 1
        what = f"{tried}: {found}" if tried else found
        sentence = what if what.endswith(("?", "!")) else what.rstrip(".") + "."
        super().__init__(sentence + (f"\n{hint}" if hint else ""))


def finish(command: click.Command, name: str, arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; it never raises. ``arguments``: None for those of the process."""
    try:
        result = command.main(args=arguments, prog_name=name, standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        _show(error)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:  # the reader (head, less) has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        return _failed(error)
    return result if isinstance(result, int) else 0


def _show(error: click.ClickException) -> None:
    """As click shows it, with its usage; the message fits the terminal."""
    begins = "Error: "
    message = filled(begins + error.format_message(), columns_of(sys.stderr)).removeprefix(begins)
    vars(error)["format_message"] = lambda: message
    error.show()


def _failed(error: Exception) -> int:
    if os.environ.get(TRACEBACK):
        raise error
    if isinstance(error, MusterError):
        complain(str(error))
        return error.exit_code if isinstance(error, CommandFailed) else 1
    if isinstance(error, OSError) and error.filename is not None:
        complain(f"{error.filename}: {error.strerror}")
    else:
        complain(
            f"{type(error).__name__}: {error}\nThis is a fault of Muster; {TRACEBACK}=1 shows where it is."
        )
    return 1


def complain(message: str) -> None:
    """Print an error to standard error."""
    say(f"Error: {message}", err=True)
