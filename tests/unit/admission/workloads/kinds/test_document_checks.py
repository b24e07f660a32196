"""``muster check`` for kinds of other projects."""

from typing import Any

import pytest
import yaml

from admission.workloads.kinds.document_checks import check_as_in_cluster
from queues.api.api_resources import ApiResource
from queues.api.check.check import check_documents
from queues.api.workload_kinds import SHIPPED_KINDS
from tests.builders.added_kinds import WIDGET, widget
from tests.tables import with_rows

POD = "{containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: %s}}}]}"
JOB_SET = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train, namespace: team, labels: {muster.dev/queue-name: language}}
spec:
  replicatedJobs:
    - {name: driver, replicas: 1, template: {spec: {template: {spec: {containers: [{name: c, image: i}]}}}}}
    - {name: workers, replicas: 2, template: {spec: {parallelism: 4, template: {spec: %s}}}}
"""
QUEUED = "muster.dev/queue-name: language"


def told(text: str) -> list[str]:
    found = check_documents([("f.yaml", text)], check_as_in_cluster)
    return [str(each).partition(": document 1: ")[2] for each in found]


def test_a_job_set_is_read_as_in_the_cluster(golden: Any) -> None:
    assert told(JOB_SET % (POD % 4)) == golden


def test_what_the_cluster_would_say_of_it_is_an_error_at_its_place() -> None:
    [twice] = told(JOB_SET.replace("name: workers", "name: driver") % (POD % 4))
    second = "error: JobSet team/train spec.replicatedJobs[1]"
    assert twice == f"{second}: found driver a second time, expected different names"
    messages = told(JOB_SET % (POD % -1))
    assert any(each.startswith(f"{second}.template.spec.template") for each in messages)


def test_a_ray_job_that_its_operator_would_not_suspend_is_an_error() -> None:
    text = (
        "{apiVersion: ray.io/v1, kind: RayJob, metadata: {name: a, labels: {QUEUED}},"
        " spec: {SAID rayClusterSpec: {headGroupSpec: {template: {spec: POD}}}}}"
    )
    text = text.replace("QUEUED", QUEUED).replace("POD", POD % 1)
    [note] = told(text.replace("SAID", ""))
    assert note.startswith("note: "), "Muster fills it in"
    [found] = told(text.replace("SAID", "shutdownAfterJobFinishes: false,"))
    assert found.startswith("error: RayJob a spec.shutdownAfterJobFinishes: found false, expected true: a")


def test_without_a_queue_it_starts_at_once() -> None:
    [note] = told((JOB_SET % (POD % 4)).replace(QUEUED, "app: a"))
    assert note.startswith("note: JobSet team/train metadata.labels: found no queue, expected label muster")


@with_rows("after", "finding")
def test_what_work_comes_after_is_read_on_every_kind(after: str, finding: str) -> None:
    text = (JOB_SET % (POD % 4)).replace("labels:", f'annotations: {{muster.dev/after: "{after}"}}, labels:')
    found = [each for each in told(text) if "muster.dev/after" in each]
    path = "JobSet team/train metadata.annotations[muster.dev/after]: "
    assert [each.startswith(finding.format(path)) for each in found] == ([True] if finding else [])
    metadata = f"{{name: p, annotations: {{muster.dev/after: a}}, labels: {{{QUEUED}}}}}"
    pod = f"{{apiVersion: v1, kind: Pod, metadata: {metadata}, spec: {POD % 1}}}"
    assert any(each.startswith("error: Pod p metadata.annotations[muster.dev/after]") for each in told(pod))


@with_rows("text", "beginning")
def test_other_kinds_are_named(text: str, beginning: str) -> None:
    *_, found = told(text)
    assert found.startswith(beginning)


@pytest.mark.parametrize(
    "spec", ["3", "[]", "{replicatedJobs: 1}", "{replicatedJobs: [1]}", "{replicatedJobs: [{name: {}}]}"]
)
def test_nothing_that_users_write_fails(spec: str) -> None:
    text = f"{{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {{name: a}}, spec: {spec}}}"
    assert any("error" in each for each in told(text))


@pytest.mark.parametrize(
    "resource",
    [description.resource for description in SHIPPED_KINDS if "." in description.resource.group],
    ids=lambda resource: resource.kind,
)
def test_the_queue_of_each_kind_that_waits_is_read_where_it_is(resource: ApiResource) -> None:
    text = f"{{apiVersion: {resource.api_version}, kind: {resource.kind}, metadata: {{name: a, labels: {{{QUEUED}}}}}}}"
    assert not [each for each in told(text) if "does not read" in each]


CLASS = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {selectors: [{cel: {expression: "device.driver == 'gpu.nvidia.com' && %s"}}]}
"""
CLAIM = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpus, namespace: team}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu, %s}}]}}}
"""


@with_rows("term")
def test_a_device_class_that_no_pod_is_admitted_with_is_a_warning(term: str) -> None:
    [found] = told(CLASS % term)
    assert found.startswith('warning: DeviceClass gpu spec.selectors: found selector "device.')
    assert "expected device.driver == '…' and device.attributes" in found
    assert found.endswith("; no pod in a queue is admitted with this class")


def test_device_classes_and_templates_that_can_be_counted_are_not_passed_over() -> None:
    assert told(CLASS % "device.attributes['gpu.nvidia.com'].productName == 'NVIDIA H100 80GB HBM3'") == []
    assert told(CLAIM % "count: 2") == []


def test_a_claim_that_cannot_be_counted_is_a_warning(golden: Any) -> None:
    assert told(CLAIM % "allocationMode: All") == golden
    [shared] = told("{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: ours}, spec: {}}")
    told_of = "found ResourceClaim, expected a ResourceClaimTemplate"
    assert shared.startswith(f"warning: ResourceClaim ours kind: {told_of}")


def test_a_device_class_that_cannot_be_read_is_an_error() -> None:
    [found] = told("{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: a}, spec: 7}")
    assert found.startswith("error: DeviceClass a: found Expected `object`, got `int`")


@with_rows("version", "kind")
def test_kinds_that_are_read_in_the_cluster_are_not_said_to_be_passed_over(version: str, kind: str) -> None:
    assert told(f"{{apiVersion: {version}, kind: {kind}, metadata: {{name: a}}}}") == []


def test_a_null_counts_as_absent() -> None:
    job = (
        "{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, metadata: {name: a, labels: {empty: null}},"
        " spec: {tasks: [{name: w, replicas: 1, policies: null, template: {metadata: null, spec: %s}}]}}"
    )
    assert [each for each in told(job % (POD % 1)) if each.startswith("error")] == []
    empty = (JOB_SET % (POD % 4)).replace(QUEUED, f"{QUEUED}, empty: null")
    assert [each for each in told(empty) if each.startswith("error")] == []


KUBEFLOW_JOB = """
apiVersion: kubeflow.org/v1
kind: %s
metadata: {name: train, labels: {%s}}
spec:
  elasticPolicy: {minReplicas: %d, maxReplicas: 8}
  runPolicy: {schedulingPolicy: {minAvailable: %d, queue: %s}}
  %s: {Master: {replicas: 1, template: {spec: POD}}, Worker: {replicas: 4, template: {spec: POD}}}
"""


@with_rows("kind", "replicas", "reads_elastic", "together")
def test_what_would_let_a_gang_start_with_fewer_pods_is_told(
    kind: str, replicas: str, reads_elastic: bool, together: int
) -> None:
    def warned(*fields: object, queue: str = QUEUED) -> dict[str, str]:
        text = (KUBEFLOW_JOB % (kind, queue, *fields, replicas)).replace("POD", POD % 1)
        start = f"warning: {kind} train "
        said = [each.removeprefix(start) for each in told(text) if each.startswith(start)]
        found = [each.partition(": found ") for each in said]
        return {path: what for path, _, what in found if path.startswith("spec.")}

    policy = "spec.runPolicy.schedulingPolicy"
    found = warned(2, 2, "other")
    elastic = {"spec.elasticPolicy.minReplicas"} if reads_elastic else set()
    assert found.keys() == {f"{policy}.minAvailable", f"{policy}.queue", *elastic}
    assert f" {together} pods start together" in found[f"{policy}.minAvailable"]
    assert found[f"{policy}.queue"].startswith("'other', expected nothing")
    assert all(" 4 pods start together" in found[path] for path in elastic)
    assert warned(4, 5, "language") == {}
    assert warned(2, 3, "other", queue="app: a") == {}, "without a queue its operator decides"


@with_rows("version", "kind")
def test_gangs_of_kubernetes_are_passed_over_with_the_reason(version: str, kind: str) -> None:
    text = f"{{apiVersion: scheduling.k8s.io/{version}, kind: {kind}, metadata: {{name: a{{}}}}}}"
    [note] = told(text.replace("{}", ""))
    assert note == (
        f"note: {kind} a kind: found {kind} of Kubernetes, which is passed over: kube-scheduler acts on it, Muster "
        "does not, expected a PodGroup of scheduling.volcano.sh/v1beta1 where pods of a queue are to start together"
    )
    in_queue = told(text.replace("{}", f", labels: {{{QUEUED}}}"))
    start = f"warning: {kind} a kind: found scheduling.k8s.io/{version} {kind} with queue language"
    assert any(each.startswith(start) for each in in_queue)
    of_classes = "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: a}, value: 1}"
    assert told(of_classes) == []


DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec: {template: {metadata: {labels: {muster.dev/queue-name: language}}, spec: %s}}
"""


@pytest.mark.parametrize("text", [JOB_SET, DEPLOYMENT])
def test_fields_that_placement_passes_over_are_warned_of_in_each_kind(text: str) -> None:
    volumes = "volumes: [{name: d, rbd: {image: i, monitors: [m]}}]"
    pod = f"{{{volumes}, schedulerName: other, containers: [{{name: c, image: i}}]}}"
    warned = [each for each in told(text % pod) if each.startswith("warning")]
    for said in (
        ".spec.volumes[0].rbd: found a volume of an in-tree driver",
        ".spec.schedulerName: found 'other', expected none: another",
    ):
        assert any(said in each for each in warned), warned


OF_CLAIM = "{name: v, persistentVolumeClaim: {claimName: data}}"
MADE_FOR_IT = "{name: e, ephemeral: {volumeClaimTemplate: {spec: {storageClassName: fast}}}}"
MOUNTING = (
    f"{{volumes: [{OF_CLAIM}, {MADE_FOR_IT}], containers: [{{name: c, image: i}}], restartPolicy: Never}}"
)
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: j, labels: {muster.dev/queue-name: language}}
spec: {template: {spec: %s}}
"""
VOLCANO_JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: j}
spec: {queue: language, tasks: [{name: t, replicas: 1, template: {spec: %s}}]}
"""
POD_IN_QUEUE = """
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {muster.dev/queue-name: language}}
spec: %s
"""


@pytest.mark.parametrize("text", [JOB_SET, JOB, VOLCANO_JOB, POD_IN_QUEUE])
def test_volumes_that_are_not_looked_at_are_named(text: str) -> None:
    said = (
        "found volumes that are not looked at (PersistentVolumeClaim data and claims of StorageClass fast): whether "
        "they exist, where they can be used and how many a node attaches is seen when the object waits in the cluster"
    )
    assert sum(said in each for each in told(text % MOUNTING)) == 1
    mounts_none = MOUNTING.replace(f"volumes: [{OF_CLAIM}, {MADE_FOR_IT}], ", "")
    others = [text % mounts_none, (JOB % MOUNTING).replace(QUEUED, "app: a")]
    assert not any("not looked at" in each for other in others for each in told(other))


def test_a_ray_cluster_of_a_ray_job_waits_with_that() -> None:
    owner = "{apiVersion: ray.io/v1, kind: RayJob, name: a, uid: u, controller: true}"
    text = (
        "{apiVersion: ray.io/v1, kind: RayCluster, metadata: {name: b, labels: {QUEUED}, ownerReferences: [OWNER]},"
        " spec: {headGroupSpec: {template: {spec: POD}}}}"
    )
    found = told(text.replace("QUEUED", QUEUED).replace("OWNER", owner).replace("POD", POD % 1))
    assert found == [
        "note: RayCluster b metadata.ownerReferences: found an object that waits, expected it to wait for both"
    ]


def test_objects_of_a_kind_that_is_among_the_documents_are_checked_as_those_of_other_kinds() -> None:
    texts = [
        ("kind.yaml", yaml.safe_dump(WIDGET)),
        ("train.yaml", yaml.safe_dump(widget("train", "default"))),
    ]
    found = [str(each) for each in check_documents(texts, check_as_in_cluster)]
    assert found == [
        "train.yaml:1: document 1: note: Widget train: found 1 pod lead of 1 cpu; 2 pods worker of 1 nvidia.com/gpu, "
        "all to start together; queue 'default'"
    ]
    assert "of which a WorkloadKind is among these documents" in str(
        check_documents(texts[1:], check_as_in_cluster)
    )
