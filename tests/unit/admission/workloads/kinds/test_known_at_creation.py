"""What would be waited for without end is said when an object is made, of every kind that holds a pod template."""

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.facts.workloads import WorkloadFact
from admission.kube.webhook.configuration import Callee, webhook_configurations
from admission.reconcile.events import waiting_event
from admission.workloads.kinds import OPERATOR_KINDS, known_kinds
from admission.workloads.kinds.document_checks import check_as_in_cluster
from queues.api.api_resources import (
    CRON_JOBS,
    JOB_TEMPLATES,
    JOBS,
    POD_GROUPS,
    PODS,
    VOLCANO_CRON_JOBS,
    VOLCANO_JOBS,
    ApiResource,
)
from queues.api.check import owners
from queues.api.check.check import check_documents
from queues.api.types.queue import QueueDocument
from queues.api.validation.known import Known
from queues.api.validation.size_rules import NodeAmounts
from queues.api.validation.validation import violations_of
from queues.quota.queue import Limits
from queues.resources import GPU, MEMORY, Resources
from tests.builders import facts
from tests.builders.operator_jobs import SPECS
from tests.tables import with_rows

Document = dict[str, Any]
POD: Document = {
    "restartPolicy": "Never",
    "containers": [{"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 9}}}],
}
TEMPLATE: Document = {"spec": POD}
VOLCANO: Document = {"queue": "team", "tasks": [{"name": "w", "replicas": 4, "template": TEMPLATE}]}
JOB: Document = {"parallelism": 4, "template": TEMPLATE}
GROUP: Document = {"queue": "team", "minMember": 4, "minResources": {"pods": 4, "nvidia.com/gpu": 36}}
DAILY = {"schedule": "@daily"}
QUEUED = {"muster.dev/queue-name": "team"}

#: The spec of an object of each kind whose pods wait in queue ``team``.
OBJECTS: dict[tuple[str, str], Document] = {
    (VOLCANO_JOBS.api_version, VOLCANO_JOBS.kind): VOLCANO,
    (VOLCANO_CRON_JOBS.api_version, VOLCANO_CRON_JOBS.kind): {**DAILY, "jobTemplate": {"spec": VOLCANO}},
    (JOB_TEMPLATES.api_version, JOB_TEMPLATES.kind): VOLCANO,
    (POD_GROUPS.api_version, POD_GROUPS.kind): GROUP,
    (JOBS.api_version, JOBS.kind): JOB,
    (PODS.api_version, PODS.kind): POD,
    (CRON_JOBS.api_version, CRON_JOBS.kind): {**DAILY, "jobTemplate": {"spec": JOB}},
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"): {
        "leaderWorkerTemplate": {"size": 4, "workerTemplate": TEMPLATE}
    },
    **{
        (each.api_version, each.kind): {"selector": {}, "template": TEMPLATE}
        for each in owners._TEMPLATES
        if each.api_version in ("apps/v1", "v1")
    },
    **{
        (each.resource.api_version, each.resource.kind): json.loads(json.dumps(SPECS[each.kind][0]))
        for each in OPERATOR_KINDS
    },
}


def document(kind: tuple[str, str]) -> Document:
    version, name = kind
    spec = OBJECTS[kind]
    of_template = version in ("apps/v1", "v1") and name != "Pod"
    if of_template:
        spec = {**spec, "template": {**TEMPLATE, "metadata": {"labels": QUEUED}}}
    metadata = {"name": "a", "namespace": "ml", "labels": QUEUED}
    return {"apiVersion": version, "kind": name, "metadata": metadata, "spec": spec}


def queue(name: str, **spec: Any) -> Document:
    kind = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}
    return {**kind, "metadata": {"name": name}, "spec": spec}


NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml"}}


def warned(*documents: Document) -> list[str]:
    """What check warns of the last of these documents."""
    text = "\n---\n".join(map(json.dumps, documents))
    found = check_documents([("f.yaml", text)], check_as_in_cluster)
    return [str(each) for each in found if each.severity == "warning" and each.document == len(documents)]


def test_every_kind_with_pods_is_tried() -> None:
    kinds = {*(support.resource for support in known_kinds().supports), *owners._TEMPLATES}
    assert {(each.api_version, each.kind) for each in kinds} <= OBJECTS.keys()


every_kind = pytest.mark.parametrize("kind", OBJECTS, ids="/".join)


@every_kind
def test_what_never_fits_is_said_of_it(kind: tuple[str, str]) -> None:
    above, team = queue("above", capability={"pods": "0"}), queue("team", parent="above")
    found = [each for each in warned(NAMESPACE, above, team, document(kind)) if "never fits" in each]
    assert len(found) == 1
    assert "pods asked, expected less: it never fits, queue above may use 0" in found[0]
    assert not [each for each in warned(NAMESPACE, queue("team"), document(kind)) if "never fits" in each]


@every_kind
def test_a_limit_of_one_user_and_of_the_only_flavor_is_said_of_it(kind: tuple[str, str]) -> None:
    by_user = queue("team", access={"maxPerUser": {"pods": "0"}})
    [found] = [each for each in warned(by_user, document(kind)) if "never fits" in each]
    assert "one user may use 0 in queue team" in found
    flavored = queue("team", flavors=[{"name": "a", "capability": {"nvidia.com/gpu": "0"}}])
    assert any("of one flavor asked" in each for each in warned(flavored, document(kind)))


@every_kind
def test_a_queue_that_its_namespace_may_not_use_is_said_of_it(kind: tuple[str, str]) -> None:
    team = queue("team", access={"namespaceSelector": {"matchLabels": {"tenant": "vision"}}})
    text = "\n---\n".join(map(json.dumps, (NAMESPACE, team, document(kind))))
    found = check_documents([("f.yaml", text)], check_as_in_cluster)
    [about] = [
        each for each in found if each.path == "metadata.namespace" and "of queue team says" in str(each)
    ]
    refused = kind[1] in ("PodGroup", "Job") and kind[0] != "batch/v1"
    assert about.severity == ("error" if refused else "warning")


@pytest.mark.parametrize(
    ("kind", "place"),
    [
        (VOLCANO_JOBS, "spec.tasks[0]"),
        (VOLCANO_CRON_JOBS, "spec.jobTemplate.spec.tasks[0]"),
        (JOB_TEMPLATES, "spec.tasks[0]"),
    ],
    ids=str,
)
def test_the_webhook_warns_of_it_at_its_place(kind: ApiResource, place: str) -> None:
    team = QueueDocument.parse(queue("team", capability={"nvidia.com/gpu": "30"})).to_domain()
    known = Known(
        queues={"team": team},
        amounts=lambda: NodeAmounts(Resources({GPU: 8000}), Resources({GPU: 32_000})),
        growth=(),
    )
    found = violations_of(document((kind.api_version, kind.kind)), known)
    assert [each.message for each in found] == [
        f"{place}.replicas: found 36 nvidia.com/gpu asked, "
        f"expected less: it never fits, queue team may use 30",
        f"{place}.template: found 9 nvidia.com/gpu asked in one pod, "
        f"expected less: it never fits, the largest node has 8",
    ]
    assert all(each.tolerable for each in found)


FLOW: Document = {
    "apiVersion": "flow.volcano.sh/v1alpha1",
    "kind": "JobFlow",
    "metadata": {"name": "f", "namespace": "ml"},
    "spec": {
        "flows": [
            {"name": "b"},
            {"name": "missing", "patch": {"jobSpec": {"tasks": [{"name": "w", "replicas": 40}]}}},
            {"name": "a", "patch": {"jobSpec": {"tasks": [{"name": "w", "replicas": 4}]}}},
        ]
    },
}
#: The JobTemplate fits.
PATCHED: Document = {"queue": "team", "tasks": [{"name": "w", "replicas": 2, "template": TEMPLATE}]}
OF_PATCH = (
    "spec.flows[2].patch.spec.tasks[0].replicas: found 36 nvidia.com/gpu asked, "
    "expected less: it never fits, queue team may use 30"
)


def test_what_a_flow_makes_of_its_template_is_compared() -> None:
    limited = queue("team", capability={"nvidia.com/gpu": "30"})
    template = {**document((JOB_TEMPLATES.api_version, JOB_TEMPLATES.kind)), "spec": PATCHED}
    assert [each for each in warned(limited, FLOW, template) if "never fits" in each] == []
    [told] = [each for each in warned(limited, template, FLOW) if "never fits" in each]
    assert told.endswith(OF_PATCH)
    known = Known(queues={"team": QueueDocument.parse(limited).to_domain()}, job_templates={"a": PATCHED})
    assert OF_PATCH in [each.message for each in violations_of(FLOW, known) if each.tolerable]
    assert OF_PATCH not in [each.message for each in violations_of(FLOW, replace(known, job_templates={}))]


_OF_SOME = ("dependencies", "queued")


@pytest.mark.parametrize("kind", [JOBS, *(each.resource for each in OPERATOR_KINDS)], ids=str)
def test_what_the_webhook_is_not_asked_about_says_by_an_event_that_it_never_fits(kind: ApiResource) -> None:
    """A Job that a CronJob of Kubernetes makes is one of them."""
    _, validating, _ = webhook_configurations(Callee(namespace="muster-system"), b"", "muster")
    # What comes after other work is asked about, and nothing else of it; and Jobs that users make.
    checking = [each for each in validating["webhooks"] if each["name"].split(".")[1] not in _OF_SOME]
    asked = [rule for each in checking for rule in each["rules"]]
    assert not [
        each for each in asked if kind.plural in each["resources"] and kind.group in each["apiGroups"]
    ]
    written = document((kind.api_version, kind.kind))
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "daily", "uid": "o", "controller": True}
    written["metadata"] |= {"uid": "u", **({"ownerReferences": [owner]} if kind == JOBS else {})}
    [support] = [each for each in known_kinds().supports if each.resource == kind]
    assert support.reader is not None
    raw = json.dumps(written).encode()
    fact = support.reader.fact(msgspec.json.decode(raw, type=support.reader.wire), msgspec.Raw(raw))
    assert isinstance(fact, WorkloadFact)
    team = facts.queue("team", limits=Limits(capability={"pods": 0}))
    node = replace(facts.node("n"), allocatable=Resources({GPU: 8000, "pods": 9, "cpu": 9000, MEMORY: 2**40}))
    known = facts.world([team, node, replace(fact, suspended=True)], arrivals={fact.key: 1})
    plan, _ = decide(known.freeze(facts.NOW), Memo())
    note = waiting_event(known, fact.key, plan.reasons.get(fact.key))
    assert note is not None
    assert (note.reason, note.warning, note.ref.resource, note.ref.uid) == ("NeverFits", True, kind, "u")
    assert "pods asked, queue team may use 0" in note.message


def test_the_minimum_of_a_podgroup_without_pods_is_compared_with_its_queue() -> None:
    team = QueueDocument.parse(queue("team", capability={"nvidia.com/gpu": "30"})).to_domain()
    group = document((POD_GROUPS.api_version, POD_GROUPS.kind))
    [found] = violations_of(group, Known(queues={"team": team}))
    told = "found 36 nvidia.com/gpu asked, expected less: it never fits, queue team may use 30"
    assert found.message == f"spec.minResources: {told}"
    small = QueueDocument.parse(queue("team", access={"maxGang": 3})).to_domain()
    [found] = violations_of(group, Known(queues={"team": small}))
    told = "found 4 pods, expected at most 3: it never fits, for queue team allows no more in one gang"
    assert found.message == f"spec.minMember: {told}"


@with_rows("most", "annotations", "told")
def test_a_podgroup_without_pods_may_be_of_several_flavors_unless_its_quota_is_held(
    most: int, annotations: dict[str, str], told: str
) -> None:
    flavors = [{"name": name, "capability": {"nvidia.com/gpu": str(most)}} for name in ("a100", "h100")]
    group = document((POD_GROUPS.api_version, POD_GROUPS.kind))
    group["metadata"]["annotations"] = annotations
    queues = [queue("team", parent="above"), queue("above", flavors=flavors)]
    known = Known(queues={each["metadata"]["name"]: QueueDocument.parse(each).to_domain() for each in queues})
    found = [each.message for each in violations_of(group, known)]
    assert found == ([f"spec.minResources: found {told}"] if told else [])


FLAVORED = queue("team", flavors=[{"name": "h100"}])
FLAVOR = {
    "apiVersion": "muster.dev/v1alpha1",
    "kind": "ResourceFlavor",
    "metadata": {"name": "a100"},
    "spec": {"nodeLabels": {"gpu": "a100"}},
}


def test_a_flavor_that_does_not_exist_is_said_of_a_queue() -> None:
    [found] = violations_of(FLAVORED, Known(flavors=["a100"]))
    assert found.tolerable
    assert found.path == "spec.flavors[0].name"
    assert not violations_of(FLAVORED, Known(flavors=["h100"]))
    assert not violations_of(FLAVORED)
    assert any("it is not among these documents" in each for each in warned(FLAVOR, FLAVORED))
    assert not warned(FLAVORED)


def test_more_successes_than_pods_are_said_of_a_job() -> None:
    for kind in (VOLCANO_JOBS, JOB_TEMPLATES):
        job = document((kind.api_version, kind.kind))
        job["spec"] = {**VOLCANO, "minSuccess": 5}
        [found] = violations_of(job)
        assert (found.path, found.tolerable) == ("spec.minSuccess", True)
        job["spec"] = {**VOLCANO, "minSuccess": 4}
        assert not violations_of(job)
