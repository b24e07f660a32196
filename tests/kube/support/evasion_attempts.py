"""Every way to run a pod in a gated namespace without an admission, as documents and patches of an ordinary editor.

``CREATIONS`` are objects that she creates, ``CHANGES`` are changes of objects that she created before.
"""

from dataclasses import dataclass
from typing import Any

from queues.api.api_resources import (
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOB_FLOWS,
    JOBS,
    POD_GROUPS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    VOLCANO_CRON_JOBS,
    VOLCANO_JOBS,
    ApiResource,
    Document,
)
from tests.kube.support.cluster_objects import batch_job, pod
from tests.kube.support.guarded_namespace import GATE, QUEUED

GATED, ANNOTATED, PLAIN, OFF = "ways-gated", "ways-annotated", "ways-plain", "ways-off"
METADATA: dict[str, Document] = {
    GATED: {"labels": {"muster.dev/gated": "true"}},
    # No label: a policy writes it.
    ANNOTATED: {"annotations": {"muster.dev/queue-name": "team-c"}},
    PLAIN: {},
    OFF: {"labels": {"muster.dev/gated": "false"}, "annotations": {"muster.dev/queue-name": "team-c"}},
}
#: What the editor is told.
ONLY_MUSTER = "nly Muster writes"
#: No refusal: a policy puts back what was taken away.
UNDONE = ""
RELEASED = {"muster.dev/released": "true"}
SIGNED = {"muster.dev/admission-id": "1", "muster.dev/seat": "main/0"}
BOB = {"muster.dev/user": "bob"}


# -- what is created ------------------------------------------------------------------------------------------


def job(
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    own: Document | None = None,
    **spec: Any,
) -> Document:
    """A Job: labels and annotations of its template, metadata of its own, fields of its pods' spec."""
    made = batch_job("", template_labels=labels, **spec)
    made["spec"]["template"]["metadata"]["annotations"] = annotations or {}
    made["metadata"] = own or {}
    return made


def cron_job(template: Document, metadata: Document | None = None) -> Document:
    """A CronJob that is due in the year to come."""
    job_template = {"metadata": metadata or {}, "spec": template["spec"]}
    return {"metadata": {}, "spec": {"schedule": "0 0 1 1 *", "jobTemplate": job_template}}


def owner(kind: ApiResource, labels: dict[str, str] | None = None, **annotations: str) -> Document:
    """A Deployment, ReplicaSet, StatefulSet, DaemonSet or ReplicationController of one pod."""
    labels = {"app": kind.plural, **(labels or {})}
    selector: Document = {"app": kind.plural}
    template = {"metadata": {"labels": labels, "annotations": annotations}, "spec": pod("")["spec"]}
    spec: Document = {"template": template, "selector": {"matchLabels": selector}}
    if kind is REPLICATION_CONTROLLERS:
        spec["selector"] = selector
    if kind is STATEFUL_SETS:
        spec["serviceName"] = "none"
    return {"metadata": {}, "spec": spec}


def volcano_job(
    labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None, **spec: Any
) -> Document:
    """A Volcano Job of one pod; ``spec`` is the pod's."""
    template = {
        "metadata": {"labels": labels or {}, "annotations": annotations or {}},
        "spec": {**pod("")["spec"], **spec},
    }
    return {
        "metadata": {},
        "spec": {"minAvailable": 1, "tasks": [{"name": "main", "replicas": 1, "template": template}]},
    }


def bare(metadata: Document | None = None, **spec: Any) -> Document:
    """A pod."""
    return {"metadata": metadata or {}, "spec": {**pod("")["spec"], **spec}}


OF_A_JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "1", "controller": True}
OF_A_VOLCANO_JOB = {**OF_A_JOB, "apiVersion": "batch.volcano.sh/v1alpha1"}
MIRROR = {"kubernetes.io/config.mirror": "1", "kubernetes.io/config.source": "file"}
OWNERS = (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS, REPLICATION_CONTROLLERS)


@dataclass(frozen=True)
class Creation:
    """An object that the editor creates."""

    title: str
    kind: ApiResource
    document: Document
    #: Words of the refusal; "": it is stored, and waits.
    refused: str = ""
    where: tuple[str, ...] = (GATED,)


HIDDEN = (GATED, ANNOTATED, PLAIN)
CREATIONS = [
    Creation("a Job", JOBS, job(), where=(GATED, ANNOTATED)),
    Creation(
        "a Job that says it is not suspended", JOBS, {**job(), "spec": {**job()["spec"], "suspend": False}}
    ),
    # Told to be invalid by Muster, which does not admit it.
    Creation(
        "a Job that loses the pods that get a label",
        JOBS,
        {
            "metadata": {},
            "spec": {
                **job()["spec"],
                "selector": {"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]},
            },
        },
    ),
    Creation("a Job for another scheduler", JOBS, job(schedulerName="mine")),
    Creation("a Job with a released template", JOBS, job(RELEASED), ONLY_MUSTER, HIDDEN),
    Creation("a Job that is released itself", JOBS, job(own={"labels": RELEASED}), ONLY_MUSTER, HIDDEN),
    Creation(
        "a Job that is released twice", JOBS, job(RELEASED, own={"labels": RELEASED}), ONLY_MUSTER, HIDDEN
    ),
    Creation(
        "a Job with a released and signed template", JOBS, job(RELEASED, SIGNED, QUEUED), ONLY_MUSTER, HIDDEN
    ),
    Creation("a Job with a signed template", JOBS, job(annotations=SIGNED), ONLY_MUSTER, HIDDEN),
    Creation("a signed Job", JOBS, job(own={"annotations": SIGNED}), ONLY_MUSTER, HIDDEN),
    Creation("a Job of bob's outside", JOBS, job(own={"annotations": BOB}), ONLY_MUSTER, (PLAIN,)),
    Creation("a Job with a template of bob's outside", JOBS, job(annotations=BOB), ONLY_MUSTER, (PLAIN,)),
    Creation("a Job on a node", JOBS, job(nodeName="n1"), "Muster chooses the node", (GATED, ANNOTATED)),
    Creation(
        "a Job in a queue on a node",
        JOBS,
        job(own={"labels": QUEUED}, nodeName="n1"),
        "Muster chooses the node",
        HIDDEN,
    ),
    Creation(
        "a Job of the system", JOBS, job(priorityClassName="system-node-critical"), "class for workloads"
    ),
    Creation("a CronJob with a released template", CRON_JOBS, cron_job(job(RELEASED)), ONLY_MUSTER, HIDDEN),
    Creation("a CronJob with a signed template", CRON_JOBS, cron_job(job(None, SIGNED)), ONLY_MUSTER, HIDDEN),
    Creation(
        "a CronJob of released Jobs", CRON_JOBS, cron_job(job(), {"labels": RELEASED}), ONLY_MUSTER, HIDDEN
    ),
    Creation(
        "a CronJob of bob's Jobs", CRON_JOBS, cron_job(job(), {"annotations": BOB}), ONLY_MUSTER, HIDDEN
    ),
    *(
        Creation(f"{title} {kind.kind}", kind, document, ONLY_MUSTER, HIDDEN)
        for kind in OWNERS
        for title, document in (
            ("a released", owner(kind, RELEASED)),
            ("a signed", owner(kind, **SIGNED)),
            ("a released and signed", owner(kind, RELEASED, **SIGNED)),
        )
    ),
    Creation("a pod", PODS, bare(), where=(GATED, ANNOTATED)),
    Creation("a pod with a gate of its own", PODS, bare(schedulingGates=[{"name": "example.com/mine"}])),
    Creation("a pod for another scheduler", PODS, bare(schedulerName="mine")),
    Creation("a pod that says it waits", PODS, bare({"labels": {"muster.dev/released": "yes"}})),
    Creation("a pod of bob's", PODS, bare({"annotations": BOB})),
    Creation("a pod with Muster's gate", PODS, bare(schedulingGates=GATE), where=HIDDEN),
    Creation("a released pod", PODS, bare({"labels": RELEASED}), ONLY_MUSTER, HIDDEN),
    Creation(
        "a released and signed pod",
        PODS,
        bare({"labels": RELEASED, "annotations": SIGNED}),
        ONLY_MUSTER,
        HIDDEN,
    ),
    Creation(
        "a released pod with Muster's gate",
        PODS,
        bare({"labels": RELEASED}, schedulingGates=GATE),
        ONLY_MUSTER,
        HIDDEN,
    ),
    Creation(
        "a released pod with Muster's gate in a queue, for Volcano's scheduler",
        PODS,
        bare({"labels": {**RELEASED, **QUEUED}}, schedulingGates=GATE, schedulerName="volcano"),
        ONLY_MUSTER,
        HIDDEN,
    ),
    Creation("a signed pod", PODS, bare({"annotations": SIGNED}), ONLY_MUSTER, HIDDEN),
    Creation("a pod of bob's outside", PODS, bare({"annotations": BOB}), ONLY_MUSTER, (PLAIN,)),
    Creation(
        "a pod that says it waits outside",
        PODS,
        bare({"labels": {"muster.dev/released": "false"}}),
        ONLY_MUSTER,
        (PLAIN,),
    ),
    Creation(
        "a pod with Muster's finalizer",
        PODS,
        bare({"finalizers": ["muster.dev/outcome"]}),
        "Finalizer",
        HIDDEN,
    ),
    Creation("a pod on a node", PODS, bare(nodeName="n1"), "schedulingGates", (GATED, ANNOTATED)),
    Creation("a pod of a Job", PODS, bare({"ownerReferences": [OF_A_JOB]}), "pods of a Job", HIDDEN),
    Creation(
        "a pod of a Volcano Job", PODS, bare({"ownerReferences": [OF_A_VOLCANO_JOB]}), "pods of a Job", HIDDEN
    ),
    Creation(
        "a static pod",
        PODS,
        bare({"annotations": MIRROR}, automountServiceAccountToken=False),
        "must set spec.nodeName",
    ),
    Creation("a static pod on a node", PODS, bare({"annotations": MIRROR}, nodeName="n1"), "schedulingGates"),
    Creation(
        "a pod of the system", PODS, bare(priorityClassName="system-cluster-critical"), "class for workloads"
    ),
    Creation(
        "a Volcano Job on a node", VOLCANO_JOBS, volcano_job(nodeName="n1"), "Muster chooses the node", HIDDEN
    ),
    Creation(
        "a Volcano Job with a released template", VOLCANO_JOBS, volcano_job(RELEASED), ONLY_MUSTER, HIDDEN
    ),
    Creation(
        "a Volcano Job with a signed template", VOLCANO_JOBS, volcano_job(None, SIGNED), ONLY_MUSTER, HIDDEN
    ),
    Creation(
        "a Volcano Job of the system",
        VOLCANO_JOBS,
        volcano_job(priorityClassName="system-node-critical"),
        "class for workloads",
        HIDDEN,
    ),
    Creation(
        "a PodGroup of the system",
        POD_GROUPS,
        {"metadata": {}, "spec": {"minMember": 1, "priorityClassName": "system-node-critical"}},
        "class for workloads",
        HIDDEN,
    ),
]


# -- what is changed ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Change:
    """A change that the editor makes of an object that she made before."""

    title: str
    kind: ApiResource
    before: Document
    patch: Any
    refused: str
    where: str = GATED
    #: What Muster does to the object in between.
    released: Document | None = None
    subresource: str | None = None


DIRECTED = {
    "spec": {"suspend": False, "template": {"metadata": {"labels": RELEASED, "annotations": SIGNED}}},
}
LET_GO = {"metadata": {"labels": RELEASED, "annotations": SIGNED}, "spec": {"schedulingGates": None}}


def suspended(**spec: Any) -> Document:
    """A Job that its user suspends; fields of its pods' spec."""
    return {"metadata": {}, "spec": {**job(**spec)["spec"], "suspend": True}}


SUSPENDED = suspended()


def labelled(key: str, value: str | None) -> Document:
    return {"metadata": {"labels": {key: value}}}


def annotated(key: str, value: str | None) -> Document:
    return {"metadata": {"annotations": {key: value}}}


def of_template(patch: Document) -> Document:
    return {"spec": {"template": patch}}


CHANGES = [
    Change("the gate of a pod", PODS, bare(), {"spec": {"schedulingGates": None}}, "Scheduling gate"),
    Change(
        "the gate and the label",
        PODS,
        bare(),
        {**labelled("muster.dev/released", None), "spec": {"schedulingGates": []}},
        "Scheduling gate",
    ),
    *(
        Change(f"{key} of a {state} pod", PODS, bare(), annotated(key, "2"), ONLY_MUSTER, where, released)
        for key in (*SIGNED, "muster.dev/devices", "muster.dev/recreated-from", "muster.dev/user")
        for state, where, released in (
            ("gated", GATED, None),
            ("released", GATED, LET_GO),
            ("foreign", PLAIN, None),
        )
    ),
    Change("a pod to released", PODS, bare(), labelled("muster.dev/released", "true"), ONLY_MUSTER),
    Change(
        "a foreign pod to released", PODS, bare(), labelled("muster.dev/released", "true"), ONLY_MUSTER, PLAIN
    ),
    Change("a pod out of its queue", PODS, bare(), labelled("muster.dev/queue-name", None), UNDONE),
    Change(
        "a running pod to another queue",
        PODS,
        bare(),
        labelled("muster.dev/queue-name", "b"),
        "only while it waits",
        GATED,
        LET_GO,
    ),
    Change(
        "a running pod into a queue",
        PODS,
        bare(),
        labelled("muster.dev/queue-name", "b"),
        "only while it waits",
        PLAIN,
    ),
    Change(
        "a running pod into a group",
        PODS,
        bare(),
        annotated("scheduling.k8s.io/group-name", "g"),
        "only while it waits",
        GATED,
        LET_GO,
    ),
    Change(
        "the owner of a pod", PODS, bare(), {"metadata": {"ownerReferences": [OF_A_JOB]}}, "pods of a Job"
    ),
    Change(
        "the owner of a foreign pod",
        PODS,
        bare(),
        {"metadata": {"ownerReferences": [OF_A_JOB]}},
        "pods of a Job",
        PLAIN,
    ),
    Change("a finalizer", PODS, bare(), {"metadata": {"finalizers": ["muster.dev/outcome"]}}, "Finalizer"),
    Change(
        "Muster's finalizer off a pod",
        PODS,
        bare(),
        {"metadata": {"finalizers": None}},
        UNDONE,
        GATED,
        {"metadata": {"finalizers": ["muster.dev/outcome"]}},
    ),
    Change("the node of a pod", PODS, bare(), {"spec": {"nodeName": "n1"}}, "orbidden"),
    Change("the size of a pod", PODS, bare(), {"spec": {}}, "orbidden", subresource="resize"),
    Change(
        "the debuggers of a pod", PODS, bare(), {"spec": {}}, "orbidden", subresource="ephemeralcontainers"
    ),
    Change(
        "the status of a pod",
        PODS,
        bare(),
        {"status": {"phase": "Succeeded"}},
        "orbidden",
        subresource="status",
    ),
    Change("a Job on", JOBS, job(), {"spec": {"suspend": False}}, UNDONE),
    Change(
        "a Job on without labels",
        JOBS,
        job(),
        {"metadata": {"labels": None}, "spec": {"suspend": False}},
        UNDONE,
    ),
    Change(
        "an admitted Job on again",
        JOBS,
        job(),
        {"spec": {"suspend": False}},
        UNDONE,
        GATED,
        {"spec": {"suspend": True}},
    ),
    Change("a Job to released", JOBS, job(), labelled("muster.dev/released", "true"), ONLY_MUSTER),
    Change("a signed Job", JOBS, job(), annotated("muster.dev/admission-id", "1"), ONLY_MUSTER),
    Change("bob's Job", JOBS, job(), annotated("muster.dev/user", "bob"), ONLY_MUSTER),
    Change("a Job outside to bob's", JOBS, job(), annotated("muster.dev/user", "bob"), ONLY_MUSTER, PLAIN),
    Change(
        "the template of a Job to released",
        JOBS,
        job(),
        of_template(labelled("muster.dev/released", "true")),
        ONLY_MUSTER,
    ),
    Change(
        "the template of a Job outside to released",
        JOBS,
        SUSPENDED,
        of_template(labelled("muster.dev/released", "true")),
        ONLY_MUSTER,
        PLAIN,
    ),
    Change(
        "a signed template",
        JOBS,
        job(),
        of_template(annotated("muster.dev/admission-id", "2")),
        ONLY_MUSTER,
    ),
    Change(
        "the template of an admitted Job",
        JOBS,
        job(),
        of_template(annotated("muster.dev/admission-id", "2")),
        "is immutable",
        GATED,
        DIRECTED,
    ),
    Change(
        "the template to no queue",
        JOBS,
        job(),
        of_template(labelled("muster.dev/queue-name", None)),
        "leave none",
    ),
    Change(
        "a running Job into a queue",
        JOBS,
        job(),
        labelled("muster.dev/queue-name", "b"),
        "only while it is suspended",
        PLAIN,
    ),
    Change(
        "a running Job into a queue of Volcano",
        JOBS,
        job(),
        annotated("scheduling.volcano.sh/queue-name", "b"),
        "only while it is suspended",
        PLAIN,
    ),
    *(
        Change(f"a suspended Job {what} into a queue by {how}", JOBS, before, patch, refused, PLAIN)
        for what, before, refused in (
            ("of the system", suspended(priorityClassName="system-node-critical"), "class for workloads"),
            ("on a node", suspended(nodeName="n1"), "Muster chooses the node"),
        )
        for how, patch in (
            ("label", labelled("muster.dev/queue-name", "b")),
            ("annotation", annotated("scheduling.volcano.sh/queue-name", "b")),
        )
    ),
    Change(
        "the pods of an admitted Job",
        JOBS,
        job(),
        {"spec": {"parallelism": 2}},
        "spec.parallelism",
        GATED,
        DIRECTED,
    ),
    Change(
        "the size of a Volcano Job",
        VOLCANO_JOBS,
        volcano_job(),
        {"spec": {"tasks": volcano_job(nodeName="n1")["spec"]["tasks"]}},
        "may not change fields",
    ),
    *(
        Change(
            f"a {kind.kind} of {kind.group} to a class of the system",
            kind,
            document,
            {"spec": {"priorityClassName": "system-node-critical"}},
            "class for workloads",
        )
        for kind, document in (
            (VOLCANO_JOBS, volcano_job()),
            (POD_GROUPS, {"metadata": {}, "spec": {"minMember": 1}}),
        )
    ),
    Change(
        "the queue of a Volcano Job",
        VOLCANO_JOBS,
        volcano_job(),
        {"spec": {"queue": "b"}},
        "may not change fields",
    ),
    Change(
        "a task more",
        VOLCANO_JOBS,
        volcano_job(),
        {"spec": {"tasks": volcano_job()["spec"]["tasks"] * 2}},
        "may not add or remove tasks",
    ),
    Change(
        "bob's Volcano Job", VOLCANO_JOBS, volcano_job(), annotated("muster.dev/user", "bob"), ONLY_MUSTER
    ),
    *(
        Change(
            f"bob's {kind.kind} of Volcano", kind, document, annotated("muster.dev/user", "bob"), ONLY_MUSTER
        )
        for kind, document in (
            (VOLCANO_CRON_JOBS, {"metadata": {}, "spec": {"schedule": "0 0 1 1 *"}}),
            (JOB_FLOWS, {"metadata": {}, "spec": {"flows": [{"name": "a"}]}}),
        )
    ),
    Change(
        "a Deployment to released",
        DEPLOYMENTS,
        owner(DEPLOYMENTS),
        of_template(labelled("muster.dev/released", "true")),
        ONLY_MUSTER,
        PLAIN,
    ),
    Change(
        "a CronJob to released",
        CRON_JOBS,
        cron_job(job()),
        {"spec": {"jobTemplate": {"spec": {"template": labelled("muster.dev/released", "true")}}}},
        ONLY_MUSTER,
        PLAIN,
    ),
]
