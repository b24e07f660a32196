"""Promises of the ring over many turns, and over terms: histories written down step by step."""

import pytest

from queues.errors import OutcomeUnknown
from queues.sql.database import Database
from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.fake_components import control_jobs, run_pods, schedule
from tests.fakes.fake_objects import gpus_of, is_up
from tests.laws.laws.ring import balances_equal_seats, equals_reloaded, no_pod_beyond_its_seat
from tests.laws.worlds.ring import PATIENCE, Killed, Ring


async def beat(
    ring: Ring, fault: tuple[str, type[BaseException] | None] = ("", None), *, seconds: int = 1
) -> None:
    """Each component gets round to everything once."""
    await ring.turn(fault=fault)
    ring.carry_out()
    control_jobs(ring.cluster)
    schedule(ring.cluster)
    run_pods(ring.cluster)
    ring.cluster.now += seconds
    no_pod_beyond_its_seat(ring)


def running(ring: Ring, queue: str) -> int:
    """GPUs of a queue's open admissions."""
    return sum(
        admission.holds()["nvidia.com/gpu"] // 1000
        for admission in ring.world.admissions.values()
        if admission.queue == queue and admission.started
    )


@pytest.mark.parametrize(
    "fault",
    [("", None), ("decided", Killed), ("applied", Killed), ("applied", OutcomeUnknown), ("freeing", Killed)],
    ids=lambda fault: fault[0] or "no fault",
)
async def test_what_was_lent_is_got_back_whoever_leads(
    muster: Database, fault: tuple[str, type[BaseException] | None]
) -> None:
    cluster = FakeCluster()
    cluster.add_queue("root")
    for queue in ("a", "b"):
        cluster.add_queue(queue)
    for node in ("n1", "n2"):
        cluster.add_node(node, 4)
    ring = await Ring.begin(muster, cluster)
    for number in range(4):
        cluster.add_volcano_job(f"lent{number}", "b", 1, 1, 2)
    for _ in range(6):
        await beat(ring)
    assert running(ring, "b") == 8

    cluster.add_volcano_job("mine", "a", 1, 1, 4)
    for turn in range(12):
        await beat(ring, fault if turn < 3 else ("", None))
    assert (running(ring, "a"), running(ring, "b")) == (4, 4)
    assert sum(setbacks.evictions for setbacks in ring.world.ledger.setbacks.values()) == 2
    assert ring.world.ledger.claims == {}
    await equals_reloaded(ring)
    await balances_equal_seats(ring)


async def test_a_seat_is_kept_while_a_write_of_the_last_term_may_be_carried_out(muster: Database) -> None:
    cluster = FakeCluster()
    for queue in ("root", "a", "b"):
        cluster.add_queue(queue)
    for node in ("n1", "n2"):
        cluster.add_node(node, 4)
    ring = await Ring.begin(muster, cluster)
    cluster.add_job("lent", "b", 2, 2, indexed=False, gpus=4)
    control_jobs(cluster)
    await ring.turn()
    assert [intent for _, intent in ring.release.queue.steps] == ["resume 1"]

    cluster.add_job("mine", "a", 1, 1, indexed=False, gpus=4)
    await ring.crash()
    for _ in range(6):
        await beat(ring)
    assert list(ring.world.admissions) == [1], "the Job may still be resumed for it"
    ring.write_late(0)
    for _ in range(20):
        await beat(ring)
    assert (running(ring, "a"), running(ring, "b")) == (4, 0)
    await equals_reloaded(ring)
    await balances_equal_seats(ring)


# ── what runs is what was admitted ──────────────────────────────────────────────────────────────────────────────


def three_nodes() -> FakeCluster:
    """Queue ``a`` and three nodes of 4 GPUs."""
    cluster = FakeCluster()
    for queue in ("root", "a"):
        cluster.add_queue(queue)
    for node in ("n1", "n2", "n3"):
        cluster.add_node(node, 4)
    return cluster


def suspended(ring: Ring, uid: str) -> bool:
    return bool(ring.cluster.objects["jobs"][uid]["spec"]["suspend"])


def sizes(ring: Ring) -> list[int]:
    """GPUs of each pod that runs."""
    return [gpus_of(ring.cluster.objects["pods"][uid]["spec"]) for uid in ring.cluster.running()]


@pytest.mark.parametrize("deposed", [False, True], ids=["of its own", "of a deposed leader"])
@pytest.mark.parametrize("pods", [2, 3], ids=["on its nodes", "pod by pod"])
async def test_a_job_that_is_changed_before_it_is_resumed_runs_with_what_it_asks_then(
    muster: Database, pods: int, deposed: bool
) -> None:
    cluster = three_nodes()
    ring = await Ring.begin(muster, cluster)
    uid = cluster.add_job("train", "a", pods, pods, indexed=False, gpus=2)
    control_jobs(cluster)
    await ring.turn()
    assert [intent.partition(" ")[0] for _, intent in ring.release.queue.steps] == ["resume"]

    cluster.suspend_or_resize(uid, 4)
    if deposed:
        await ring.crash()
        ring.write_late(0)
    else:
        ring.carry_out()
    assert suspended(ring, uid), "the Job was compared as another one"
    for _ in range(12):
        await beat(ring)
    assert sizes(ring) == [4] * pods
    await equals_reloaded(ring)
    await balances_equal_seats(ring)


# ── nodes that do not answer ────────────────────────────────────────────────────────────────────────────────────


def told(ring: Ring, uid: str) -> str:
    """Why a workload waits."""
    return next((str(each.code) for key, each in ring.world.ledger.reasons.items() if key.uid == uid), "")


async def test_a_gang_that_does_not_get_ready_is_counted_whoever_leads_and_held_back_in_the_end(
    muster: Database,
) -> None:
    """The times are those of the default policy: ten minutes for each of four attempts."""
    cluster = three_nodes()
    ring = await Ring.begin(muster, cluster)
    cluster.unpullable.add("typo")
    typo = cluster.add_volcano_job("typo", "a", 2, 2, 4)
    for attempt in range(4):
        for _ in range(4):
            await beat(ring)
        assert len(cluster.objects["pods"]) == 2, f"attempt {attempt}"
        await ring.lead()
        await beat(ring, seconds=600)
        for _ in range(4):
            await beat(ring)
        assert cluster.objects["pods"] == {}, "it goes back whole"
        cluster.now += PATIENCE.backoff_limit
    for _ in range(3):
        await ring.lead()
        await beat(ring, seconds=600)
    assert told(ring, typo) == "BackoffLimitExceeded"
    assert ring.world.admissions == {}, "it holds nothing"

    cluster.unpullable.clear()
    cluster.change("vcjobs", typo, {"metadata": {"annotations": {"muster.dev/retry": "pushed"}}})
    for _ in range(4):
        await beat(ring)
    assert running(ring, "a") == 8
    await beat(ring, seconds=60)
    for _ in range(3):
        await beat(ring)
    assert all(each.ready for each in ring.world.admissions.values())
    assert {each.unready for each in ring.world.ledger.setbacks.values()} == {None}
    await equals_reloaded(ring)


def on_nodes_that_answer(ring: Ring) -> int:
    nodes = ring.cluster.objects["nodes"]
    pods = (ring.cluster.objects["pods"][uid] for uid in ring.cluster.running())
    return sum(is_up(nodes[pod["spec"]["nodeName"]]) for pod in pods)


def is_there(ring: Ring, uid: str) -> bool:
    return uid in ring.cluster.objects["pods"]


@pytest.mark.parametrize("kind", ["vcjob", "job"])
async def test_a_gang_goes_on_once_its_pod_on_a_silent_node_counts_as_gone(
    muster: Database, kind: str
) -> None:
    cluster = three_nodes()
    ring = await Ring.begin(muster, cluster)
    if kind == "vcjob":
        cluster.add_volcano_job("train", "a", 2, 2, 3)
    else:
        cluster.add_job("train", "a", 2, 2, indexed=False, gpus=3)
    for _ in range(6):
        await beat(ring)
    assert on_nodes_that_answer(ring) == 2

    lost, pod = next(iter(cluster.objects["pods"].items()))
    silent = [{"type": "Ready", "status": "Unknown"}]
    cluster.change("nodes", pod["spec"]["nodeName"], {"status": {"conditions": silent}})
    cluster.delete_pod(lost)
    for _ in range(5):
        await beat(ring, seconds=PATIENCE.dead_node // 6)
        assert is_there(ring, lost)
    (state,) = ring.world.states.values()
    assert state.problem is not None
    assert state.problem.code == "NodeNotReady"
    for _ in range(12):
        await beat(ring, seconds=PATIENCE.dead_node // 6)
    assert not is_there(ring, lost)
    assert on_nodes_that_answer(ring) == 2
    await equals_reloaded(ring)
    await balances_equal_seats(ring)
