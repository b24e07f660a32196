"""The arrays of possible victims against the rule that is asked unit by unit: nobody is left out who may go."""

import numpy as np
import pytest
from hypothesis import given

from admission.engine.preemption.candidate_arrays import CandidateArrays, CandidateMask
from admission.engine.preemption.rules import PreemptionRights, ReclaimDepth
from admission.engine.snapshot import Snapshot
from tests.laws.laws.preemption import full_worlds, plan_of
from tests.laws.planted.bug import Bug, each_breaks_its_law
from tests.laws.worlds.settings import in_worlds

_allowed = CandidateArrays.allowed

Told = list[tuple[str, str]]


def left_out(snapshot: Snapshot) -> Told:
    """Who was left out in a turn though the rule lets him go, and for whom."""
    wrong: Told = []

    def checked(self: CandidateArrays, rights: PreemptionRights, own: CandidateMask) -> CandidateMask:
        chosen = _allowed(self, rights, own)
        for index, candidate in enumerate(self.candidates):
            helps = any(candidate.charged(account) for account in rights.asked)
            if chosen[index] or self.evicted[index] or not helps:
                continue
            if rights.rule(candidate) is not None:
                wrong.append((candidate.workload.name, rights.workload.name))
        return chosen

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CandidateArrays, "allowed", checked)
        plan_of(snapshot)
    return wrong


def nobody_is_left_out(snapshot: Snapshot) -> None:
    """Whoever the rule lets go is among those the arrays tell."""
    assert left_out(snapshot) == []


@in_worlds(80)
@given(full_worlds())
def test_nobody_is_left_out_who_may_go(snapshot: Snapshot) -> None:
    nobody_is_left_out(snapshot)


def _only_what_is_lent(self: CandidateArrays, rights: PreemptionRights) -> CandidateMask:
    losable = self.excess.losable(rights.workload.queue, tuple(rights.asked), ReclaimDepth.NEVER)
    return losable.queues[self._queue_of]


BUGS = (
    Bug("only lent quota is cleared", CandidateArrays, "_clearable", _only_what_is_lent, nobody_is_left_out,
        first=26),
    Bug("the own queue has no candidates", CandidateArrays, "of_own_queue",
        lambda self, rights: np.zeros(len(self.candidates), np.bool_), nobody_is_left_out, 11),
    Bug("nothing is owned", CandidateArrays, "_by_ancestor",
        lambda self, rights, queues, holds: queues & False, nobody_is_left_out),
)  # fmt: skip

test_a_planted_bug_breaks_its_law = each_breaks_its_law(BUGS, full_worlds())
