"""What answers of the API server mean when they are no, and which requests may be tried again."""

import random
from typing import Any, Final, NoReturn

import aiohttp
import msgspec

from queues.errors import (
    ApiError,
    ApiRefused,
    ApiUnavailable,
    Conflict,
    EvictionRefused,
    Gone,
    NotFound,
    TooManyRequests,
)


class _StatusCause(msgspec.Struct, gc=False):
    reason: str = ""
    message: str = ""


class _StatusDetails(msgspec.Struct, gc=False):
    retryAfterSeconds: int = 0  # noqa: N815
    causes: tuple[_StatusCause, ...] | None = None


class _Status(msgspec.Struct, gc=False):
    """What the API server says when it refuses: metav1.Status."""

    message: str = ""
    reason: str = ""
    details: _StatusDetails | None = None


#: Cause of a 429 that is no congestion: it names the budget.
_DISRUPTION_BUDGET: Final = "DisruptionBudget"

_STATUS: Final = msgspec.json.Decoder(_Status)


def pause_before_retry(method: str, path: str, error: ApiError, bound: float) -> float | None:
    """Seconds to wait before the next attempt. None if there should be none."""
    pause = random.uniform(0, bound)
    if isinstance(error, TooManyRequests):
        if path.endswith("/eviction"):
            return None  # a disruption budget refuses the eviction; that is an answer, not congestion
        return pause + float(error.facts.get("retry_after") or 0)
    if isinstance(error, ApiUnavailable) and (method == "GET" or error.facts.get("unsent")):
        return pause
    return None


def refuse(method: str, path: str, answer: aiohttp.ClientResponse, content: bytes) -> NoReturn:
    """Raise what an answer ≥ 400 means."""
    try:
        status = _STATUS.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        status = _Status(message=content[:200].decode(errors="replace").strip())
    facts: dict[str, Any] = {
        "method": method,
        "path": path,
        "status": answer.status,
        "reason": status.message or answer.reason or "no reason given",
        #: metav1.StatusReason: AlreadyExists and Conflict are both 409.
        "code": status.reason,
    }
    known: dict[int, type[ApiError]] = {404: NotFound, 409: Conflict, 410: Gone, 429: TooManyRequests}
    if answer.status == 429:
        after = answer.headers.get("Retry-After", "")
        facts["retry_after"] = (
            int(after) if after.isdigit() else status.details and status.details.retryAfterSeconds
        )
        causes = (status.details.causes if status.details is not None else None) or ()
        if budget := next((each.message for each in causes if each.reason == _DISRUPTION_BUDGET), ""):
            raise EvictionRefused(**{**facts, "reason": budget})
    if answer.status in known:
        raise known[answer.status](**facts)
    raise (ApiUnavailable if answer.status >= 500 else ApiRefused)(**facts)


#: The message for a JSON patch that cannot be applied to the object; it does not say what is wrong.
_DOES_NOT_APPLY: Final = "the server rejected our request due to an error in our request"


def does_not_apply(error: ApiRefused) -> bool:
    """Whether a JSON patch was refused because a test in it failed, or because a path of it is not there.

    An object that would be invalid after the patch is refused with the same code, and with the field that is wrong.
    """
    return error.facts.get("status") == 422 and _DOES_NOT_APPLY in str(error.facts.get("reason"))


#: How the refusal of a built-in object begins to name the uid in a patch, where that is not its own.
_OTHER_UID: Final = "metadata.uid: Invalid value"


def is_of_another_uid(error: ApiRefused) -> bool:
    """Whether a patch with a uid was refused because another object has the name by now. Kinds differ in that: for
    most of them it is a Conflict."""
    return error.facts.get("status") == 422 and _OTHER_UID in str(error.facts.get("reason"))


def unavailable(method: str, path: str, reason: str) -> ApiUnavailable:
    """There was no answer."""
    return ApiUnavailable(method=method, path=path, status=0, reason=reason)


def message_of(error: BaseException) -> str:
    """The message of a library's error; its class name if it has none."""
    return str(error) or type(error).__name__
