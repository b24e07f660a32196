"""A ResourceQuota of Kubernetes: what the pods of one namespace may ask together, and what they ask now.

The API server refuses the pod that would exceed it, one by one. Here it is asked about the pods of a gang together.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

from queues.resources import DEVICE_MARK, NOTHING, WHOLE, Resources, is_device, show


class QuotaLimit(NamedTuple):
    """One line of a ResourceQuota."""

    #: As it is written there: ``requests.nvidia.com/gpu``.
    name: str
    #: The resource that it limits; the amounts are in its units.
    resource: str
    hard: int
    #: By the pods that there are.
    used: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceQuota:
    """A ResourceQuota that counts every pod of its namespace."""

    namespace: str
    name: str
    limits: tuple[QuotaLimit, ...]

    def allows(self) -> dict[str, int]:
        """The amount of each line."""
        return {limit.name: limit.hard for limit in self.limits}

    def with_used(self, seen: Resources) -> Self:
        """The same quota, with at least this used."""
        limits = tuple(each._replace(used=max(each.used, seen[each.resource])) for each in self.limits)
        return replace(self, limits=limits)

    def lacks(self, asked: Resources, promised: Resources = NOTHING) -> str:
        """Why pods that ask this together would not all be made, as found and expected; "": they would.

        ``promised``: to other pods that are about to be made.
        """
        for limit in self.limits:
            others, needed = promised[limit.resource], asked[limit.resource]
            left = max(0, limit.hard - limit.used - others)
            if needed > left:
                hard, used, beside, found, expected = (
                    show(limit.resource, units) for units in (limit.hard, limit.used, others, left, needed)
                )
                about = f", {beside} for pods that are about to be made" if others else ""
                return (
                    f"ResourceQuota {self.name} of namespace {self.namespace}: found room for {found} {limit.name} "
                    f"({hard} hard, {used} used{about}), expected {expected}"
                )
        return ""


def first_excess(quotas: Iterable[NamespaceQuota], asked: Resources) -> str:
    """How pods that ask this together are more than one of these ResourceQuotas ever allows; "": they are not."""
    for quota in quotas:
        for limit in quota.limits:
            if (needed := asked[limit.resource]) > limit.hard:
                found, most = show(limit.resource, needed), show(limit.resource, limit.hard)
                return (
                    f"{found} {limit.name} asked by the pods that have to start together, ResourceQuota {quota.name} "
                    f"of namespace {quota.namespace} allows {most}"
                )
    return ""


def first_lack(quotas: Iterable[NamespaceQuota], asked: Resources, promised: Resources = NOTHING) -> str:
    """What the first of these ResourceQuotas lacks (``NamespaceQuota.lacks``); "": none lacks anything."""
    return next(filter(None, (each.lacks(asked, promised) for each in quotas)), "")


def requests_together(pods: Mapping[Resources, int], at_least: int | None = None) -> Resources:
    """What pods ask together of what ResourceQuotas count; parts of devices are no requests of a pod.

    ``pods``: their number by what one takes. ``at_least``: so many of them only, the smallest; None for all.
    """
    counted = [(_counted(takes), count) for takes, count in pods.items()]
    names = {name for takes, _ in counted for name in takes}
    many = sum(pods.values()) if at_least is None else at_least
    return Resources(
        {
            name: _sum_of_smallest(((takes.get(name, 0), count) for takes, count in counted), many)
            for name in names
        }
    )


def _sum_of_smallest(amounts: Iterable[tuple[int, int]], many: int) -> int:
    total = 0
    for units, count in sorted(amounts):
        taken = min(count, many)
        total, many = total + taken * units, many - taken
    return total


def _counted(takes: Resources) -> Mapping[str, int]:
    # Parts of devices are asked for by other names; whole devices that were chosen by number are not.
    parts = {name.partition(DEVICE_MARK)[0] for name in takes if is_device(name) and takes[name] % WHOLE}
    return {name: units for name, units in takes.items() if not is_device(name) and name not in parts}
