"""Requests of a pod, by the core API's rules (k8s.io/component-helpers/resource PodRequests)."""

from collections.abc import Iterable, Mapping, Sequence
from heapq import nsmallest
from typing import Any, Final, NamedTuple

from queues.api.reading.user_values import MOST_RESOURCES
from queues.api.types.pod import WireAmounts, WireContainer, WirePodSpec
from queues.resources import BEYOND_NODES, PODS, Resources, request


class _InPlace(NamedTuple):
    """What a kubelet says about resources that can be changed in place: allocated and in effect, the larger of both."""

    containers: Mapping[str, Mapping[str, int]] = {}
    #: Of the whole pod; None if it states none.
    pod: Mapping[str, int] | None = None
    #: The node can never give what is asked now.
    infeasible: bool = False

    def effective(self, asked: Mapping[str, int], reported: Mapping[str, int] | None) -> Mapping[str, int]:
        """What counts: with what is asked, as long as the node may give it."""
        if reported is None:
            return asked
        if self.infeasible:
            return reported
        return {
            name: max(asked.get(name, 0), reported.get(name, 0)) for name in asked.keys() | reported.keys()
        }

    def of(self, container: WireContainer) -> Mapping[str, int]:
        """The same for a container."""
        return self.effective(
            _requests(container), self.containers.get(container.name) if self.containers else None
        )


_NEVER_RESIZED: Final = _InPlace()


def requests_of(spec: WirePodSpec, status: Any = None) -> Resources:
    """Requests of one pod, ``pods: 1`` included, in the units of queues.resources.

    The larger of (containers and sidecars together) and (each init container with the sidecars before it);
    for cpu, memory and huge pages the pod's own requests instead, where it has any; plus overhead. A limit
    without a request is the request. Amounts above BEYOND_NODES count as that. Ephemeral containers have none.

    ``status``: of a pod that a kubelet has; of each resource the largest of what is asked, allocated and in
    effect counts then, as it does for kube-scheduler (KEP-1287). Raises InvalidQuantity.
    """
    in_place = _NEVER_RESIZED if status is None else _in_place(status)
    sums: dict[str, int] = {}
    for container in spec.containers:
        _add(sums, in_place.of(container))
    if spec.init_containers:
        sums = _with_init_containers(sums, spec.init_containers, in_place)
    if spec.resources is not None:
        _prefer_pod_level(sums, spec.resources, in_place)
    if spec.overhead:
        _add(sums, {name: request(name, text) for name, text in _first(spec.overhead)})
    sums[PODS] = 1
    if max(sums.values()) > BEYOND_NODES:
        sums = {name: min(units, BEYOND_NODES) for name, units in sums.items()}
    return Resources(sums)


def _requests(container: WireContainer) -> dict[str, int]:
    resources = container.resources
    if resources is None:
        return {}
    amounts = {name: request(name, text) for name, text in _first(resources.requests or {})}
    for name, text in _first(resources.limits or {}):
        if name not in amounts:
            amounts[name] = request(name, text)
    return amounts


def _first(amounts: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    """The amounts of a container; the first ones if there are more than can be used, which the caller refuses.

    Names without a prefix, such as cpu and memory, come first.
    """
    if len(amounts) <= MOST_RESOURCES:
        return amounts.items()
    return nsmallest(MOST_RESOURCES + 1, amounts.items(), key=lambda each: ("/" in each[0], each[0]))


def _in_place(status: Any) -> _InPlace:
    statuses = (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
    pending = next((each for each in status.conditions or () if each.type == "PodResizePending"), None)
    return _InPlace(
        containers={
            each.name: _reported(each.resources.requests, each.allocated_resources)
            for each in statuses
            if each.resources is not None
        },
        pod=None
        if status.resources is None
        else _reported(status.resources.requests, status.allocated_resources),
        infeasible=pending is not None and pending.reason == "Infeasible",
    )


def _reported(*amounts: Mapping[str, str | int | float] | None) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in amounts:
        for name, text in (each or {}).items():
            found[name] = max(found.get(name, 0), request(name, text))
    return found


def _add(sums: dict[str, int], more: Mapping[str, int]) -> None:
    for name, units in more.items():
        sums[name] = sums.get(name, 0) + units


def _with_init_containers(
    sums: dict[str, int], init_containers: Sequence[WireContainer], in_place: _InPlace
) -> dict[str, int]:
    sidecars: dict[str, int] = {}
    highest: dict[str, int] = {}
    before_last: dict[str, int] = {}
    last = max((at for at, each in enumerate(init_containers) if not _is_sidecar(each)), default=-1)
    for at, container in enumerate(init_containers):
        if _is_sidecar(container):
            _add(sidecars, in_place.of(container))
            continue
        for name, amount in _requests(container).items():
            highest[name] = max(highest.get(name, 0), amount + sidecars.get(name, 0))
        if at == last:
            # What an init container does not ask for is highest then, as sidecars become only more.
            before_last = dict(sidecars)
    for name, amount in before_last.items():
        highest[name] = max(highest.get(name, 0), amount)
    _add(sums, sidecars)
    return {name: max(sums.get(name, 0), highest.get(name, 0)) for name in sums.keys() | highest.keys()}


def _is_sidecar(container: WireContainer) -> bool:
    return container.restart_policy == "Always"


def _prefer_pod_level(sums: dict[str, int], resources: WireAmounts, in_place: _InPlace) -> None:
    asked = {name: request(name, text) for name, text in _first(resources.requests or {}) if _pod_level(name)}
    effective = in_place.effective(asked, in_place.pod)
    sums.update((name, effective.get(name, 0)) for name in asked)
    for name, text in _first(resources.limits or {}):
        # A pod-level limit is the request if neither the pod nor a container has one. Huge pages cannot be
        # overcommitted: their pod-level limit is always the request.
        if name not in asked and _pod_level(name) and (name not in sums or name.startswith("hugepages-")):
            sums[name] = request(name, text)


def _pod_level(resource: str) -> bool:
    return resource in ("cpu", "memory") or resource.startswith("hugepages-")
