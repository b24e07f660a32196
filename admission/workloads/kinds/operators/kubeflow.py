"""Kinds of Kubeflow with replicas by role: MPIJob, PyTorchJob, TFJob, XGBoostJob, PaddleJob, JAXJob. Pure."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from admission.workloads.kinds.operators.json_parts import Path
from admission.workloads.kinds.operators.support import (
    Count,
    Each,
    OperatorKind,
    Templates,
    ToldProgress,
)
from queues.api.api_resources import (
    JAX_JOBS,
    MPI_JOBS,
    PADDLE_JOBS,
    PYTORCH_JOBS,
    TF_JOBS,
    XGBOOST_JOBS,
    ApiResource,
)
from queues.workload import WorkloadKind

#: What spec.runPolicy.managedBy says of objects that their operators look after: that of most, and of MPIJobs.
_CONTROLLERS: Final = ("kubeflow.org/training-operator", "kubeflow.org/mpi-operator")


#: What is handed on to another scheduler.
_POLICY: Final = ("spec", "runPolicy", "schedulingPolicy")
#: Of the kinds that may begin with fewer workers.
_ELASTIC: Final[Mapping[Path, str]] = {("spec", "elasticPolicy", "minReplicas"): "worker"}


def _kind(
    kind: WorkloadKind,
    resource: ApiResource,
    replicas: str,
    fewer_pods: Mapping[Path, str] = MappingProxyType({}),
) -> OperatorKind:
    """A kind with its replicas in this field of its spec. ``fewer_pods``: as of ``OperatorKind``."""
    return OperatorKind(
        kind=kind,
        resource=resource,
        suspend=("spec", "runPolicy", "suspend"),
        templates=(
            Templates(
                at=("spec", replicas),
                each=Each.ENTRY,
                template=("template",),
                counts=(Count(at=("replicas",)),),
            ),
        ),
        ended_by=("Succeeded", "Failed"),
        # Their operator deletes all pods of a suspended object, and makes all of them again.
        told_progress=ToldProgress(
            at=("status", "replicaStatuses"), each=Each.ENTRY, ready="active", stale_while_suspended=True
        ),
        controllers=_CONTROLLERS,
        priority_class=(*_POLICY, "priorityClass"),
        fewer_pods={(*_POLICY, "minAvailable"): "", **fewer_pods},
        other_queue=(*_POLICY, "queue"),
    )


MPI_JOB = _kind(WorkloadKind.MPI_JOB, MPI_JOBS, "mpiReplicaSpecs")
PYTORCH_JOB = _kind(WorkloadKind.PYTORCH_JOB, PYTORCH_JOBS, "pytorchReplicaSpecs", _ELASTIC)
TF_JOB = _kind(WorkloadKind.TF_JOB, TF_JOBS, "tfReplicaSpecs")
XGBOOST_JOB = _kind(WorkloadKind.XGBOOST_JOB, XGBOOST_JOBS, "xgbReplicaSpecs")
PADDLE_JOB = _kind(WorkloadKind.PADDLE_JOB, PADDLE_JOBS, "paddleReplicaSpecs", _ELASTIC)
JAX_JOB = _kind(WorkloadKind.JAX_JOB, JAX_JOBS, "jaxReplicaSpecs")

KUBEFLOW = (MPI_JOB, PYTORCH_JOB, TF_JOB, XGBOOST_JOB, PADDLE_JOB, JAX_JOB)
