"""The loop that recovers nodes, round by round, against objects at an API server."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from admission.facts.changes import Change, FactKind
from admission.facts.cluster import NodeRecoveryFact
from admission.facts.pods import Conduct, PodPhase, PodShape
from admission.kube.node_recovery.marked_nodes import MarkedNodes
from admission.kube.node_recovery.recovery_jobs import RecoveryJobs
from admission.kube.node_recovery.recovery_loop import NodeRecovery
from admission.node_recovery.step import SETTLE_TIMEOUT
from admission.wire import WireNode
from admission.workloads.kinds.batch_job import WireJob
from admission.world.world import World
from queues.api import names
from queues.api.api_resources import CRON_JOBS, JOBS, NODES
from queues.errors import ApiError
from queues.quota.queue import NodeRecoveryRules, QueuePolicy
from queues.resources import Resources
from queues.workload import (
    DeviceShare,
    NodeFilter,
    NodeName,
    QueueName,
    Requirement,
    WorkloadKey,
    WorkloadKind,
)
from tests.builders.facts import (
    NOW,
    TEAM,
    VOLCANO,
    admission,
    gpus,
    node,
    queue,
    released,
    seen,
    volcano_job,
    world,
)
from tests.builders.node_agents.node_devices import node_devices, reported
from tests.fakes.fake_documents import FakeDocuments

TAINT = {"key": names.GPU_FAULT, "value": "muster", "effect": "NoSchedule"}
REPAIR = {"metadata": {"name": "repair"}, "spec": {"jobTemplate": {"spec": {"template": {"spec": {}}}}}}
RULES = NodeRecoveryRules(job="ops/repair", max_nodes_out=2)


def recover(rules: NodeRecoveryRules = RULES, on_fault: str = "recover") -> Any:
    return queue("root", parent=None, policy=QueuePolicy(on_fault=on_fault), node_recovery=rules)


def runs(name: str, key: WorkloadKey = VOLCANO, job: str = "train", by: int = 1) -> Any:
    """A pod of a Volcano Job that was bound to the first node just now."""
    return released(name, "worker/0", "n1", by=by, owner=key, owner_name=job, bound_at=NOW)


class Rounds:
    """A cluster of two nodes, the loop, and its clock."""

    def __init__(self, *facts: Any, admissions: Any = ()) -> None:
        self.now = NOW
        self.world: World = world(
            (*facts, queue(TEAM), node("n1"), node("n2")), admissions, {VOLCANO: 1} if admissions else None
        )
        self.api = FakeDocuments(
            {
                NODES.path(name="n1"): {"metadata": {"name": "n1", "uid": "u1"}, "spec": {}},
                NODES.path(name="n2"): {"metadata": {"name": "n2", "uid": "u2"}, "spec": {}},
                CRON_JOBS.path("ops", "repair"): REPAIR,
            },
            lambda: self.now,
        )
        self.marks, self.jobs = MarkedNodes(), RecoveryJobs()
        self.handed_in: list[Change] = []
        self.loop = NodeRecovery(
            self.api,  # type: ignore[arg-type]
            lambda: None,
            self.world,
            self.marks,
            self.jobs,
            hand_in=self.handed_in.append,
            now=lambda: self.now,
            instance="test",
        )

    def report(self, *faulty: int, **more: Any) -> None:
        self.world.observe([Change(FactKind.NODE_DEVICES, "n1", node_devices("n1", faulty=faulty, **more))])

    async def look(self, times: int = 1) -> None:
        for _ in range(times):
            self.now += 1
            await self.loop.look()
            self.world.observe(self.handed_in)
            self.world.refresh(self.now)
            self.handed_in.clear()

    def node(self, name: str = "n1") -> Any:
        return self.api.documents[NODES.path(name=name)]

    def taints(self) -> list[Any]:
        return list(self.node()["spec"].get("taints", ()))

    def phase(self) -> str:
        told = json.loads(self.node()["metadata"].get("annotations", {}).get(names.RECOVERY, "{}"))
        return str(told.get("phase", ""))

    def made(self) -> list[str]:
        start = JOBS.path("ops") + "/"
        return [path.removeprefix(start) for path in self.api.documents if path.startswith(start)]

    def end(self, name: str, condition: str) -> None:
        document = self.api.documents[JOBS.path("ops", name)]
        document["status"] = {"conditions": [{"type": condition, "status": "True"}]}
        self.jobs.seen(msgspec.json.decode(msgspec.json.encode(document), type=WireJob), msgspec.Raw(b""))


async def test_a_node_with_a_fault_is_tainted_repaired_and_taken_in_again() -> None:
    rounds = Rounds(recover())
    rounds.report(3)
    await rounds.look(5)
    assert rounds.taints() == [TAINT]
    [job] = rounds.made()
    assert rounds.phase() == "recovering"
    rounds.end(job, "Complete")
    rounds.report()
    await rounds.look(5)
    assert rounds.taints() == []
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
    rounds = Rounds(recover(replace(RULES, job=template)))
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
    assert json.loads(rounds.node()["metadata"]["annotations"][names.RECOVERY])["waits"] == "agent"
    rounds.report()
    await rounds.look(4)
    assert rounds.taints() == []


async def test_where_faults_are_only_reported_the_node_stays_as_it_is() -> None:
    rounds = Rounds(recover(on_fault="evict"))
    rounds.report(3)
    await rounds.look(3)
    assert rounds.api.writes == []


async def test_while_nothing_is_wrong_nothing_is_read_or_written() -> None:
    rounds = Rounds(recover())
    rounds.report()
    await rounds.look(3)
    assert rounds.api.writes == []


async def test_gangs_on_the_faulty_device_are_taken_back_by_the_plan() -> None:
    held = admission(VOLCANO, "n1", started=True)
    pod = runs("a")
    rounds = Rounds(recover(), volcano_job(1), pod, admissions=[held])
    rounds.report(3, holders={"a": frozenset((3,))})
    await rounds.look(3)
    assert set(rounds.world.states[VOLCANO].evictable) == {held.id}


async def test_a_gang_beside_it_goes_when_the_time_of_draining_is_over() -> None:
    held = admission(VOLCANO, "n1", started=True)
    pod = runs("a")
    rules = replace(RULES, drain_timeout=60)
    rounds = Rounds(recover(rules), volcano_job(1), pod, admissions=[held])
    rounds.report(3, holders={"a": frozenset((5,))})
    await rounds.look(5)
    assert rounds.phase() == "draining"
    assert not rounds.world.states[VOLCANO].evictable
    rounds.now += 60
    await rounds.look(2)
    [rollback] = rounds.world.states[VOLCANO].evictable.values()
    assert rollback.message.endswith("on node n1")


async def test_a_node_that_somebody_writes_meanwhile_is_decided_on_again() -> None:
    rounds = Rounds(recover())
    rounds.report(3)
    theirs = {"key": names.GPU_FAULT, "value": "ours", "effect": "NoSchedule"}
    rounds.node()["spec"]["taints"] = [theirs]
    await rounds.look(1)
    assert rounds.taints() == [theirs]
    assert rounds.phase() == ""
    await rounds.look(1)
    assert (rounds.taints(), rounds.phase()) == ([theirs], "draining")


async def test_a_write_that_fails_is_tried_again_after_a_pause() -> None:
    rounds = Rounds(recover())
    rounds.report(3)
    path = NODES.path(name="n1")
    rounds.api.failures[path] = ApiError(method="PATCH", path=path, status=500, reason="no")
    await rounds.look(1)
    assert rounds.taints() == []
    await rounds.look(3)
    assert rounds.taints() == [TAINT]


async def test_taints_of_others_stay() -> None:
    rounds = Rounds(recover())
    rounds.node()["spec"]["taints"] = [{"key": "example.com/a", "effect": "NoExecute"}]
    rounds.report(3)
    await rounds.look(5)
    assert rounds.taints() == [{"key": "example.com/a", "effect": "NoExecute"}, TAINT]
    [job] = rounds.made()
    rounds.end(job, "Complete")
    rounds.report()
    await rounds.look(5)
    assert rounds.taints() == [{"key": "example.com/a", "effect": "NoExecute"}]


async def test_what_was_written_counts_until_the_watch_shows_it() -> None:
    rounds = Rounds(recover())
    before = msgspec.convert(rounds.node(), WireNode)
    rounds.report(3)
    await rounds.look(1)
    assert rounds.marks.of(NodeName("n1")).annotation
    rounds.marks.seen(before, msgspec.Raw(b""))
    assert rounds.marks.of(NodeName("n1")).annotation


@pytest.mark.parametrize("template", ["ops/other", None])
async def test_without_its_template_no_job_is_made(template: str | None) -> None:
    rounds = Rounds(recover(replace(RULES, job=template)))
    rounds.report(3)
    await rounds.look(6)
    assert rounds.made() == []
    assert rounds.taints() == [TAINT]
    rounds.report()
    await rounds.look(4)
    assert rounds.taints() == []


async def test_it_is_told_once_of_a_node_on_which_the_circuit_breaker_keeps_gangs() -> None:
    rules = NodeRecoveryRules(max_nodes_out=0)
    held = admission(VOLCANO, "n1", started=True)
    rounds = Rounds(recover(rules, "evict"), volcano_job(1), runs("a"), admissions=[held])
    rounds.report(3, holders={"a": frozenset((3,))})
    await rounds.look(3)
    assert not rounds.world.states[VOLCANO].evictable
    assert [path.rpartition("/")[2] for _, path in rounds.api.writes] == ["events"]


def asked(rounds: Rounds) -> dict[NodeName, NodeRecoveryFact]:
    return rounds.loop._asked


async def test_a_node_on_which_gangs_fail_early_takes_no_more_and_is_told() -> None:
    rounds = Rounds(recover(on_fault="report"))
    for number in range(3):
        kill(rounds, number)
    await rounds.look(1)
    assert list(asked(rounds)) == ["n1"]
    table = rounds.world.node_inventory.table().layout
    assert [bool(usable) for usable in table.usable] == [False, True]
    assert table.why_not[0].startswith("closed to gangs: pods of 3 different gangs failed")
    events = [path for method, path in rounds.api.writes if path.endswith("/events")]
    assert len(events) == 1
    assert "n1" in rounds.world.unsaved.nodes, "it is stored, so that people see it"


def kill(rounds: Rounds, number: int, where: str = "n1", *, of: str = "", **facts: Any) -> None:
    """A pod of a gang runs on the node and fails. ``of``: its tenant and user; "": a tenant and a user of its own."""
    key = WorkloadKey(WorkloadKind.VOLCANO_JOB, f"{VOLCANO.uid[:-2]}{number + 30}")
    tenant, user = (of or f"tenant-{number}/user-{number}").split("/")
    leaf = QueueName(f"{tenant}-leaf")
    fact = replace(gang_of(of or f"{tenant}/{user}"), key=key, name=f"train-{number}")
    pod = replace(runs(f"p{number}", key, fact.name, by=number + 10), node=NodeName(where), **facts)
    held = admission(key, where, number=number + 10, name=fact.name, queue=leaf, user=user, started=True)
    rounds.world.observe([seen(queue(tenant)), seen(queue(leaf, parent=tenant))])
    rounds.world.put_admissions([held])
    rounds.world.observe([seen(fact), seen(pod), seen(replace(pod, phase=PodPhase.FAILED))])


def gang_of(tenant_and_user: str) -> Any:
    """A gang that waits in a queue of a tenant."""
    tenant, user = tenant_and_user.split("/")
    key = WorkloadKey(WorkloadKind.VOLCANO_JOB, "other")
    return replace(
        volcano_job(1), key=key, name="other", queue=QueueName(f"{tenant}-leaf"), conduct=Conduct(user=user)
    )


@pytest.mark.parametrize(
    ("other", "closed"),
    [
        (gang_of("other/other"), False),
        (gang_of("only/other"), False),
        (gang_of("other/only"), False),
        (replace(gang_of("other/other"), finished=True), True),
        (gang_of("only/only"), True),
    ],
    ids=["of others", "of another user", "of another tenant", "that has ended", "of the same"],
)
async def test_the_programs_of_one_tenant_or_user_close_no_node_while_others_have_gangs(
    other: Any, closed: bool
) -> None:
    rounds = Rounds(recover(), other)
    for number in range(6):
        kill(rounds, number, of="only/only")
    await rounds.look(1)
    assert bool(asked(rounds)) is closed
    kill(rounds, 6)
    await rounds.look(1)
    assert list(asked(rounds)) == ["n1"]


async def test_a_node_that_one_tenant_closed_is_open_as_soon_as_another_one_has_a_gang() -> None:
    rounds = Rounds(recover(on_fault="report"))
    for number in range(3):
        kill(rounds, number, of="only/only")
    await rounds.look(1)
    assert list(asked(rounds)) == ["n1"]
    rounds.world.observe([seen(gang_of("other/other"))])
    await rounds.look(1)
    assert not asked(rounds)


@pytest.mark.parametrize(
    "nodes",
    [
        NodeFilter(selector=(("kubernetes.io/hostname", "n1"),)),
        NodeFilter(selector=(("mine", "n1"),)),
        NodeFilter(affinity=((Requirement("metadata.name", "In", ("n1", "n2"), field=True),),)),
    ],
    ids=["by its host name", "by a label that no other node has", "by a list of names"],
)
async def test_pods_that_chose_their_node_close_it_for_nobody(nodes: NodeFilter) -> None:
    rounds = Rounds(recover(on_fault="report"))
    rounds.world.observe([seen(node("n1", labels={"mine": "n1"}))])
    for number in range(6):
        kill(rounds, number, shape=PodShape(takes=gpus(1), nodes=nodes))
    await rounds.look(1)
    assert not asked(rounds)


async def test_a_gang_that_failed_its_trial_and_is_still_there_is_not_tried_again() -> None:
    rounds = Rounds(recover(on_fault="report"), gang_of("other/other"))
    for number in range(3):
        kill(rounds, number)
    await rounds.look(1)
    rounds.now += 3600
    await rounds.look(1)
    held = admission(VOLCANO, "n1", opened_at=rounds.now, started=True)
    pod = replace(runs("trial"), bound_at=rounds.now)
    rounds.world.put_admissions([held])
    rounds.world.observe([seen(volcano_job(1)), seen(pod)])
    await rounds.look(1)
    assert asked(rounds)["n1"].closed.endswith("a gang is tried there")
    rounds.world.observe([seen(replace(pod, phase=PodPhase.FAILED))])
    await rounds.look(2)
    assert VOLCANO in rounds.world.admission_index.seated_on(NodeName("n1"))
    assert not asked(rounds)


async def test_what_was_found_is_forgotten_when_nothing_is_to_be_concluded() -> None:
    rounds = Rounds(recover(on_fault="report"))
    for number in range(3):
        kill(rounds, number)
    await rounds.look(1)
    rounds.world.observe([seen(recover(NodeRecoveryRules(black_hole_gangs=0), "recover"))])
    await rounds.look(2)
    assert not asked(rounds)
    assert rounds.taints() == []
    kill(rounds, 3)
    await rounds.look(1)
    rounds.world.observe([seen(recover(on_fault="report"))])
    await rounds.look(1)
    assert not asked(rounds)


async def test_pods_without_devices_close_no_node() -> None:
    rounds = Rounds(recover())
    for number in range(6):
        kill(rounds, number, shape=PodShape(takes=Resources({"cpu": 100, "pods": 1})))
    await rounds.look(1)
    assert not asked(rounds)


@pytest.mark.parametrize("share", [DeviceShare(devices=1, milli=100), DeviceShare(devices=1, memory=1024)])
async def test_pods_with_parts_of_devices_count(share: DeviceShare) -> None:
    rounds = Rounds(recover())
    for number in range(3):
        kill(rounds, number, shape=PodShape(takes=Resources({"pods": 1}), share=share))
    await rounds.look(1)
    assert list(asked(rounds)) == ["n1"]


@pytest.mark.parametrize(
    ("takes", "seconds", "closed"), [(gpus(), 3600, False), (gpus(), 60, True), ({"pods": 1}, 3600, True)]
)
async def test_a_pod_with_devices_that_runs_there_well_vouches_for_the_node(
    takes: Mapping[str, int], seconds: int, closed: bool
) -> None:
    held = admission(VOLCANO, "n1", started=True)
    pod = replace(runs("a"), bound_at=NOW - seconds, shape=PodShape(takes=Resources(takes)))
    rounds = Rounds(recover(replace(RULES, drain_timeout=0)), volcano_job(1), pod, admissions=[held])
    for number in range(6):
        kill(rounds, number)
    await rounds.look(5)
    assert bool(asked(rounds)) is closed
    assert bool(rounds.taints()) is closed
    assert bool(rounds.world.states[VOLCANO].evictable) is closed


@pytest.mark.parametrize(
    ("rules", "closed"),
    [
        (NodeRecoveryRules(), ["n1"]),
        (NodeRecoveryRules(max_nodes_out=2), ["n1", "n2"]),
        (NodeRecoveryRules(max_nodes_out=0), []),
    ],
)
async def test_no_more_nodes_are_closed_than_the_circuit_breaker_allows(
    rules: NodeRecoveryRules, closed: list[str]
) -> None:
    rounds = Rounds(recover(rules, "report"))
    for number in range(3):
        kill(rounds, number, "n1")
        kill(rounds, number + 3, "n2")
    await rounds.look(3)
    assert sorted(asked(rounds)) == closed
    assert [bool(usable) for usable in rounds.world.node_inventory.table().layout.usable] == [
        name not in closed for name in ("n1", "n2")
    ]


@pytest.mark.parametrize(("takes", "closed"), [({"pods": 1}, False), (gpus(), True)])
async def test_only_a_gang_with_devices_is_a_trial(takes: Mapping[str, int], closed: bool) -> None:
    rounds = Rounds(recover(on_fault="report"))
    for number in range(3):
        kill(rounds, number)
    await rounds.look(1)
    assert asked(rounds)
    rounds.now += 1800
    await rounds.look(1)
    assert not asked(rounds)
    held = admission(VOLCANO, "n1", opened_at=rounds.now + 1)
    seats = tuple(replace(seat, takes=Resources(takes)) for seat in held.seats)
    rounds.world.put_admissions([replace(held, seats=seats)])
    await rounds.look(2)
    assert bool(asked(rounds)) is closed
