"""Pods are evicted by the Eviction API: the API server asks PodDisruptionBudgets in the same step as it deletes."""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from admission.kube.client.client import Client
from queues.errors import ApiError, ApiUnavailable, EvictionRefused
from queues.reason_codes import ReasonCode

#: What the API server says of a pod that more than one budget selects; the status is that of an internal error.
_SEVERAL_BUDGETS: Final = "more than one PodDisruptionBudget"


async def evict(
    client: Client,
    path: str,
    *,
    uid: str,
    resource_version: str | None = None,
    check_lease: Callable[[], None],
) -> None:
    """Evict a pod; ``path`` is its own. Raises EvictionRefused while a budget does not allow it, and ApiError.

    A pod that several budgets select is deleted instead: the Eviction API refuses it whatever they allow, and they were
    counted, each of them, when its workload was chosen.
    """
    name = path.rpartition("/")[2]
    preconditions = {
        "uid": uid,
        **({} if resource_version is None else {"resourceVersion": resource_version}),
    }
    body: dict[str, Any] = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name},
        "deleteOptions": {"preconditions": preconditions},
    }
    try:
        await client.create(f"{path}/eviction", msgspec.json.encode(body), check_lease=check_lease)
    except EvictionRefused as error:
        reason = f"pod {name} is not evicted: {error.facts.get('reason')}"
        raise EvictionRefused(**{**error.facts, "reason": reason}) from error
    except ApiUnavailable as error:
        if _SEVERAL_BUDGETS not in str(error.facts.get("reason")):
            raise
        await client.delete(path, uid=uid, resource_version=resource_version, check_lease=check_lease)


def code_of(error: ApiError, otherwise: ReasonCode) -> ReasonCode:
    """The code of a reason about a pod that was not removed: a budget keeps it, or what the writer says otherwise."""
    return ReasonCode.EVICTION_REFUSED if isinstance(error, EvictionRefused) else otherwise
