"""What a leader learns from one look to the next, and the intervals that follow."""

from dataclasses import replace
from pathlib import Path

from admission.engine.snapshot import Snapshot
from admission.forecast.ensemble import DRAWS, Ensemble, RawInterval, quantile
from admission.forecast.forward import SimulationBounds, Starts
from admission.forecast.learned import Learned
from admission.forecast.run_times import Basis, Likeness, RunTimes
from queues import kind_names
from queues.admissions import AdmissionState
from queues.plan import Plan
from queues.workload import WorkloadKey
from tests.bench.simulate import rules
from tests.bench.simulate.gangs import Simulation
from tests.unit.admission.forecast.test_forward import small_case

LIMITS = SimulationBounds(horizon=10 * 86_400, decisions=2000, grace=0)
NOTHING = Plan(now=0, ledger_seq=0)


def turns(folder: Path, *jobs: str) -> list[tuple[Snapshot, Plan]]:
    """Each turn of a simulation on two nodes of 8 GPUs. ``jobs``: second, duration, members, GPUs."""
    case = small_case(folder, 2, (f"a,{job}" for job in jobs))
    return list(Simulation(case, rules.under(rules.DEFAULT, case.queues)).turns())


def learned_from(looks: list[tuple[Snapshot, Plan]]) -> Learned:
    learned = Learned(looks[0][0])
    for snapshot, _ in looks:
        learned.observe(snapshot)
    return learned


def test_run_times_are_learned_from_what_ended(tmp_path: Path) -> None:
    looks = turns(tmp_path, *[f"{1000 * number},700,2,8" for number in range(12)])
    snapshot, plan = looks[-1]
    run_times = learned_from(looks).ensemble(snapshot, plan, LIMITS).run_times
    likeness = Likeness.of_workload(next(iter(looks[0][0].pending.values())))

    assert len(run_times.runs) == 12
    assert run_times.basis(likeness) is Basis.QUEUE_AND_SHAPE
    assert run_times.total(likeness, 1 << 31) == 700


def test_images_are_learned_of_what_ended_and_of_what_runs(tmp_path: Path) -> None:
    """Of what ended too if its object, and what was known of it, went before its admission was closed."""
    looks = turns(tmp_path, "0,5000,2,8")
    running = next(snapshot for snapshot, _ in looks if snapshot.admissions)
    (admission,) = running.admissions.values()
    holder = replace(running.holders[admission.workload], image="bert:1")
    running = replace(running, holders={holder.key: holder})
    learned = Learned(replace(running, admissions={}, holders={}))

    learned.observe(running)
    ((likeness, _, is_over),) = learned.ensemble(running, NOTHING, LIMITS).run_times.runs
    assert (likeness.image, is_over) == ("bert:1", False)

    without_object = replace(running, holders={})
    learned.observe(without_object)
    after = replace(running, admissions={}, holders={})
    learned.observe(after)
    ((likeness, _, is_over),) = learned.ensemble(after, NOTHING, LIMITS).run_times.runs
    assert (likeness.image, is_over) == ("bert:1", True)


def test_who_was_evicted_between_two_looks_has_not_ended(tmp_path: Path) -> None:
    looks = turns(tmp_path, "0,5000,2,8", "10,100,2,8")
    before = next(snapshot for snapshot, _ in looks if snapshot.admissions)
    (admission,) = before.admissions.values()
    workload = before.holders[admission.workload]
    after = replace(before, now=before.now + 60, admissions={}, holders={}, pending={workload.key: workload})
    learned = Learned(before)
    learned.observe(after)

    ((likeness, seconds, is_over),) = learned.ensemble(after, NOTHING, LIMITS).run_times.runs
    assert (likeness.queue, seconds > 0, is_over) == ("a", True, False)


def test_what_runs_counts_as_running_and_what_leaves_does_not(tmp_path: Path) -> None:
    looks = turns(tmp_path, "0,5000,2,8", "10,100,2,8")
    running = next(snapshot for snapshot, _ in looks if snapshot.admissions)
    (admission,) = running.admissions.values()
    leaving = replace(admission, state=AdmissionState.EVICTING)
    learned = Learned(running)

    assert len(learned.ensemble(running, NOTHING, LIMITS).run_times.runs) == 1
    gone = replace(running, admissions={admission.id: leaving})
    assert not learned.ensemble(gone, NOTHING, LIMITS).run_times.runs


def test_those_who_are_admitted_by_the_plan_have_no_expected_start(tmp_path: Path) -> None:
    looks = turns(tmp_path, *["0,700,2,8"] * 4)
    snapshot, plan = looks[0]
    learned = learned_from(looks[:1])
    ensemble = learned.ensemble(snapshot, plan, LIMITS)
    for _ in ensemble.steps():
        pass
    found = learned.intervals(ensemble)

    assert len(plan.admits) == 1
    assert found.keys() == snapshot.pending.keys() - {plan.admits[0].workload}
    assert all(each.low >= 0 for each in found.values())


def test_who_comes_first_in_the_queue_is_expected_first(tmp_path: Path) -> None:
    looks = turns(tmp_path, *["0,700,2,8"] * 6)
    snapshot, plan = looks[0]
    ensemble = Ensemble(snapshot, plan, RunTimes(), LIMITS)
    for _ in ensemble.steps():
        pass
    raw = ensemble.intervals()
    by_arrival = sorted(raw, key=lambda key: snapshot.pending[key].arrival)
    lows = [raw[key].low or 0 for key in by_arrival]

    assert lows == sorted(lows)
    assert lows[1] < lows[-1]


def test_an_ensemble_that_was_stopped_tells_what_it_came_to(tmp_path: Path) -> None:
    looks = turns(tmp_path, *["0,700,2,8"] * 6)
    ensemble = Ensemble(*looks[0], RunTimes(), LIMITS)
    steps = ensemble.steps()
    for _ in range(3):
        next(steps)
    ensemble.stop()
    found = ensemble.intervals()

    assert len(ensemble.made) == 1 < DRAWS
    assert {each.low is None for each in found.values()} == {False, True}
    assert all(each.known > 0 for each in found.values())


def test_before_the_first_step_nothing_is_known(tmp_path: Path) -> None:
    ensemble = Ensemble(*turns(tmp_path, "0,700,2,8")[0], RunTimes(), LIMITS)
    ensemble.stop()

    assert ensemble.intervals() == {}


def test_who_does_not_start_in_most_draws_never_does(tmp_path: Path) -> None:
    one, other = (WorkloadKey(kind_names.JOB, name) for name in ("one", "other"))
    snapshot, plan = turns(tmp_path, "0,700,2,8")[0]
    ensemble = Ensemble(replace(snapshot, now=1000), plan, RunTimes(), LIMITS)
    waiting = frozenset({one, other})
    ensemble.made = [Starts(at={one: 1000 + 10 * draw}, waiting=waiting, until=None) for draw in range(10)]

    assert ensemble.intervals() == {
        one: RawInterval(0, 80, 0),
        other: RawInterval(None, None, 0, never=True),
    }


def test_quantiles_count_those_that_start_later() -> None:
    assert [quantile([1, 2, 3], 10, part) for part in (0.1, 0.3, 0.31, 0.9)] == [1, 3, None, None]
