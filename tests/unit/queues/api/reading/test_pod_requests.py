"""What a pod takes, by the core API's rules, and which nodes it may use."""

from typing import Any

import pytest

from admission.wire import WireCondition, WireContainerStatus, WirePodStatus
from queues.api.reading.pod_places import NO_NODE, node_filter_of, topology_of
from queues.api.reading.pod_requests import requests_of
from queues.api.types.pod import WireAmounts, read_pod
from queues.workload import NodeFilter, Requirement, Toleration
from tests.tables import with_rows


def container(requests=None, limits=None, **fields):
    return {
        "name": "a",
        "image": "b",
        "resources": {"requests": requests or {}, "limits": limits or {}},
    } | fields


def takes(**spec):
    return dict(requests_of(read_pod({"spec": {"containers": [container()], **spec}}).spec).items())


def test_a_pod_without_requests_takes_a_place():
    assert takes() == {"pods": 1}


def test_containers_run_together():
    assert takes(containers=[container({"cpu": 1}), container({"cpu": "500m", "memory": "1Gi"})]) == {
        "cpu": 1500,
        "memory": 2**30,
        "pods": 1,
    }


def test_a_limit_without_a_request_is_the_request(golden: Any):
    assert takes(containers=[container({"cpu": 1}, {"cpu": 4, "nvidia.com/gpu": 8})]) == golden


def test_a_request_of_zero_is_a_request():
    assert takes(containers=[container({"cpu": 0}, {"cpu": 4})]) == {"pods": 1}


@pytest.mark.parametrize(("init", "cpu"), [(1, 2000), (2, 2000), (5, 5000)])
def test_init_containers_run_alone_before_the_others(init, cpu):
    spec = {
        "containers": [container({"cpu": 2})],
        "initContainers": [container({"cpu": init}), container({"cpu": 1})],
    }
    assert takes(**spec)["cpu"] == cpu


def test_a_sidecar_runs_beside_containers_and_later_init_containers():
    sidecar = container({"cpu": 1}, restartPolicy="Always")
    first, later = container({"cpu": 5}), container({"cpu": 4, "memory": 100})
    spec = {"containers": [container({"cpu": 2})]}
    assert takes(**spec, initContainers=[sidecar])["cpu"] == 3000
    assert takes(**spec, initContainers=[sidecar, later])["cpu"] == 5000
    assert takes(**spec, initContainers=[first, sidecar])["cpu"] == 5000
    assert takes(**spec, initContainers=[first, sidecar, later])["memory"] == 100


def test_overhead_comes_on_top():
    assert takes(containers=[container({"cpu": 1})], overhead={"cpu": "250m", "memory": "10Mi"}) == {
        "cpu": 1250,
        "memory": 10 * 2**20,
        "pods": 1,
    }


def test_the_pods_own_requests_count_instead_of_its_containers(golden: Any):
    spec = {"containers": [container({"cpu": 4, "memory": 50, "nvidia.com/gpu": 1})]}
    assert takes(**spec, resources={"requests": {"cpu": 2}}) == golden["first"]
    # A limit of the pod stands in only for what no container asks.
    assert takes(**spec, resources={"limits": {"cpu": 8}})["cpu"] == 4000
    assert takes(resources={"limits": {"cpu": 8}})["cpu"] == 8000
    assert (
        takes(containers=[container({"hugepages-2Mi": 2})], resources={"limits": {"hugepages-2Mi": 4}})
        == golden["second"]
    )


def in_place(name="a", requests=None, allocated=None):
    """What a kubelet says of a container."""
    return WireContainerStatus(
        name=name, resources=WireAmounts(requests=requests or {}), allocated_resources=allocated
    )


INFEASIBLE = WireCondition(type="PodResizePending", status="True", reason="Infeasible")
DEFERRED = WireCondition(type="PodResizePending", status="True", reason="Deferred")
ONE = {"containers": [container({"cpu": 2})]}
SIDECAR = {**ONE, "initContainers": [container({"cpu": 1}, name="side", restartPolicy="Always")]}
INIT = {**ONE, "initContainers": [container({"cpu": 3}, name="side")]}
POD_LEVEL = {**ONE, "resources": {"requests": {"cpu": 4}}}


@pytest.mark.parametrize(
    ("spec", "status", "cpu"),
    [
        (ONE, {}, 2000),
        (ONE, {"container_statuses": (WireContainerStatus(name="a"),)}, 2000),
        (ONE, {"container_statuses": (in_place(requests={"cpu": "1"}, allocated={"cpu": "1"}),)}, 2000),
        (ONE, {"container_statuses": (in_place(requests={"cpu": "5"}, allocated={"cpu": "2"}),)}, 5000),
        (ONE, {"container_statuses": (in_place(requests={"cpu": "2"}, allocated={"cpu": "6"}),)}, 6000),
        (ONE, {"container_statuses": (in_place("b", {"cpu": "9"}),)}, 2000),
        (
            ONE,
            {"conditions": (DEFERRED,), "container_statuses": (in_place(requests={"cpu": "1"}),)},
            2000,
        ),
        (
            ONE,
            {"conditions": (INFEASIBLE,), "container_statuses": (in_place(requests={"cpu": "1"}),)},
            1000,
        ),
        (SIDECAR, {"init_container_statuses": (in_place("side", {"cpu": "4"}),)}, 6000),
        (INIT, {"init_container_statuses": (in_place("side", {"cpu": "9"}),)}, 3000),
        (POD_LEVEL, {"resources": WireAmounts(requests={"cpu": "7"})}, 7000),
        (POD_LEVEL, {"resources": WireAmounts(), "allocated_resources": {"cpu": "6"}}, 6000),
        (
            POD_LEVEL,
            {"conditions": (INFEASIBLE,), "resources": WireAmounts(requests={"cpu": "3"})},
            3000,
        ),
    ],
)
def test_a_pod_that_is_resized_in_place_counts_as_kubernetes_counts_it(spec, status, cpu):
    """The larger of what is asked, allocated and in effect; without what its node can never give."""
    assert requests_of(read_pod({"spec": spec}).spec, WirePodStatus(**status))["cpu"] == cpu


def required(*terms):
    selector = {"nodeSelectorTerms": list(terms)}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}


def filtered(**spec):
    read = read_pod({"spec": {"containers": [], **spec}})
    return node_filter_of(read.spec, read.affinity)


def test_equal_selectors_make_equal_filters():
    assert filtered(nodeSelector={"b": "2", "a": "1"}) == filtered(nodeSelector={"a": "1", "b": "2"})
    assert filtered(nodeSelector={"b": "2", "a": "1"}).selector == (("a", "1"), ("b", "2"))


def test_required_terms_are_read_with_labels_and_fields():
    term = {
        "matchExpressions": [
            {"key": "zone", "operator": "In", "values": ["a", "b"]},
            {"key": "gpu", "operator": "Exists"},
        ],
        "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}],
    }
    assert filtered(
        affinity=required(term, {"matchExpressions": [{"key": "x", "operator": "Gt", "values": ["3"]}]})
    ).affinity == (
        (
            Requirement("zone", "In", ("a", "b")),
            Requirement("gpu", "Exists"),
            Requirement("metadata.name", "NotIn", ("n1",), field=True),
        ),
        (Requirement("x", "Gt", ("3",)),),
    )


def test_preferred_affinity_keeps_no_pod_off_a_node():
    preferred = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}, "podAffinity": {}}
    assert filtered(affinity=preferred) == NodeFilter()


def test_a_term_without_expressions_matches_no_node():
    some = {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
    assert filtered(affinity=required({}, some)).affinity == ((Requirement("a", "Exists"),),)
    assert filtered(affinity=required({})).affinity == ((NO_NODE,),)
    assert filtered(affinity=required()).affinity == ((NO_NODE,),)


def test_tolerations_have_the_core_defaults():
    assert filtered(
        tolerations=[{"key": "a"}, {"operator": "Exists", "effect": "NoExecute"}]
    ).tolerations == (
        Toleration("a", "Equal"),
        Toleration("", "Exists", "", "NoExecute"),
    )


@with_rows("annotations", "levels")
def test_topology_is_told_by_annotations(annotations, levels):
    assert topology_of(annotations) == tuple(levels)
