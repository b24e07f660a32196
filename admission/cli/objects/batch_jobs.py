"""Jobs of batch/v1 where a command for Volcano Jobs is given their name: `kubectl muster jobs` lists both."""

from typing import Any, Final, Literal

from admission.cli.access.objects import ClusterRoute, Refused, path_of, send
from admission.cli.failures import CommandFailed
from queues.api.api_resources import JOBS, VOLCANO_JOBS, ApiResource
from queues.api.names import JOB_NAME

NOT_FOUND: Final = 404
#: Label of the pods of a Job, by which its controller knows them.
POD_LABELS: Final = {VOLCANO_JOBS: JOB_NAME, JOBS: "batch.kubernetes.io/job-name"}


def send_for_job(
    route: ClusterRoute,
    method: Literal["GET", "DELETE"],
    namespace: str,
    name: str,
    *,
    tried: str,
    **query: str,
) -> tuple[ApiResource, Any]:
    """The kind of the Job, a Volcano Job before one of batch/v1, and the answer. Raises CommandFailed."""
    try:
        return VOLCANO_JOBS, send(route, method, path_of(VOLCANO_JOBS, namespace, name), tried=tried, **query)
    except Refused as refused:
        if refused.status != NOT_FOUND:
            raise
    try:
        return JOBS, send(route, method, path_of(JOBS, namespace, name), tried=tried, **query)
    except Refused as refused:
        if refused.status != NOT_FOUND:
            raise
    raise CommandFailed(
        tried=tried,
        found=f"there is no Volcano Job and no Job of batch/v1 {name} in namespace {namespace}",
        hint="Other kinds that `kubectl muster jobs` lists are changed by kubectl, with the KIND that it shows.",
    )


def is_batch_job(route: ClusterRoute, namespace: str, name: str) -> bool:
    """Whether there is a Job of batch/v1 of that name that the user may read."""
    try:
        send(route, "GET", path_of(JOBS, namespace, name), tried=f"Looking for job {name}")
    except Refused:
        return False
    return True


def not_stopped(namespace: str, name: str) -> CommandFailed:
    """Why a Job of batch/v1 is neither suspended nor resumed for its user."""
    return CommandFailed(
        tried="",
        found=f"job {name} is a Job of batch/v1, and not of Volcano: Muster itself suspends it while it waits, and "
        "resumes it when there is room (spec.suspend)",
        hint=f"`kubectl muster job delete {name} -n {namespace}` takes its pods away; make it again when it shall run.",
    )
