"""Limits of users, gangs and run times in a Queue's document (``spec.access``), and its budget, as plain JSON.

Works on whatever is in it, and without the models of ``queues.api.types``, as ``quota_document`` does.
"""

from collections.abc import Mapping
from typing import Any, Final

from queues.api.quota.quota_document import Spec, merged, shown_amount, shown_value
from queues.json_values import mapping_at

#: Limits that are one value. ``maxPerUser`` has one for each resource.
PLAIN_LIMITS: Final = ("maxRunTime", "maxGang", "maxPending", "maxPendingPerUser")
PER_USER: Final = "maxPerUser"
#: Fields of a budget.
BUDGET_HOURS: Final = "budget.hours"
WHEN_SPENT: Final = "budget.whenSpent"

#: What a change makes of limits, by field as ``field_of`` names it; None removes one.
AccessChanges = Mapping[str, str | int | None]


def field_of(limit: str, resource: str = "") -> str:
    """``access.maxGang``, ``access.maxPerUser[nvidia.com/gpu]``: as the history of a queue names them."""
    return f"access.{limit}[{resource}]" if resource else f"access.{limit}"


def access_limits_of(spec: Spec) -> dict[str, str]:
    """The limits that a spec states, by field, as they are written; amounts in their usual form."""
    access = mapping_at(spec, "access")
    found = {
        field_of(name): shown_value(access[name]) for name in PLAIN_LIMITS if access.get(name) is not None
    }
    for resource, text in sorted(mapping_at(access, PER_USER).items()):
        found[field_of(PER_USER, str(resource))] = shown_amount(str(resource), text)
    return found


def budget_of(spec: Spec) -> dict[str, str]:
    """The budget that a spec states, by field."""
    found = {
        f"{BUDGET_HOURS}[{resource}]": shown_amount(str(resource), text)
        for resource, text in sorted(mapping_at(spec, "budget", "hours").items())
    }
    when = mapping_at(spec, "budget").get("whenSpent")
    return found if when is None else {**found, WHEN_SPENT: shown_value(when)}


def access_patch(spec: Spec, changes: AccessChanges) -> dict[str, Any]:
    """A merge patch of a spec that makes these changes. A budget without hours is removed."""
    patch: dict[str, Any] = {}
    for field, value in changes.items():
        part, _, limit = field.partition(".")
        name, _, rest = limit.partition("[")
        stated = patch.setdefault(part, {})
        if rest:
            stated.setdefault(name, {})[rest.removesuffix("]")] = value
        else:
            stated[name] = value
    if "budget" in patch and not mapping_at(merged(spec, patch), "budget", "hours"):
        patch["budget"] = None
    return patch
