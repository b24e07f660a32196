"""The evaluator of rules about other pods says what kube-scheduler does, pod by pod and for gangs of pods."""

from collections.abc import Iterator

import pytest

from deploy.local.cluster import LocalCluster
from tests.kube.pod_rules.played_cases import (
    CASE,
    PlayedCase,
    create_pod,
    named,
    outcomes,
    pinned,
    removed,
    side_by_side,
)
from tests.laws.pod_rules.clusters import Drawn, placed_by_muster
from tests.laws.pod_rules.scheduler_filters import Cluster, Manifest, all_placed, refusals

CASES = range(30)


@pytest.fixture(scope="module")
def cases(local_cluster: LocalCluster) -> Iterator[list[PlayedCase]]:
    """Cases with their nodes and the pods that run, on a control plane without Muster."""
    played = [PlayedCase(Drawn(seed), seed) for seed in CASES]
    side_by_side(local_cluster, [case.create for case in played])
    yield played
    with local_cluster.client() as api:
        api.delete(f"/api/v1/nodes?labelSelector={CASE}")


def test_the_evaluator_says_of_each_node_what_the_scheduler_says(
    local_cluster: LocalCluster, cases: list[PlayedCase]
) -> None:
    # In each round one probe of each case: a pod of the gang that is bound to one node by its affinity.
    probes = {case.number: _probes(case) for case in cases}
    wrong, asked = [], 0
    while any(probes.values()):
        tried = [(case, *probes[case.number].pop()) for case in cases if probes[case.number]]
        # Each has a name of its own: KWOK may delete the one before by its name when the next is there.
        pods = [pinned(pod, node["metadata"]["name"], f"probe-{asked}") for _, pod, node in tried]
        side_by_side(local_cluster, [lambda api, pod=pod: create_pod(api, pod) for pod in pods])
        for (case, pod, node), bound in zip(tried, outcomes(local_cluster, pods), strict=True):
            on_node = Cluster(case.cluster.nodes, case.cluster.namespaces, case.cluster.pods, pinned=True)
            against = refusals(pod, node, on_node)
            asked += 1
            if (bound is None) != bool(against):
                wrong.append((case.number, node["metadata"]["name"], bound, against))
        removed(local_cluster, pods)
    assert wrong == [], asked
    assert asked > 100


def _probes(case: PlayedCase) -> list[tuple[Manifest, Manifest]]:
    """A pod of each of the gang's tasks with each node."""
    tasks = {repr(pod["metadata"]["labels"]): pod for pod in case.pods}
    return [(pod, node) for pod in tasks.values() for node in case.cluster.nodes]


def test_a_pod_that_may_go_anywhere_is_bound_where_the_evaluator_allows_it(
    local_cluster: LocalCluster, cases: list[PlayedCase]
) -> None:
    pods = [named(case.pods[0], "free") for case in cases]
    side_by_side(local_cluster, [lambda api, pod=pod: create_pod(api, pod) for pod in pods])
    for case, pod, bound in zip(cases, pods, outcomes(local_cluster, pods), strict=True):
        allowed = [
            node["metadata"]["name"] for node in case.cluster.nodes if not refusals(pod, node, case.cluster)
        ]
        assert bound in (allowed or [None]), case.number
    removed(local_cluster, pods)


def test_the_scheduler_binds_all_pods_where_muster_places_them_in_whatever_order_they_come(
    local_cluster: LocalCluster, cases: list[PlayedCase]
) -> None:
    placed = {case.number: placed_by_muster(case.drawn) for case in cases}
    pods = [
        pinned(pod, case.name_of(node), pod["metadata"]["name"])
        for case in cases
        if isinstance(places := placed[case.number], list)
        for pod, node in zip(case.pods, places, strict=True)
    ]
    assert len(pods) > 15
    side_by_side(local_cluster, [lambda api, pod=pod: create_pod(api, pod) for pod in pods])
    unbound = [pod for pod, node in zip(pods, outcomes(local_cluster, pods), strict=True) if node is None]
    # Some wait for the pods that they have to be near to, or for others to be spread first.
    late = outcomes(local_cluster, unbound, bound=True)
    assert [pod["metadata"] for pod, node in zip(unbound, late, strict=True) if node is None] == []
    removed(local_cluster, pods)


def test_the_scheduler_alone_binds_no_gang_whole_that_muster_refuses(
    local_cluster: LocalCluster, cases: list[PlayedCase]
) -> None:
    refused = [case for case in cases if not isinstance(placed_by_muster(case.drawn), list)]
    # A gang that can be bound in one order only, after which the rules of some pods are broken, is left out.
    refused = [case for case in refused if all_placed(case.pods, case.cluster) is None]
    pods = [pod for case in refused for pod in case.pods]
    side_by_side(local_cluster, [lambda api, pod=pod: create_pod(api, pod) for pod in pods])
    bound = dict(zip([repr(pod["metadata"]) for pod in pods], outcomes(local_cluster, pods), strict=True))
    whole = [case.number for case in refused if all(bound[repr(pod["metadata"])] for pod in case.pods)]
    assert whole == []
    removed(local_cluster, pods)
