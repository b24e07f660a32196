"""The memo only saves time, over a whole history of arrivals, endings, evictions and claims."""

from pathlib import Path

import pytest

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.snapshot import Snapshot
from admission.simulate import rules, trace
from admission.simulate.gangs import Simulation
from queues.plan import Plan
from tests.unit.admission.simulate.test_gangs import busy, folder


@pytest.mark.parametrize("fades", ["", "3600"])
def test_every_turn_of_a_trace_is_decided_as_without_a_memo(tmp_path: Path, fades: str) -> None:
    turns = 0

    def compare(snapshot: Snapshot, plan: Plan) -> None:
        nonlocal turns
        turns += 1
        assert decide(snapshot, Memo())[0] == plan

    made = folder(tmp_path, *busy())
    (made / "queues.csv").write_text(f"tenant,quota_gpus,usage_half_life_s\na,16,{fades}\nb,16,{fades}\n")
    case = trace.load(made)
    Simulation(case, rules.under(rules.DEFAULT, case.queues)).run(watch=compare)

    assert turns > 50
