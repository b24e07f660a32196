"""Work that asks more than its queue, one user or a node can ever give gets warnings, when it is made and by check."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import yaml

from queues.api.check.check import check_documents
from queues.api.validation.known import Known
from queues.api.validation.size_rules import NodeAmounts
from queues.api.validation.validation import violations_of
from queues.flavor_growth import FlavorGrowth
from queues.quota.queue import ROOT, Limits, ProvisioningRules, Queue, QueuePolicy
from queues.resources import GPU, MEMORY, Resources
from queues.workload import FlavorName, QueueName
from tests.builders.valid_documents import of_kind

ABOVE, TEAM = QueueName("above"), QueueName("team")
QUEUES = {
    ROOT: Queue(name=ROOT, parent=None),
    ABOVE: Queue(name=ABOVE, limits=Limits(capability={GPU: 30_000}), max_gang=500),
    TEAM: Queue(name=TEAM, parent=ABOVE, limits=Limits(capability={GPU: 40_000}), max_per_user={GPU: 25_000}),
}
QUEUED = {"muster.dev/queue-name": TEAM}
MINIMUM = "scheduling.volcano.sh/group-min-member"
LARGEST = Resources({GPU: 8000, MEMORY: 2**39})


def template(gpus: int = 1, **requests: str) -> dict[str, Any]:
    amounts = {**({GPU: str(gpus)} if gpus else {}), **requests}
    containers = [{"name": "c", "image": "i", "resources": {"limits": amounts}}]
    return {"spec": {"restartPolicy": "Never", "containers": containers}}


def volcano_job(*tasks: tuple[int, dict[str, Any]], minimum: int | None = None) -> dict[str, Any]:
    named = [
        {"name": f"t{number}", "replicas": count, "template": each}
        for number, (count, each) in enumerate(tasks)
    ]
    return of_kind(
        "Job", {"queue": TEAM, "tasks": named, **({} if minimum is None else {"minAvailable": minimum})}
    )


def batch_job(count: int, pods: dict[str, Any], **annotations: str) -> dict[str, Any]:
    spec = {"parallelism": count, "template": pods}
    together = {MINIMUM: str(count), **annotations}
    return of_kind("batch/v1 Job", spec, labels=QUEUED, annotations=together)


def pod(gpus: int) -> dict[str, Any]:
    return of_kind("Pod", template(gpus)["spec"], labels=QUEUED)


def told(
    document: dict[str, Any],
    queues: dict[QueueName, Queue] | None = None,
    growth: Sequence[FlavorGrowth] | None = (),
    nodes: int = 1000,
) -> list[str]:
    known = Known(
        queues={str(name): each for name, each in (queues or QUEUES).items()},
        amounts=lambda: NodeAmounts(LARGEST, LARGEST * nodes),
        growth=growth,
    )
    found = violations_of(document, known)
    assert all(each.tolerable for each in found), "it is stored: limits are raised, and nodes come"
    return [each.message for each in found]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (
            pod(9),
            "spec: found 9 nvidia.com/gpu asked in one pod, "
            "expected less: it never fits, the largest node has 8",
        ),
        (
            batch_job(36, template()),
            "spec.parallelism: found 36 nvidia.com/gpu asked, "
            "expected less: it never fits, one user may use 25 in queue team",
        ),
        (
            volcano_job((1, template(0, memory="1Ti")), (1, template())),
            "spec.tasks[0].template: found 1Ti memory asked in one pod, "
            "expected less: it never fits, the largest node has 512Gi",
        ),
        (
            volcano_job((13, template(2)), (13, template(0))),
            "spec.tasks[0].replicas: found 26 nvidia.com/gpu asked, "
            "expected less: it never fits, one user may use 25 in queue team",
        ),
        (
            batch_job(600, template(0)),
            "spec.parallelism: found 600 pods, "
            "expected at most 500: it never fits, for queue above allows no more in one gang",
        ),
    ],
)
def test_a_warning_has_both_numbers(document: dict[str, Any], message: str) -> None:
    assert message in told(document)


def test_more_than_all_nodes_have_is_said() -> None:
    queues = {**QUEUES, TEAM: Queue(name=TEAM)}
    said = "found 25 nvidia.com/gpu asked, expected less: it never fits, all nodes together have 24"
    gang = volcano_job((24, template()), (1, template()))
    assert told(gang, queues, nodes=4) == []
    assert told(gang, queues, nodes=3) == [f"spec.tasks[0].replicas: {said}"]
    assert told(batch_job(25, template()), queues, nodes=3) == [f"spec.parallelism: {said}"]
    # A part of it may start, nodes may come.
    assert told(volcano_job((25, template()), minimum=24), queues, nodes=3) == []
    growth = [FlavorGrowth(flavor=FlavorName("h100"), largest={GPU: 8000})]
    assert told(gang, queues, growth, nodes=3) == []


def test_a_queue_above_with_less_counts() -> None:
    queues = {**QUEUES, TEAM: Queue(name=TEAM, parent=ABOVE, limits=Limits(capability={GPU: 40_000}))}
    assert told(batch_job(36, template()), queues) == [
        "spec.parallelism: found 36 nvidia.com/gpu asked, "
        "expected less: it never fits, queue above may use 30"
    ]


@pytest.mark.parametrize(
    "document",
    [
        pod(8),
        batch_job(25, template()),
        batch_job(200, template(), **{MINIMUM: "1"}),
        volcano_job((100, template()), (100, template()), minimum=20),
        volcano_job((5, template(9)), (5, template()), minimum=3),
    ],
)
def test_what_may_start_gets_none(document: dict[str, Any]) -> None:
    assert told(document) == []


def test_a_job_that_does_not_say_whether_its_pods_start_together_is_told_how() -> None:
    job = batch_job(36, template())
    del job["metadata"]["annotations"]
    array = replace(QUEUES[TEAM], policy=QueuePolicy(jobs="array"))
    named = {**template(), "spec": {**template()["spec"], "subdomain": "train"}}
    with_service = {**job, "spec": {**job["spec"], "template": named}}

    told_how, too_large = told(job)
    assert told_how == (
        "spec.parallelism: found 36 pods, which start together or not at all, expected annotation "
        f'{MINIMUM}: "1" if each can work without the others: '
        "`kubectl muster try -f FILE` says how many would start now"
    )
    assert "it never fits" in too_large
    assert told({**job, "metadata": {"name": "x"}}) == [], "it names no queue"
    assert told(job, {**QUEUES, TEAM: array}) == [], "its queue has them start one by one"
    assert told(with_service, {**QUEUES, TEAM: array}) == told(with_service) == [too_large]
    known = Known(queues={str(name): each for name, each in QUEUES.items()})
    changed = {**job, "spec": {**job["spec"], "parallelism": 24}}
    assert violations_of(changed, known, old=job) == [], "it was said when it was made"


def test_where_nodes_are_asked_for_only_limits_count() -> None:
    asking = Queue(name=ABOVE, provisioning=ProvisioningRules(class_name="check-capacity"))
    assert told(pod(9), {**QUEUES, ABOVE: asking}) == []


def test_the_largest_node_that_can_be_added_counts_too() -> None:
    h100 = FlavorName("h100")
    asking = ProvisioningRules(class_name="check-capacity")
    named = Queue(name=TEAM, parent=ABOVE, flavors={h100: Limits()})
    both = {**QUEUES, TEAM: named}, {**QUEUES, TEAM: replace(named, provisioning=asking)}
    sixteen = FlavorGrowth(flavor=h100, largest={GPU: 16_000})
    nothing = FlavorGrowth(flavor=h100)
    for queues in both:
        assert told(pod(16), queues, [sixteen]) == []
        assert told(pod(17), queues, [sixteen]) == [
            "spec: found 17 nvidia.com/gpu asked in one pod, "
            "expected less: it never fits, the largest node has 8, "
            "the largest that can be added has 16"
        ]
    without, with_requests = both
    assert told(pod(9), without, [nothing]) == [
        "spec: found 9 nvidia.com/gpu asked in one pod, expected less: it never fits, the largest node has 8"
    ]
    assert told(pod(9), with_requests, [nothing]) == []
    # Flavors that were not listed yet are not known.
    assert told(pod(9), without, None) == []
    # Nodes without a flavor may come where a queue names none.
    assert (
        told(pod(17), {**QUEUES, TEAM: Queue(name=TEAM, parent=ABOVE, provisioning=asking)}, [sixteen]) == []
    )


@pytest.mark.parametrize(
    ("amounts", "message"),
    [
        ({"nvidia.com/gpu": 8, "memory": "1Ti", "cpu": "96"}, ""),
        (
            {"gpu": 8},
            "spec.mayGrow.gpu: found resource 'gpu', which no pod can ask for, expected nvidia.com/gpu?",
        ),
        ({"memory": "64GB"}, "spec.mayGrow.memory: found '64GB', expected 64Gi or 64G: 'GB' is no unit"),
        ({"cpu": -1}, "spec.mayGrow.cpu: "),
        ({f"example.com/r{number}": 1 for number in range(65)}, "spec.mayGrow: found 65 entries, expected at most 64"),
    ],
)  # fmt: skip
def test_what_a_flavor_may_grow_by_is_checked(amounts: dict[str, Any], message: str) -> None:
    document = of_kind("ResourceFlavor", {"nodeLabels": {"gpu": "h100"}, "mayGrow": amounts})
    by_webhook = [each.message for each in violations_of(document)]
    by_check = [str(each) for each in check_documents([("a.yaml", yaml.safe_dump(document))])]
    for found in (by_webhook, by_check):
        about = [each for each in found if "mayGrow" in each]
        assert len(about) == bool(message)
        assert all(message in each for each in about)


TOO_MANY = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: big, namespace: d}
spec: {tasks: [{name: a, replicas: 20000, template: {spec: {restartPolicy: Never, containers: [{name: c, image: x}]}}}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: big, namespace: d, labels: {muster.dev/queue-name: default}}
spec: {parallelism: 20000, template: {spec: {restartPolicy: Never, containers: [{name: c, image: x}]}}}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: pg, namespace: d}
spec: {minMember: 20000}
"""


def test_more_pods_than_one_object_may_have_are_told_by_check_and_when_it_is_made() -> None:
    for document in yaml.safe_load_all(TOO_MANY):
        (violation,) = (each for each in violations_of(document) if each.found == "20000 pods")
        assert violation.tolerable
    found = [each for each in check_documents([("big.yaml", TOO_MANY)]) if each.found == "20000 pods"]
    assert [each.severity for each in found] == ["warning"] * 3
