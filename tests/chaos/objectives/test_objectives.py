"""What a run says of the objectives."""

import pytest

from tests.chaos.history import Fault, History, TurnEnd
from tests.chaos.objectives.objectives import SCALE, Measured, Totals, measured, told
from tests.chaos.objectives.turns import path_of, read


def turns(*at: float, decided_in: float = 0.0) -> tuple[TurnEnd, ...]:
    return tuple(TurnEnd(at=each, replica="replica-1", decided_in=decided_in) for each in at)


KILLED = Fault(at=1.6, name="kill", target="replica-1")


def test_admission_is_away_from_the_moment_at_which_a_turn_was_due() -> None:
    history = History(seed=1, turns=turns(1.0, 1.5, 4.5, 5.0), faults=(KILLED,))
    found = measured(history, pace=1.0)
    assert (found.watched, found.away, found.faults) == (4.0, 2.5, 1)
    assert found.recoveries == {"kill": 2.5}


def test_what_a_busy_machine_is_late_by_is_no_outage() -> None:
    history = History(seed=1, turns=turns(1.0, 1.9, 2.8))
    assert measured(history, pace=1.0).away == 0.0


def test_turns_of_several_replicas_count_together_in_the_order_of_time() -> None:
    other = TurnEnd(at=1.8, replica="replica-2")
    history = History(seed=1, turns=(*turns(1.0, 2.5), other))
    assert measured(history, pace=1.0).away == 0.0


def test_an_outage_is_told_of_the_last_fault_before_its_end() -> None:
    told_only = Fault(at=1.7, name="died", target="replica-1")
    armed = Fault(at=1.8, name="strike-commit", target="replica-1")
    later = Fault(at=9.0, name="stop", target="replica-1")
    history = History(seed=1, turns=turns(1.0, 1.5, 4.5), faults=(later, told_only, armed, KILLED))
    assert list(measured(history, pace=1.0).recoveries) == ["kill"]


def test_a_slower_pace_is_taken_out_again() -> None:
    slow = History(seed=1, turns=turns(2.0, 3.0, 9.0), faults=(KILLED,))
    found = measured(slow, pace=2.0)
    assert (found.watched, found.away) == (3.5, 2.5)


def test_a_run_without_turns_says_nothing() -> None:
    assert measured(History(seed=1), pace=1.0) == Measured()
    assert told([Measured()]) == ""


def test_the_slowest_of_a_hundred_decisions_is_beyond_the_99th_percentile() -> None:
    decisions = tuple(number / 1000 for number in range(1, 101))
    assert Totals.of([Measured(watched=1.0, decisions=decisions)]).decision_p99 == 0.099


def test_it_is_told_how_many_faults_a_month_the_objective_leaves_room_for() -> None:
    runs = [
        Measured(watched=10.0, away=1.0, faults=10, recoveries={"kill": 1.0}),
        Measured(watched=10.0, away=1.0, faults=10),
    ]
    total = Totals.of(runs)
    assert total.affordable == pytest.approx(2592 / (0.1 * SCALE))
    text = told(runs)
    assert "90.00 % under 20 faults" in text
    assert "a fault costs 2.0 s" in text
    assert "longest recovery     20 s after kill; objective: 300 s\n" in text
    assert "MISSED" not in text


def test_an_objective_that_is_missed_is_told() -> None:
    text = told([Measured(watched=60.0, away=20.0, faults=1, recoveries={"kill": 20.0}, decisions=(2.0,))])
    assert [line.strip().split("  ")[0] for line in text.splitlines() if "MISSED" in line] == [
        "decision p99",
        "longest recovery",
    ]


def test_the_turns_of_a_replica_that_was_killed_are_read_as_far_as_it_told_them(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = path_of(tmp_path / "replica-1.log")
    path.write_text("100.5000 0.001500\n101.0000 0.000000\n")
    assert read("replica-1", path, 100.0) == [
        TurnEnd(at=0.5, replica="replica-1", decided_in=0.0015),
        TurnEnd(at=1.0, replica="replica-1", decided_in=0.0),
    ]
    assert read("replica-2", tmp_path / "none.turns", 100.0) == []
