"""What objects say about where pods go together: preferences, ports, parts, subgroups, tiers, HyperNodes."""

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from admission.compose import group_pod_sets, shape_name
from admission.facts import (
    Change,
    FactKind,
    HyperNodeFact,
    Member,
    NodeFact,
    Placing,
    PodFact,
    PodPhase,
    SubGroup,
    WorkloadFact,
)
from admission.hypernodes import tree_of
from admission.kube.context import Context, in_context
from admission.kube.objects import Pod
from admission.kube.placing import hypernode_fact, placing_of
from admission.kube.translate import pod_fact
from admission.ports import Ports
from queues.errors import InvalidDocument
from queues.resources import Resources
from queues.workload import (
    HostPort,
    NodeName,
    Partition,
    PodSet,
    Preference,
    Requirement,
)
from tests.unit.sights import JOB, admission, gated, node, pod, world
from tests.unit.test_translate_jobs import a_group, a_job, a_volcano_job, task

RACK = "topology.muster.dev/rack"
HOST = "kubernetes.io/hostname"
CONTAINER: dict[str, Any] = {"name": "c", "image": "i"}


def a_pod(meta: dict[str, Any] | None = None, **spec: Any) -> Pod:
    document = {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", **(meta or {})},
        "spec": {"containers": [CONTAINER], **spec},
    }
    return msgspec.json.decode(json.dumps(document), type=Pod)


def preferring(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def test_preferred_affinity_is_read_with_all_operators() -> None:
    expressions: list[dict[str, Any]] = [
        {"key": "a", "operator": "In", "values": ["x"]},
        {"key": "b", "operator": "NotIn", "values": ["x"]},
        {"key": "c", "operator": "Exists"},
        {"key": "d", "operator": "DoesNotExist"},
        {"key": "e", "operator": "Gt", "values": ["1"]},
        {"key": "f", "operator": "Lt", "values": ["9"]},
    ]
    fields = [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]
    preferring_pod = a_pod(
        affinity=preferring(
            {"weight": 7, "preference": {"matchExpressions": expressions, "matchFields": fields}},
            {"weight": 3, "preference": {}},
        )
    )

    assert pod_fact(preferring_pod).placing.prefers == (
        Preference(
            7,
            (
                *(Requirement(e["key"], e["operator"], tuple(e.get("values", ()))) for e in expressions),
                Requirement("metadata.name", "In", ("n1",), field=True),
            ),
        ),
    )


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": [CONTAINER | {"ports": [{"containerPort": 80}]}]}, ()),
        (
            {
                "containers": [
                    CONTAINER | {"ports": [{"containerPort": 80, "hostPort": 8080, "hostIP": "10.0.0.1"}]}
                ]
            },
            (HostPort(8080, "TCP", "10.0.0.1"),),
        ),
        (
            {
                "hostNetwork": True,
                "containers": [CONTAINER | {"ports": [{"containerPort": 53, "protocol": "UDP"}]}],
            },
            (HostPort(53, "UDP"),),
        ),
        (
            {"initContainers": [CONTAINER | {"restartPolicy": "Always", "ports": [{"hostPort": 1}]}]},
            (HostPort(1),),
        ),
        ({"initContainers": [CONTAINER | {"ports": [{"hostPort": 1}]}]}, ()),
    ],
)
def test_ports_of_the_node_are_those_that_the_pod_keeps(
    spec: dict[str, Any], expected: tuple[HostPort, ...]
) -> None:
    assert pod_fact(a_pod(**spec)).placing.ports == expected


def test_parts_are_read_from_the_template() -> None:
    said = {
        "muster.dev/partitions": f"8={RACK}, 2={HOST}",
        "muster.dev/balanced": "true",
        "muster.dev/together": "x",
    }
    placing = placing_of(a_pod().spec, said)

    assert placing.partitions == (Partition(size=8, level=RACK), Partition(size=2, level=HOST))
    assert (placing.balanced, placing.together) == (True, "x")


@pytest.mark.parametrize(
    "text", ["8", "=x", "0=x", "-2=x", "8=a,3=b", "2=a,4=b", "2=a,2=b", "x=a", "9" * 5000 + "=a"]
)
def test_parts_that_cannot_be_kept_are_refused(text: str) -> None:
    with pytest.raises(InvalidDocument, match=r"muster\.dev/partitions"):
        placing_of(a_pod().spec, {"muster.dev/partitions": text})
    # A pod that exists already is not stopped by it.
    assert pod_fact(a_pod({"annotations": {"muster.dev/partitions": text}})).placing.partitions == ()


def test_a_template_says_what_its_pod_set_needs() -> None:
    template = {
        "metadata": {"annotations": {"muster.dev/partitions": f"2={RACK}"}},
        "spec": {"containers": [CONTAINER | {"ports": [{"hostPort": 80}]}]},
    }
    for fact in (a_job(template=template), a_volcano_job(task(template=template))):
        (pods,) = fact.pod_sets
        assert (pods.partitions, pods.ports) == ((Partition(size=2, level=RACK),), (HostPort(80),))
    wrong = a_job(template={**template, "metadata": {"annotations": {"muster.dev/partitions": "no"}}})
    assert wrong.obstacle is not None
    assert wrong.obstacle[0] == "InvalidSpec"


# ── Volcano Jobs ────────────────────────────────────────────────────────────────────────────────────────────

LEVELS = Context(levels=("block", "rack", HOST))


def told(fact: WorkloadFact, context: Context = LEVELS) -> WorkloadFact:
    found = in_context(fact, context)
    assert isinstance(found, WorkloadFact)
    return found


def test_a_topology_of_several_tasks_holds_for_all_of_them_together() -> None:
    topology = {"mode": "hard", "highestTierAllowed": 2}
    sets = told(a_volcano_job(task("a"), task("b"), networkTopology=topology)).pod_sets

    assert [(pods.within, pods.within_required, pods.required_topology) for pods in sets] == [
        ("block", True, None)
    ] * 2
    soft = told(a_volcano_job(task("a"), task("b"), networkTopology=topology | {"mode": "soft"})).pod_sets
    assert [(pods.within, pods.within_required) for pods in soft] == [("block", False)] * 2


def test_partitions_of_a_task_have_a_level_of_their_own() -> None:
    policy = {
        "totalPartitions": 2,
        "partitionSize": 2,
        "minPartitions": 1,
        "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
    }
    fact = told(
        a_volcano_job(task(partitionPolicy=policy), networkTopology={"mode": "soft", "highestTierAllowed": 2})
    )
    (pods,) = fact.pod_sets

    assert pods.partitions == (Partition(size=2, level="rack", required=True, minimum=1),)
    assert (pods.minimum, pods.preferred_topology, fact.unsupported) == (2, "block", ())


def test_partitions_without_a_topology_only_start_whole() -> None:
    policy = {"totalPartitions": 2, "partitionSize": 2}
    (pods,) = told(a_volcano_job(task(partitionPolicy=policy))).pod_sets

    assert pods.partitions == (Partition(size=2, level="", required=False),)


def test_partitions_that_cannot_be_read_are_an_obstacle() -> None:
    fact = a_volcano_job(task(partitionPolicy={"partitionSize": 2, "networkTopology": "hard"}))

    assert fact.obstacle is not None
    assert fact.obstacle[0] == "InvalidSpec"


def test_a_tier_by_name_is_that_of_the_hypernodes() -> None:
    fact = a_volcano_job(task(), networkTopology={"highestTierName": "spine"})
    (pods,) = told(fact, Context(hypernodes=(1, 2), tier_names=(("spine", 2),))).pod_sets
    assert pods.required_topology == "topology.volcano.sh/tier-2"
    (pods,) = told(fact).pod_sets
    assert pods.required_topology == "tier spine"  # a level that nobody has: the reason says so


# ── PodGroups ───────────────────────────────────────────────────────────────────────────────────────────────


def member(name: str, **labels: str) -> PodFact:
    return gated(name, labels=tuple(sorted(labels.items())))


def subgroups(*policies: dict[str, Any], **spec: Any) -> WorkloadFact:
    return told(a_group(minMember=4, subGroupPolicy=list(policies), **spec))


def by_group(fact: WorkloadFact, pods: list[PodFact]) -> dict[str, PodSet]:
    return {each.name.partition("+")[2]: each for each in group_pod_sets(fact, pods, ())}


def test_members_with_equal_labels_are_one_subgroup_in_one_domain() -> None:
    fact = subgroups(
        {
            "name": "s",
            "subGroupSize": 2,
            "minSubGroups": 1,
            "matchLabelKeys": ["part"],
            "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
        },
        networkTopology={"mode": "hard", "highestTierAllowed": 2},
    )
    found = by_group(fact, [member(f"p{i}", part=str(i // 2)) for i in range(4)])

    assert fact.unsupported == ()
    assert {name: pods.partitions for name, pods in found.items()} == {
        f"s.{part}": (Partition(size=2, level="rack", required=True),) for part in (0, 1)
    }
    assert {name: (pods.count, pods.minimum, pods.within) for name, pods in found.items()} == {
        "s.0": (2, 2, "block"),
        "s.1": (2, 0, "block"),
    }


def test_members_of_a_subgroup_with_several_shapes_go_together() -> None:
    fact = subgroups(
        {
            "name": "s",
            "subGroupSize": 3,
            "matchLabelKeys": ["part"],
            "networkTopology": {"mode": "soft", "highestTierAllowed": 1},
        }
    )
    large = gated("large", takes=Resources({"nvidia.com/gpu": 8000, "pods": 1}), labels=(("part", "0"),))
    found = group_pod_sets(fact, [large, member("a", part="0"), member("b", part="0")], ())

    assert [(pods.together, pods.preferred_topology) for pods in found] == [("s.0", "rack")] * 2


def test_without_labels_members_are_parts_in_their_order() -> None:
    fact = subgroups({"name": "s", "subGroupSize": 2, "minSubGroups": 2})
    (pods,) = by_group(fact, [member(f"p{i}") for i in range(6)]).values()

    assert pods.partitions == (Partition(size=2, level="", required=False),)
    assert (pods.count, pods.minimum) == (6, 4)


def test_a_subgroup_that_is_not_complete_yet_is_asked_for_all_the_same() -> None:
    fact = subgroups({"name": "s", "subGroupSize": 2, "minSubGroups": 2, "matchLabelKeys": ["part"]})

    one = by_group(fact, [member("a", part="0"), member("b", part="0")])
    assert one["s.0"].minimum == 4  # another subgroup is to come
    two = by_group(fact, [member("a", part="0"), member("b", part="0"), member("c", part="1")])
    assert (two["s.0"].minimum, two["s.1"].minimum) == (2, 2)


def test_a_selector_says_whose_subgroup_it_is() -> None:
    policy = {
        "name": "workers",
        "subGroupSize": 2,
        "labelSelector": {
            "matchLabels": {"role": "worker"},
            "matchExpressions": [{"key": "x", "operator": "DoesNotExist"}],
        },
    }
    members = [member("a", role="worker"), member("b", role="head"), member("c", role="worker", x="1")]
    found = by_group(subgroups(policy), members)

    assert {name: pods.count for name, pods in found.items()} == {"workers": 1, "": 2}


def test_a_member_keeps_its_subgroup_when_it_has_a_seat() -> None:
    fact = subgroups({"name": "s", "subGroupSize": 2, "matchLabelKeys": ["part"]})
    pods = member("a", part="gpu-1")

    assert shape_name(pods, fact) == f"{shape_name(pods)}+s.gpu-1"
    assert SubGroup(name="s", keys=("part",)).group_of({}) is None


# ── HyperNodes ──────────────────────────────────────────────────────────────────────────────────────────────


def hypernode(name: str, tier: int, *members: dict[str, Any], **spec: Any) -> HyperNodeFact:
    document = {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name},
        "spec": {"tier": tier, "members": list(members), **spec},
    }
    fact = hypernode_fact(json.dumps(document).encode())
    assert fact is not None
    return fact


def nodes_by(**selector: Any) -> dict[str, Any]:
    return {"type": "Node", "selector": selector}


def inner(name: str) -> dict[str, Any]:
    return {"type": "HyperNode", "selector": {"exactMatch": {"name": name}}}


NODES = [
    NodeFact(name=NodeName(f"n{i}"), allocatable=Resources(), labels={"row": str(i // 4)}) for i in range(6)
]


def domains(*hypernodes: HyperNodeFact) -> dict[str, list[str | None]]:
    return {key: [at.get(node.name) for node in NODES] for key, at in tree_of(hypernodes, NODES)}


@pytest.mark.parametrize("pattern", ["n(", "n{99999999999}", "n(?=[1-5])", r"(n)\1?", "", r"\C"])
def test_a_pattern_that_cannot_be_used_contains_nobody_and_says_why(pattern: str) -> None:
    fact = hypernode("s0", 1, nodes_by(regexMatch={"pattern": pattern}), nodes_by(exactMatch={"name": "n0"}))

    assert list(domains(fact).values()) == [["s0", None, None, None, None, None]]
    (problem,) = fact.problems
    assert problem.startswith("spec.members[0].selector.regexMatch.pattern: found ")


@pytest.mark.parametrize("pattern", ["[[:alpha:]][135]", r"\pL[135]\z", "(?P<odd>[135])", r"(?i)\QN\E[135]$"])
def test_a_pattern_is_read_as_go_reads_it(pattern: str) -> None:
    found = domains(hypernode("s0", 1, nodes_by(regexMatch={"pattern": pattern})))

    assert list(found.values()) == [[None, "s0", None, "s0", None, "s0"]]


def test_labels_choose_by_every_requirement() -> None:
    def chosen(*expressions: dict[str, Any], **labels: str) -> list[str | None]:
        selector = {"matchLabels": labels, "matchExpressions": list(expressions)}
        return next(iter(domains(hypernode("s0", 1, nodes_by(labelMatch=selector))).values()))

    first, second = {"key": "row", "operator": "In", "values": ["0"]}, {"key": "row", "operator": "Exists"}
    assert chosen(first, second) == ["s0"] * 4 + [None] * 2
    assert chosen({**first, "values": ["1", "0", "1"]}) == ["s0"] * 6
    assert chosen(first, row="1") == [None] * 6
    assert chosen({**first, "operator": "NotIn"}) == [None] * 4 + ["s0"] * 2
    assert chosen(second) == chosen() == ["s0"] * 6


def test_hypernodes_contain_nodes_by_name_pattern_and_labels_and_one_another() -> None:
    found = domains(
        hypernode("s0", 1, nodes_by(exactMatch={"name": "n0"}), nodes_by(exactMatch={"name": "n1"})),
        hypernode("s1", 1, nodes_by(regexMatch={"pattern": "n[23]"})),
        hypernode("s2", 1, nodes_by(labelMatch={"matchLabels": {"row": "1"}})),
        hypernode("top", 2, inner("s0"), inner("s1"), tierName="spine"),
    )

    assert found == {
        "topology.volcano.sh/tier-2": ["top"] * 4 + ["s2"] * 2,
        "topology.volcano.sh/tier-1": ["top/s0", "top/s0", "top/s1", "top/s1", "s2", "s2"],
    }


def test_a_tier_that_is_left_out_costs_nothing() -> None:
    found = domains(
        hypernode("s0", 1, nodes_by(regexMatch={"pattern": "n[01]"})),
        hypernode("mid", 2, nodes_by(regexMatch={"pattern": "n[23]"})),
        hypernode("top", 3, inner("s0"), inner("mid")),
    )

    assert found["topology.volcano.sh/tier-2"] == ["top/s0"] * 2 + ["top/mid"] * 2 + [None] * 2
    assert found["topology.volcano.sh/tier-1"] == ["top/s0"] * 2 + [None] * 4


@pytest.mark.parametrize(
    "members",
    [
        [inner("s0")],
        [inner("nobody")],
        [nodes_by(regexMatch={"pattern": "("})],
        [nodes_by(labelMatch={"matchLabels": 3})],
        [nodes_by()],
        [],
    ],
    ids=["itself", "nobody", "no pattern", "no selector", "nothing", "no members"],
)
def test_a_hypernode_that_contains_nobody_harms_nobody(members: list[dict[str, Any]]) -> None:
    found = domains(hypernode("s0", 1, *members), hypernode("s1", 1, nodes_by(exactMatch={"name": "n0"})))

    assert found == {"topology.volcano.sh/tier-1": ["s1"] + [None] * 5}


def test_hypernodes_that_contain_one_another_have_the_same_nodes_in_whatever_order_they_are_named() -> None:
    one = hypernode("a", 1, inner("c"), nodes_by(exactMatch={"name": "n0"}))
    two = hypernode("b", 1, inner("a"), nodes_by(exactMatch={"name": "n1"}))
    last = hypernode("c", 1, inner("b"))

    assert domains(one, two, last) == {"topology.volcano.sh/tier-1": ["a", "a"] + [None] * 4}
    assert domains(last, two, one) == domains(one, two, last)


def test_a_long_chain_of_hypernodes_is_followed_to_its_end() -> None:
    chain = [hypernode(f"h{i:04}", 1, inner(f"h{i + 1:04}")) for i in range(1500)]

    found = domains(*chain, hypernode("h1500", 1, nodes_by(exactMatch={"name": "n0"})))

    assert found == {"topology.volcano.sh/tier-1": ["h0000"] + [None] * 5}


def test_one_that_cannot_be_read_is_none() -> None:
    with pytest.raises(InvalidDocument, match=r"spec\.tier"):
        hypernode_fact(b'{"metadata":{"name":"x"},"spec":{"tier":"one"}}')
    assert Member().labels is None


def test_hypernodes_are_levels_of_the_worlds_nodes() -> None:
    there = world([node("n0"), node("n1"), node("n2")])
    fact = hypernode("s", 1, nodes_by(regexMatch={"pattern": "n[02]"}))
    there.observe([Change(FactKind.HYPERNODE, "s", fact)])

    layout = there.freeze(1).nodes.layout
    found = layout.chain("topology.volcano.sh/tier-1")

    assert found is not None
    assert layout.names == ("n0", "n2", "n1")  # nodes of one domain are side by side
    assert found[0][found[1]].of.tolist() == [0, 0, -1]


# ── host ports ──────────────────────────────────────────────────────────────────────────────────────────────


def test_ports_are_taken_by_live_pods_and_by_seats() -> None:
    ports = Ports()
    assert ports.occupy("foreign", (NodeName("n1"), (HostPort(80),)))
    assert not ports.occupy("foreign", (NodeName("n1"), (HostPort(80),)))
    ports.look(JOB, [PodSet(name="main", count=1, takes=Resources(), ports=(HostPort(90),))])
    mine = [admission(JOB, "n1 n2")]

    assert ports.by_node(lambda key: mine) == {"n1": (HostPort(80), HostPort(90)), "n2": (HostPort(90),)}

    assert ports.occupy("foreign", None)
    ports.look(JOB, [])
    assert ports.by_node(lambda key: mine) == {}


def test_the_world_knows_the_ports_of_foreign_pods() -> None:
    taken = pod("foreign", "n0", placing=Placing(ports=(HostPort(80),)))
    there = world([node("n0"), node("n1"), taken])

    assert there.freeze(1).nodes.ports == {"n0": (HostPort(80),)}
    there.observe([Change(FactKind.POD, "foreign", replace(taken, phase=PodPhase.SUCCEEDED))])
    assert there.news
    assert there.freeze(2).nodes.ports == {}
