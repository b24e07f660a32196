"""Anti-affinity: against pods of other namespaces an obstacle of every kind of workload, against pods like itself a
place that one pod of a node can have."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from admission.decode.pods import pod_fact
from admission.facts.pods import PodFact
from admission.wire import WirePod
from queues import kind_names
from queues.api import names
from queues.reason_codes import ReasonCode
from queues.workload import Obstacle, WorkloadKey
from tests.builders.decoded_workloads import CONTAINER, a_job, a_volcano_job, task
from tests.builders.facts import JOB, VOLCANO, admission, group, job, released, state_of, volcano_job

PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
OWN = {"labelSelector": {}, "topologyKey": "kubernetes.io/hostname"}
OF_BOB = {**OWN, "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "bob"}}}
WHERE = f"affinity.podAntiAffinity.{REQUIRED}"
#: Terms, and where and what is found of them.
HARMFUL = [
    ([OF_BOB], "[0].namespaceSelector: found a selector, expected none: "),
    ([OWN, {**OWN, "namespaceSelector": {}, "matchLabelKeys": ["a"]}],
     "[1].namespaceSelector: found an empty selector, which is of all namespaces, expected none: "),
    ([{**OWN, "namespaces": ["ns", "bob"]}], "[0].namespaces: found 'bob', expected no namespace but its own: "),
    ([{**OWN, "namespaces": ["ns"], "namespaceSelector": {}}], "[0].namespaceSelector: found an empty selector"),
]  # fmt: skip
HARMLESS: list[dict[str, Any]] = [
    {"podAntiAffinity": None},
    {"podAntiAffinity": {REQUIRED: None}},
    {"podAntiAffinity": {REQUIRED: [OWN]}},
    {"podAntiAffinity": {REQUIRED: [{**OWN, "namespaces": None, "namespaceSelector": None}]}},
    {"podAntiAffinity": {REQUIRED: [{**OWN, "namespaces": ["ns", "ns"], "mismatchLabelKeys": ["a"]}]}},
    {"podAntiAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": OF_BOB}]}},
    {"podAffinity": {REQUIRED: [OF_BOB]}},
]


def against(terms: list[dict[str, Any]]) -> dict[str, Any]:
    return {"podAntiAffinity": {REQUIRED: terms}}


def a_pod(affinity: Mapping[str, Any], meta: Mapping[str, Any]) -> PodFact:
    gates = [{"name": names.GATE}]
    document = {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", **meta},
        "spec": {"containers": [CONTAINER], "schedulingGates": gates, "affinity": affinity},
        "status": {},
    }
    return pod_fact(msgspec.json.decode(msgspec.json.encode(document), type=WirePod), None)


def obstacles(affinity: dict[str, Any]) -> dict[str, Obstacle | None]:
    """Of each kind of workload with this affinity in namespace ``ns``, by the path of its pods' spec."""
    template = {"metadata": {"namespace": "bob"}, "spec": {"containers": [CONTAINER], "affinity": affinity}}
    queue = {"labels": {names.QUEUE_LABEL: "q"}}
    owned = {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r"}]}
    member = {"annotations": {names.GROUP_ANNOTATION: "g"}}
    return {
        "spec": a_pod(affinity, queue).obstacle,
        "spec ": a_pod(affinity, queue | owned).obstacle,
        "spec  ": a_pod(affinity, member).obstacle,
        "spec.template.spec": a_job(template=template).obstacle,
        "spec.tasks[1].template.spec": a_volcano_job(task("a"), {**task("b"), "template": template}).obstacle,
    }


@pytest.mark.parametrize(("terms", "found"), HARMFUL)
def test_required_anti_affinity_against_pods_of_other_namespaces_is_an_obstacle_of_every_kind(
    terms: list[dict[str, Any]], found: str
) -> None:
    for path, obstacle in obstacles(against(terms)).items():
        assert obstacle is not None, path
        assert obstacle.code == "CrossNamespaceAntiAffinity"
        assert obstacle.message.startswith(f"{path.strip()}.{WHERE}{found}")
        assert obstacle.message.endswith("create it again"), "what to do is not cut off"


@pytest.mark.parametrize("affinity", HARMLESS)
def test_other_wishes_about_pods_are_none(affinity: dict[str, Any]) -> None:
    assert set(obstacles(affinity).values()) == {None}


APP = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}


@pytest.mark.parametrize(
    ("terms", "number"),
    [
        ([APP], 1),
        ([APP, APP], 1),
        ([APP, {**APP, "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}}], 2),
        ([{**APP, "namespaces": ["ns"]}], 1),
        ([{**APP, "labelSelector": {}}], 1),
        ([{**APP, "labelSelector": None}], 0),
        ([{**APP, "labelSelector": {"matchLabels": {"app": "y"}}}], 0),
        ([{**APP, "topologyKey": "topology.kubernetes.io/zone"}], 0),
        ([{**APP, "matchLabelKeys": ["app"]}], 0),
        ([{**APP, "mismatchLabelKeys": ["other"]}], 0),
        ([OF_BOB], 0),
    ],
)
def test_pods_that_keep_their_like_off_their_node_take_what_one_pod_of_a_node_can_have(
    terms: list[dict[str, Any]], number: int
) -> None:
    labels = {"labels": {"app": "x"}}
    template = {"metadata": labels, "spec": {"containers": [CONTAINER], "affinity": against(terms)}}
    (pods,) = a_volcano_job({**task("a"), "template": template}).pod_sets
    assert len(pods.ports) == number
    assert a_pod(against(terms), labels).shape.ports == pods.ports, "as their template says"
    elsewhere = a_pod(against(terms), {**labels, "namespace": "bob"}).shape.ports
    assert not set(elsewhere) & set(pods.ports)


def test_of_one_template_in_two_namespaces_each_has_its_own() -> None:
    template = {"spec": {"containers": [CONTAINER], "affinity": against([{**OWN, "namespaces": ["bob"]}])}}
    assert a_job({"namespace": "bob"}, template=template).obstacle is None
    assert a_job({"namespace": "ns"}, template=template).obstacle is not None
    assert a_job({"namespace": "bob"}, template=template).obstacle is None


@pytest.mark.parametrize("term", [3, {"namespaces": 3}, {"namespaceSelector": []}])
def test_terms_without_the_form_of_one_are_an_obstacle_too(term: Any) -> None:
    for obstacle in obstacles(against([term])).values():
        assert obstacle.code == "InvalidSpec"


def test_a_pod_with_such_a_term_gets_no_seat() -> None:
    pod = a_pod(against([OF_BOB]), {"labels": {names.QUEUE_LABEL: "team"}})
    found = state_of(None, [pod], key=WorkloadKey(kind_names.POD, "u"))
    assert found.workload.obstacle == pod.obstacle
    member = a_pod(against([OF_BOB]), {"annotations": {names.GROUP_ANNOTATION: "g"}})
    found = state_of(group(1), [member])
    assert found.workload.obstacle.code == "NotEnoughPods"
    assert "1 more cannot be used, first p: spec.affinity.podAntiAffinity" in found.workload.obstacle.message


def test_what_is_admitted_already_stays() -> None:
    """Such work was admitted by versions that did not look, and may be half started."""
    obstacle = Obstacle(ReasonCode.CROSS_NAMESPACE_ANTI_AFFINITY, "found a selector, expected none")
    pod, held = released("a", "worker/0", "n1"), admission(JOB, "n1 n2", started=True)
    for either in (False, True):
        taken = admission(VOLCANO, "n1 n2", started=either)
        for found in (
            state_of(job(2, suspended=either, obstacle=obstacle), [], [held]),
            state_of(volcano_job(2, obstacle=obstacle), [pod], [taken]),
        ):
            assert (found.evictable, found.ended, found.outgrown) == ({}, {}, {})
