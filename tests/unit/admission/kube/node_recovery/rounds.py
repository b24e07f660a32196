"""A cluster of two nodes, the loop that recovers them, and its clock."""

import json
from typing import Any

import msgspec

from admission.decode.nodes import node_fact
from admission.facts.changes import Change, FactKind
from admission.kube.node_recovery import NodeRecovery, RecoveryJobs
from admission.wire import WireNode
from admission.workloads.kinds.batch_job import WireJob
from admission.world.world import World
from queues.api import names
from queues.api.api_resources import CRON_JOBS, JOBS, NODES
from queues.quota.queue import NodeRecoveryRules, QueuePolicy
from queues.workload import WorkloadKey
from tests.builders.facts import NOW, TEAM, VOLCANO, queue, released, seen, world
from tests.builders.node_agents.node_devices import node_devices
from tests.fakes.fake_documents import FakeDocuments

TAINT = {"key": names.GPU_FAULT, "value": "muster", "effect": "NoSchedule"}
REPAIR = {"metadata": {"name": "repair"}, "spec": {"jobTemplate": {"spec": {"template": {"spec": {}}}}}}
RULES = NodeRecoveryRules(recovers=True, job="ops/repair", max_nodes_out=2)
REPORT = NodeRecoveryRules(max_nodes_out=2)


def root(rules: NodeRecoveryRules = RULES, on_fault: str = "recover") -> Any:
    return queue("root", parent=None, policy=QueuePolicy(on_fault=on_fault), node_recovery=rules)


def runs(name: str, key: WorkloadKey = VOLCANO, job: str = "train", by: int = 1) -> Any:
    """A pod of a Volcano Job that was bound to the first node just now."""
    return released(name, "worker/0", "n1", by=by, owner=key, owner_name=job, bound_at=NOW)


def _node(name: str) -> dict[str, Any]:
    status = {
        "conditions": [{"type": "Ready", "status": "True"}],
        "allocatable": {"nvidia.com/gpu": "8", "pods": "110"},
    }
    return {"metadata": {"name": name, "uid": f"u-{name}"}, "spec": {}, "status": status}


class Rounds:
    """Looks of the loop; before each, the world sees what the API server has."""

    def __init__(self, *facts: Any, admissions: Any = ()) -> None:
        self.now = NOW
        self.world: World = world((*facts, queue(TEAM)), admissions, {VOLCANO: 1} if admissions else None)
        nodes = {NODES.path(name=name): _node(name) for name in ("n1", "n2")}
        self.api = FakeDocuments({**nodes, CRON_JOBS.path("ops", "repair"): REPAIR}, lambda: self.now)
        self.jobs = RecoveryJobs()
        self.handed_in: list[Change] = []
        self.loop = NodeRecovery(
            self.api,  # type: ignore[arg-type]
            lambda: None,
            self.world,
            self.jobs,
            hand_in=self.handed_in.append,
            now=lambda: self.now,
            instance="test",
        )
        self.watch()

    def watch(self) -> None:
        """The watch shows what the API server has."""
        for path, document in self.api.documents.items():
            if path.startswith(NODES.path()):
                node = msgspec.convert(document, WireNode)
                fact, before = node_fact(node), self.world.node_inventory.nodes.get(node.metadata.name)
                if before is None or (before.recovery, before.taints) != (fact.recovery, fact.taints):
                    self.world.observe([seen(fact)])
            elif path.startswith(JOBS.path("ops")):
                self.jobs.seen(msgspec.json.decode(json.dumps(document), type=WireJob), msgspec.Raw(b""))
        self.world.observe(self.handed_in)
        self.handed_in.clear()
        self.world.refresh(self.now)

    def report(self, *faulty: int, node: str = "n1", **more: Any) -> None:
        """The agent of a node says that these of its devices are unhealthy."""
        self.world.observe([Change(FactKind.NODE_DEVICES, node, node_devices(node, faulty=faulty, **more))])

    async def look(self, times: int = 1) -> None:
        for _ in range(times):
            self.now += 1
            self.watch()
            await self.loop._pauses.contain("all nodes", self.now, self.loop.look)
            self.watch()

    def node(self, name: str = "n1") -> Any:
        return self.api.documents[NODES.path(name=name)]

    def taints(self, name: str = "n1") -> list[Any]:
        return list(self.node(name)["spec"].get("taints", ()))

    def remembered(self, name: str = "n1") -> dict[str, Any]:
        annotations = self.node(name)["metadata"].get("annotations", {})
        return dict(json.loads(annotations.get(names.RECOVERY, "{}")))

    def phase(self, name: str = "n1") -> str:
        return str(self.remembered(name).get("phase", ""))

    def made(self) -> list[str]:
        """Jobs that were made."""
        start = JOBS.path("ops") + "/"
        return [path.removeprefix(start) for path in self.api.documents if path.startswith(start)]

    def end(self, name: str, condition: str) -> None:
        """A Job ends."""
        document = self.api.documents[JOBS.path("ops", name)]
        document["status"] = {"conditions": [{"type": condition, "status": "True"}]}

    def events(self) -> list[str]:
        """Reasons of events."""
        documents = self.api.documents.items()
        return [document["reason"] for path, document in documents if "/events/" in path]

    def leaves(self) -> bool:
        """Whether the gang has to leave its node."""
        return bool(self.world.states[VOLCANO].evictable)
