"""Jobs of batch/v1 where a command for Volcano Jobs is given their name: `kubectl muster jobs` lists both."""

from typing import Any, Final, Literal

from admission.cli.access.objects import ClusterRoute, Refused, path_of, send
from admission.cli.failures import CommandFailed
from queues.api.api_resources import JOBS, VOLCANO_JOBS, ApiResource
from queues.api.names import HOLD, JOB_NAME

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


def hold(route: ClusterRoute, namespace: str, name: str, *, held: bool, tried: str) -> bool:
    """Have Muster suspend a Job of batch/v1 for its owner, or have it wait again; whether there is one of that name.
    Raises CommandFailed."""
    annotations = {HOLD: "true" if held else "false"}
    body = {"metadata": {"annotations": annotations}}
    try:
        send(route, "PATCH", path_of(JOBS, namespace, name), body, tried=tried)
    except Refused as refused:
        if refused.status != NOT_FOUND:
            raise
        return False
    return True
