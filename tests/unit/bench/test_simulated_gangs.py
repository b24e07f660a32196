"""What a simulation promises: schedules that hold together, and an engine that knows no run times."""

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from statistics import mean

import pytest

from admission.cli.command_line import finish
from queues.quota.queue import Queue
from queues.workload import QueueName
from tests.bench.simulate import rules
from tests.bench.simulate.__main__ import simulate
from tests.bench.simulate.gang_trace import Case, load
from tests.bench.simulate.gangs import STARTUP, Segment, Simulation

JOBS = "id,tenant,submit_s,duration_s,members,gpus_per_member,cpu_per_member,mem_per_member\n"


def folder(tmp_path: Path, *jobs: str, nodes: int = 4, quotas: str = "a,16\nb,16\n") -> Path:
    """Nodes of 8 GPUs, two to a rack."""
    (tmp_path / "case.json").write_text(json.dumps({"name": "small", "ckpt_s": 1800}))
    (tmp_path / "queues.csv").write_text(f"tenant,quota_gpus\n{quotas}")
    rows = "".join(f"n{i},GPU,8,96000,786432,rack{i // 2}\n" for i in range(nodes))
    (tmp_path / "nodes.csv").write_text("name,gpu_model,gpus,cpu_milli,mem_mib,rack\n" + rows)
    (tmp_path / "jobs.csv").write_text(JOBS + "".join(f"{job},4000,32768\n" for job in jobs))
    return tmp_path


def played(case: Case, root: Queue = rules.DEFAULT, seed: int | None = None) -> list[Segment]:
    return Simulation(case, rules.under(root, case.queues, seed)).run().segments


def busy(count: int = 60) -> list[str]:
    """Two tenants, the second one late, more work than room, gangs among it."""
    return [
        f"j{i},{'ab'[i % 3 == 0]},{i * 400},{3000 + 977 * (i % 7)},{(1, 1, 2, 1, 4)[i % 5]},{(8, 3, 8, 1, 8)[i % 5]}"
        for i in range(count)
    ]


def test_a_job_runs_from_its_arrival_for_its_duration_on_one_node_per_member(tmp_path: Path) -> None:
    case = load(folder(tmp_path, "j0,a,100,600,2,8"))

    (segment,) = played(case)

    assert (segment.start, segment.end, len(set(segment.nodes))) == (100, 700, 2)


def test_a_gang_that_fits_in_a_rack_is_in_one(tmp_path: Path) -> None:
    # Two single members leave one node in each rack: together enough for the gang, apart not.
    case = load(folder(tmp_path, "j0,a,0,5000,1,5", "j1,a,1,5000,1,5", "j2,b,2,600,2,8", nodes=4))

    segments = {segment.job: segment for segment in played(case)}

    assert len({int(node[1:]) // 2 for node in segments["j2"].nodes}) == 1


def test_no_node_ever_holds_more_than_it_has(tmp_path: Path) -> None:
    case = load(folder(tmp_path, *busy()))
    gpus = {job.workload.name: job.workload.pod_sets[0].takes["nvidia.com/gpu"] for job in case.jobs}

    changes = sorted(
        (moment, sign, node, job)
        for job, start, end, nodes in ((s.job, s.start, s.end, s.nodes) for s in played(case))
        for node in nodes
        for moment, sign in ((start, 1), (end, -1))
    )

    used: dict[str, int] = {}
    for _, sign, node, job in changes:
        used[node] = used.get(node, 0) + sign * gpus[job]
        assert used[node] <= 8000


@pytest.mark.parametrize(
    ("order", "waits"),
    [("priority", [1, 8.6, 18.2, 30]), ("fifo", [13.4, 15.9, 16, 19.3])],
    ids=["small before large", "by arrival"],
)
def test_gangs_that_are_all_there_at_once_end_as_soon_under_each_order(
    tmp_path: Path, order: str, waits: list[float]
) -> None:
    # They need 761 nodes for 5 s: whatever the order, of the 100 there are 61 have to run eight pods.
    sizes = Random(7).choices([1, 2, 4, 8], [40, 30, 20, 10], k=300)
    jobs = [f"g{i},{'abcd'[i % 4]},0,5,{size},8" for i, size in enumerate(sizes)]
    place = folder(tmp_path, *jobs, nodes=100, quotas="a,200\nb,200\nc,200\nd,200\n")
    (place / "case.json").write_text('{"rack_required": false}')

    segments = played(load(place), replace(rules.DEFAULT, order=order))

    assert max(segment.end for segment in segments) == 40
    starts = {size: [each.start for each in segments if len(each.nodes) == size] for size in (1, 2, 4, 8)}
    assert [mean(of_size) for of_size in starts.values()] == pytest.approx(waits, abs=0.05)


@pytest.mark.parametrize("moment", [3000, 9000, 15000])
def test_durations_of_jobs_that_still_run_change_nothing_before(tmp_path: Path, moment: int) -> None:
    case = load(folder(tmp_path, *busy()))
    finished = {s.job for s in played(case) if s.end < moment}
    other = replace(
        case,
        jobs=tuple(
            job if job.workload.name in finished else replace(job, duration=job.duration * 3 + 10_000)
            for job in case.jobs
        ),
    )

    def before(segments: list[Segment]) -> list[tuple[str, int, int, tuple[str, ...]]]:
        return sorted((s.job, s.start, min(s.end, moment), s.nodes) for s in segments if s.start < moment)

    assert before(played(case)) == before(played(other))


def test_who_used_much_before_comes_later_where_past_use_counts(tmp_path: Path) -> None:
    case = folder(tmp_path, "past,a,0,9000,2,8", "next-a,a,8000,600,2,8", "next-b,b,8001,600,2,8", nodes=2)

    def starts() -> dict[str, int]:
        return {segment.job: segment.start for segment in played(load(case))}

    assert starts() == {"past": 0, "next-a": 9000, "next-b": 9600}
    (case / "queues.csv").write_text("tenant,quota_gpus,usage_half_life_s\na,16,36000\nb,16,36000\n")
    assert starts() == {"past": 0, "next-b": 9000, "next-a": 9600}


def test_the_order_in_which_queues_are_handed_in_does_not_matter(tmp_path: Path) -> None:
    case = load(folder(tmp_path, *busy()))

    assert played(case, seed=1) == played(case, seed=2) == played(case)


def test_without_preemption_nobody_is_evicted(tmp_path: Path) -> None:
    case = load(folder(tmp_path, *busy()))

    segments = played(case, rules.NO_PREEMPTION)

    assert len({segment.job for segment in segments}) == len(segments) == len(case.jobs)


def test_an_evicted_job_goes_on_from_its_last_checkpoint_after_its_startup(tmp_path: Path) -> None:
    # b has the whole rack; a's gang gets back what it deserves after 4,000 s, two checkpoints into b's work.
    jobs = ["j0,b,0,10000,1,8", "j1,b,0,10000,1,8", "j2,a,4000,500,2,8"]
    case = load(folder(tmp_path, *jobs, nodes=2, quotas="a,16\nb,0\n"))

    segments = played(case)

    assert [(s.start, s.end) for s in segments if s.job == "j2"] == [(4000, 4500)]
    for job in ("j0", "j1"):
        first, second = (s for s in segments if s.job == job)
        assert (first.start, first.end) == (0, 4000)
        assert (second.start, second.end) == (4500, 4500 + 10000 - 2 * 1800 + STARTUP)


def test_after_each_eviction_a_job_runs_for_longer(tmp_path: Path) -> None:
    jobs = ["j0,b,0,90000,1,8", *(f"j{n},a,{n * 3000},600,1,8" for n in range(1, 9))]
    case = load(folder(tmp_path, *jobs, nodes=1, quotas="a,8\nb,0\n"))

    segments = played(case)

    ran = [each.end - each.start for each in segments if each.job == "j0"]
    assert len(ran) > 3
    assert all(seconds >= 3600 * 2**n for n, seconds in enumerate(ran[1:-1]))


def test_the_command_writes_schedule_and_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = folder(tmp_path, "j0,a,100,600,2,8")
    out, summary = tmp_path / "schedule.csv", tmp_path / "summary.json"

    code = finish(simulate, "simulate", ["--case", str(place), "--out", str(out), "--summary", str(summary)])

    assert code == 0
    assert out.read_text() == "id,start_s,end_s,nodes\nj0,100,700,n0;n1\n"
    assert json.loads(summary.read_text())["admitted"] == 1
    assert "small: 1 admissions in" in capsys.readouterr().out


def test_a_job_larger_than_the_cluster_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = folder(tmp_path, "j0,a,100,600,9,8", "j1,a,100,600,1,1")

    assert finish(simulate, "simulate", ["--case", str(place)]) == 1
    assert "1 jobs never ended:\n    j0: " in capsys.readouterr().out


def test_jobs_may_say_how_urgent_they_are_in_whole_numbers(tmp_path: Path) -> None:
    case = folder(tmp_path)
    (case / "jobs.csv").write_text(f"{JOBS.strip()},priority\nj0,a,0,1,1,1,1,1,-5\nj1,a,0,1,1,1,1,1,\n")

    assert [job.workload.priority for job in load(case).jobs] == [-5, 0]


def test_files_of_other_systems_are_read_as_well(tmp_path: Path) -> None:
    place = folder(tmp_path, *busy(9))
    before = played(load(place))

    for name in ("nodes.csv", "queues.csv", "jobs.csv", "case.json"):
        text = (place / name).read_text().replace("\n", "\r\n")
        (place / name).write_bytes(b"\xef\xbb\xbf" + text.encode())

    assert played(load(place)) == before


def test_the_order_of_lines_does_not_matter_among_jobs_of_one_second_either(tmp_path: Path) -> None:
    place = folder(tmp_path, *(f"j{i},{'ab'[i % 2]},{i // 20},900,1,{1 + i % 8}" for i in range(60)))
    before = played(load(place))

    for name in ("nodes.csv", "queues.csv", "jobs.csv"):
        head, *lines = (place / name).read_text().splitlines()
        (place / name).write_text("\n".join([head, *reversed(lines)]) + "\n")

    assert [job.workload.name for job in load(place).jobs][8:12] == ["j8", "j9", "j10", "j11"]
    assert played(load(place)) == before == played(load(place, seed=1))


def test_fractions_never_make_more_room_than_there_is(tmp_path: Path) -> None:
    case = load(folder(tmp_path, "j0,a,0.2,600.5,1,2.5", quotas="a,16.9\n"))

    (job,) = case.jobs
    assert (job.submitted, job.duration) == (1, 601)
    assert job.workload.pod_sets[0].takes.get("nvidia.com/gpu") == 3000
    assert case.queues[QueueName("a")].limits.deserved == {"nvidia.com/gpu": 16_000}
    (tmp_path / "nodes.csv").write_text(
        "name,gpu_model,gpus,cpu_milli,mem_mib,rack\nn0,GPU,7.9,1000.9,99.9,r0\n"
    )
    nodes = load(tmp_path).nodes
    free = dict(zip(nodes.resources, nodes.allocatable[:, 0].tolist(), strict=True))
    assert (free["cpu"], free["memory"], free["nvidia.com/gpu"]) == (1000, 99 << 20, 7000)


def test_a_cluster_too_small_is_shared_by_dominant_resource(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # 31.2 CPUs and 31.2 GiB. After 7 tasks each, 28 of both are used, and one task of a fits in besides.
    head = "tenant,tasks,cpu,gpu,mem_gib,disk_gib,rdma\n"
    (tmp_path / "drf_tenants.csv").write_text(f"{head}a,13,1,0,3,0,0\nb,13,3,0,1,0,0\n")
    (tmp_path / "drf_equal_0.6.csv").write_text("tenant,tasks_discrete\na,8\nb,7\n")
    out, figures = tmp_path / "shares.csv", tmp_path / "figures.json"

    asked = ["--drf", str(tmp_path), "--out", str(out), "--summary", str(figures)]
    assert finish(simulate, "simulate", asked) == 0
    assert json.loads(figures.read_text()).items() >= {"given": 15, "asked": 26, "most_off": 0}.items()
    assert out.read_text() == "tenant,tasks,expected\na,8,8\nb,7,7\n"
    assert "at most 0 off" in capsys.readouterr().out


def test_a_division_that_is_off_by_more_than_one_task_fails(tmp_path: Path) -> None:
    head = "tenant,tasks,cpu,gpu,mem_gib,disk_gib,rdma\n"
    (tmp_path / "drf_tenants.csv").write_text(f"{head}a,10,1,0,0,0,0\n")
    (tmp_path / "drf_equal_0.6.csv").write_text("tenant,tasks_discrete\na,4\n")

    assert finish(simulate, "simulate", ["--drf", str(tmp_path)]) == 1
