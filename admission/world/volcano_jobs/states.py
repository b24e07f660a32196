"""The states of Volcano Jobs, as the ledger has them. Pure."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec

from admission.decode.fields import seconds
from admission.facts.workloads import WorkloadFact
from admission.volcano_jobs.state import STOPPED, JobState, Phase
from admission.wire import Int32, WireStruct
from queues.workload import WorkloadKey


class JobStates:
    """Part of the world."""

    def __init__(
        self, rows: Mapping[WorkloadKey, Mapping[str, Any]], facts: Mapping[WorkloadKey, WorkloadFact]
    ) -> None:
        self._facts = facts
        #: By uid of the Job.
        self.stored = {key.uid: JobState.from_json(row) for key, row in rows.items()}

    def of(self, key: WorkloadKey) -> JobState:
        """The state of a Job; of one that none is stored of, where it begins."""
        state = self.stored.get(key.uid)
        return first_state(key, self._facts.get(key)) if state is None else state


def first_state(key: WorkloadKey, fact: WorkloadFact | None) -> JobState:
    """Where a Job begins that the ledger has no state of, as its status says.

    Pods that Volcano made, or Muster with another ledger, carry the version; what has ended, or was stopped, stays so.
    """
    new = JobState(uid=key.uid)
    if fact is None or not fact.phase or not fact.document:
        return new
    try:
        status = _DOCUMENT.decode(fact.document).status
    except msgspec.DecodeError:
        return new
    new = replace(new, version=max(0, status.version or 0), retry_count=max(0, status.retry_count or 0))
    if fact.phase not in STOPPED:
        return new
    return new.entered(Phase(fact.phase), seconds(status.state.last_transition_time))


class _State(WireStruct):
    last_transition_time: str | None = None


class _Status(WireStruct):
    version: Int32 | None = None
    retry_count: Int32 | None = None
    state: _State = msgspec.field(default_factory=_State)


class _Document(WireStruct):
    status: _Status = msgspec.field(default_factory=_Status)


_DOCUMENT: Final = msgspec.json.Decoder(_Document)
