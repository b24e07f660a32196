"""Work that has run for as long as its queue allows is ended in time and for good, whoever leads and whatever fails."""

from typing import Any

import pytest

from admission.workloads.rollback import RunEnd
from queues.errors import OutcomeUnknown
from queues.sql.database import Database
from tests.fakes.fake_cluster import FakeCluster
from tests.laws.laws.ring import balances_equal_seats, equals_reloaded, nothing_runs_beyond_its_limit
from tests.laws.test_promises_over_terms import beat, running, told
from tests.laws.worlds.ring import Killed, Ring

#: Seconds.
LIMIT = 60
NO_FAULT: tuple[str, type[BaseException] | None] = ("", None)
FAULTS = [
    NO_FAULT,
    ("decided", Killed),
    ("applied", Killed),
    ("applied", OutcomeUnknown),
    ("freeing", Killed),
]


def limited() -> FakeCluster:
    """Queue ``a`` with a limit, and a node of 4 GPUs."""
    cluster = FakeCluster()
    for queue in ("root", "a"):
        cluster.add_queue(queue)
    cluster.change("queues", "a", {"spec": {"access": {"maxRunTime": f"{LIMIT}s"}}})
    cluster.add_node("n1", 4)
    return cluster


def add(cluster: FakeCluster, kind: str) -> str:
    """Work of this kind that takes the whole node; its uid."""
    match kind:
        case "vcjob":
            restarting = [{"event": "PodEvicted", "action": "RestartJob"}]
            return cluster.add_volcano_job("long", "a", 2, 2, 2, restarting)
        case "job":
            return cluster.add_job("long", "a", 2, 2, indexed=False, gpus=2)
        case "group":
            group = cluster.add_group("long", "a", 2)
            for number in range(2):
                cluster.add_member(f"long-{number}", "long", 2)
            return group
    return cluster.add_bare_pod("long", "a", 4)


async def beats(ring: Ring, times: int, fault: Any = NO_FAULT) -> None:
    for _ in range(times):
        await beat(ring, fault)
        nothing_runs_beyond_its_limit(ring, slack=8)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault[0] or "no fault")
@pytest.mark.parametrize("kind", ["vcjob", "job", "group", "pod"])
async def test_it_is_ended_in_time_and_not_run_again(
    muster: Database, kind: str, fault: tuple[str, type[BaseException] | None]
) -> None:
    cluster = limited()
    ring = await Ring.begin(muster, cluster)
    uid = add(cluster, kind)
    await beats(ring, 5)
    assert running(ring, "a") == 4
    cluster.add_volcano_job("next", "a", 1, 1, 4)
    await ring.lead()
    await beats(ring, 3)
    cluster.now = min(each.opened_at for each in ring.world.admissions.values()) + LIMIT - 2
    await beats(ring, 6, fault)
    await beats(ring, 8)
    assert {each.name for each in ring.world.admissions.values()} == {"next"}
    await ring.lead()
    await beats(ring, 3)
    assert {each.name for each in ring.world.admissions.values()} == {"next"}
    if kind == "vcjob":
        assert ring.world.volcano_jobs.stored[uid].phase == "Terminated"
        assert ring.world.volcano_jobs.stored[uid].reason == "MaxRunTime"
    elif kind == "pod":
        assert uid not in cluster.objects["pods"]
    else:
        assert told(ring, uid) == "MaxRunTime"
    await equals_reloaded(ring)
    await balances_equal_seats(ring)


def _from_now(self: RunEnd, now: int) -> None:
    """Planted: nobody looks again when the time is over."""


async def test_without_a_look_when_the_time_is_over_the_law_is_broken(
    muster: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RunEnd, "next_look", _from_now)
    cluster = limited()
    ring = await Ring.begin(muster, cluster)
    add(cluster, "job")
    await beats(ring, 5)
    cluster.now += LIMIT // 2
    await beats(ring, 3)  # it is ready, and nothing else is to be looked at
    cluster.now += LIMIT
    with pytest.raises(AssertionError, match="runs beyond its limit"):
        await beats(ring, 12)
