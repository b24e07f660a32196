"""The loop that recovers nodes, round by round, against objects at an API server."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from admission.facts.changes import Change, FactKind
from admission.node_recovery.step import DRAIN_TIMEOUT, SETTLE_TIMEOUT
from admission.workloads.kinds.batch_job import WireJob
from queues.api import names
from queues.api.api_resources import NODES
from queues.errors import ApiError
from queues.quota.queue import NodeRecoveryRules
from tests.builders.facts import VOLCANO, admission, volcano_job
from tests.builders.node_agents.node_devices import node_devices, reported
from tests.unit.admission.kube.node_recovery.rounds import REPORT, RULES, TAINT, Rounds, root, runs


async def test_a_node_with_a_fault_is_tainted_repaired_and_taken_in_again() -> None:
    rounds = Rounds(root())
    others = {"key": "example.com/a", "effect": "NoExecute"}
    rounds.node()["spec"]["taints"] = [others]
    rounds.report(3)
    await rounds.look(5)
    assert rounds.taints() == [others, TAINT]
    [job] = rounds.made()
    assert rounds.phase() == "recovering"
    rounds.end(job, "Complete")
    rounds.report()
    await rounds.look(5)
    assert rounds.taints() == [others]
    assert rounds.made() == [job]


#: Device 3 is not there any more, and those behind it have moved up.
MOVED_UP = replace(
    node_devices("n1", 7),
    devices=tuple(reported(number, id=f"GPU-{number + (number > 2)}") for number in range(7)),
)
#: What may be reported instead of the faulty device 3: nothing, no devices, devices without it.
UNREPORTED = (None, node_devices("n1", 0), node_devices("n1", 3), MOVED_UP)


@pytest.mark.parametrize("instead", UNREPORTED, ids=["deleted", "empty", "without it", "moved up"])
@pytest.mark.parametrize("template", ["ops/repair", None])
async def test_a_node_with_a_fault_stays_out_until_its_device_is_reported_again(
    instead: Any, template: str | None
) -> None:
    rounds = Rounds(root(replace(RULES, job=template)))
    rounds.report(3)
    await rounds.look(5)
    for job in rounds.made():
        rounds.end(job, "Failed")  # it rebooted the node
    rounds.world.observe([Change(FactKind.NODE_DEVICES, "n1", instead)])
    await rounds.look(4)
    assert rounds.taints() == [TAINT]
    rounds.now += SETTLE_TIMEOUT
    await rounds.look(2)
    assert rounds.taints() == [TAINT]
    assert rounds.remembered()["waits"] == "agent"
    rounds.report()
    await rounds.look(4)
    assert rounds.taints() == []


@pytest.mark.parametrize(("on_fault", "faulty"), [("evict", (3,)), ("recover", ())])
async def test_without_a_fault_or_where_nodes_are_not_recovered_nothing_is_written(
    on_fault: str, faulty: tuple[int, ...]
) -> None:
    rounds = Rounds(root(replace(RULES, recovers=on_fault == "recover"), on_fault))
    rounds.report(*faulty)
    await rounds.look(3)
    assert rounds.api.writes == []


async def test_gangs_on_the_faulty_device_leave_at_once_and_others_when_the_time_of_draining_is_over() -> (
    None
):
    held = admission(VOLCANO, "n1", started=True)
    for has, at_once in ((3, True), (5, False)):
        rounds = Rounds(root(), volcano_job(1), runs("a"), admissions=[held])
        rounds.report(3, holders={"a": frozenset((has,))})
        await rounds.look(5)
        assert rounds.phase() == "draining"
        assert rounds.leaves() is at_once
        rounds.now += DRAIN_TIMEOUT
        await rounds.look(2)
        [rollback] = rounds.world.states[VOLCANO].evictable.values()
        assert rollback.message.endswith("on node n1")


async def test_a_node_that_somebody_writes_meanwhile_is_decided_on_again() -> None:
    rounds = Rounds(root())
    rounds.report(3)
    rounds.world.refresh(rounds.now)
    theirs = {"key": names.GPU_FAULT, "value": "ours", "effect": "NoSchedule"}
    rounds.node()["spec"]["taints"] = [theirs]
    await rounds.loop.look()
    assert (rounds.taints(), rounds.phase()) == ([theirs], "")
    await rounds.look(1)
    assert (rounds.taints(), rounds.phase()) == ([theirs], "draining")


async def test_nothing_is_decided_on_a_node_and_no_other_is_closed_before_the_watch_shows_a_write() -> None:
    rounds = Rounds(root(replace(RULES, max_nodes_out=1)))
    rounds.report(3)
    rounds.world.refresh(rounds.now)
    await rounds.loop.look()
    rounds.report()
    rounds.report(3, node="n2")
    rounds.world.refresh(rounds.now)
    for _ in range(3):
        await rounds.loop.look()
    nodes = [path for _, path in rounds.api.writes if path.startswith(NODES.path())]
    assert nodes == [NODES.path(name="n1")]
    await rounds.look()
    assert (rounds.phase("n1"), rounds.phase("n2")) == ("verifying", "")


async def test_a_write_that_fails_is_tried_again_after_a_pause() -> None:
    rounds = Rounds(root())
    rounds.report(3)
    path = NODES.path(name="n1")
    rounds.api.failures[path] = ApiError(method="PATCH", path=path, status=500, reason="no")
    await rounds.look(1)
    assert rounds.taints() == []
    await rounds.look(3)
    assert rounds.taints() == [TAINT]


async def test_without_a_repair_job_the_node_waits_until_it_is_well() -> None:
    rounds = Rounds(root(replace(RULES, job=None)))
    rounds.report(3)
    await rounds.look(6)
    assert (rounds.made(), rounds.taints()) == ([], [TAINT])
    rounds.report()
    await rounds.look(4)
    assert rounds.taints() == []


async def test_it_is_told_once_of_a_node_on_which_the_circuit_breaker_keeps_gangs() -> None:
    held = admission(VOLCANO, "n1", started=True)
    rules = replace(REPORT, max_nodes_out=0)
    rounds = Rounds(root(rules, "evict"), volcano_job(1), runs("a"), admissions=[held])
    rounds.report(3, holders={"a": frozenset((3,))})
    await rounds.look(3)
    assert not rounds.leaves()
    assert rounds.events() == ["EvictionHeldBack"]


async def test_no_more_nodes_are_closed_than_the_circuit_breaker_allows() -> None:
    rounds = Rounds(root(replace(RULES, max_nodes_out=1)))
    rounds.report(3)
    rounds.report(3, node="n2")
    await rounds.look(5)
    assert (rounds.taints("n1"), rounds.taints("n2")) == ([TAINT], [])
    assert rounds.remembered("n2")["waits"] == "circuit-breaker"
    rounds.report()
    rounds.end(rounds.made()[0], "Complete")
    await rounds.look(6)
    assert (rounds.taints("n1"), rounds.taints("n2")) == ([], [TAINT])


def a_job(uid: str, **metadata: Any) -> WireJob:
    annotations = {names.RECOVERY_NODE: "n1"}
    known = {"name": "repair-n1", "namespace": "ops", "uid": uid, "annotations": annotations}
    return msgspec.convert({"metadata": {**known, **metadata}, "spec": {}}, type=WireJob)


async def test_a_job_of_a_user_that_has_the_name_of_a_repair_changes_nothing() -> None:
    rounds = Rounds(root(NodeRecoveryRules(recovers=True, job="ops/repair")))
    rounds.report(3)
    await rounds.look(5)
    [name] = rounds.made()
    rounds.jobs.seen(a_job("forged", name=name, namespace="tenant"), msgspec.Raw(b""))
    await rounds.look(5)
    rounds.jobs.gone("forged")
    await rounds.look(5)
    assert (rounds.phase(), rounds.made()) == ("recovering", [name])


def test_the_end_of_a_job_takes_no_later_one_of_its_name() -> None:
    jobs = Rounds().jobs
    for uid in ("old", "new"):
        jobs.seen(a_job(uid), msgspec.Raw(b""))
    jobs.gone("old")
    assert [job.uid for job in jobs.by_name.values()] == ["new"]
    jobs.seen(a_job("new", annotations={}), msgspec.Raw(b""))
    assert not jobs.by_name
