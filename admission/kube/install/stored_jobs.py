"""Jobs that were stored while no policy guarded them, and whose pods would pass the gate.

The guards ask about what is created and changed. The controller of Jobs is believed for pods that it copies from a
template with the label and the annotation of a released pod; no user can write such a template while the policies are
there, but one that is older than they are is copied whenever its Job goes on.
"""

from collections.abc import AsyncIterator
from typing import Any

from admission.kube.client.client import Client
from admission.kube.install.server_side_apply import Tell, items_of
from queues.api.api_resources import JOBS
from queues.api.names import ADMISSION_ID, QUEUE_LABEL, RELEASED


async def warn_of_stored_jobs(client: Client, tell: Tell) -> None:
    """A line for each such Job, with what to do. Raises ApiError."""
    async for name in _past_the_gate(client):
        tell(
            f"warning: job {name} has no queue, and its pod template has {RELEASED}=true and {ADMISSION_ID}: written "
            "before the policies were there. Its pods start without an admission. Delete it, or create it again."
        )


async def _past_the_gate(client: Client) -> AsyncIterator[str]:
    # A Job that Muster let go has a queue: Muster writes its template anew before it goes on.
    async for job in items_of(client, JOBS.path(), f"!{QUEUE_LABEL}"):
        template: dict[str, Any] = job["spec"]["template"].get("metadata") or {}
        released = (template.get("labels") or {}).get(RELEASED) == "true"
        if released and ADMISSION_ID in (template.get("annotations") or {}):
            yield f"{job['metadata']['namespace']}/{job['metadata']['name']}"
