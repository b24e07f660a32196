"""``muster check`` of Kueue's jobs, together with Namespaces in which Kueue's names count."""

from typing import Any

import pytest

from queues.api.check.check import check_documents as all_findings
from tests.tables import with_rows

NAMESPACE = """
apiVersion: v1
kind: Namespace
metadata:
  name: ml
  labels: {muster.dev/kueue-names: "true"}
  annotations: {local-queue.muster.dev/gpus: vision}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: vision}
---
"""
JOB = """
apiVersion: batch/v1
kind: Job
metadata:
  name: train
  namespace: ml
  labels: {kueue.x-k8s.io/queue-name: gpus, kueue.x-k8s.io/priority-class: high}
spec:
  suspend: true
  template:
    metadata:
      annotations:
        kueue.x-k8s.io/podset-required-topology: example.com/rack
        kueue.x-k8s.io/podset-slice-required-topology: kubernetes.io/hostname
        kueue.x-k8s.io/podset-slice-size: "2"
    spec: {restartPolicy: Never, containers: [{name: main, image: train}]}
"""


#: Notes about other things.
_OTHERS = ("spec.access.namespaceSelector", "spec.strategy")


def told(text: str) -> list[str]:
    findings = [each for each in all_findings([("file.yaml", text)]) if each.path not in _OTHERS]
    return [f"{each.path}: found {each.found}, expected {each.expected}" for each in findings]


def test_where_kueues_names_count_nothing_has_to_be_changed() -> None:
    assert told(NAMESPACE + JOB) == []


def test_where_they_do_not_each_is_told_with_what_to_write_and_how_to_have_them_count(golden: Any) -> None:
    found = told(JOB)
    label = '; or the label muster.dev/kueue-names: "true" on its Namespace'
    named = [each for each in found if each.endswith(label)]
    assert [each.partition("[")[2].partition("]")[0] for each in named] == golden
    assert any("spec.suspend: found true" in each for each in found)
    assert told(NAMESPACE.replace('"true"', '"false"') + JOB) == found


@with_rows("change", "expected")
def test_what_is_wrong_in_kueues_words_is_told(change: tuple[str, str], expected: str) -> None:
    found = told(NAMESPACE + JOB.replace(*change))
    assert any(expected in each for each in found) if expected else found == []


def test_topology_levels_are_compared_with_those_of_the_documents() -> None:
    topology = (
        "apiVersion: muster.dev/v1alpha1\nkind: Topology\nmetadata: {name: t}\n"
        "spec: {levels: [{nodeLabel: example.com/block}, {nodeLabel: kubernetes.io/hostname}]}\n---\n"
    )
    assert any("example.com/rack" in each for each in told(topology + NAMESPACE + JOB))


def test_a_label_where_it_does_not_count_is_told() -> None:
    key = "kueue.x-k8s.io/queue-name"
    job = JOB.replace("  name: train", f"  name: train\n  annotations: {{{key}: gpus}}")
    assert any(each.startswith(f"metadata.annotations[{key}]: found") for each in told(NAMESPACE + job))


DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: ml, labels: {%s}}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web, %s}}
    spec: {containers: [{name: a, image: b}]}
"""


@pytest.mark.parametrize("place", [0, 1], ids=["on the owner", "in its template"])
def test_pods_of_a_deployment_are_told_to_wait_in_the_queue(place: int) -> None:
    labels = ["a: b", "c: d"]
    labels[place] = "kueue.x-k8s.io/queue-name: gpus"
    [found] = told(NAMESPACE + DEPLOYMENT % tuple(labels))
    assert "found queue 'vision': each of its pods waits alone" in found


def test_a_kind_that_muster_does_not_act_on_is_told_by_the_names_that_its_user_wrote() -> None:
    text = JOB.replace("batch/v1\nkind: Job", "example.com/v1\nkind: Other")
    found = told(NAMESPACE + text)
    assert any(each.startswith("kind: found example.com/v1 Other in a queue") for each in found)
    assert not any("muster.dev/queue-name]" in each for each in found)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("ResourceFlavor", "what `muster convert` makes of it"),
        ("MultiKueueCluster", "nothing: Muster has none"),
    ],
)
def test_objects_of_kueue_lead_to_what_converts_them(kind: str, expected: str) -> None:
    text = f"apiVersion: kueue.x-k8s.io/v1beta1\nkind: {kind}\nmetadata: {{name: a}}\n"
    assert told(text) == [f"kind: found {kind} of Kueue, expected {expected}"]
