"""What has to be written so that an object says what it should, given what it says already. Pure."""

from collections.abc import Mapping
from typing import Any

from admission.status import Condition, Document, StatusWanted, rfc3339, without_blanks


def settled(wanted: StatusWanted, before: Mapping[str, Any], now: int) -> Document:
    """The status to have, given what the object says: conditions and reasons whose code stays are kept whole."""
    after: Document = dict(wanted.fields)
    if "state" in before and isinstance(after.get("state"), Mapping):
        same = all(before["state"].get(key) == after["state"].get(key) for key in ("phase", "reason"))
        if same:
            after["state"] = before["state"]
    if "conditions" in wanted.fields:
        return after
    old = {one.get("type"): one for one in before.get("conditions") or ()}
    kept = [_condition(one, old.get(one.type), now, shared=wanted.shared) for one in wanted.conditions]
    conditions = [one for one in kept if one is not None]
    ours = {one.type for one in wanted.conditions}
    others = [one for name, one in old.items() if name not in ours]
    if conditions or others:
        after["conditions"] = conditions if wanted.shared else [*others, *conditions]
    return after


def _condition(
    wanted: Condition, before: Mapping[str, Any] | None, now: int, *, shared: bool
) -> Mapping[str, Any] | None:
    if before is None and wanted.quiet:
        return None
    same = before is not None and before.get("status") == wanted.status
    if before is not None and same and before.get("reason", "") == wanted.reason:
        return before
    after = without_blanks(
        {
            "type": wanted.type,
            "status": wanted.status,
            "reason": wanted.reason,
            "message": wanted.message,
            "lastTransitionTime": rfc3339(now),
        }
    )
    if shared and before is not None and before.get("message"):
        after["message"] = wanted.message  # merged field by field: what is not named stays
    return after


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> Document:
    """The JSON merge patch (RFC 7386) that makes one document of the other; {} if they are equal."""
    patch: Document = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            if inner := merge_patch(old, value):
                patch[key] = inner
        elif old != value:
            patch[key] = value
    return patch


def only_numbers(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether two statuses tell the same but for counts."""
    return all(before.get(key) == after.get(key) for key in ("phase", "state", "conditions"))
