"""RayClusters and RayJobs (ray.io/v1): a head and groups of workers, and what is submitted to them. Pure."""

from typing import Final

from admission.workloads.kinds.operators.json_parts import Path
from admission.workloads.kinds.operators.support import Count, Each, OperatorKind, SuspendRule, Templates
from queues.api.api_resources import RAY_CLUSTERS, RAY_JOBS
from queues.workload import WorkloadKind

#: What spec.managedBy says of objects that KubeRay looks after.
_CONTROLLERS: Final = ("ray.io/kuberay-operator",)


def _cluster(at: Path) -> tuple[Templates, ...]:
    """The pods of a cluster whose spec is at a place."""
    return (
        Templates(at=(*at, "headGroupSpec"), template=("template",), name="head"),
        Templates(
            at=(*at, "workerGroupSpecs"),
            each=Each.ELEMENT,
            template=("template",),
            named_by="groupName",
            # As KubeRay makes them: between the bounds, and none of a group that is suspended by itself.
            counts=(
                Count(
                    at=("replicas",),
                    least=("minReplicas",),
                    most=("maxReplicas",),
                    off=("suspend",),
                    default=0,
                ),
                Count(at=("numOfHosts",)),
            ),
        ),
    )


#: A RayCluster of a RayJob waits and runs with it.
RAY_CLUSTER = OperatorKind(
    kind=WorkloadKind.RAY_CLUSTER,
    resource=RAY_CLUSTERS,
    templates=_cluster(("spec",)),
    made_by=(RAY_JOBS,),
    controllers=_CONTROLLERS,
)

RAY_JOB = OperatorKind(
    kind=WorkloadKind.RAY_JOB,
    resource=RAY_JOBS,
    templates=(
        *_cluster(("spec", "rayClusterSpec")),
        # The pod that submits the job asks for little; a template of the user's own waits with the others.
        Templates(
            at=("spec", "submitterPodTemplate"),
            template=(),
            name="submitter",
            needed=False,
            made_if=(("spec", "submissionMode"), frozenset({"", "K8sJobMode"})),
        ),
    ),
    # jobStatus says FAILED of a try after which KubeRay tries again.
    ended_at=((("status", "jobDeploymentStatus"), frozenset({"Complete", "Failed"})),),
    controllers=_CONTROLLERS,
    # KubeRay fails a RayJob for good that is suspended and does not keep these.
    suspend_rules=(
        SuspendRule(
            at=("spec", "shutdownAfterJobFinishes"),
            is_set=True,
            found="false",
            expected="true: a RayJob is suspended while it waits, which KubeRay refuses without it",
        ),
        SuspendRule(
            at=("spec", "clusterSelector"),
            is_set=False,
            found="a selector",
            expected="none: a RayJob is suspended while it waits, which KubeRay refuses for the cluster of another"
            " object. Put the queue on the RayCluster, and none on the RayJob",
        ),
    ),
)
