"""Templates as large as the API server stores them: refused early, or read once per version."""

from typing import Any

import msgspec
import pytest

from admission.decode import pod_templates
from admission.decode.pods import pod_fact
from admission.decode.template_trials import template_digest
from admission.facts.pods import PodFact
from admission.facts.workloads import WorkloadFact
from admission.wire import WirePod
from queues.api import names
from queues.api.node_affinity import unpinned
from queues.api.reading.user_values import LARGEST_AFFINITY, MOST_CONTAINERS, MOST_ENTRIES, MOST_POD_SETS
from queues.workload import NodeName
from tests.builders.decoded_workloads import CONTAINER, a_job, a_volcano_job, task
from tests.function_calls import calls_of

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def affinity(size: int, pinned: bool = False) -> dict[str, Any]:
    """Affinity of about so many bytes; all in few terms, or in one for each of many nodes."""
    node = {"key": "metadata.name", "operator": "In", "values": ["n" * 40]}
    term = {"matchExpressions": [{"key": "k", "operator": "In", "values": ["v" * 1000]}]}
    if pinned:
        term = {"matchFields": [node]}
    one = len(msgspec.json.encode(term))
    terms = [{**term} for _ in range(size // one + 1)]
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}


def template(annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"annotations": annotations or {}}, "spec": {"containers": [CONTAINER], **spec}}


def a_pod(annotations: dict[str, str] | None = None, **spec: Any) -> PodFact:
    labels = {names.RELEASED: "true", names.QUEUE_LABEL: "q"}
    meta = {"name": "p", "namespace": "ns", "uid": "u", "labels": labels, "annotations": annotations or {}}
    document = {"metadata": meta, "spec": {"containers": [CONTAINER], **spec}, "status": {}}
    return pod_fact(msgspec.json.decode(msgspec.json.encode(document), type=WirePod), None)


def told(fact: WorkloadFact | PodFact) -> str:
    return "" if fact.obstacle is None else fact.obstacle.message


def test_affinity_that_would_take_long_to_read_is_refused_by_its_size() -> None:
    large = affinity(LARGEST_AFFINITY)
    size = len(msgspec.json.encode(large))
    expected = f"affinity: found {size} bytes, expected at most {LARGEST_AFFINITY}"
    assert told(a_job(template=template(affinity=large))) == f"spec.template.spec.{expected}"
    assert told(a_pod(affinity=large)) == f"spec.{expected}"
    assert not told(a_job(template=template(affinity=affinity(LARGEST_AFFINITY // 2))))
    digest = template_digest(msgspec.json.encode(template(affinity=large)))
    assert digest == "", "it is not tried by a dry run"


def test_affinity_of_all_tasks_together_counts() -> None:
    half = template(affinity=affinity(LARGEST_AFFINITY // 2))
    tasks = [{**task(name), "template": half} for name in "abc"]
    assert not told(a_volcano_job(*tasks[:1]))
    assert told(a_volcano_job(*tasks)).startswith("spec.tasks[].template.spec.affinity: found ")


def test_nodes_that_muster_has_written_into_a_template_are_read() -> None:
    directed = template({names.ADMISSION_ID: "7"}, affinity=affinity(2 * LARGEST_AFFINITY, pinned=True))
    fact = a_job(template=directed)
    assert (told(fact), fact.directed) == ("", 7)
    assert a_pod({names.ADMISSION_ID: "7"}, affinity=affinity(2 * LARGEST_AFFINITY, pinned=True)).node is None


def test_affinity_without_the_form_of_one_is_an_obstacle_of_its_object() -> None:
    wrong = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": 3}}}
    found = "spec.affinity.nodeAffinity"
    assert told(a_pod(affinity=wrong)).startswith(found)
    assert told(a_job(template=template(affinity=wrong))).startswith(f"spec.template.{found}")
    assert a_pod(nodeName="n1", affinity=wrong).node == NodeName("n1")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"containers": [CONTAINER] * (MOST_CONTAINERS + 1)}, f"containers: found {MOST_CONTAINERS + 1} containers"),
        ({"tolerations": [{"operator": "Exists"}] * 9999}, "tolerations: found 9999 tolerations"),
        ({"nodeSelector": {f"k{i}": "v" for i in range(9999)}}, "nodeSelector: found 9999 labels"),
        ({"overhead": {f"e.com/r{i}": "1" for i in range(999)}}, "containers[].resources: found 999 resources"),
    ],
)  # fmt: skip
def test_lists_are_counted_before_their_entries_are_read(spec: dict[str, Any], message: str) -> None:
    assert f"spec.template.spec.{message}" in told(a_job(template=template(**spec)))


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"plugins": {"env": ["--a"] * (MOST_ENTRIES + 1)}}, "spec.plugins[...]"),
        ({"plugins": {f"p{i}": [] for i in range(MOST_ENTRIES + 1)}}, "spec.plugins"),
        ({"volumes": [{"mountPath": "/a"}] * (MOST_ENTRIES + 1)}, "spec.volumes"),
    ],
)
def test_what_a_volcano_job_lists_is_counted_first(spec: dict[str, Any], path: str) -> None:
    expected = f"{path}: found too many entries, expected at most {MOST_ENTRIES}."
    assert told(a_volcano_job(task(), **spec)) == expected
    many = a_volcano_job(*(task(f"t{i}") for i in range(MOST_POD_SETS + 1)))
    assert told(many) == f"spec.tasks: found too many entries, expected at most {MOST_POD_SETS}."


def test_a_version_of_a_large_template_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read, shape_of = 0, pod_templates.pod_shape_of

    def counted(*args: Any, **more: Any) -> Any:
        nonlocal read
        read += 1
        return shape_of(*args, **more)

    monkeypatch.setattr(pod_templates, "pod_shape_of", counted)

    def large(value: str) -> dict[str, Any]:
        return template(affinity=affinity(LARGEST_AFFINITY // 2), hostname=value)

    facts = [a_job(template=large("once"), status={"active": active}) for active in range(3)]
    assert (read, [fact.active for fact in facts]) == (1, [0, 1, 2])
    assert a_job(template=large("again")).templates != facts[0].templates
    assert read == 2


def init_containers(count: int) -> PodFact:
    """Sidecars and other init containers, each with a resource of its own."""
    return a_pod(
        initContainers=[
            {"name": f"i{index}", "resources": {"requests": {f"e.com/r{index}": "1"}}}
            | ({"restartPolicy": "Always"} if index < count // 2 else {})
            for index in range(count)
        ]
    )


def test_init_containers_cost_as_much_as_there_are_of_them() -> None:
    calls_of(lambda: init_containers(50))
    assert calls_of(lambda: init_containers(800)) < 3 * calls_of(lambda: init_containers(400))


def test_directions_are_taken_out_of_terms_in_their_order() -> None:
    own = [{"matchExpressions": [{"key": key, "operator": "Exists"}]} for key in "cab"]
    pins = [{"key": "metadata.name", "operator": "In", "values": [node]} for node in ("n1", "n2")]
    tied = [{**term, "matchFields": [pin]} for pin in pins for term in own]
    found = unpinned({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": tied}}})
    assert found == {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": own}}}
