"""What nodes gain from victims: steps as (node, pods that fit more, victims), the cheapest first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from admission.engine import claims
from admission.engine.nodes.levels import HOST
from admission.engine.nodes.table import NodeTable
from admission.engine.preemption.candidate_arrays import CandidateArrays
from admission.engine.preemption.node_gains import DomainGains, NodeGains, gains_by_domain, gains_by_node
from admission.engine.snapshot import Snapshot
from admission.engine.trial import Trial
from queues.admissions import AdmissionState, Claim
from queues.quota.queue import Queue
from queues.quota.usage import Usage
from queues.resources import GPU, Resources, total
from queues.workload import AdmissionId, HostPort, NodeName, PodSet, QueueName
from tests.builders.decided_work import a_node, seats_on
from tests.builders.running_work import NOW, Running, candidates_in, running, snapshot_of, tree_of, workload
from tests.tables import named_rows

Step = tuple[str, int, str]

PORT = (HostPort(port=80),)


def pods(gpus: float = 1, **more: object) -> PodSet:
    """What the beneficiary asks: pods of so many GPUs."""
    (asked,) = workload("asks", gpus=gpus).pod_sets
    return replace(asked, **more)  # type: ignore[arg-type]


def with_ports(work: Running) -> Running:
    (asked,) = work.workload.pod_sets
    return replace(work, workload=replace(work.workload, pod_sets=(replace(asked, ports=PORT),)))


def cpu_only(work: Running) -> Running:
    (asked,) = work.workload.pod_sets
    changed = replace(asked, takes=Resources({"cpu": 1000, "pods": 1}))
    return replace(work, workload=replace(work.workload, pod_sets=(changed,)))


@dataclass(kw_only=True)
class Cluster:
    """Nodes with so many GPUs, two to a rack, and what runs there."""

    gpus: Mapping[str, int] = field(default_factory=lambda: {"n0": 2, "n1": 2})
    works: Sequence[Running]

    def snapshot(self) -> Snapshot:
        snapshot = snapshot_of(self.works, queues={QueueName("q"): Queue(name=QueueName("q"))})
        used: dict[NodeName, list[Resources]] = {}
        ports: dict[NodeName, tuple[HostPort, ...]] = {}
        for work, admission in zip(self.works, snapshot.admissions.values(), strict=True):
            for seat in admission.seats:
                used.setdefault(seat.node, []).append(seat.takes)
                ports[seat.node] = (*ports.get(seat.node, ()), *work.workload.pod_sets[0].ports)
        nodes = [
            a_node(
                name,
                {GPU: units * 1000, "cpu": 8000, "pods": 10},
                labels={"rack": f"r{number // 2}"},
                used=total(used.get(NodeName(name), ())),
            )
            for number, (name, units) in enumerate(self.gpus.items())
        ]
        return replace(snapshot, nodes=NodeTable.build(nodes, [("rack", HOST)]).with_ports(ports))

    def steps(self, asked: PodSet, *, keep: Sequence[str] = (), off: Sequence[str] = ()) -> list[Step]:
        """Steps to room for such pods. ``keep``: these workloads stay; ``off``: the pods may not use these nodes."""
        search = Search.of(self.snapshot())
        return search.as_steps(search.by_node(asked, keep=keep, off=off))


@dataclass(frozen=True)
class Search:
    """The drained world of a snapshot and the candidates in it."""

    trial: Trial
    arrays: CandidateArrays

    @classmethod
    def of(cls, snapshot: Snapshot) -> "Search":
        tree = tree_of(snapshot.queues, gpus=100)
        trial = Trial.open(snapshot.nodes, Usage(tree))
        evicting = [
            number for number, each in snapshot.admissions.items() if each.state is AdmissionState.EVICTING
        ]
        held = claims.hold(snapshot, trial, evicting)
        drained = held.after_draining(trial)
        return cls(drained, CandidateArrays(candidates_in(snapshot, tree), drained))

    def by_node(self, asked: PodSet, *, keep: Sequence[str] = (), off: Sequence[str] = ()) -> NodeGains:
        chosen = np.array([each.workload.name not in keep for each in self.arrays.candidates], np.bool_)
        mask = np.array([name not in off for name in self.trial.layout.names])
        return gains_by_node(self.trial, asked, mask, self.arrays, chosen).gains

    def room(self, asked: PodSet) -> dict[str, int]:
        """Pods that fit now, by node."""
        everywhere = np.ones(len(self.trial.layout.names), np.bool_)
        none = np.zeros(len(self.arrays.candidates), np.bool_)
        found = gains_by_node(self.trial, asked, everywhere, self.arrays, none)
        return dict(zip(self.trial.layout.names, found.room.tolist(), strict=True))

    def as_steps(self, gains: NodeGains) -> list[Step]:
        names = [self.arrays.candidates[index].workload.name for index in gains.candidates]
        steps = zip(gains.columns, gains.pods.tolist(), gains.begins, gains.ends, strict=True)
        return [
            (self.trial.layout.names[column], pods, " ".join(names[begin:end]))
            for column, pods, begin, end in steps
        ]


A, B, USELESS = running("a"), running("b", since=2000), cpu_only(running("useless", since=0))


@named_rows(
    ("works", "asked", "expected"),
    {
        "one victim frees exactly a pod": ([running("a", gpus=2)], pods(2), [("n0", 1, "a")]),
        "one victim frees two pods": ([running("a", gpus=2)], pods(1), [("n0", 2, "a")]),
        "two small ones, both needed": ([A, B], pods(2), [("n0", 1, "a b")]),
        "two small ones, a step each": ([A, B], pods(1), [("n0", 1, "a"), ("n0", 1, "b")]),
        "beside what is free": ([running("a")], pods(2), [("n0", 1, "a")]),
        "never more than the node has": ([running("a")], pods(3), []),
        "the cheapest node first": (
            [running("old", since=5000, gpus=2), running("new", on="n1", gpus=2)],
            pods(2),
            [("n1", 1, "new"), ("n0", 1, "old")],
        ),
        "on a node the cheapest first": (
            [running("old", since=5000), running("new")],
            pods(1),
            [("n0", 1, "new"), ("n0", 1, "old")],
        ),
        "the next is the cheapest of all nodes' next": (
            [running("old", since=5000), running("new", since=0), running("mid", on="n1", gpus=2)],
            pods(1),
            [("n0", 1, "new"), ("n1", 2, "mid"), ("n0", 1, "old")],
        ),
        "a victim that frees nothing of what lacks is not taken": (
            [USELESS, running("a", gpus=2)],
            pods(2),
            [("n0", 1, "a")],
        ),
        "beside it two small ones, a step each": ([USELESS, A, B], pods(1), [("n0", 1, "a"), ("n0", 1, "b")]),
        "a gang frees room on each of its nodes": (
            [running("gang", on="n0 n1", gpus=2)],
            pods(2),
            [("n0", 1, "gang"), ("n1", 1, "gang")],
        ),
    },
)
def test_steps_to_more_room(works: list[Running], asked: PodSet, expected: list[Step]) -> None:
    assert Cluster(works=works).steps(asked) == expected


def test_what_is_free_already_costs_no_victim() -> None:
    cluster = Cluster(works=[running("a")])
    assert Search.of(cluster.snapshot()).room(pods(1)) == {"n0": 1, "n1": 2}
    assert cluster.steps(pods(1)) == [("n0", 1, "a")]


def test_only_given_candidates_and_nodes_count() -> None:
    cluster = Cluster(works=[running("a"), running("b"), running("c", on="n1")])
    assert {names for _, _, names in cluster.steps(pods(1))} == {"a", "b", "c"}
    assert {names for _, _, names in cluster.steps(pods(1), keep=["a"])} == {"b", "c"}
    assert {names for _, _, names in cluster.steps(pods(1), off=["n1"])} == {"a", "b"}


def test_an_elastic_part_goes_before_its_gang() -> None:
    """The gang has its minimum on the first node; what joined it later has run for longer, and still goes first."""
    gang = workload("gang", pods=2, minimum=1)
    core = Running(workload=gang, nodes=("n0",), since=0)
    joined = Running(workload=gang, nodes=("n0",), since=5000)
    search = Search.of(Cluster(works=[core, joined]).snapshot())
    gains = search.by_node(pods(1))
    first = search.arrays.candidates[int(gains.candidates[gains.begins[0]])]
    assert (first.pods, int(gains.pods[0])) == (1, 1)


@named_rows(
    ("gpus", "works", "expected"),
    {
        "the holder is in the way": (2, [with_ports(running("holder"))], [("n0", 1, "holder")]),
        "a cheaper pod without the port is not": (
            3,
            [running("without", since=0), with_ports(running("holder"))],
            [("n0", 1, "holder")],
        ),
        "on a full node it frees a GPU that lacks; it is put back if the holder alone is enough": (
            2,
            [running("without", since=0), with_ports(running("holder"))],
            [("n0", 1, "without holder")],
        ),
        "no second pod with the port on one node": (2, [running("without")], []),
    },
)
def test_a_host_port_is_one_more_resource(gpus: int, works: list[Running], expected: list[Step]) -> None:
    cluster = Cluster(gpus={"n0": gpus}, works=works)
    assert cluster.steps(pods(1, ports=PORT)) == expected


def test_a_node_has_room_for_one_pod_with_a_host_port() -> None:
    cluster = Cluster(gpus={"n0": 4, "n1": 4}, works=[with_ports(running("holder"))])
    assert Search.of(cluster.snapshot()).room(pods(1, ports=PORT)) == {"n0": 0, "n1": 1}


@named_rows(
    ("works", "gpus", "expected"),
    {
        "a half for a half": ([running("half", gpus=0.5)], 0.5, [("n0", 1, "half")]),
        "two halves for a whole": (
            [running("one", gpus=0.5), running("two", gpus=0.5, since=2000)],
            1,
            [("n0", 1, "one two")],
        ),
        "a whole for two halves": ([running("whole")], 0.5, [("n0", 2, "whole")]),
    },
)
def test_fractions_of_devices(works: list[Running], gpus: float, expected: list[Step]) -> None:
    cluster = Cluster(gpus={"n0": 1}, works=works)
    assert cluster.steps(pods(gpus)) == expected


@pytest.mark.parametrize("claimed", [False, True])
def test_what_drains_already_is_no_victim_and_is_room_unless_it_is_claimed(claimed: bool) -> None:
    snapshot = Cluster(works=[running("drains", gpus=2), running("runs", on="n1", gpus=2)]).snapshot()
    first = AdmissionId(1)
    evicting = replace(snapshot.admissions[first], state=AdmissionState.EVICTING)
    snapshot = replace(snapshot, admissions={**snapshot.admissions, first: evicting})
    other = workload("other", gpus=2)
    claim = Claim(
        workload=other.key,
        queue=other.queue,
        generation=other.generation,
        seats=seats_on("n0", *other.pod_sets),
        victims=(first,),
        until=NOW + 60,
    )
    if claimed:
        snapshot = replace(snapshot, pending={other.key: other}, claims={other.key: claim})
    search = Search.of(snapshot)
    assert search.room(pods(2)) == {"n0": 0 if claimed else 1, "n1": 0}
    assert search.as_steps(search.by_node(pods(2))) == [("n1", 1, "runs")]


#: Two racks; work in the second one has run for a shorter time.
RACKS = Cluster(
    gpus={f"n{number}": 2 for number in range(4)},
    works=[
        running(f"w{number}", on=f"n{number}", gpus=2, since=5000 if number < 2 else 10)
        for number in range(4)
    ],
)


@named_rows(
    ("asked", "count", "expected"),
    {
        "no topology: the whole cluster": (pods(2), 2, ["w2 w3 w0 w1"]),
        "required: the cheapest rack": (pods(2, required_topology="rack"), 2, ["w2 w3", "w0 w1"]),
        "required: no rack is large enough": (pods(2, required_topology="rack"), 3, []),
        "preferred: racks first, then everywhere": (
            pods(2, preferred_topology="rack"),
            2,
            ["w2 w3", "w0 w1", "w2 w3 w0 w1"],
        ),
        "preferred: everywhere if no rack will do": (pods(2, preferred_topology="rack"), 3, ["w2 w3 w0 w1"]),
        "a level that no node has": (pods(2, required_topology="row"), 2, ["w2 w3 w0 w1"]),
    },
)
def test_domains_in_which_enough_pods_could_fit(asked: PodSet, count: int, expected: list[str]) -> None:
    search = Search.of(RACKS.snapshot())
    everywhere = np.ones(4, np.bool_)
    found = gains_by_node(search.trial, asked, everywhere, search.arrays, everywhere)
    tried: list[DomainGains] = list(gains_by_domain(search.trial, asked, count, found))
    assert [" ".join(names for _, _, names in search.as_steps(each.gains)) for each in tried] == expected
    assert all(each.room == 0 for each in tried)
