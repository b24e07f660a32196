"""Every kind of document has rules, and a plain document breaks none."""

from itertools import pairwise

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from queues.api.types.podgroup import PodGroup
from queues.api.validation.cycles import components, cycles
from queues.api.validation.known import NOTHING_KNOWN, Known
from queues.api.validation.podgroup_rules import podgroup_violations
from queues.api.validation.validation import KINDS, violations_of
from queues.api.validation.violations import Violation
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


# ── PodGroups ───────────────────────────────────────────────────────────────────────────────────────────────


HOLD = "muster.dev/hold-min-resources"
GPU = {"nvidia.com/gpu": "8"}


def found(annotations: dict[str, str], **spec: object) -> list[Violation]:
    document = {"metadata": {"name": "g", "annotations": annotations}, "spec": {"minMember": 2, **spec}}
    return podgroup_violations(PodGroup.model_validate(document), NOTHING_KNOWN)


@pytest.mark.parametrize("text", ["10m", "1h", "1s"])
def test_quota_may_be_held_for_up_to_an_hour(text: str) -> None:
    assert found({HOLD: text}, minResources=GPU) == []


@pytest.mark.parametrize("text", ["0s", "61m", "-5m", "soon", ""])
def test_any_other_time_is_refused(text: str) -> None:
    [violation] = found({HOLD: text}, minResources=GPU)
    assert violation.path == f"metadata.annotations[{HOLD}]"
    assert violation.expected == "a duration above 0s and of at most 1h, such as 10m"
    assert not violation.tolerable


def test_without_min_resources_there_is_nothing_to_hold() -> None:
    [violation] = found({HOLD: "10m"})
    assert violation.tolerable
    assert violation.expected == "spec.minResources beside it: they are what is held"


def test_a_run_time_that_cannot_be_read_is_told() -> None:
    [violation] = found({"muster.dev/run-time": "long"})
    assert violation.path == "metadata.annotations[muster.dev/run-time]"


# ── cycles ──────────────────────────────────────────────────────────────────────────────────────────────────


NAMES = st.sampled_from("abcdefgh")
GRAPHS = st.dictionaries(NAMES, st.lists(st.sampled_from("abcdefghx"), max_size=4))


def reached(arcs: dict[str, list[str]], start: str) -> set[str]:
    found: set[str] = set()
    todo = list(arcs[start])
    while todo:
        name = todo.pop()
        if name in arcs and name not in found:
            found.add(name)
            todo += arcs[name]
    return found


@given(GRAPHS)
def test_a_part_has_those_who_lead_to_one_another_and_comes_after_those_it_leads_to(
    arcs: dict[str, list[str]],
) -> None:
    parts = components(arcs)
    at = {name: index for index, part in enumerate(parts) for name in part}

    assert sorted(name for part in parts for name in part) == sorted(arcs)
    for one in arcs:
        for other in reached(arcs, one):
            assert at[other] <= at[one]
            assert one == other or (at[other] == at[one]) == (one in reached(arcs, other))


@given(GRAPHS)
def test_there_is_a_way_around_for_each_part_that_has_one(arcs: dict[str, list[str]]) -> None:
    ways = cycles(arcs)

    for way in ways:
        assert way[0] == way[-1] == min(way)
        assert all(target in arcs[name] for name, target in pairwise(way))
    round_about = [part for part in components(arcs) if any(name in reached(arcs, name) for name in part)]
    assert sorted(min(part) for part in round_about) == [way[0] for way in ways]


def test_a_long_way_needs_no_recursion() -> None:
    arcs = {str(n): [str((n + 1) % 5000)] for n in range(5000)}

    (way,) = cycles(arcs)

    assert len(way) == 5001
