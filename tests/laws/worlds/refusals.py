"""Lives of a gang under a scheduler that refuses its pods by rules that Muster cannot know, in virtual time."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from hypothesis import strategies as st

from admission.engine import decide as engine
from admission.engine.memo import Memo
from admission.engine.nodes.levels import HOST
from admission.facts.changes import Change, FactKind
from admission.facts.cluster import NodeFact, TopologyFact
from admission.facts.pods import PodFact
from admission.facts.workloads import WorkloadFact
from admission.workloads.inputs import Timeouts
from admission.world.world import World
from queues.admissions import Admission, AdmissionState, Seat
from queues.plan import Reason, setbacks_of
from queues.workload import AdmissionId, NodeFilter, NodeName, PodSet
from queues.world_rows import WorldRows
from tests.builders.facts import (
    GRACE,
    NOW,
    TEAM,
    VOLCANO,
    gone,
    gpus,
    node,
    queue,
    released,
    seen,
    volcano_job,
)

ZONE: Final = "topology.kubernetes.io/zone"
RACK: Final = "rack"
LAUNCHER: Final = "launcher"
DAY: Final = 86_400
WEEK: Final = 7 * DAY

#: Why a pod is refused on a node beside these nodes of its siblings at that second; "": it is bound.
Rule = Callable[[NodeFact, Sequence[NodeFact], int], str]


def _words(cause: str) -> str:
    return f"0/9 nodes are available: 1 node(s) {cause}, 8 node(s) didn't satisfy plugin(s) [NodeAffinity]."


def only_on(nodes: frozenset[str]) -> Rule:
    """Nothing that a label tells: a plugin of the cluster's own, a volume on the node."""
    return lambda at, beside, now: "" if at.name in nodes else _words("were refused by plugin Own")


def only_in(label: str, values: frozenset[str]) -> Rule:
    """A volume of a zone, pods of others that are kept apart by rack."""
    return lambda at, beside, now: (
        "" if at.labels[label] in values else _words("didn't match PersistentVolume's node affinity")
    )


def apart_by(label: str) -> Rule:
    """Anti-affinity of the gang's pods among themselves."""
    return lambda at, beside, now: (
        _words("didn't match pod anti-affinity rules")
        if any(other.labels[label] == at.labels[label] for other in beside)
        else ""
    )


def at_most(pods: int) -> Rule:
    """So many pods of the gang on one node: devices that a plugin of the cluster's own gives out."""
    return lambda at, beside, now: (
        _words("were refused by plugin Own") if sum(other.name == at.name for other in beside) >= pods else ""
    )


def not_before(second: int) -> Rule:
    """A quota of volumes, a controller that is late."""
    return lambda at, beside, now: "" if now >= second else _words("had volumes that are not attached yet")


def detached_at(second: int) -> Rule:
    """Volumes of pods that are gone are still being detached."""
    return lambda at, beside, now: "" if now >= second else _words("exceed max volume count")


@dataclass(kw_only=True)
class Life:
    """One gang, on nodes of ``racks`` racks in ``zones`` zones."""

    zones: int
    racks: int
    in_rack: int
    pods: int
    rule: Rule
    #: Pods for which a node has room.
    room: int = 1
    #: Seconds between two changes of a label on some node; 0: nothing changes.
    churn: int = 0
    #: The only node that one more pod may use, a launcher, which the rule is not about; "": there is none.
    launcher: str = ""
    now: int = NOW
    #: Nodes of each attempt, but for a launcher's, and when it began.
    attempts: list[tuple[int, tuple[NodeName, ...]]] = field(default_factory=list)
    #: Pods that ran and were taken back.
    killed: int = 0
    #: When nodes refused a pod first.
    refused_at: dict[NodeName, int] = field(default_factory=dict)
    started_at: int | None = None
    #: Why it waits, at the end.
    reason: Reason | None = None
    held_until_the_end: bool = False

    def __post_init__(self) -> None:
        self.nodes = {
            name: node(
                name,
                count=self.room,
                labels={HOST: name, ZONE: f"z{zone}", RACK: f"z{zone}-r{rack}"},
            )
            for zone in range(self.zones)
            for rack in range(self.racks)
            for number in range(self.in_rack)
            for name in (f"z{zone}-r{rack}-n{number}",)
        }
        self.fact: WorkloadFact = volcano_job(self.pods)
        if self.launcher:
            place = NodeFilter(selector=((HOST, self.launcher),))
            launcher = PodSet(name=LAUNCHER, count=1, takes=gpus(0), nodes=place)
            self.fact = replace(self.fact, minimum=self.pods + 1, pod_sets=(*self.fact.pod_sets, launcher))
        self.world = World(WorldRows(), Timeouts(refusal_grace=GRACE))
        self.world.observe([seen(queue(TEAM)), *map(seen, self.nodes.values())])
        levels = TopologyFact(name="t", levels=(ZONE, RACK, HOST))
        self.world.observe([Change(FactKind.TOPOLOGY, "t", levels), seen(self.fact)])
        self.world.number({VOLCANO: 1})
        self._memo = Memo()
        self._pods: dict[str, PodFact] = {}
        self._last = 0

    def live(self, seconds: int = WEEK) -> "Life":
        """So long, or until all its pods are bound."""
        end, step, changed_at = self.now + seconds, 1, self.now
        while self.now < end and self.started_at is None:
            moved = self._turn()
            step = 1 if moved else min(3600, self.churn or 3600, step * 2)
            self.now += min(step, GRACE) if self.world.admissions else step
            if self.churn and self.now - changed_at >= self.churn:
                changed_at = self.now
                self._relabel()
        self.held_until_the_end = bool(self.world.admissions)
        self.reason = self.world.ledger.reasons.get(VOLCANO)
        return self

    def _relabel(self) -> None:
        name = sorted(self.nodes)[self.now % len(self.nodes)]
        labels = {**self.nodes[name].labels, "seen": str(self.now)}
        self.nodes[name] = replace(self.nodes[name], labels=labels)
        self.world.observe([seen(self.nodes[name])])

    def _turn(self) -> bool:
        world = self.world
        world.refresh(self.now)
        snapshot = world.freeze(self.now)
        plan, self._memo = engine.decide(snapshot, self._memo)
        before = dict(world.admissions)
        self._last += 1
        changed = plan.changed_admissions(before, [AdmissionId(self._last)] * len(plan.admits))
        world.put_admissions(changed.values())
        world.ledger.put_reasons(plan.reasons, [each.workload for each in plan.admits])
        for key, setback in setbacks_of(
            (before[each.admission].workload, each) for each in plan.evicts
        ).items():
            world.put_setback(key, setback, self.now)
        for admit in plan.admits:
            nodes = tuple(seat.node for seat in admit.seats if seat.pod_set != LAUNCHER)
            self.attempts.append((self.now, nodes))
        for admission in changed.values():
            self._follow(admission)
        self._schedule()
        if any(each.started for each in world.admissions.values()):
            self.started_at = self.now
        return plan.changes_ledger()

    def _follow(self, admission: Admission) -> None:
        """The writers let pods go for an admission, or remove them."""
        if admission.state is AdmissionState.EVICTING:
            self.killed += sum(pod.node is not None for pod in self._pods.values())
            self.world.observe([gone(pod) for pod in self._pods.values()])
            self._pods = {}
        elif admission.state is AdmissionState.OPEN and not self._pods:
            self._pods = {
                f"p{admission.id}-{index}": released(
                    f"p{admission.id}-{index}",
                    f"{seat.pod_set}/{seat.ordinal}",
                    by=admission.id,
                    owner=VOLCANO,
                    created=self.now,
                    takes=seat.takes,
                )
                for index, seat in enumerate(admission.seats)
            }
            self._seats = dict(zip(self._pods, admission.seats, strict=True))
            self.world.observe([seen(pod) for pod in self._pods.values()])

    def _schedule(self) -> None:
        """The scheduler binds pods, one after the other, or refuses them."""
        for uid, pod in list(self._pods.items()):
            if pod.node is None and (decided := self._decided(pod, self._seats[uid])) != pod:
                self._pods[uid] = decided
                self.world.observe([seen(decided)])

    def _decided(self, pod: PodFact, seat: Seat) -> PodFact:
        at = self.nodes[seat.node]
        siblings = [
            self.nodes[other.node]
            for uid, other in self._pods.items()
            if other.node and self._seats[uid].pod_set != LAUNCHER
        ]
        words = self.rule(at, siblings, self.now) if seat.pod_set != LAUNCHER else ""
        if not words:
            return replace(pod, node=at.name, refused=None, bound_at=self.now)
        self.refused_at.setdefault(at.name, self.now)
        return replace(pod, refused=(pod.refused[0] if pod.refused else self.now, words))

    @property
    def rollbacks(self) -> int:
        """Attempts that failed."""
        return len(self.attempts) - (self.started_at is not None)


def label_values(life: Mapping[str, NodeFact], label: str) -> list[str]:
    return sorted({each.labels[label] for each in life.values()})


@st.composite
def shapes(draw: st.DrawFn) -> dict[str, int]:
    """Small clusters, and gangs that fit."""
    zones, racks, in_rack = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    most = min(3, zones * racks * in_rack)
    return {"zones": zones, "racks": racks, "in_rack": in_rack, "pods": draw(st.integers(1, most))}


@st.composite
def startable_lives(draw: st.DrawFn) -> Life:
    """Lives in which a place is allowed. Some gangs have a launcher on a node that may refuse the others."""
    shape = draw(shapes())
    nodes = Life(**shape, rule=only_on(frozenset())).nodes
    pods = shape["pods"]
    rules: list[Rule] = [
        only_on(frozenset(draw(st.sets(st.sampled_from(sorted(nodes)), min_size=pods)))),
        not_before(NOW + draw(st.integers(0, 3600))),
    ]
    for label in (ZONE, RACK):
        values = label_values(nodes, label)
        size = len(nodes) // len(values)
        allowed = st.sets(st.sampled_from(values), min_size=-(-pods // size))
        rules.append(only_in(label, frozenset(draw(allowed))))
        if len(values) >= pods:
            rules.append(apart_by(label))
    launcher = draw(st.sampled_from(["", min(nodes)]))  # the node that is tried first
    return Life(**shape, rule=draw(st.sampled_from(rules)), launcher=launcher)


@st.composite
def hopeless_lives(draw: st.DrawFn) -> Life:
    """Lives in which no place is allowed for all pods; labels of nodes change meanwhile in some."""
    shape = draw(shapes())
    nodes = Life(**shape, rule=only_on(frozenset())).nodes
    pods = shape["pods"]
    allowed = draw(st.sets(st.sampled_from(sorted(nodes)), max_size=pods - 1))
    rules: list[Rule] = [only_on(frozenset(allowed))]
    rules += [apart_by(label) for label in (ZONE, RACK) if len(label_values(nodes, label)) < pods]
    return Life(**shape, rule=draw(st.sampled_from(rules)), churn=draw(st.sampled_from([0, 0, 900, 3600])))


@st.composite
def crowded_lives(draw: st.DrawFn) -> Life:
    """Lives on nodes that the scheduler gives fewer pods than they have room for."""
    zones, in_rack, room = draw(st.integers(1, 2)), draw(st.integers(1, 3)), draw(st.integers(2, 4))
    pods = draw(st.integers(2, min(6, zones * in_rack * room)))
    rule = at_most(draw(st.integers(1, room - 1)))
    churn = draw(st.sampled_from([0, 0, 900, 3600]))
    return Life(zones=zones, racks=1, in_rack=in_rack, pods=pods, room=room, rule=rule, churn=churn)
