"""Workloads that a step of the turn fails on: they wait with reason ``Defect``, and all others go on. Pure.

One that an error points to is known to its term alone, and is tried again after a while: that costs one failed attempt.
One that a decision does not get done with has cost a term. It is stored with its reason, so that the next leader goes
on without it, whichever replica that is; it is tried again only once it is another one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from admission.decode.fields import defect
from admission.decode.workload_facts import digest
from admission.workloads.inputs import WorkloadInputs, revision_of
from admission.workloads.kinds import support_of
from admission.workloads.state import WorkloadState, state_beside
from queues.api.names import RETRY
from queues.plan import Reason
from queues.reason_codes import ReasonCode
from queues.workload import Obstacle, WorkloadKey

#: Seconds after which a workload is tried again: though nothing of it changed, for the cause may be gone, or, after a
#: decision that did not end, if it has changed.
TRIED_AGAIN_AFTER: Final = 600

#: Facts of a stored reason: what the workload was, and from when on another one is tried.
_REVISION, _FROM = "revision", "triedFrom"


@dataclass(frozen=True, slots=True)
class _Entry:
    obstacle: Obstacle
    #: What was seen of the workload; None for nothing.
    seen: object
    #: The second at which it is tried again; of a stored one None once that is over.
    until: int | None
    #: A decision did not get done with it.
    stored: bool = False


class SetAside:
    """The workloads that are set aside now."""

    def __init__(self, reasons: Mapping[WorkloadKey, Reason]) -> None:
        """``reasons``: those that are stored."""
        self._entries = {
            key: _Entry(Obstacle(reason.code, reason.message), *found, stored=True)
            for key, reason in reasons.items()
            if reason.code is ReasonCode.DEFECT and (found := _stored(reason.facts)) is not None
        }

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: WorkloadKey) -> bool:
        """Whether a step fails on a workload. One that no decision gets done with can be described and can end."""
        entry = self._entries.get(key)
        return entry is not None and not entry.stored

    def add(self, key: WorkloadKey, error: Exception, seen: tuple[object, ...] | None, now: int) -> None:
        """A step failed on a workload."""
        self._entries[key] = _Entry(defect_of(error), seen, now + TRIED_AGAIN_AFTER)

    def state_of(self, inputs: WorkloadInputs, state: WorkloadState) -> WorkloadState | None:
        """The state of a workload, or another one as long as it is set aside. None if nothing of it is left."""
        entry = self._entries.get(inputs.key)
        if entry is None:
            return state
        if entry.stored:
            changed = entry.until is None and entry.seen != asked_by(inputs)
        else:
            changed = entry.seen is not None and entry.seen != state.lasting()
        if changed:
            del self._entries[inputs.key]
            return state
        if not entry.stored:
            return state_beside(inputs, entry.obstacle)
        # It is not to be tried. What it holds may end, start and go back.
        return replace(state, workload=replace(state.workload, obstacle=entry.obstacle))

    def forget(self, key: WorkloadKey) -> None:
        """A workload is gone."""
        self._entries.pop(key, None)

    def expire(self, now: int) -> set[WorkloadKey]:
        """Workloads that may be tried again from now on."""
        due = {
            key: each for key, each in self._entries.items() if each.until is not None and each.until <= now
        }
        for key, entry in due.items():
            if entry.stored:
                self._entries[key] = replace(entry, until=None)
            else:
                del self._entries[key]
        return set(due)


def defect_of(error: Exception) -> Obstacle:
    """The obstacle of a workload that Muster fails on."""
    return Obstacle(ReasonCode.DEFECT, defect(error))


def endless_reason(inputs: WorkloadInputs, seconds: float, now: int) -> Reason:
    """The reason of a workload that a decision did not get done with in so many seconds. Once it is stored, each leader
    sets the workload aside."""
    message = (
        f"a decision tried it for most of {seconds:g} s and did not end, so all others go on without it; it is tried "
        f"again, at the earliest after {TRIED_AGAIN_AFTER // 60} minutes, when what it asks for or its annotation "
        f"{RETRY} is another"
    )
    facts = {_REVISION: asked_by(inputs), _FROM: now + TRIED_AGAIN_AFTER}
    return Reason(code=ReasonCode.DEFECT, message=message, facts=facts)


def asked_by(inputs: WorkloadInputs) -> str:
    """A digest of what users say of a workload: its object and, of a group, its pods."""
    fact = inputs.fact
    said = () if fact is None else (fact.queue, fact.priority)
    members = sorted(pod.uid for pod in inputs.pods) if support_of(inputs.key).is_group else []
    return digest(revision_of(inputs.fact, inputs.pods), said, members)


def _stored(facts: Mapping[str, Any]) -> tuple[str, int] | None:
    revision, from_ = facts.get(_REVISION), facts.get(_FROM)
    return (revision, from_) if isinstance(revision, str) and isinstance(from_, int) else None
