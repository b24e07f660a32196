"""Pods that wait one by one under the same owner, as one line: ``deployment/web (12 pods)``."""

from collections.abc import Sequence

from msgspec import structs

from admission.read_api.bodies import ReasonBody, WaitingBody


def together(items: Sequence[WaitingBody]) -> list[WaitingBody]:
    """The items of a PendingList, with those of one owner in one queue in place of the first of them.

    That line has the position, the priority and the reason of the first, the pods and the requests of all, and the age
    of the oldest. Where they wait for different reasons, its message counts those with another code.
    """
    found: dict[tuple[str, ...], list[WaitingBody]] = {}
    for item in items:
        owner = item.owner
        key = (item.uid,) if owner is None else (item.queue, item.namespace, owner.kind, owner.name)
        found.setdefault(key, []).append(item)
    return [_line(each) if len(each) > 1 else each[0] for each in found.values()]


def _line(items: Sequence[WaitingBody]) -> WaitingBody:
    first = items[0]
    owner = first.owner
    pods = sum(item.pods for item in items)
    assert owner is not None, "of several workloads"
    return structs.replace(
        first,
        kind=owner.kind,
        name=f"{owner.name} ({pods} pods)",
        pods=pods,
        asks=_sum(items),
        created=min((item.created for item in items if item.created), default=None),
        reason=_reason(items),
    )


def _sum(items: Sequence[WaitingBody]) -> dict[str, str]:
    from queues.resources import amount, show

    units: dict[str, int] = {}
    for item in items:
        for resource, text in item.asks.items():
            units[resource] = units.get(resource, 0) + amount(resource, text)
    return {resource: show(resource, found) for resource, found in units.items()}


def _reason(items: Sequence[WaitingBody]) -> ReasonBody | None:
    reason = items[0].reason
    if reason is None:
        return None
    others = sum(item.reason is None or item.reason.code != reason.code for item in items)
    if not others:
        return reason
    waits = "1 pod waits" if others == 1 else f"{others} pods wait"
    return structs.replace(reason, message=f"{reason.message} ({waits} for another reason)")
