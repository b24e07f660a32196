"""What the watch of all pods and the API server's own log prove about a gang."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
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
    taken = _taken(moments[: moments.index(first)], role.owns)
    needed: dict[str, int] = defaultdict(int)
    for node, gpus in seats.values():
        needed[node] += gpus
    for node, gpus in needed.items():
        if gpus_per_node - taken[node] < gpus:
            free = gpus_per_node - taken[node]
            raise GangTorn(gang=role.key, pod=first.name, node=first.node, free=free, needed=gpus)
    firsts = {moment.name: moment.at for moment in reversed(own)}
    return Proof(pods=len(seats), spread=max(firsts.values()) - min(firsts.values()), events=len(moments))


def _taken(moments: Sequence[Moment], mine: Callable[[str], bool]) -> Counter[str]:
    """GPUs in use on each node after these moments, without one's own."""
    holding: dict[str, tuple[str, int]] = {}
    for moment in moments:
        if moment.kind == "DELETED" or moment.phase in _ENDED or not moment.node:
            holding.pop(moment.name, None)
        elif not mine(moment.name):
            holding[moment.name] = (moment.node, gpus_of(moment.pod))
    taken: Counter[str] = Counter()
    for node, gpus in holding.values():
        taken[node] += gpus
    return taken


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
