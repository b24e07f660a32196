"""How many pods of a gang its own rules let into one domain of a node label, whatever else is there.

Anti-affinity towards pods of the gang's own, host ports, and spread constraints over fewer domains than they ask for
(``minDomains``). Other spread constraints are left out: pods of others can make room for them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from admission.engine.nodes.table import Amounts, Layout
from queues.workload import PodSet


class DomainCap(NamedTuple):
    """So many pods that are counted under one name may be in one domain of a node label."""

    #: "": each node is a domain.
    key: str
    #: The name of the selection of pods.
    name: str
    most: int
    #: Whether a node without the label takes such pods: it is in no domain.
    elsewhere: bool

    def text(self) -> str:
        """As a reason says it."""
        return f"at most {self.most} {f'in one {self.key}' if self.key else 'on one node'}"


def caps_of(layout: Layout, pods: PodSet) -> tuple[DomainCap, ...]:
    """What holds for the pods of one set among themselves."""
    rules, own = pods.rules, {port.ip for port in pods.counted}
    caps = [
        DomainCap(rule.key, rule.pods.name, 1, elsewhere=True)
        for rule in rules.apart
        if rule.pods.name in own
    ]
    for rule in rules.spread:
        is_short = (
            rule.required and rule.min_domains > 1 and layout.labels.domains(rule.key)[1] < rule.min_domains
        )
        if is_short and rule.pods.name in own:
            caps.append(DomainCap(rule.key, rule.pods.name, rule.max_skew, elsewhere=False))
    return tuple(caps)


def within_caps(layout: Layout, room: Amounts, caps: Sequence[DomainCap], level: str | None) -> int:
    """How many of (N,) pods per node there may be under each of the caps, in all or in the best domain of a level."""
    return min((_within(layout, room, cap, level) for cap in caps), default=layout.most_pods(room, level))


def shared_caps(
    layout: Layout, sets: Iterable[tuple[PodSet, int]]
) -> Mapping[DomainCap, list[tuple[PodSet, int]]]:
    """Caps that hold for the pods of several sets together."""
    found: dict[DomainCap, list[tuple[PodSet, int]]] = {}
    for pods, count in sets:
        of_ports = [DomainCap("", str(port), 1, elsewhere=False) for port in pods.ports]
        # A rule may be written twice.
        for cap in dict.fromkeys((*caps_of(layout, pods), *of_ports)):
            found.setdefault(cap, []).append((pods, count))
    return {cap: members for cap, members in found.items() if len(members) > 1}


def _within(layout: Layout, room: Amounts, cap: DomainCap, level: str | None) -> int:
    of, size = layout.labels.domains(cap.key) if cap.key else (np.arange(len(room)), len(room))
    if level is not None and level not in layout.levels:
        return 0
    groups = np.zeros(len(of), np.int64) if level is None else layout.level(level).of
    inside, labelled = groups >= 0, of >= 0
    number = int(groups.max(initial=0)) + 1
    # By group and value of the label.
    domains = np.zeros((number, max(size, 1)), np.int64)
    in_domain = inside & labelled
    np.add.at(domains, (groups[in_domain], of[in_domain]), room[in_domain])
    fit = np.minimum(domains, cap.most).sum(axis=1)
    if cap.elsewhere:
        free = inside & ~labelled
        np.add.at(fit, groups[free], room[free])
    return int(fit.max(initial=0))
