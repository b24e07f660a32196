"""What documents say of one another."""

import pytest

from queues.api.check.check import check_documents
from tests.tables import with_rows

FLAVOR = """
apiVersion: muster.dev/v1alpha1
kind: ResourceFlavor
metadata: {name: h100}
spec: {nodeLabels: {a: b}, deviceClasses: {gpu.nvidia.com: nvidia.com/gpu}}
---
"""
TEMPLATE = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: %s, namespace: team}
spec: {spec: {devices: {requests: [{name: gpus, exactly: {deviceClassName: %s, count: 2}}]}}}
---
"""
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: a, namespace: team, labels: {muster.dev/queue-name: default}}
spec:
  template:
    spec:
      restartPolicy: Never
      resourceClaims: [{name: gpus, resourceClaimTemplateName: two-gpus}]
      containers: [{name: c, image: x, resources: {claims: [{name: gpus}]}}]
"""


def warned(text: str) -> list[str]:
    return [each.found for each in check_documents([("f.yaml", text)]) if each.severity == "warning"]


@pytest.mark.parametrize(
    ("documents", "found"),
    [
        (FLAVOR + TEMPLATE % ("two-gpus", "gpu.nvidia.com"), []),
        (TEMPLATE % ("two-gpus", "imex.nvidia.com"), []),
        ("", []),
        (
            FLAVOR + TEMPLATE % ("two-gpus", "imex.nvidia.com"),
            ["two-gpus with DeviceClass 'imex.nvidia.com'"],
        ),
        (FLAVOR + TEMPLATE % ("one-gpu", "gpu.nvidia.com"), ["'two-gpus'"]),
    ],
    ids=["counted", "no flavor known", "nothing known", "another class", "another template"],
)
def test_devices_that_are_not_counted_are_told_before_they_are_claimed(
    documents: str, found: list[str]
) -> None:
    assert warned(documents + JOB) == found


@pytest.mark.parametrize("version", ["", "apiVersion: v1\n"])
def test_an_object_without_kind_or_version_is_told_by_what_is_missing(version: str) -> None:
    [finding] = check_documents([("f.yaml", f"{version}metadata: {{name: a}}\n")])
    missing = "kind" if version else "apiVersion"
    assert str(finding).endswith(f"error: {missing}: found nothing, expected text")


def test_an_item_of_a_list_without_kind_is_told_by_its_place() -> None:
    text = "{apiVersion: v1, kind: List, items: [{metadata: {name: a}}]}"
    [finding] = check_documents([("f.yaml", text)])
    assert "error: items[0].apiVersion: found nothing" in str(finding)


@with_rows("document", "paths")
def test_names_of_other_queueing_systems_are_told_where_they_were_meant(
    document: str, paths: list[str]
) -> None:
    found = check_documents([("f.yaml", document)])
    assert [each.path for each in found if each.severity == "warning"] == paths


QUEUE = "{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: %s}, spec: {%s}}\n---\n"
SELECTS = "access: {namespaceSelector: {matchLabels: {team: a}}}"


@pytest.mark.parametrize(
    ("documents", "is_open"),
    [
        (QUEUE % ("a", ""), True),
        (QUEUE % ("a", SELECTS), False),
        (QUEUE % ("a", "parent: b"), False),
        (QUEUE % ("a", "parent: b") + QUEUE % ("b", SELECTS), False),
        (QUEUE % ("a", "parent: b") + QUEUE % ("b", ""), True),
    ],
    ids=["without", "with a selector", "below an unknown queue", "below a selector", "below an open one"],
)
def test_a_queue_that_every_namespace_may_use_is_noted(documents: str, is_open: bool) -> None:
    found = [str(each) for each in check_documents([("f.yaml", documents)]) if each.severity == "note"]
    assert (
        any("Queue a spec.access.namespaceSelector: found nothing here" in each for each in found) == is_open
    )
