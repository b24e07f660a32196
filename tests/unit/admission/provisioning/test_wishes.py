"""What a gang asks an autoscaler for, and the objects that say it."""

from dataclasses import replace

from admission.provisioning.wishes import NodeWish, pod_templates, pod_wishes, request_document
from queues import kind_names
from queues.api.api_resources import JOBS, ObjectRef
from queues.quota.queue import ProvisioningRules
from queues.resources import Resources
from queues.workload import (
    DeviceShare,
    NodeFilter,
    PodSet,
    QueueName,
    Requirement,
    Toleration,
    Workload,
    WorkloadKey,
)

GPU = "nvidia.com/gpu"
KEY = WorkloadKey(kind_names.JOB, "0000-1")
TAKES = Resources.parse({"cpu": "8", "memory": "64Gi", GPU: "8", "pods": "1"})


def gang(*sets: PodSet, minimum: int = 4) -> Workload:
    return Workload(
        key=KEY,
        namespace="ml",
        name="train",
        queue=QueueName("q"),
        arrival=1,
        minimum=minimum,
        pod_sets=sets,
    )


def pods(count: int = 4, name: str = "worker", **rest: object) -> PodSet:
    return PodSet(name=name, count=count, **{"takes": TAKES, **rest})  # type: ignore[arg-type]


def wish(workload: Workload, **rules: object) -> NodeWish:
    given = {"class_name": "check-capacity.autoscaling.x-k8s.io", **rules}
    return NodeWish(
        key=KEY,
        ref=ObjectRef(resource=JOBS, namespace="ml", name="train", uid="0000-1"),
        queue=QueueName("q"),
        arrival=1,
        rules=ProvisioningRules(**given),  # type: ignore[arg-type]
        pods=pod_wishes(workload),
    )


def test_the_request_names_a_template_for_each_shape_of_pods_and_how_many_of_it() -> None:
    small = Resources.parse({"cpu": "1", "pods": "1"})
    asked = wish(gang(pods(4), pods(1, "head", takes=small), pods(2, "other"), minimum=7))
    document = request_document(asked, 1)
    templates = pod_templates(asked, 1)
    sets = document["spec"]["podSets"]
    assert [each["count"] for each in sets] == [6, 1]
    assert [each["podTemplateRef"]["name"] for each in sets] == [
        each["metadata"]["name"] for each in templates
    ]
    assert document["spec"]["provisioningClassName"] == "check-capacity.autoscaling.x-k8s.io"
    assert "parameters" not in document["spec"]
    [container] = templates[0]["template"]["spec"]["containers"]
    assert container["resources"] == {
        "requests": {"cpu": "8", "memory": "64Gi", GPU: "8"},
        "limits": {GPU: "8"},
    }


def test_templates_have_what_decides_where_a_pod_fits() -> None:
    nodes = NodeFilter(
        selector=(("pool", "gpu"),),
        affinity=(
            (Requirement("zone", "In", ("a", "b")), Requirement("metadata.name", "NotIn", ("n1",), True)),
        ),
        tolerations=(Toleration(key="gpu", operator="Exists", effect="NoSchedule"),),
    )
    [template] = pod_templates(wish(gang(pods(nodes=nodes))), 1)
    spec = template["template"]["spec"]
    assert spec["nodeSelector"] == {"pool": "gpu"}
    [term] = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert term["matchExpressions"] == [{"key": "zone", "operator": "In", "values": ["a", "b"]}]
    assert term["matchFields"] == [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}]
    assert spec["tolerations"] == [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]


def test_only_the_pods_that_have_to_start_together_are_asked_for() -> None:
    assert [each.count for each in pod_wishes(gang(pods(16), minimum=4))] == [4]
    two = gang(pods(8, minimum=3), pods(4, "head", minimum=1), minimum=4)
    assert sum(each.count for each in pod_wishes(two)) == 4
    # Its minimum may be met by either set.
    either = gang(pods(8), pods(4, "head"), minimum=4)
    assert sum(each.count for each in pod_wishes(either)) == 12
    assert [each.count for each in pod_wishes(gang(pods(4, done=frozenset({0})), minimum=4))] == [3]


def test_parts_of_devices_are_asked_for_as_whole_ones() -> None:
    takes = Resources.parse({GPU: "500m", "pods": "1"})
    shared = pods(takes=takes, share=DeviceShare(devices=1, milli=500))
    assert pod_wishes(gang(shared))[0].takes == Resources.parse({GPU: "1"})


def test_more_shapes_than_a_request_may_have_are_not_asked_for() -> None:
    sets = [pods(1, f"s{index}", takes=Resources.parse({"cpu": str(index + 1)})) for index in range(33)]
    assert pod_wishes(gang(*sets, minimum=33)) == ()
    assert len(pod_wishes(gang(*sets[:32], minimum=32))) == 32


def test_the_name_is_another_one_for_another_attempt_gang_class_or_parameter() -> None:
    asked = wish(gang(pods()))
    names = {
        asked.name(1),
        asked.name(2),
        wish(gang(pods(5), minimum=5)).name(1),
        wish(gang(pods()), class_name="other").name(1),
        wish(gang(pods()), parameters=(("a", "b"),)).name(1),
    }
    assert len(names) == 5
    assert wish(gang(pods()), timeout=7).name(1) == asked.name(1), "a time-out is nothing that is asked for"


def test_everything_goes_with_the_workload_and_is_found_by_its_label() -> None:
    asked = wish(gang(pods()), parameters=(("ValidUntilSeconds", "600"),))
    for document in (*pod_templates(asked, 3), request_document(asked, 3)):
        metadata = document["metadata"]
        assert metadata["labels"] == {"muster.dev/provisioning-for": "job.0000-1"}
        assert metadata["annotations"] == {"muster.dev/provisioning-attempt": "3"}
        [owner] = metadata["ownerReferences"]
        assert (owner["apiVersion"], owner["kind"], owner["uid"]) == ("batch/v1", "Job", "0000-1")
    assert request_document(asked, 3)["spec"]["parameters"] == {"ValidUntilSeconds": "600"}
    assert replace(asked, arrival=9).name(1) == asked.name(1)
