"""Jobs and PodGroups that are refused, and changes of them, each with field, found and expected."""

import pytest

from queues.api.validation.known import Known
from queues.api.validation.validation import violations_of
from tests.builders.valid_documents import CONTAINERS, JOB, POD_GROUP, TREE, changed, messages, of_kind
from tests.tables import with_rows


def task(name="worker", replicas=2, **fields):
    return {
        "name": name,
        "replicas": replicas,
        "template": {"spec": {"containers": [{"name": "a", "image": "b"}]}},
    } | fields


def test_gates_of_others_in_a_template_are_accepted_as_volcano_does_with_a_warning():
    def found(*gates):
        spec = {
            "containers": [{"name": "a", "image": "b"}],
            "schedulingGates": [{"name": each} for each in gates],
        }
        return violations_of(changed(JOB, ("spec", "tasks", 0, "template", {"spec": spec})), Known())

    (warned,) = found("muster.dev/admission", "example.org/wait")
    assert warned.tolerable
    assert "template.spec.schedulingGates[1]: found 'example.org/wait'" in warned.message
    assert found("muster.dev/admission") == []


def test_anti_affinity_against_pods_of_other_namespaces_is_accepted_with_a_warning_as_it_keeps_its_job_waiting():
    def found(namespace, **term):
        required = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "k", **term}]}
        spec = {"containers": [{"name": "a", "image": "b"}], "affinity": {"podAntiAffinity": required}}
        template = {"spec": spec}
        never = {"spec": {**spec, "restartPolicy": "Never"}}
        pod = of_kind("Pod", spec, namespace=namespace)
        job = of_kind("batch/v1 Job", {"template": never}, namespace=namespace)
        of_volcano = changed(
            JOB, ("spec", "tasks", 0, "template", template), ("metadata", "namespace", namespace)
        )
        return [violations_of(document, Known()) for document in (pod, job, of_volcano)]

    for namespace, term in (("ns", {"namespaceSelector": {}}), ("ns", {"namespaces": ["bob"]})):
        for (warned,) in found(namespace, **term):
            assert warned.tolerable
            assert (
                f"podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].{next(iter(term))}: found"
                in (warned.message)
            )
    assert found("ns", namespaces=["ns"]) == [[], [], []]
    assert found("", namespaces=["one"]) == [[], [], []], "a file may be applied there"
    assert all(found("", namespaces=["one", "other"]))


@with_rows("change", "message")
def test_a_job_is_refused_with_the_field(change, message):
    assert any(each.startswith(message) for each in messages(changed(JOB, change)))


@with_rows("policies", "message")
@pytest.mark.parametrize("place", [("spec",), ("spec", "tasks", 0)])
def test_policies_are_refused_with_the_field(place, policies, message):
    assert any(message in one for one in messages(changed(JOB, (*place, "policies", policies))))


def test_partitions_must_make_up_the_task():
    policy = {"totalPartitions": 2, "partitionSize": 2}
    assert messages(changed(JOB, ("spec", "tasks", [task(replicas=4, partitionPolicy=policy)]))) == []
    assert messages(changed(JOB, ("spec", "tasks", [task(replicas=5, partitionPolicy=policy)]))) != []


@with_rows("quantity", "message")
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


@with_rows("resources")
def test_requests_and_limits_must_agree(resources):
    assert messages(changed(JOB, (*CONTAINERS, 0, "resources", resources))) != []


@pytest.mark.parametrize("job", ["x" * 60, "Train", "-train", "train_1"])
def test_a_name_that_would_make_an_invalid_pod_name_is_refused(job):
    found = messages(changed(JOB, ("metadata", "name", job)))
    assert len(found) == 1
    assert "label" in found[0] or "63 characters" in found[0]


def test_a_name_with_a_dot_is_a_pod_name_but_not_a_host_name():
    dotted = ("metadata", "name", "train.v2")
    assert messages(changed(JOB, dotted)) == []
    assert messages(changed(JOB, dotted, ("spec", "plugins", {"svc": []}))) != []


def test_the_longest_pod_name_counts():
    name = "x" * (63 - len("-worker-9"))
    assert messages(changed(JOB, ("metadata", "name", name), ("spec", "tasks", 0, "replicas", 10))) == []
    assert messages(changed(JOB, ("metadata", "name", name), ("spec", "tasks", 0, "replicas", 11))) != []


@with_rows("queue", "message")
def test_a_jobs_queue_must_exist_be_open_and_a_leaf(queue, message):
    assert messages(changed(JOB, ("spec", "queue", queue)), queues=TREE) == [message]
    assert messages(changed(JOB, ("spec", "queue", "leaf")), queues=TREE) == []


def test_a_pod_groups_queue_must_exist():
    assert "the name of a Queue" in messages(changed(POD_GROUP, ("spec", "queue", "nobody")), queues=TREE)[0]


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


@with_rows("annotation", "value", "wrong")
def test_parts_and_levels_are_checked_where_they_are_written(annotation, value, wrong):
    document = changed(JOB, ("metadata", "annotations", {annotation: value}))
    assert len(messages(document, levels=frozenset({"example.org/rack"}))) == wrong


@with_rows("change")
def test_counts_and_priority_of_a_job_may_change(change):
    assert violations_of(changed(JOB, change), old=changed(JOB)) == []


@with_rows("change", "message")
def test_a_change_is_judged_as_the_job_would_be(change, message):
    found = violations_of(changed(JOB, change), old=changed(JOB))
    assert [message in one.message for one in found] == [True]


@pytest.mark.parametrize(
    ("field", "value", "most"),
    [
        ("containers", [7] * 1001, 1000),
        ("tolerations", [7] * 257, 256),
        ("nodeSelector", {str(number): 7 for number in range(513)}, 512),
        ("resourceClaims", [7] * 257, 256),
    ],
)
def test_what_a_template_lists_is_counted_before_an_entry_is_read(field, value, most):
    found = messages(changed(JOB, ("spec", "tasks", 0, "template", "spec", field, value)))
    expected = f"found {len(value)} entries, expected at most {most}"
    assert found == [f"spec.tasks[0].template.spec.{field}: {expected}"]


def test_after_many_violations_no_further_task_is_looked_at():
    wrong = [task(f"t{number}", template={"spec": {"containers": [7] * 50}}) for number in range(9)]
    assert len(messages(changed(JOB, ("spec", "tasks", wrong)))) == 2 * 50
