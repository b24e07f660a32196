"""JobSets (jobset.x-k8s.io/v1alpha2): Jobs of several templates that run together. Pure."""

from admission.workloads.kinds.operators.support import Count, Each, OperatorKind, Templates, ToldProgress
from queues.api import names
from queues.api.api_resources import JOB_SETS, TRAIN_JOBS
from queues.workload import WorkloadKind

_JOB = ("template", "spec")

JOB_SET = OperatorKind(
    kind=WorkloadKind.JOB_SET,
    resource=JOB_SETS,
    templates=(
        Templates(
            at=("spec", "replicatedJobs"),
            each=Each.ELEMENT,
            template=(*_JOB, "template"),
            counts=(
                Count(at=("replicas",)),
                Count(at=(*_JOB, "parallelism"), most=(*_JOB, "completions")),
            ),
            depends_on=("dependsOn",),
        ),
    ),
    ended_by=("Completed", "Failed"),
    # Its webhook pins the pods of a Job to where its first one was bound, which need not be where they have seats.
    places_itself={
        "alpha.jobset.sigs.k8s.io/exclusive-topology": (
            f"none; {names.PARTITIONS}: PODS=LEVEL on the pod template keeps the pods of each Job in one domain"
        )
    },
    told_progress=ToldProgress(at=("status", "replicatedJobsStatus"), each=Each.ELEMENT, of_jobs=True),
    suspended_with=(TRAIN_JOBS,),
    controllers=("jobset.sigs.k8s.io/jobset-controller",),
)
