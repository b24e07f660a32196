"""Every kind of document has rules, and a plain document breaks none."""

import pytest
import yaml

from queues.api.validation.known import Known
from queues.api.validation.validation import KINDS, violations_of
from queues.quota.queue import Queue
from queues.workload import Requirement
from tests.builders.valid_documents import HYPERNODE, JOB, POD_GROUP, QUEUE, TREE, changed, messages, of_kind


def test_the_plain_documents_are_accepted():
    for text in (JOB, QUEUE, POD_GROUP, HYPERNODE):
        assert messages(yaml.safe_load(text)) == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_rules(kind):
    assert isinstance(violations_of(of_kind(" ".join(kind), {})), list)


def test_an_update_that_leaves_the_spec_alone_is_always_fine():
    broken = changed(QUEUE, ("spec", {"parent": "nobody"}))
    relabelled = changed(QUEUE, ("spec", {"parent": "nobody"}), ("metadata", "finalizers", []))
    assert messages(broken, queues=TREE) != []
    assert violations_of(relabelled, Known(queues=TREE), old=broken) == []


GOLD = {"gold": Queue(name="gold", namespace_selector=(Requirement("tier", "In", ("gold",)),))}
BATCH = """
apiVersion: batch/v1
kind: Job
metadata: {name: train, namespace: ns, labels: {muster.dev/queue-name: gold}}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: busybox}]}}}
"""


@pytest.mark.parametrize(
    ("document", "inherited", "refused"),
    [
        (changed(JOB, ("spec", "queue", "gold")), None, True),
        (changed(POD_GROUP, ("spec", {"minMember": 2, "queue": "gold"})), None, True),
        (yaml.safe_load(BATCH), None, False),
        (changed(BATCH, ("metadata", {"name": "train", "namespace": "ns"})), "gold", False),
    ],
)
def test_new_work_of_a_namespace_that_may_not_use_the_queue_is_refused_or_warned(
    document, inherited, refused
):
    document["metadata"]["namespace"] = "ns"

    def found(labels):
        known = Known(queues=GOLD, namespace_queue=inherited, namespace_labels=labels)
        return violations_of(document, known)

    (violation,) = found({"tier": "tin"})
    assert violation.message.startswith(
        "metadata.namespace: found ns, which has tier=tin, expected a namespace with tier=gold, as access."
    )
    assert violation.tolerable is not refused
    assert found({"tier": "gold"}) == []
    assert found(None) == [], "the namespace is not known yet"


def test_only_queues_that_a_namespace_may_use_are_suggested_to_it():
    misspelt = changed(JOB, ("spec", "queue", "golf"))
    for tier, meant in (("gold", [True]), ("tin", [False])):
        found = violations_of(misspelt, Known(queues=GOLD, namespace_labels={"tier": tier}))
        assert ["Did you mean gold?" in each.message for each in found] == meant


LIMITED = {
    "top": Queue(name="top", max_run_time=3600),
    "gold": Queue(name="gold", parent="top", max_run_time=7200),
}


@pytest.mark.parametrize(
    ("document", "path", "refused"),
    [
        (
            changed(JOB, ("spec", "queue", "gold"), ("spec", "runningEstimate", "2h")),
            "spec.runningEstimate",
            True,
        ),
        (changed(POD_GROUP, ("spec", {"minMember": 2, "queue": "gold"})), "", True),
        (changed(BATCH, ("spec", "activeDeadlineSeconds", 7200)), "spec.activeDeadlineSeconds", False),
        (yaml.safe_load(BATCH), "", False),
    ],
)
def test_new_work_that_declares_to_run_too_long_is_refused_or_warned(document, path, refused):
    if not path:
        path = "metadata.annotations[muster.dev/run-time]"
        document["metadata"]["annotations"] = {"muster.dev/run-time": "2h"}
    (violation,) = violations_of(document, Known(queues=LIMITED))
    assert violation.path == path
    assert violation.expected == (
        "at most 1h, access.maxRunTime of queue top: declare a shorter one, or use another queue"
    )
    assert violation.tolerable is not refused
    longer = LIMITED | {"top": Queue(name="top", max_run_time=7200)}
    assert violations_of(document, Known(queues=longer)) == []


def test_what_is_declared_first_counts_whatever_else_the_object_says():
    document = changed(BATCH, ("spec", "activeDeadlineSeconds", 7200))
    document["metadata"]["annotations"] = {"muster.dev/run-time": "10m"}
    assert violations_of(document, Known(queues=LIMITED)) == []


def test_root_limits_queues_that_name_no_parent():
    queues = {"root": Queue(name="root", max_run_time=60), "gold": Queue(name="gold")}
    (violation,) = violations_of(changed(BATCH, ("spec", "activeDeadlineSeconds", 61)), Known(queues=queues))
    assert "access.maxRunTime of queue root" in violation.message


def test_work_that_is_there_may_change_though_its_namespace_has_lost_the_queue():
    before = changed(POD_GROUP, ("spec", {"minMember": 2, "queue": "gold"}))
    after = changed(POD_GROUP, ("spec", {"minMember": 3, "queue": "gold"}))
    known = Known(queues=GOLD, namespace_labels={"tier": "tin"})
    assert all(one.tolerable for one in violations_of(after, known, old=before))
