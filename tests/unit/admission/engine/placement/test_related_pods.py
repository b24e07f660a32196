"""Gangs whose pods have rules about other pods, from manifests to seats and reasons."""

from itertools import product
from typing import Any

import pytest

from queues.plan import Reason
from tests.laws.pod_rules.clusters import HOST, NAMESPACES, RACK, ZONE, Case, a_node, a_pod, placed_by_muster
from tests.laws.pod_rules.scheduler_filters import RULES, Cluster, Manifest

OWN = {"matchLabels": {"app": "train"}}


def racks(*gpus: int) -> list[Manifest]:
    """Nodes in racks of two, with so many GPUs each."""
    return [a_node(f"n{number}", {RACK: f"r{number // 2}"}, count) for number, count in enumerate(gpus)]


def gang(
    count: int, nodes: list[Manifest], *running: tuple[Manifest, str], **spec: Any
) -> list[str] | Reason:
    cluster = Cluster(nodes, NAMESPACES)
    for pod, node in running:
        cluster = cluster.with_pod(pod, node)
    return placed_by_muster(Case(cluster, [("t", count, a_pod("", {"app": "train"}, **spec))]))


def spread(key: str, **fields: Any) -> dict[str, Any]:
    constraint = {
        "topologyKey": key,
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": OWN,
        **fields,
    }
    return {"topologySpreadConstraints": [constraint]}


def affinity(kind: str, key: str, selector: Manifest = OWN) -> dict[str, Any]:
    return {"affinity": {kind: {RULES: [{"topologyKey": key, "labelSelector": selector}]}}}


def test_the_reason_says_how_many_domains_are_needed() -> None:
    taken = (a_pod("other", {"app": "other"}, gpus=8), "n4"), (a_pod("more", {"app": "other"}, gpus=8), "n5")
    reason = gang(3, racks(8, 8, 8, 8, 8, 8), *taken, **affinity("podAntiAffinity", RACK))
    assert isinstance(reason, Reason)
    assert reason.code == "NoFit"
    assert reason.message == (
        "2 of 3 pods of 1 nvidia.com/gpu fit on 6 nodes "
        f"(2 without room, 4 with a pod that anti-affinity keeps apart by {RACK}); "
        f"anti-affinity by {RACK}: 3 pods need 3 domains, 2 have room"
    )


def never(asked: list[str] | Reason) -> str:
    """The message of what can never be placed; "": it is, or waits."""
    return asked.message if isinstance(asked, Reason) and asked.code == "NeverFits" else ""


@pytest.mark.parametrize("key", [RACK, ZONE, HOST])
def test_more_pods_than_domains_exist_never_fit(key: str) -> None:
    """Every number of pods around that of the domains, empty or taken: anti-affinity within one gang."""
    nodes = [
        a_node(f"n{number}", {RACK: f"r{number // 2}", ZONE: "ab"[number // 4]}, 8) for number in range(8)
    ]
    domains = {RACK: 4, ZONE: 2, HOST: 8}[key]
    full = [(a_pod(f"full-{number}", {"app": "other"}, gpus=8), f"n{number}") for number in range(8)]
    for count, taken in product(range(1, 10), ([], full)):
        said = never(gang(count, nodes, *taken, **affinity("podAntiAffinity", key)))
        if count <= domains:
            assert said == "", (count, taken)
        elif key == HOST:
            assert said.startswith(f"{count} pods of 1 nvidia.com/gpu asked"), (count, taken)
        else:
            assert said == (
                f"{count} pods of 1 nvidia.com/gpu asked, at most 1 in one {key}; {domains} fit, "
                "even if all nodes were empty"
            )


def test_a_node_without_the_label_is_in_no_domain() -> None:
    nodes = [*racks(8, 8, 8, 8), a_node("n9", {}, 8)]
    for count in (3, 10):
        assert never(gang(count, nodes, **affinity("podAntiAffinity", RACK))) == ""
    assert "10 fit" in never(gang(11, nodes, **affinity("podAntiAffinity", RACK)))


def test_anti_affinity_towards_others_leaves_domains_to_the_gang() -> None:
    others = {"matchLabels": {"app": "other"}}
    assert never(gang(8, racks(8, 8), **affinity("podAntiAffinity", RACK, others))) == ""


def test_fewer_domains_than_a_spread_constraint_asks_for_hold_as_many_as_its_skew() -> None:
    nodes = racks(8, 8, 8, 8)
    assert never(gang(4, nodes, **spread(RACK, minDomains=3, maxSkew=2))) == ""
    assert never(gang(5, nodes, **spread(RACK, minDomains=3, maxSkew=2))) == (
        f"5 pods of 1 nvidia.com/gpu asked, at most 2 in one {RACK}; 4 fit, even if all nodes were empty"
    )
    # With as many domains as asked for, others' pods could make room.
    assert never(gang(5, nodes, **spread(RACK, minDomains=2, maxSkew=2))) == ""


def test_tasks_that_keep_apart_from_one_another_need_domains_together() -> None:
    cluster = Cluster(racks(*[8] * 8), NAMESPACES)
    once = a_pod("", {"app": "train"}, **affinity("podAntiAffinity", RACK))
    twice = a_pod("", {"app": "train"}, **affinity("podAntiAffinity", RACK))
    [terms] = twice["spec"]["affinity"].values()
    terms[RULES] *= 2
    for (count, is_never), pod in product(((2, False), (3, True)), (once, twice)):
        case = Case(cluster, [("a", count, pod), ("b", 2, pod)])
        assert bool(never(placed_by_muster(case))) == is_never


def test_pods_go_to_a_pod_that_runs_and_the_first_of_many_goes_anywhere() -> None:
    cache = (a_pod("cache", {"app": "cache"}, gpus=0), "n3")
    near = affinity("podAffinity", HOST, {"matchLabels": {"app": "cache"}})
    assert gang(2, racks(8, 8, 8, 8), cache, **near) == ["n3", "n3"]
    assert isinstance(gang(2, racks(8, 8), **near), Reason), "no pod runs that they go to"
    assert gang(4, racks(1, 1, 2, 2), **affinity("podAffinity", RACK)) == ["n2", "n2", "n3", "n3"]


def test_nodes_that_are_equal_otherwise_are_chosen_by_what_is_preferred() -> None:
    taken = (a_pod("other", {"app": "train"}, gpus=0), "n0")
    wish = {"weight": 1, "podAffinityTerm": {"topologyKey": HOST, "labelSelector": OWN}}
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    apart = {"affinity": {"podAntiAffinity": {preferred: [wish]}}}
    near = {"affinity": {"podAffinity": {preferred: [wish]}}}
    assert gang(1, racks(8, 8), taken, **apart) == ["n1"]
    assert gang(1, racks(8, 8), taken, **near) == ["n0"]
    assert gang(1, racks(8, 8), taken, **spread(HOST, whenUnsatisfiable="ScheduleAnyway")) == ["n1"]


def test_a_selector_by_a_label_in_which_pods_differ_is_refused() -> None:
    by_index = {"matchLabels": {"batch.kubernetes.io/job-completion-index": "0"}}
    reason = gang(2, racks(8, 8), **affinity("podAntiAffinity", HOST, by_index))
    assert isinstance(reason, Reason)
    assert "which differs from pod to pod" in reason.message


def test_a_zone_that_no_node_has_is_no_place() -> None:
    reason = gang(1, racks(8, 8), **spread(ZONE))
    assert isinstance(reason, Reason)
    assert f"2 without the label {ZONE}" in reason.message


def test_a_tainted_node_is_a_domain_unless_taints_are_honored() -> None:
    nodes = [*racks(8), a_node("n1", {RACK: "r1"}, 8, [{"key": "kept", "effect": "NoSchedule"}])]
    assert isinstance(gang(2, nodes, **spread(RACK)), Reason)
    assert gang(2, nodes, **spread(RACK, nodeTaintsPolicy="Honor")) == ["n0", "n0"]
