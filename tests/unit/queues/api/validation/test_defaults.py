"""What is filled in at creation: Volcano's webhook to the letter."""

from typing import Any

import pytest

from queues.api.validation.defaults import (
    defaulted_job,
    defaulted_podgroup,
    defaulted_queue,
    namespace_queue,
)
from tests.tables import with_rows


def job(spec=None, **metadata):
    return {"metadata": metadata, "spec": {"tasks": [{}], **(spec or {})}}


def filled(spec=None, **metadata):
    return defaulted_job(job(spec, **metadata))["spec"]


def test_a_job_gets_queue_scheduler_retries_and_the_sum_of_its_tasks_as_gang(golden: Any):
    spec = filled({"tasks": [{"replicas": 3}, {"name": "b", "replicas": 4, "minAvailable": 2}]})
    assert spec == golden


def test_what_is_written_stays():
    spec = {
        "queue": "q",
        "schedulerName": "s",
        "maxRetry": 7,
        "minAvailable": 1,
        "tasks": [{"name": "a", "replicas": 2, "minAvailable": 0, "maxRetry": 1}],
        "unknown": {"kept": True},
    }
    assert defaulted_job(job(spec)) == job(spec)


def test_zero_counts_as_unsaid_where_volcano_has_it_so():
    spec = filled({"maxRetry": 0, "minAvailable": 0, "tasks": [{"replicas": 2, "maxRetry": 0}]})
    assert (spec["maxRetry"], spec["minAvailable"], spec["tasks"][0]["maxRetry"]) == (3, 2, 3)


def test_a_task_that_names_no_replicas_is_scaled_to_nothing():
    """Clients in Go leave 0 out."""
    (task,) = filled({"tasks": [{"name": "worker"}]})["tasks"]
    assert (task.get("replicas", 0), task["minAvailable"]) == (0, 0)


def test_partitions_that_must_be_there_make_the_tasks_minimum():
    policy = {"totalPartitions": 4, "partitionSize": 2, "minPartitions": 3}
    assert filled({"tasks": [{"replicas": 8, "partitionPolicy": policy}]})["minAvailable"] == 6


@with_rows("plugins", "filled_in")
def test_framework_plugins_bring_what_they_need(plugins, filled_in):
    assert filled({"plugins": plugins})["plugins"] == filled_in


def test_a_pod_on_the_hosts_network_still_resolves_names_of_the_cluster():
    def policy(**spec):
        return filled({"tasks": [{"template": {"spec": spec}}]})["tasks"][0]["template"]["spec"].get(
            "dnsPolicy"
        )

    assert policy(hostNetwork=True) == "ClusterFirstWithHostNet"
    assert policy(hostNetwork=True, dnsPolicy="Default") == "Default"
    assert policy(hostNetwork=False) is None


@with_rows("written", "label", "annotation", "inherited", "queue")
@pytest.mark.parametrize("fill", [defaulted_job, defaulted_podgroup])
def test_the_queue_is_the_label_then_the_spec_then_the_annotation_then_the_namespaces(
    fill, written, label, annotation, inherited, queue
):
    document = job(
        {"queue": written},
        labels={"muster.dev/queue-name": label} if label else {},
        annotations={"scheduling.volcano.sh/queue-name": annotation} if annotation else {},
    )
    assert fill(document, namespace_queue=inherited)["spec"]["queue"] == queue


def test_a_namespace_names_its_queue_by_either_annotation():
    assert namespace_queue({"scheduling.volcano.sh/queue-name": "a"}) == "a"
    assert namespace_queue({"muster.dev/queue-name": "b", "scheduling.volcano.sh/queue-name": "a"}) == "b"
    assert namespace_queue({}) is None
    assert namespace_queue(None) is None


def test_a_queue_gets_weight_reclaimable_and_root_as_parent():
    spec = {"weight": 1, "reclaimable": True, "parent": "root"}
    assert defaulted_queue({"metadata": {"name": "a"}})["spec"] == spec
    assert "parent" not in defaulted_queue({"metadata": {"name": "root"}})["spec"]
    given_spec = {"weight": 4, "reclaimable": False, "parent": "b"}
    assert defaulted_queue({"metadata": {"name": "a"}, "spec": given_spec})["spec"] == given_spec


@pytest.mark.parametrize("spec", [None, 3, "x", [], {"tasks": "x"}, {"tasks": [3, None]}, {"plugins": 3}])
def test_what_has_the_wrong_type_is_left_for_validation(spec):
    for fill in (defaulted_job, defaulted_podgroup, defaulted_queue):
        fill({"metadata": {}, "spec": spec})
        fill({"metadata": None, "spec": spec})
