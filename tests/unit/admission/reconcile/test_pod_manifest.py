"""The pod that is made again is the one its user wrote, waiting."""

import json
from typing import Any

import pytest

from admission.reconcile.pod_manifest import manifest_of
from queues.api.node_affinity import pinned

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
ZONE = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
FIELD = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n7"]}]}


def pod(metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """A pod that was let go to node n1, as the API server tells it."""
    given = {
        "name": "worker-0",
        "namespace": "team",
        "uid": "u1",
        "resourceVersion": "7",
        "creationTimestamp": "2026-11-21T00:00:00Z",
        "managedFields": [{}],
        "finalizers": ["example.com/held"],
        "labels": {"app": "x", "muster.dev/released": "true", "muster.dev/queue-name": "q"},
        "annotations": {
            "scheduling.k8s.io/group-name": "gang",
            "muster.dev/user": "alice",
            "muster.dev/admission-id": "3",
            "muster.dev/seat": "member-1/0",
            "muster.dev/devices": "0,3",
            "muster.dev/recreated-from": "u0",
        },
    }
    affinity = pinned(spec.pop("affinity", None), ["n1"])
    return {
        "metadata": given | (metadata or {}),
        "spec": {"containers": [{"name": "main", "image": "train"}], "affinity": affinity} | spec,
        "status": {"phase": "Pending"},
    }


def made(metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(manifest_of(pod(metadata, **spec)))
    return found


def test_it_has_its_name_and_waits_and_says_whom_it_replaces(golden: Any) -> None:
    assert made() == golden


def test_what_the_api_server_works_out_is_worked_out_anew() -> None:
    spec = made(
        nodeName="n1",
        priority=7,
        priorityClassName="high",
        preemptionPolicy="Never",
        overhead={"cpu": "1"},
        ephemeralContainers=[{"name": "debugger"}],
        serviceAccountName="runner",
    )["spec"]
    assert sorted(spec) == ["containers", "priorityClassName", "schedulingGates", "serviceAccountName"]


@pytest.mark.parametrize("terms", [[ZONE], [ZONE, FIELD], [ZONE, {}], [FIELD]])
def test_terms_of_its_own_lose_the_seats_node_only(terms: list[dict[str, Any]]) -> None:
    prefers = [{"weight": 1, "preference": ZONE}]
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}, PREFERRED: prefers}}
    assert made(affinity=affinity)["spec"]["affinity"] == affinity


def test_a_pod_that_was_never_pinned_loses_no_term() -> None:
    adopted = pod({"annotations": {}})
    adopted["spec"]["affinity"] = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [FIELD]}}}
    assert json.loads(manifest_of(adopted))["spec"]["affinity"] == adopted["spec"]["affinity"]


def test_what_was_merged_for_label_keys_is_merged_anew() -> None:
    own = {"key": "tier", "operator": "Exists"}
    kept = {"matchLabels": {"a": "b"}, "matchExpressions": [own]}
    selector = {**kept, "matchExpressions": [own, {"key": "app", "operator": "In", "values": ["x"]}]}
    term = {"topologyKey": "rack", "matchLabelKeys": ["app"], "labelSelector": selector}
    unmerged = {**term, "labelSelector": kept}
    other = {"topologyKey": "zone", "labelSelector": selector}

    def rules(of: dict[str, Any]) -> dict[str, Any]:
        near = {PREFERRED: [{"weight": 1, "podAffinityTerm": of}]}
        affinity = {"podAntiAffinity": {REQUIRED: [of]}, "podAffinity": near}
        return {"topologySpreadConstraints": [of, other], "affinity": affinity}

    spec = made(**rules(term))["spec"]
    assert {name: spec[name] for name in rules(term)} == rules(unmerged)


def test_owners_that_do_not_control_it_stay() -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "run", "uid": "c1", "blockOwnerDeletion": True}
    controller = {"apiVersion": "apps/v1", "kind": "X", "name": "x", "uid": "x1", "controller": True}
    (left,) = made({"ownerReferences": [owner, controller]})["metadata"]["ownerReferences"]
    assert left == {"apiVersion": "v1", "kind": "ConfigMap", "name": "run", "uid": "c1"}


def test_the_same_pod_gives_the_same_manifest() -> None:
    assert manifest_of(pod()) == manifest_of(json.loads(json.dumps(pod(), sort_keys=True)))
