"""What Muster remembers of a node's recovery, as an annotation of the Node.

Everything else is read from the cluster, so that another leader goes on where this one stops.
"""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Final

import msgspec


class RecoveryPhase(StrEnum):
    """What a closed node waits for."""

    #: Nothing: it is in service.
    NONE = "none"
    #: Its gangs leave.
    DRAINING = "draining"
    #: A repair Job runs on it.
    RECOVERING = "recovering"
    #: It is tested whether the node is well.
    VERIFYING = "verifying"
    #: A person: all attempts are used up.
    FAILED = "failed"

    @property
    def is_out(self) -> bool:
        """Whether a node in this phase has Muster's taint."""
        return self is not RecoveryPhase.NONE


def moment(seconds: int) -> datetime:
    """A second since the epoch, as the annotation has it."""
    return datetime.fromtimestamp(seconds, UTC)


class RecoveryState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What is remembered of a node's recovery. Any user who may write the Node may write it."""

    phase: RecoveryPhase
    #: When the phase began.
    since: Annotated[datetime, msgspec.Meta(tz=True)] = moment(0)
    #: Uuids of the devices with the fault; numbers of those without a uuid. Empty if no device has one.
    devices: tuple[str, ...] = ()
    #: Its last test failed: that no fault is reported does not show that it is well.
    test_failed: bool = False
    #: Repair Jobs that are over. Kept after the return, since a fault that soon comes back goes on counting.
    attempts: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 0
    #: Faults that a person has accepted: nothing follows from them as long as they are there.
    accepted: tuple[str, ...] = ()
    #: What keeps the node from going on, beyond the time that its phase takes, in one word; "": nothing.
    waits: str = ""

    @property
    def began(self) -> int:
        """When the phase began, in seconds since the epoch."""
        return int(self.since.timestamp())

    def annotation(self) -> str:
        """The value of ``muster.dev/recovery``; "": nothing is remembered, and the annotation is not there."""
        if not (self.phase.is_out or self.attempts or self.accepted or self.waits):
            return ""
        return msgspec.json.encode(self).decode()


#: Of nearly all nodes.
IN_SERVICE: Final = RecoveryState(phase=RecoveryPhase.NONE)


def read_state(annotation: str) -> RecoveryState:
    """The state that an annotation describes. ``IN_SERVICE`` if it is empty or cannot be read."""
    if not annotation:
        return IN_SERVICE
    try:
        return msgspec.json.decode(annotation.encode(errors="replace"), type=RecoveryState)
    except (msgspec.MsgspecError, RecursionError):
        return IN_SERVICE
