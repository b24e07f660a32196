"""Rules for Volcano's Commands: which actions may be asked for, and on what. Policies say the same in CEL."""

from collections.abc import Iterator
from typing import Final

from queues.api.api_resources import QUEUES, VOLCANO_JOBS
from queues.api.types.command import CommandDocument
from queues.api.validation.violations import Violation
from queues.text_format import excerpt

#: Actions that Commands may ask for: on a whole Job, and on a Queue.
JOB_COMMANDS: Final = ("AbortJob", "ResumeJob", "RestartJob", "CompleteJob", "TerminateJob")
QUEUE_COMMANDS: Final = ("OpenQueue", "CloseQueue")
ACTIONS_EXPECTED: Final = (
    f"{', '.join(JOB_COMMANDS)} on a Volcano Job or {', '.join(QUEUE_COMMANDS)} on a Queue"
)
TARGET_EXPECTED: Final = "those of the object: another one may get its name"

_ACTIONS: Final = {
    (VOLCANO_JOBS.group, VOLCANO_JOBS.kind): JOB_COMMANDS,
    (QUEUES.group, QUEUES.kind): QUEUE_COMMANDS,
}


def command_violations(command: CommandDocument) -> Iterator[Violation]:
    """Violations of a Command. Whether its author may ask for it is not known."""
    target = command.target
    kind = (target.api_version.partition("/")[0], target.kind)
    if command.action not in _ACTIONS.get(kind, ()):
        found = f"{excerpt(command.action)} on {target.kind or 'nothing'}"
        yield Violation("action", found, ACTIONS_EXPECTED)
    is_queue = kind == (QUEUES.group, QUEUES.kind)
    if not target.name or not (is_queue or target.uid):
        yield Violation("target", "no name or no uid", TARGET_EXPECTED)
