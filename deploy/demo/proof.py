"""What the watch of all pods and the API server's own log prove about a gang."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deploy.demo.cast import Role, gpus_of
from deploy.local.history import Moment
from queues.errors import MusterError

_ENDED: Final = ("Succeeded", "Failed")
_WRITES: Final = ("create", "update", "patch", "delete")


class GangTorn(MusterError):
    """{gang}: pod {pod} was bound to {node} when only {free} of the {needed} GPUs that the gang has there were
    free. Its seats were not all there."""


class GangIncomplete(MusterError):
    """{gang}: {bound} of its {pods} pods were ever bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """That a gang got its seats together."""

    pods: int
    #: Seconds between the moment when its last seat was free, its pods there, and its first bound pod.
    delay: float
    #: Seconds between its first bound pod and its last one.
    spread: float
    #: Watch events that were looked at.
    events: int


def whole(role: Role, moments: Sequence[Moment], gpus_per_node: int) -> Proof:
    """Every seat of the gang was free when its first pod was bound. Raises GangTorn, GangIncomplete."""
    own = [moment for moment in moments if moment.node and role.owns(moment.name)]
    seats = {moment.name: (moment.node or "", gpus_of(moment.pod)) for moment in own}
    if len(seats) < role.pods:
        raise GangIncomplete(gang=role.key, bound=len(seats), pods=role.pods)
    first = own[0]
    before = moments[: moments.index(first)]
    taken, freed = _used(before, role)
    needed: Counter[str] = Counter()
    for node, gpus in seats.values():
        needed[node] += gpus
    for node, gpus in needed.items():
        if (free := gpus_per_node - taken[node]) < gpus:
            raise GangTorn(gang=role.key, pod=first.name, node=node, free=free, needed=gpus)
    ready = [freed[node] for node in needed if node in freed]
    if role.kind == "podgroup":  # others make its pods
        ready += [moment.at for moment in before if moment.kind == "ADDED" and role.owns(moment.name)]
    bound = {moment.name: moment.at for moment in reversed(own)}
    return Proof(
        pods=len(seats),
        delay=first.at - max(ready, default=first.at),
        spread=max(bound.values()) - first.at,
        events=len(moments),
    )


def _used(moments: Sequence[Moment], role: Role) -> tuple[Counter[str], dict[str, float]]:
    """After these moments: GPUs that others use on each node, and when each node was last given some back."""
    holding: dict[str, tuple[str, int]] = {}
    freed: dict[str, float] = {}
    for moment in moments:
        if moment.kind == "DELETED" or moment.phase in _ENDED:
            node, gpus = holding.pop(moment.name, ("", 0))
            if gpus:
                freed[node] = moment.at
        elif moment.node and not role.owns(moment.name):
            holding[moment.name] = (moment.node, gpus_of(moment.pod))
    taken: Counter[str] = Counter()
    for node, gpus in holding.values():
        taken[node] += gpus
    return taken, freed


def writes(audit_log: Path, user: str) -> Mapping[tuple[str, str, str], int]:
    """How often a user wrote: by (namespace, name, resource with its subresource)."""
    counted: Counter[tuple[str, str, str]] = Counter()
    with audit_log.open(encoding="utf-8") as lines:
        for line in lines:
            if not line.endswith("\n"):
                break  # being written
            event = json.loads(line)
            if event["verb"] not in _WRITES or event["user"]["username"] != user:
                continue
            what = event.get("objectRef", {})
            resource = "/".join(part for part in (what.get("resource"), what.get("subresource")) if part)
            counted[what.get("namespace", ""), what.get("name", ""), resource] += 1
    return counted


def writes_for(role: Role, counted: Mapping[tuple[str, str, str], int]) -> Counter[str]:
    """Those that concern one workload, by resource."""
    mine: Counter[str] = Counter()
    for (namespace, name, resource), times in counted.items():
        if namespace == role.namespace and (
            name == role.name or name.startswith((f"{role.name}-", f"{role.name}."))
        ):
            mine[resource] += times
    return mine
