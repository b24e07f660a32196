"""The memo only saves time, over a whole history of arrivals, endings, evictions and claims."""

from pathlib import Path

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.plan import Plan
from admission.engine.snapshot import Snapshot
from admission.simulate import rules, trace
from admission.simulate.gangs import Simulation
from tests.unit.test_simulate import busy, folder


def test_every_turn_of_a_trace_is_decided_as_without_a_memo(tmp_path: Path) -> None:
    turns = 0

    def compare(snapshot: Snapshot, plan: Plan) -> None:
        nonlocal turns
        turns += 1
        assert decide(snapshot, Memo())[0] == plan

    case = trace.load(folder(tmp_path, *busy()))
    Simulation(case, rules.under(rules.DEFAULT, case.queues)).run(watch=compare)

    assert turns > 50
