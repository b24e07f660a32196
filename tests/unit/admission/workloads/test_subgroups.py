"""Subgroups of a PodGroup: who is in which, and what each asks."""

from typing import Any

from admission.facts.pods import PodFact
from admission.facts.workloads import SubGroup, WorkloadFact
from admission.workloads.kinds.pod_group import group_pod_sets
from admission.workloads.pod_shapes import shape_name
from queues.resources import Resources
from queues.workload import Partition, PodSet
from tests.builders.decoded_workloads import a_group, told
from tests.builders.facts import gated


def member(name: str, **labels: str) -> PodFact:
    return gated(name, labels=tuple(sorted(labels.items())))


def subgroups(*policies: dict[str, Any], **spec: Any) -> WorkloadFact:
    return told(a_group(minMember=4, subGroupPolicy=list(policies), **spec))


def by_group(fact: WorkloadFact, pods: list[PodFact]) -> dict[str, PodSet]:
    return {each.name.partition("+")[2]: each for each in group_pod_sets(fact, pods, ())}


def test_members_with_equal_labels_are_one_subgroup_in_one_domain() -> None:
    hard = {"mode": "hard", "highestTierAllowed": 1}
    policy = {"name": "s", "subGroupSize": 2, "minSubGroups": 1, "matchLabelKeys": ["part"]}
    fact = subgroups({**policy, "networkTopology": hard}, networkTopology={**hard, "highestTierAllowed": 2})
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
    soft = {"mode": "soft", "highestTierAllowed": 1}
    fact = subgroups({"name": "s", "subGroupSize": 3, "matchLabelKeys": ["part"], "networkTopology": soft})
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
    without_x = [{"key": "x", "operator": "DoesNotExist"}]
    selector = {"matchLabels": {"role": "worker"}, "matchExpressions": without_x}
    policy = {"name": "workers", "subGroupSize": 2, "labelSelector": selector}
    members = [member("a", role="worker"), member("b", role="head"), member("c", role="worker", x="1")]
    found = by_group(subgroups(policy), members)

    assert {name: pods.count for name, pods in found.items()} == {"workers": 1, "": 2}


def test_a_member_keeps_its_subgroup_when_it_has_a_seat() -> None:
    fact = subgroups({"name": "s", "subGroupSize": 2, "matchLabelKeys": ["part"]})
    pods = member("a", part="gpu-1")

    assert shape_name(pods, fact) == f"{shape_name(pods)}+s.gpu-1"
    assert SubGroup(name="s", keys=("part",)).group_of({}) is None
