"""The engine run forward: with run times that are known it foretells what a simulation then does, to the second."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.plan_limit import NO_LIMIT
from admission.engine.snapshot import Snapshot
from admission.forecast.forward import Forward, SimulationBounds, Starts, TotalRunTime
from queues.admissions import Admission
from queues.plan import Plan
from queues.quota.queue import Queue
from queues.reason_codes import ReasonCode
from queues.workload import Obstacle, Workload, WorkloadKey
from tests.bench.simulate import gang_trace, rules
from tests.bench.simulate.gangs import Simulation
from tests.laws.worlds.settings import in_worlds

START = gang_trace.START
FIFO = replace(rules.DEFAULT, order="strict-fifo")
#: Exact, and to the end.
WITHOUT_BOUNDS = SimulationBounds(horizon=1 << 40, decisions=1 << 40, precision=0, grace=0)
#: Seconds of work, members and GPUs of each member.
Job = tuple[int, int, int]


def forecast(
    snapshot: Snapshot,
    plan: Plan,
    total_run_time: TotalRunTime,
    limits: SimulationBounds = WITHOUT_BOUNDS,
) -> Starts:
    """When the pending workloads start, by one simulation."""
    forward = Forward(snapshot, plan, total_run_time, limits)
    for _ in forward.steps():
        pass
    return forward.starts()


def decided(snapshot: Snapshot) -> tuple[Snapshot, Plan]:
    return snapshot, decide(snapshot, Memo(), NO_LIMIT)[0]


def case_of(folder: Path, jobs: Sequence[Job], tenants: Sequence[str] = ("a",)) -> gang_trace.Case:
    """Two racks of two nodes with 8 GPUs; all jobs come at once, those of the first tenant first."""
    lines = (f"{tenants[i % len(tenants)]},0,{','.join(map(str, job))}" for i, job in enumerate(jobs))
    return small_case(folder, 4, lines, tenants)


def small_case(
    folder: Path, nodes: int, jobs: Iterable[str], tenants: Sequence[str] = ("a",)
) -> gang_trace.Case:
    """Racks of two nodes with 8 GPUs; each tenant deserves 16. ``jobs``: tenant, second, duration, members, GPUs."""
    (folder / "case.json").write_text(json.dumps({"name": "small", "ckpt_s": 1800}))
    (folder / "queues.csv").write_text("tenant,quota_gpus\n" + "".join(f"{name},16\n" for name in tenants))
    rows = "".join(f"n{i},GPU,8,96000,786432,rack{i // 2}\n" for i in range(nodes))
    (folder / "nodes.csv").write_text("name,gpu_model,gpus,cpu_milli,mem_mib,rack\n" + rows)
    head = "id,tenant,submit_s,duration_s,members,gpus_per_member,cpu_per_member,mem_per_member\n"
    lines = (f"j{number},{job},1000,1024\n" for number, job in enumerate(jobs))
    (folder / "jobs.csv").write_text(head + "".join(lines))
    return gang_trace.load(folder)


def known(case: gang_trace.Case) -> TotalRunTime:
    durations = {job.workload.key: job.duration for job in case.jobs}

    def total(about: Workload | Admission, ran: int) -> int:
        return durations[about.key if isinstance(about, Workload) else about.workload]

    return total


def foretold_and_true(
    case: gang_trace.Case, root: Queue, at_turn: int = 0, limits: SimulationBounds = WITHOUT_BOUNDS
) -> tuple[dict[WorkloadKey, int], dict[WorkloadKey, int]]:
    """Starts that are forecast at one turn of a simulation; and those that then come, up to the first eviction: the
    simulation lets who was evicted run a minute longer."""
    simulation = Simulation(case, rules.under(root, case.queues))
    foretold: dict[WorkloadKey, int] = {}
    true: dict[WorkloadKey, int] = {}
    for number, (snapshot, plan) in enumerate(simulation.turns()):
        if number == at_turn:
            foretold = dict(forecast(snapshot, plan, known(case), limits).at)
        for admit in plan.admits if number >= at_turn else ():
            true.setdefault(admit.workload, snapshot.now)
        if plan.evicts and number >= at_turn:
            foretold = {key: second for key, second in foretold.items() if second < snapshot.now}
            break
    return foretold, {key: second for key, second in true.items() if key in foretold}


jobs = st.lists(
    st.tuples(st.integers(1, 5000), st.integers(2, 4), st.integers(1, 8)), min_size=1, max_size=15
)


@in_worlds(30)
@given(jobs, st.integers(0, 6))
def test_with_known_run_times_the_forecast_is_what_comes(drawn: list[Job], at_turn: int) -> None:
    with TemporaryDirectory() as folder:
        case = case_of(Path(folder), drawn)
    foretold, true = foretold_and_true(case, FIFO, at_turn)

    assert foretold == true


@in_worlds(25)
@given(jobs)
def test_it_is_what_comes_with_several_queues_and_the_default_rules_as_well(drawn: list[Job]) -> None:
    with TemporaryDirectory() as folder:
        case = case_of(Path(folder), drawn, ("a", "b", "c"))
    foretold, true = foretold_and_true(case, rules.DEFAULT)

    assert foretold == true


@in_worlds(25)
@given(jobs, st.integers(2, 20))
def test_what_is_taken_together_is_late_by_no_more_than_its_part(drawn: list[Job], precision: int) -> None:
    """One strict queue of whole-cluster gangs: each start waits for all that came before."""
    with TemporaryDirectory() as folder:
        case = case_of(Path(folder), [(seconds, 4, 8) for seconds, _, _ in drawn])
    limits = replace(WITHOUT_BOUNDS, precision=precision)
    foretold, true = foretold_and_true(case, FIFO, 0, limits)

    assert foretold.keys() == true.keys()
    for key, second in foretold.items():
        assert second >= true[key]


def first_turn(
    folder: Path, jobs: Sequence[Job], root: Queue = FIFO
) -> tuple[gang_trace.Case, Snapshot, Plan]:
    case = case_of(folder, jobs)
    snapshot, plan = next(Simulation(case, rules.under(root, case.queues)).turns())
    return case, snapshot, plan


def test_nothing_starts_before_now_and_it_is_the_same_each_time(tmp_path: Path) -> None:
    case, snapshot, plan = first_turn(tmp_path, [(600 + i, 2, 8) for i in range(12)])

    once, again = (forecast(snapshot, plan, known(case)) for _ in range(2))

    assert once == again
    assert min(once.at.values()) == snapshot.now
    assert once.at.keys() == once.waiting == snapshot.pending.keys()


def test_it_stops_at_the_horizon_and_says_so(tmp_path: Path) -> None:
    case, snapshot, plan = first_turn(tmp_path, [(600, 4, 8)] * 5)

    found = forecast(snapshot, plan, known(case), replace(WITHOUT_BOUNDS, horizon=1500))

    assert sorted(second - START for second in found.at.values()) == [0, 600, 1200]
    assert found.until == START + 1500


def test_it_stops_after_so_many_decisions_and_says_how_far_it_came(tmp_path: Path) -> None:
    case, snapshot, plan = first_turn(tmp_path, [(600, 4, 8)] * 5)

    found = forecast(snapshot, plan, known(case), replace(WITHOUT_BOUNDS, decisions=2))

    assert sorted(second - START for second in found.at.values()) == [0, 600, 1200]
    assert found.until == START + 1200


def test_what_can_never_start_is_told_from_what_starts_later(tmp_path: Path) -> None:
    case, snapshot, plan = first_turn(tmp_path, [(600, 4, 8), (600, 5, 8)])

    found = forecast(snapshot, plan, known(case))

    assert (len(found.at), found.until) == (1, None)


def test_a_workload_that_cannot_be_considered_has_no_start(tmp_path: Path) -> None:
    case, snapshot, _ = first_turn(tmp_path, [(600, 4, 8)])
    (workload,) = snapshot.pending.values()
    held = replace(workload, obstacle=Obstacle(ReasonCode.QUEUE_CLOSED, "closed"))

    found = forecast(*decided(replace(snapshot, pending={held.key: held})), known(case))

    assert not found.waiting


def test_a_victim_waits_again_and_what_it_had_done_is_lost(tmp_path: Path) -> None:
    """Tenant a has filled the cluster; b deserves half of it and gets it back from the last ones of a."""
    case = case_of(tmp_path, [(9000, 1, 8)] * 4 + [(100, 1, 8)] * 2)
    simulation = Simulation(case, rules.under(rules.DEFAULT, case.queues))
    snapshot, plan = next(simulation.turns())
    running = snapshot.after(plan)
    waiting = {key: replace(each, priority=10) for key, each in running.pending.items()}
    later = replace(running, now=running.now + 4000, pending=waiting)
    _, plan = decided(later)
    assert plan.evicts

    found = forecast(later, plan, known(case), replace(WITHOUT_BOUNDS, grace=30))

    assert sorted(second - later.now for second in found.at.values()) == [30, 30]


@pytest.mark.parametrize("grace", [0, 30])
def test_victims_do_not_hold_up_the_end(tmp_path: Path, grace: int) -> None:
    case, snapshot, _ = first_turn(tmp_path, [(900 * (i + 1), 1, 8) for i in range(9)], rules.DEFAULT)
    raised = {key: replace(each, priority=5 * (each.arrival % 3)) for key, each in snapshot.pending.items()}

    limits = replace(WITHOUT_BOUNDS, grace=grace)

    found = forecast(*decided(replace(snapshot, pending=raised)), known(case), limits)

    assert found.at.keys() == raised.keys()
