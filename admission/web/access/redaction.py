"""Answers without the names of workloads that the user may not see: they stand in messages about other workloads."""

import re
from typing import Any, Final

from admission.reconcile.named_workloads import redacted as redacted_text
from admission.web.reader import Sight
from queues.reason_codes import ReasonCode

#: The field that names a workload by its uid.
_BY_UID: Final = "beneficiary"
#: The list of those who could take a workload's place, which names queues.
_TAKERS: Final = "takers"


def redacted(document: Any, sight: Sight) -> Any:
    """The JSON document with the names of workloads, and of queues of takers, that are out of sight replaced."""
    if sight.workloads is None:
        return document
    if isinstance(document, str):
        return redacted_text(document, sight.shows)
    if isinstance(document, list | tuple):
        return [redacted(each, sight) for each in document]
    if isinstance(document, dict):
        return {name: _field(name, value, sight) for name, value in document.items()}
    return document


def _field(name: str, value: Any, sight: Sight) -> Any:
    if name == _TAKERS:
        return [redacted(_without_queues(each, sight), sight) for each in value]
    return None if name == _BY_UID else redacted(value, sight)


def _without_queues(taker: dict[str, Any], sight: Sight) -> dict[str, Any]:
    """A taker (``TakerBody``) without the names of queues that are out of sight."""
    if taker.get("rule") == ReasonCode.PREEMPTED:
        return taker  # names the workload's own queue, which who sees the workload knows
    hidden = [name for name in taker["queues"] if not sight.shows_queue(name)]
    message = taker["message"]
    for name in hidden:
        message = re.sub(rf"\bqueue {re.escape(name)}(?![\w-])", "another queue", message)
    shown = [name for name in taker["queues"] if name not in hidden]
    return {**taker, "queues": shown, "message": message}
