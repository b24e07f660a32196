"""The kinds of other projects that wait by a field that suspends them: one description each, one registry. Pure."""

from typing import Final

from admission.workloads.kinds.operators.job_set import JOB_SET
from admission.workloads.kinds.operators.kubeflow import KUBEFLOW
from admission.workloads.kinds.operators.ray import RAY_CLUSTER, RAY_JOB
from admission.workloads.kinds.operators.spark import SPARK_APPLICATION
from admission.workloads.kinds.operators.support import OperatorKind

OPERATOR_KINDS: Final[tuple[OperatorKind, ...]] = (
    JOB_SET,
    *KUBEFLOW,
    RAY_CLUSTER,
    RAY_JOB,
    SPARK_APPLICATION,
)

__all__ = ["OPERATOR_KINDS", "OperatorKind"]
