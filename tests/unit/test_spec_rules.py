"""What is refused, in the words that Volcano's users know."""

import pytest
import yaml

from queues.queue import Limits, Queue
from queues.resources import Resources
from queues.spec.queue_rules import queue_deletion_violations
from queues.spec.validation import KINDS, Known, violations_of

JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: train}
spec:
  minAvailable: 2
  queue: default
  tasks:
  - name: worker
    replicas: 2
    template: {spec: {containers: [{name: main, image: busybox}]}}
"""

QUEUE = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: team}
spec: {}
"""

POD_GROUP = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: group}
spec: {minMember: 2}
"""

HYPERNODE = """
apiVersion: topology.volcano.sh/v1alpha1
kind: HyperNode
metadata: {name: s1}
spec:
  tier: 2
  members:
  - {type: HyperNode, selector: {exactMatch: {name: s0}}}
  - {type: Node, selector: {regexMatch: {pattern: "^node-[0-9]+$"}}}
  - {type: Node, selector: {labelMatch: {matchLabels: {rack: r1}}}}
"""

CONTAINERS = ("spec", "tasks", 0, "template", "spec", "containers")


def changed(text, *changes):
    """The document with values set at paths."""
    document = yaml.safe_load(text)
    for *path, key, value in changes:
        place = document
        for step in path:
            place = place[step]
        place[key] = value
    return document


def messages(document, **known):
    return [one.message for one in violations_of(document, Known(**known)) if not one.tolerable]


def task(name="worker", replicas=2, **fields):
    return {
        "name": name,
        "replicas": replicas,
        "template": {"spec": {"containers": [{"name": "a", "image": "b"}]}},
    } | fields


def test_the_plain_documents_are_accepted():
    for text in (JOB, QUEUE, POD_GROUP, HYPERNODE):
        assert messages(yaml.safe_load(text)) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("spec", "tasks", []), "No task specified in job spec"),
        (
            ("spec", "tasks", 0, "minAvailable", 3),
            " 'minAvailable' is greater than 'replicas' in task: worker, job: train;",
        ),
        (
            ("spec", "minAvailable", 3),
            " job 'minAvailable' should not be greater than total replicas in tasks;",
        ),
        (("spec", "tasks", [task(), task()]), " duplicated task name worker;"),
        (("spec", "plugins", {"typo": []}), " unable to find job plugin: typo;"),
        (("spec", "plugins", {"mpi": []}), "The specified mpi master task was not found"),
        (("spec", "volumes", [{"mountPath": ""}]), " mountPath is required;"),
        (
            ("spec", "volumes", [{"mountPath": "/a", "volumeClaimName": "x"}] * 2),
            " duplicated mountPath: /a;",
        ),
        (
            ("spec", "volumes", [{"mountPath": "/a"}]),
            " either VolumeClaim or VolumeClaimName must be specified;",
        ),
        (
            ("spec", "networkTopology", {"highestTierAllowed": 1, "highestTierName": "rack"}),
            "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously",
        ),
        (
            (
                "spec",
                "tasks",
                [task(dependsOn={"name": ["other"]}), task("other", dependsOn={"name": ["worker"]})],
            ),
            " job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG);",
        ),
        (
            ("spec", "tasks", [task(dependsOn={"name": ["nobody"]})]),
            " job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG);",
        ),
    ],
)
def test_a_job_is_refused_in_volcanos_words(change, message):
    assert message in messages(changed(JOB, change))


@pytest.mark.parametrize(
    ("policies", "message"),
    [
        (
            [{"event": "PodFailed", "exitCode": 1, "action": "AbortJob"}],
            "must not specify event and exitCode simultaneously",
        ),
        ([{"action": "AbortJob"}], "either event and exitCode should be specified"),
        ([{"event": "PodRunning", "action": "AbortJob"}], "invalid policy event"),
        ([{"event": "PodFailed", "action": "SyncJob"}], "invalid policy action"),
        (
            [{"event": "PodFailed", "action": "AbortJob"}, {"events": ["PodFailed"], "action": "RestartJob"}],
            "duplicate event PodFailed  across different policy",
        ),
        ([{"exitCode": 0, "action": "AbortJob"}], "0 is not a valid error code"),
        (
            [{"exitCode": 1, "action": "AbortJob"}, {"exitCode": 1, "action": "RestartJob"}],
            "duplicate exitCode 1",
        ),
        (
            [{"event": "*", "action": "AbortJob"}, {"event": "PodFailed", "action": "RestartJob"}],
            "if there's * here, no other policy should be here",
        ),
    ],
)
@pytest.mark.parametrize("place", [("spec",), ("spec", "tasks", 0)])
def test_policies_are_refused_in_volcanos_words(place, policies, message):
    assert any(message in one for one in messages(changed(JOB, (*place, "policies", policies))))


def test_partitions_must_make_up_the_task():
    policy = {"totalPartitions": 2, "partitionSize": 2}
    assert messages(changed(JOB, ("spec", "tasks", [task(replicas=4, partitionPolicy=policy)]))) == []
    assert messages(changed(JOB, ("spec", "tasks", [task(replicas=5, partitionPolicy=policy)]))) != []


@pytest.mark.parametrize(
    ("quantity", "message"),
    [
        (-1, "must be greater than or equal to 0"),
        ("0.5", "must be an integer"),
        ("1x", "expected a quantity"),
    ],
)
@pytest.mark.parametrize("field", ["limits", "requests"])
def test_gpus_are_whole_and_not_negative(field, quantity, message):
    resources = {"limits": {"nvidia.com/gpu": quantity}, field: {"nvidia.com/gpu": quantity}}
    found = messages(changed(JOB, (*CONTAINERS, 0, "resources", resources)))
    path = f"spec.tasks[0].template.spec.containers[0].resources.{field}[nvidia.com/gpu]"
    assert any(one.startswith(path) and message in one for one in found)


def test_cpu_may_be_a_fraction():
    assert (
        messages(changed(JOB, (*CONTAINERS, 0, "resources", {"requests": {"cpu": 0.5, "memory": "1.5Gi"}})))
        == []
    )


@pytest.mark.parametrize(
    "resources",
    [
        {"requests": {"nvidia.com/gpu": 1}},
        {"requests": {"nvidia.com/gpu": 1}, "limits": {"nvidia.com/gpu": 2}},
        {"requests": {"cpu": 2}, "limits": {"cpu": 1}},
    ],
)
def test_requests_and_limits_must_agree(resources):
    assert messages(changed(JOB, (*CONTAINERS, 0, "resources", resources))) != []


@pytest.mark.parametrize("job", ["x" * 60, "Train", "-train", "train_1"])
def test_a_name_that_would_make_an_invalid_pod_name_is_refused(job):
    found = messages(changed(JOB, ("metadata", "name", job)))
    assert len(found) == 1
    assert "validate failed" in found[0]


def test_a_name_with_a_dot_is_a_pod_name_but_not_a_host_name():
    dotted = ("metadata", "name", "train.v2")
    assert messages(changed(JOB, dotted)) == []
    assert messages(changed(JOB, dotted, ("spec", "plugins", {"svc": []}))) != []


def test_the_longest_pod_name_counts():
    name = "x" * (63 - len("-worker-9"))
    assert messages(changed(JOB, ("metadata", "name", name), ("spec", "tasks", 0, "replicas", 10))) == []
    assert messages(changed(JOB, ("metadata", "name", name), ("spec", "tasks", 0, "replicas", 11))) != []


TREE = {
    "default": Queue(name="default"),
    "root": Queue(name="root", parent=None),
    "inner": Queue(name="inner", limits=Limits(guarantee=Resources({"cpu": 4000}), capability={"cpu": 8000})),
    "leaf": Queue(name="leaf", parent="inner", limits=Limits(guarantee=Resources({"cpu": 3000}))),
    "shut": Queue(name="shut", closed=True),
}


@pytest.mark.parametrize(
    ("queue", "message"),
    [
        ("nobody", ' unable to find job queue: queues.scheduling.volcano.sh "nobody" not found;'),
        ("shut", " can only submit job to queue with state `Open`, queue `shut` status is `Closed`;"),
        ("root", " can not submit job to root queue;"),
        ("inner", " can only submit job to leaf queue, queue `inner` has 1 child queues;"),
    ],
)
def test_a_jobs_queue_must_exist_be_open_and_a_leaf(queue, message):
    assert messages(changed(JOB, ("spec", "queue", queue)), queues=TREE) == [message]
    assert messages(changed(JOB, ("spec", "queue", "leaf")), queues=TREE) == []


def test_a_pod_groups_queue_must_exist():
    assert "unable to find queue" in messages(changed(POD_GROUP, ("spec", "queue", "nobody")), queues=TREE)[0]


def test_a_pod_group_can_be_changed_while_its_queue_is_closed():
    old = changed(POD_GROUP, ("spec", "queue", "shut"))
    new = changed(POD_GROUP, ("spec", "queue", "shut"), ("spec", "minMember", 1))
    assert violations_of(new, Known(queues=TREE), old=old) == []


@pytest.mark.parametrize("value", ["a b", "", "x/y/z", "-a"])
def test_a_topology_level_is_a_label_key(value):
    document = changed(JOB, ("spec", "tasks", 0, "template", "metadata", {}))
    document["spec"]["tasks"][0]["template"]["metadata"]["annotations"] = {
        "muster.dev/required-topology": value
    }
    assert len(messages(document)) == 1


def test_a_topology_level_must_be_one_if_levels_are_known():
    document = changed(JOB, ("metadata", "annotations", {"muster.dev/required-topology": "example.org/rack"}))
    assert messages(document) == []
    assert messages(document, levels=frozenset({"example.org/rack"})) == []
    assert messages(document, levels=frozenset({"example.org/block"})) != []


@pytest.mark.parametrize(
    ("annotation", "value", "wrong"),
    [
        ("muster.dev/required-topology", "topology.volcano.sh/tier-2", 0),  # HyperNodes may be to come
        ("muster.dev/partitions", "4=example.org/rack,2=topology.volcano.sh/tier-1", 0),
        ("muster.dev/partitions", "4=example.org/moon", 1),
        ("muster.dev/partitions", "4=example.org/rack,3=kubernetes.io/hostname", 1),
        ("muster.dev/partitions", "rack", 1),
        ("muster.dev/balanced", "true", 0),
        ("muster.dev/balanced", "yes", 1),
    ],
)
def test_parts_and_levels_are_checked_where_they_are_written(annotation, value, wrong):
    document = changed(JOB, ("metadata", "annotations", {annotation: value}))
    assert len(messages(document, levels=frozenset({"example.org/rack"}))) == wrong


# --- updates


@pytest.mark.parametrize(
    "change",
    [
        ("spec", "minAvailable", 1),
        ("spec", "tasks", 0, "replicas", 5),
        ("spec", "tasks", 0, "minAvailable", 1),
        ("spec", "priorityClassName", "high"),
        ("metadata", "labels", {"a": "b"}),
    ],
)
def test_counts_and_priority_of_a_job_may_change(change):
    assert violations_of(changed(JOB, change), old=changed(JOB)) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("spec", "minAvailable", 9), "job 'minAvailable' must not be greater than total replicas"),
        (("spec", "tasks", 0, "minAvailable", 9), "'minAvailable' must be <= 'replicas' in task: worker"),
        (("spec", "tasks", [task(), task("more")]), "job updates may not add or remove tasks"),
        (("spec", "queue", "other"), "job updates may not change fields other than"),
        ((*CONTAINERS, 0, "image", "other"), "job updates may not change fields other than"),
    ],
)
def test_other_changes_of_a_job_are_refused(change, message):
    found = violations_of(changed(JOB, change), old=changed(JOB))
    assert [message in one.message for one in found] == [True]


# --- queues


@pytest.mark.parametrize(
    "spec",
    [
        {"guarantee": {"resource": {"cpu": 4}}, "deserved": {"cpu": 2}},
        {"guarantee": {"resource": {"cpu": 4}}, "capability": {"cpu": 2}},
        {"deserved": {"memory": "2Gi"}, "capability": {"memory": "1Gi"}},
        {"flavors": [{"name": "h100", "deserved": {"cpu": 4}, "capability": {"cpu": 2}}]},
        {"flavors": [{"name": "h100"}, {"name": "h100"}]},
        {"deserved": {"nvidia.com/gpu": "0.5"}},
        {"capability": {"cpu": -1}},
        {"capability": {"cpu": "4 cores"}},
        {"weight": 0},
        {"policy": {"order": "lottery"}},
        {"policy": {"preemption": {"reclaim": "always"}}},
        {"policy": {"starvation": {"clearAfter": "soon"}}},
        {"access": {"maxGang": 0}},
        {"access": {"admins": [{}]}},
        {"access": {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}},
        {"parent": "team"},
        {"parent": "nobody"},
        {"parent": "inner", "guarantee": {"resource": {"cpu": 2}}},
    ],
)
def test_a_queue_that_cannot_work_is_refused(spec):
    assert messages(changed(QUEUE, ("spec", spec)), queues=TREE) != []


@pytest.mark.parametrize(
    ("member", "message"),
    [
        ({"type": "Node", "selector": {}}, "members[0].selector: found nothing, expected exactly one of"),
        (
            {"type": "Node", "selector": {"exactMatch": {"name": "n"}, "regexMatch": {"pattern": "n"}}},
            "members[0].selector: found exactMatch and regexMatch, expected exactly one of",
        ),
        ({"type": "Node", "selector": {"exactMatch": {"name": ""}}}, "exactMatch.name: found nothing"),
        ({"type": "Node", "selector": {"exactMatch": {"name": "No De"}}}, "expected the name of an object"),
        ({"type": "Node", "selector": {"regexMatch": {"pattern": ""}}}, "pattern: found nothing"),
        (
            {"type": "Node", "selector": {"regexMatch": {"pattern": "n{99999999999}"}}},
            "found 'n{99999999999}' (invalid repetition size: {99999999999), expected a regular expression",
        ),
        ({"type": "Node", "selector": {"regexMatch": {"pattern": "n("}}}, "expected a regular expression"),
        ({"type": "Node", "selector": {"regexMatch": {"pattern": "n(?!0)"}}}, "it knows no look-around"),
        (
            {
                "type": "Node",
                "selector": {"labelMatch": {"matchExpressions": [{"key": "a", "operator": "Is"}]}},
            },
            "labelMatch.matchExpressions[0].operator: found 'Is'",
        ),
        (
            {"type": "HyperNode", "selector": {"regexMatch": {"pattern": "s"}}},
            "exactMatch: a HyperNode is a member by its name only",
        ),
        (
            {"type": "HyperNode", "selector": {"exactMatch": {"name": "s1"}}},
            "another HyperNode than this one",
        ),
        ({"type": "Rack", "selector": {"exactMatch": {"name": "s0"}}}, "spec.members[0].type"),
    ],
)
def test_a_hypernode_that_contains_nothing_by_mistake_is_refused(member, message):
    found = messages(changed(HYPERNODE, ("spec", "members", [member])))
    assert [one for one in found if message in one], found


@pytest.mark.parametrize("pattern", ["[[:alpha:]]", r"^\pL+\d\z", r"\Qn.1\E", "(?U)n.*", "(?P<rack>r[0-9]+)"])
def test_a_pattern_that_go_reads_is_accepted(pattern):
    member = {"type": "Node", "selector": {"regexMatch": {"pattern": pattern}}}
    assert messages(changed(HYPERNODE, ("spec", "members", [member]))) == []


def test_an_empty_hypernode_is_only_worth_a_warning():
    (found,) = violations_of(changed(HYPERNODE, ("spec", "members", [])))
    assert found.tolerable


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_rules(kind):
    version, name = kind
    document = {"apiVersion": version, "kind": name, "metadata": {"name": "a"}, "spec": {}}
    assert isinstance(violations_of(document), list)


def test_a_queue_within_its_parent_is_accepted():
    spec = {"parent": "inner", "guarantee": {"resource": {"cpu": 1}}, "deserved": {"cpu": 2}}
    assert messages(changed(QUEUE, ("spec", spec)), queues=TREE) == []


def test_a_capability_above_the_ancestors_is_only_worth_a_warning():
    found = violations_of(
        changed(QUEUE, ("spec", {"parent": "inner", "capability": {"cpu": 9}})), Known(queues=TREE)
    )
    assert [one.tolerable for one in found] == [True]


def test_a_circle_of_parents_is_refused_with_the_way_round():
    circle = changed(QUEUE, ("metadata", "name", "inner"), ("spec", "parent", "leaf"))
    assert ["inner → leaf → inner" in one for one in messages(circle, queues=TREE)] == [True]


@pytest.mark.parametrize(("guarantee", "fine"), [(2, False), (3, True)])
def test_a_queue_cannot_shrink_below_what_its_children_are_guaranteed(guarantee, fine):
    spec = {"parent": "root", "guarantee": {"resource": {"cpu": guarantee}}}
    smaller = changed(QUEUE, ("metadata", "name", "inner"), ("spec", spec))
    assert any("guaranteed 3 cpu together" in one for one in messages(smaller, queues=TREE)) is not fine


def test_queues_that_others_need_cannot_be_deleted():
    assert queue_deletion_violations("leaf", TREE) == []
    assert [one.message for one in queue_deletion_violations("default", TREE)] == [
        "`default` queue can not be deleted"
    ]
    assert "leaf" in queue_deletion_violations("inner", TREE)[0].message


@pytest.mark.parametrize(
    ("path", "weights", "fine"),
    [("root/a", "1/2", True), ("root/a", "1", False), ("root/a", "1/0", False), ("root/a", "1/x", False)],
)
def test_hierarchy_annotations_have_a_weight_for_each_step(path, weights, fine):
    annotations = {"volcano.sh/hierarchy": path, "volcano.sh/hierarchy-weights": weights}
    assert (messages(changed(QUEUE, ("metadata", "annotations", annotations))) == []) is fine


def test_an_update_that_leaves_the_spec_alone_is_always_fine():
    broken = changed(QUEUE, ("spec", {"parent": "nobody"}))
    relabelled = changed(QUEUE, ("spec", {"parent": "nobody"}), ("metadata", "finalizers", []))
    assert messages(broken, queues=TREE) != []
    assert violations_of(relabelled, Known(queues=TREE), old=broken) == []
