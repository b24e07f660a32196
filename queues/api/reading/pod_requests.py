"""Requests of a pod, by the core API's rules (k8s.io/component-helpers/resource PodRequests)."""

# ruff: noqa: D102 - fields of a protocol are the core API's

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from queues.resources import BEYOND_NODES, PODS, Resources, request


class PodSpecFields(Protocol):
    """The fields of a pod spec that are read here, of any decoding that has them by these names."""

    @property
    def containers(self) -> Sequence[Any]: ...
    @property
    def init_containers(self) -> Sequence[Any] | None: ...
    @property
    def resources(self) -> Any: ...
    @property
    def overhead(self) -> Mapping[str, str | int | float] | None: ...
    @property
    def node_selector(self) -> Mapping[str, str] | None: ...
    @property
    def affinity(self) -> Any: ...
    @property
    def tolerations(self) -> Sequence[Any] | None: ...


def requests_of(spec: PodSpecFields) -> Resources:
    """Requests of one pod, ``pods: 1`` included, in the units of queues.resources.

    The larger of (containers and sidecars together) and (each init container with the sidecars before it);
    for cpu, memory and huge pages the pod's own requests instead, where it has any; plus overhead. A limit
    without a request is the request. Amounts above BEYOND_NODES count as that. Raises InvalidQuantity.
    """
    sums: dict[str, int] = {}
    for container in spec.containers:
        _add(sums, _requests(container))
    if spec.init_containers:
        sums = _with_init_containers(sums, spec.init_containers)
    if spec.resources is not None:
        _prefer_pod_level(sums, spec.resources)
    if spec.overhead:
        _add(sums, {name: request(name, text) for name, text in spec.overhead.items()})
    sums[PODS] = 1
    if max(sums.values()) > BEYOND_NODES:
        sums = {name: min(units, BEYOND_NODES) for name, units in sums.items()}
    return Resources(sums)


def _requests(container: Any) -> dict[str, int]:
    resources = container.resources
    if resources is None:
        return {}
    requests = resources.requests or {}
    amounts = {name: request(name, text) for name, text in requests.items()}
    for name, text in (resources.limits or {}).items():
        if name not in amounts:
            amounts[name] = request(name, text)
    return amounts


def _add(sums: dict[str, int], more: Mapping[str, int]) -> None:
    for name, units in more.items():
        sums[name] = sums.get(name, 0) + units


def _with_init_containers(sums: dict[str, int], init_containers: Sequence[Any]) -> dict[str, int]:
    sidecars: dict[str, int] = {}
    highest: dict[str, int] = {}
    for container in init_containers:
        amounts = _requests(container)
        if container.restart_policy == "Always":
            _add(sidecars, amounts)
            continue
        for name in amounts.keys() | sidecars.keys():
            during = amounts.get(name, 0) + sidecars.get(name, 0)
            highest[name] = max(highest.get(name, 0), during)
    _add(sums, sidecars)
    return {name: max(sums.get(name, 0), highest.get(name, 0)) for name in sums.keys() | highest.keys()}


def _prefer_pod_level(sums: dict[str, int], resources: Any) -> None:
    requests = resources.requests or {}
    for name, text in requests.items():
        if _pod_level(name):
            sums[name] = request(name, text)
    for name, text in (resources.limits or {}).items():
        # A pod-level limit is the request if neither the pod nor a container has one. Huge pages cannot be
        # overcommitted: their pod-level limit is always the request.
        if name not in requests and _pod_level(name) and (name not in sums or name.startswith("hugepages-")):
            sums[name] = request(name, text)


def _pod_level(resource: str) -> bool:
    return resource in ("cpu", "memory") or resource.startswith("hugepages-")
