"""What Kubernetes counts of pods in a ResourceQuota (PodUsageFunc), as Volcano's minResources say it.

Volcano writes each resource by its plain name too, so that its queues and a ResourceQuota read the same map.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

from queues.api.reading.pod_requests import requests_of
from queues.api.reading.user_values import MOST_RESOURCES
from queues.api.types.pod import WireAmounts, WireContainer, WirePodSpec
from queues.resources import MOST, NOTHING, PODS, Resources, in_bytes, show

#: The resources whose limits a ResourceQuota counts.
_LIMITED: Final = ("cpu", "memory", "ephemeral-storage")
#: The most that is written of anything in bytes: names such as ``requests.memory`` are read in thousandths.
_PEBIBYTE: Final = 2**50


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaUsage:
    """What pods use of ResourceQuotas, in the units of queues.resources."""

    #: With their number, as ``pods``.
    requests: Resources = NOTHING
    limits: Resources = NOTHING

    @classmethod
    def of(cls, spec: WirePodSpec) -> Self:
        """Of one pod. Raises InvalidQuantity."""
        return cls(requests=requests_of(spec), limits=_limits_of(spec))

    def __add__(self, other: Self) -> "QuotaUsage":
        return QuotaUsage(requests=self.requests + other.requests, limits=self.limits + other.limits)

    def times(self, pods: int) -> "QuotaUsage":
        """Of so many pods like these."""
        return QuotaUsage(requests=self.requests * pods, limits=self.limits * pods)

    def quantities(self) -> dict[str, str]:
        """As minResources of a PodGroup: by plain names, ``requests.*``, ``limits.*``, ``pods`` and ``count/pods``.

        Plain names only where all of them are more than a PodGroup may have. Amounts beyond any cluster count as what
        may be stated at most. Empty: no pods.
        """
        plain = {name: _text(name, units) for name, units in self.requests.items()}
        if not plain:
            return {}
        counted = {f"requests.{name}": text for name, text in plain.items() if name != PODS}
        limited = {
            f"limits.{name}": _text(name, units) for name, units in self.limits.items() if name in _LIMITED
        }
        every = plain | counted | limited | {"count/pods": plain[PODS]}
        return dict(sorted((every if len(every) <= MOST_RESOURCES else plain).items()))


def _text(resource: str, units: int) -> str:
    return show(resource, min(units, _PEBIBYTE if in_bytes(resource) else MOST))


def _limits_of(spec: WirePodSpec) -> Resources:
    # Limits are added up by the rules of requests.
    as_requests = WirePodSpec(
        containers=_with_limits(spec.containers),
        init_containers=_with_limits(spec.init_containers or ()),
        resources=WireAmounts(requests=spec.resources.limits) if spec.resources is not None else None,
    )
    limits = requests_of(as_requests)
    # What the sandbox takes besides its containers counts where there is a limit.
    overhead = Resources.parse(spec.overhead or {})
    more = {name: units for name, units in overhead.items() if limits[name]}
    return Resources({name: units for name, units in (limits + Resources(more)).items() if name != PODS})


def _with_limits(containers: Iterable[WireContainer]) -> tuple[WireContainer, ...]:
    return tuple(
        WireContainer(
            resources=WireAmounts(requests=each.resources.limits if each.resources is not None else None),
            restart_policy=each.restart_policy,
        )
        for each in containers
    )
