"""What a workload waits for that is to come after others (``muster.dev/after``): how far these are, in words. Pure."""

from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple

from queues.api.names import AFTER
from queues.api.reading.user_values import LONGEST_MESSAGE, shortened
from queues.dependencies import Dependency
from queues.reason_codes import ReasonCode
from queues.text_format import listed
from queues.workload import Obstacle, Result


class DependencyPhase(Enum):
    """How far a workload is that another one is to come after."""

    #: The ledger is about to be asked.
    UNASKED = "unasked"
    NOT_ENDED = "not ended"
    #: Neither objects nor ledger have a workload of that name.
    MISSING = "missing"
    #: There is one, and it does not wait in a queue by itself: its end is not noted.
    IN_NO_QUEUE = "in no queue"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    #: It was deleted before it had ended.
    DELETED = "deleted"
    #: It has ended, and how is not known.
    ENDED = "ended"

    @classmethod
    def of_result(cls, result: Result) -> "DependencyPhase":
        """Of a workload that is over."""
        return _OF_RESULTS.get(result, cls.ENDED)


_OF_RESULTS: Final = {
    Result.SUCCEEDED: DependencyPhase.SUCCEEDED,
    Result.FAILED: DependencyPhase.FAILED,
    Result.DELETED: DependencyPhase.DELETED,
}
#: Members of a cycle that are named.
_IN_CYCLE: Final = 6
_WAITED_FOR: Final = (DependencyPhase.UNASKED, DependencyPhase.NOT_ENDED)
_NOT_THERE: Final = (DependencyPhase.MISSING, DependencyPhase.IN_NO_QUEUE)
_ENDED_OTHERWISE: Final = {
    DependencyPhase.FAILED: "failed",
    DependencyPhase.DELETED: "was deleted before it ended",
    DependencyPhase.ENDED: "has ended, and how is not known",
}


class DependencyProgress(NamedTuple):
    """How far one of the workloads is that another one is to come after."""

    dependency: Dependency
    phase: DependencyPhase

    @property
    def is_refused(self) -> bool:
        """Whether it has ended otherwise than the dependency wants."""
        return self.phase in _ENDED_OTHERWISE and not self.dependency.any_end


def awaits_dependencies(
    successor: str, namespace: str, progress: Sequence[DependencyProgress], cycle: Sequence[str] = ()
) -> Obstacle | None:
    """The obstacle of a workload (KIND/NAME) of a namespace until all others have ended as it wants; None if they have.

    ``cycle``: workloads that are to come after one another, each after the next and the last after the first.
    """
    if cycle:
        message = (
            f"it is to come after itself: {listed(cycle, _IN_CYCLE)}, each after the next and the last after the "
            f"first. Take one of them out of the annotation {AFTER} of the one before"
        )
        return Obstacle(ReasonCode.DEPENDENCY_CYCLE, message)
    refused = next((each for each in progress if each.is_refused), None)
    if refused is not None:
        message = shortened(_refused_sentence(successor, namespace, refused, progress), LONGEST_MESSAGE)
        return Obstacle(ReasonCode.DEPENDENCY_FAILED, message)
    absent = [each for each in progress if each.phase in _NOT_THERE]
    if absent:
        return Obstacle(ReasonCode.DEPENDENCY_MISSING, _absent_sentence(absent))
    awaited = [each for each in progress if each.phase in _WAITED_FOR]
    return Obstacle(ReasonCode.WAITS_FOR_DEPENDENCY, _awaited_sentence(awaited)) if awaited else None


def _refused_sentence(
    successor: str, namespace: str, refused: DependencyProgress, progress: Sequence[DependencyProgress]
) -> str:
    """What its owner can do is said as a command that lets it start however any of them ends."""
    name, ended = refused.dependency, _ENDED_OTHERWISE[refused.phase]
    any_way = ",".join(
        f"{each.dependency}:any" if each.is_refused or each.dependency.any_end else str(each.dependency)
        for each in progress
    )
    return (
        f"{name} {ended}, and {successor} is to start once it has succeeded. Create {successor} again after the next "
        f"{name}; or start it all the same: `kubectl annotate {successor} -n {namespace} --overwrite "
        f"{AFTER}={any_way}`"
    )


def _absent_sentence(absent: Sequence[DependencyProgress]) -> str:
    missing = [str(each.dependency) for each in absent if each.phase is DependencyPhase.MISSING]
    if missing:
        return (
            f"there is no {listed(missing)} in its namespace, and there was none in a queue: create what is missing, "
            f"or correct the annotation {AFTER}"
        )
    outside = [str(each.dependency) for each in absent]
    return (
        f"{listed(outside)} {'does' if len(outside) == 1 else 'do'} not wait in a queue, so that Muster does not know "
        f"the end: create it again in a queue, or correct the annotation {AFTER}"
    )


def _awaited_sentence(awaited: Sequence[DependencyProgress]) -> str:
    to_succeed = [str(each.dependency) for each in awaited if not each.dependency.any_end]
    to_end = [str(each.dependency) for each in awaited if each.dependency.any_end]
    parts = [
        f"{listed(names)} to {what}" for names, what in ((to_succeed, "succeed"), (to_end, "end")) if names
    ]
    return f"waits for {', and for '.join(parts)} (annotation {AFTER})"
