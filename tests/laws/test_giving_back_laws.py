"""An owner has what its queue deserves within a stated time, whatever borrowers do; and planted bugs."""

from dataclasses import replace
from typing import Any

from msgspec import structs

from admission.engine.preemption import protection, rules, running
from admission.engine.preemption.protection import NEVER
from admission.engine.snapshot import Snapshot
from tests.laws.laws import giving_back
from tests.laws.laws.giving_back import borrowers
from tests.laws.planted.bug import Bug, each_breaks_its_law
from tests.laws.worlds.settings import in_worlds, law_test

lives = in_worlds(40)


test_an_owner_gets_back_what_it_deserves_whatever_joins_restarts_or_is_annotated = law_test(
    giving_back.an_owner_gets_back_what_it_deserves, borrowers(), lives
)


def _with_the_newest(workload: Any, admissions: Any, tree: Any) -> Any:
    """Whoever joins a gang begins its time anew."""
    opened = max(held.admission.opened_at for held in admissions)
    return _candidate(workload, tuple(_opened(admissions, opened)), tree)


def _opened(admissions: Any, opened: int) -> Any:
    for held in admissions:
        yield structs.replace(held, admission=replace(held.admission, opened_at=opened, held_since=0))


_candidate, _rule = running._candidate, rules.PreemptionRights.rule

THE_LAW = test_an_owner_gets_back_what_it_deserves_whatever_joins_restarts_or_is_annotated

BUGS = (
    Bug("whoever joins a gang begins its time anew", running, "_candidate", _with_the_newest, THE_LAW),
    Bug("who replaces a member begins its time anew", Snapshot, "_starts", lambda *given: {}, THE_LAW),
    Bug("budgets keep lent quota without end", protection, "budgets_end", lambda *given: NEVER, THE_LAW),
    Bug("parts above the minimum keep lent quota", rules.PreemptionRights, "rule",
        lambda self, candidate: None if candidate.rests else _rule(self, candidate), THE_LAW, rare=True),
    Bug("what starts again keeps quota from who waits", protection, "owed_from",
        lambda *given: NEVER, THE_LAW, rare=True),
)  # fmt: skip

test_a_planted_bug_keeps_what_was_lent = each_breaks_its_law(BUGS, examples=1000)
