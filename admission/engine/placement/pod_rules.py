"""The rules of pods about other pods, over the nodes of a trial: which nodes a pod may use as things stand.

What they mean is what kube-scheduler's filters PodTopologySpread and InterPodAffinity make of them:

- Spread: the domains are the values of the label on the nodes that count. A node counts if it has the labels of all
  hard constraints of the pod, and, as the policies say, if the pod's nodeSelector and required node affinity choose it
  and the pod tolerates its taints. The selected pods of a domain, with this one if it is selected itself, may be
  ``maxSkew`` more than those of the emptiest domain, which counts as empty if there are fewer domains than
  ``minDomains``. A node without the label is no place. A selector without any requirement counts no pod.
- Anti-affinity: no selected pod in the domain; a node without the label is in no domain, so nothing is against it. It
  holds the other way round for the selected pods while a pod with the term is there.
- Affinity: for each term, a pod in the domain that meets all terms; a node without one of the labels is no place. As
  long as no node with such a label has a pod that meets all terms, a pod that meets them itself may go anywhere.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from admission.engine.nodes.levels import HOST
from admission.engine.nodes.table import Amounts, Mask
from admission.engine.trial import Trial
from queues.workload import ANTI_AFFINITY, COUNTED, PodSet, SpreadRule

Codes = NDArray[np.int64]

#: In place of a label key: each node is a domain of its own.
HOST_ALONE: Final = "one node"

#: Orders in which pods may come first that are looked through for one gang.
_MOST_ORDERS: Final = 200

#: A preferred term of the highest weight counts as much.
_HIGHEST: Final = 100


@dataclass(slots=True, eq=False)
class DomainCounts:
    """Number of the pods of one selection in each domain of a label key, on the nodes that count."""

    key: str
    #: (N,) domain of each node; -1: it has no such label.
    of: Codes
    #: (N,) nodes that count; they have the label.
    counts: Mask
    #: (D,) pods of each value of the label.
    pods: Amounts
    #: (D,) values that some counted node has.
    exists: Mask

    @classmethod
    def over(cls, trial: Trial, key: str, name: str, counts: Mask) -> "DomainCounts":
        """What is there now of a selection of that name."""
        of, size = trial.layout.labels.domains(key)
        counts = counts & (of >= 0)
        pods, exists = np.zeros(size, np.int64), np.zeros(size, np.bool_)
        exists[of[counts]] = True
        for column, number in trial.ports.counted(name).items():
            if counts[column]:
                pods[of[column]] += number
        return cls(key, of, counts, pods, exists)

    def add(self, column: int, change: int) -> None:
        """So many more pods of the selection are on a node."""
        if self.counts[column]:
            self.pods[self.of[column]] += change

    def on_nodes(self, amounts: Amounts | Mask) -> Amounts:
        """(N,) of a (D,) array the value of each node's domain; 0 for nodes without the label."""
        return np.append(amounts, 0)[self.of]

    def labelled(self) -> Mask:
        """(N,) nodes with the label."""
        return np.greater_equal(self.of, 0)


@dataclass(frozen=True, slots=True, eq=False)
class _Spread:
    rule: SpreadRule
    counts: DomainCounts
    #: Whether the pods are counted by it themselves.
    own: int

    def emptiest(self) -> int:
        """Pods of the emptiest domain, as the rule counts."""
        if not self.counts.exists.any() or int(self.counts.exists.sum()) < self.rule.min_domains:
            return 0
        return int(self.counts.pods[self.counts.exists].min())

    def allowed(self) -> Mask:
        fits = self.counts.pods + self.own - self.emptiest() <= self.rule.max_skew
        return self.counts.on_nodes(fits).astype(np.bool_)


@dataclass(slots=True, eq=False)
class PodSetRules:
    """The rules of one pod set."""

    spread: list[_Spread] = field(default_factory=list)
    #: The same on each node alone, where kube-scheduler sees only the node that a pod is bound to (``_pinned``).
    pinned: list[_Spread] = field(default_factory=list)
    apart: list[DomainCounts] = field(default_factory=list)
    kept_from: list[DomainCounts] = field(default_factory=list)
    near: list[DomainCounts] = field(default_factory=list)
    #: Pods that meet all terms of affinity, on nodes with any of its labels.
    near_pods: DomainCounts | None = None
    meets_own: bool = False
    #: Counts of what is preferred, with the weight of one pod.
    wishes: list[tuple[DomainCounts, int]] = field(default_factory=list)
    evened: list[DomainCounts] = field(default_factory=list)

    def refusals(self) -> list[tuple[str, Mask]]:
        """By rule, in words: (N,) nodes that it refuses to one more pod as things stand."""
        found: list[tuple[str, Mask]] = []
        for counts in self.apart:
            taken = counts.on_nodes(counts.pods) > 0
            found.append((f"with a pod that anti-affinity keeps apart by {counts.key}", taken))
        for counts in self.kept_from:
            taken = counts.on_nodes(counts.pods) > 0
            found.append((f"with a pod whose anti-affinity by {counts.key} keeps such pods away", taken))
        for spread in self.spread:
            key, skew = spread.counts.key, spread.rule.max_skew
            found.append((f"without the label {key}", ~spread.counts.labelled()))
            why = f"where {key} would have over {skew} more than the emptiest (maxSkew)"
            found.append((why, spread.counts.labelled() & ~spread.allowed()))
        for spread in self.pinned:
            skew = spread.rule.max_skew
            found.append(
                (f"with {skew} pods of a constraint with minDomains and maxSkew {skew}", ~spread.allowed())
            )
        if self.near:
            labelled = np.logical_and.reduce([counts.labelled() for counts in self.near])
            keys = " and ".join(counts.key for counts in self.near)
            found.append((f"without the label {keys}", ~labelled))
            if not self.is_first():
                why = f"without the pods that affinity asks for in {keys}"
                found.append((why, labelled & ~self.reached()))
        return found

    def allowed(self) -> Mask | None:
        """(N,) nodes to which one more pod may go as things stand; None for any."""
        refused = [nodes for _, nodes in self.refusals()]
        return None if not refused else ~np.logical_or.reduce(refused)

    def not_ruled_out(self) -> Mask:
        """(N,) nodes that more pods on other nodes can still make allowed."""
        found: Mask = np.ones(1, np.bool_)
        for counts in (*self.apart, *self.kept_from):
            found = found & (counts.on_nodes(counts.pods) == 0)
        for spread in self.spread:
            found = found & spread.counts.labelled()
        for spread in self.pinned:
            found = found & spread.allowed()
        for counts in self.near:
            found = found & counts.labelled()
        return found

    def reached(self) -> Mask:
        """(N,) nodes that have, in the domain of each term of affinity, a pod that it asks for."""
        reached: Mask = np.logical_and.reduce([counts.on_nodes(counts.pods) > 0 for counts in self.near])
        return reached

    def is_first(self) -> bool:
        """Whether a pod may go anywhere because it would be the first of those that its affinity is about."""
        return self.meets_own and self.near_pods is not None and not self.near_pods.pods.any()

    def score(self) -> Amounts | None:
        """(N,) how well nodes meet what is preferred; None if nothing is."""
        if not self.wishes and not self.evened:
            return None
        parts = [counts.on_nodes(counts.pods) * weight for counts, weight in self.wishes]
        parts += [-_HIGHEST * counts.on_nodes(counts.pods) for counts in self.evened]
        score: Amounts = np.sum(parts, axis=0)
        return score


def awaits_others(trial: Trial, pod_sets: Sequence[PodSet]) -> bool:
    """Whether affinity asks for pods that neither run nor belong to the gang: it has no place before others come."""
    own = {port.ip for pods in pod_sets for port in pods.counted if port.protocol == COUNTED}
    near = [pods for pods in pod_sets if any(rule.pods.name not in own for rule in pods.rules.near)]
    if not near:
        return False
    return any(
        rules.near_pods is not None and not rules.near_pods.pods.any()
        for rules in RuleBoard(trial, near).rules
    )


class RuleBoard:
    """The rules of some pod sets, with the counts that they share, while pods are put onto nodes one by one."""

    def __init__(self, trial: Trial, pod_sets: Sequence[PodSet]) -> None:
        self._trial = trial
        self._every = np.ones(len(trial.table), np.bool_)
        #: By selection, key and nodes that count.
        self._counts: dict[tuple[str, str, bytes], DomainCounts] = {}
        self._by_name: dict[str, list[DomainCounts]] = {}
        self.rules = [self._compiled(pods) for pods in pod_sets]
        self._names = [tuple(port.ip for port in pods.counted) for pods in pod_sets]

    def put(self, index: int, column: int, change: int = 1) -> None:
        """A pod of that pod set is on a node; -1: it is not any more."""
        for name in self._names[index]:
            for counts in self._by_name.get(name, ()):
                counts.add(column, change)

    def left_waiting(self, placed: Sequence[tuple[int, Mapping[int, int]]]) -> int | None:
        """A pod set whose pods may wait for ever for pods near them, if others are bound first; None if there is none.

        ``placed``: by pod set, the number of its pods on each column; all are put. Exact up to a number of orders; a
        gang with more is taken for one that may wait.

        Pods near to others are bound as these come, whatever the order. What the order decides is which pod is the
        first of those that its affinity is about: it may be bound anywhere, and the others have to be near to it.
        """
        left = [
            (index, column, number)
            for index, columns in placed
            if self.rules[index].near
            for column, number in columns.items()
        ]
        self._put_all(left, -1)
        found = self._stuck(left, iter(range(_MOST_ORDERS)))
        self._put_all(left, 1)
        return found

    def _put_all(self, pods: Iterable[tuple[int, int, int]], change: int) -> None:
        for index, column, number in pods:
            self.put(index, column, change * number)

    def _stuck(self, left: Sequence[tuple[int, int, int]], orders: Iterator[int]) -> int | None:
        """The pod set that may wait where these pods are not bound yet; the board is as it was afterwards."""
        bound = list[tuple[int, int, int]]()
        found: int | None = None
        while left:
            reached = {index: self.rules[index].reached() for index, _, _ in left}
            ready = [each for each in left if reached[each[0]][each[1]]]
            left = [each for each in left if not reached[each[0]][each[1]]]
            if not ready:
                found = self._stuck_after_one(left, orders)
                break
            self._put_all(ready, 1)
            bound += ready
        self._put_all(bound, -1)
        return found

    def _stuck_after_one(self, left: Sequence[tuple[int, int, int]], orders: Iterator[int]) -> int | None:
        """The same where each of these pods waits for one that may be bound as the first."""
        near = [counts for index in {index for index, _, _ in left} for counts in self.rules[index].near]
        # Pods of one set in the same domains of all that is counted here make no difference.
        firsts = {
            (each[0], *(int(counts.of[each[1]]) for counts in near)): each
            for each in left
            if self.rules[each[0]].is_first()
        }
        if not firsts or next(orders, None) is None:
            return left[0][0]
        for first in firsts.values():
            self._put_all([first], 1)
            found = self._stuck([each for each in left if each is not first], orders)
            self._put_all([first], -1)
            if found is not None:
                return found
        return None

    def touching(self) -> list[DomainCounts]:
        """All counts."""
        return list(self._counts.values())

    def _counted(self, name: str, key: str, counts: Mask) -> DomainCounts:
        index = (name, key, counts.tobytes())
        if index not in self._counts:
            found = self._counts[index] = DomainCounts.over(self._trial, key, name, counts)
            self._by_name.setdefault(name, []).append(found)
        return self._counts[index]

    def _compiled(self, pods: PodSet) -> PodSetRules:
        every, rules = self._every, pods.rules
        names = {port.ip for port in pods.counted if port.protocol == COUNTED}
        compiled = PodSetRules(
            apart=[self._counted(rule.pods.name, rule.key, every) for rule in rules.apart],
            kept_from=[self._counted(name, key, every) for key, name in pods.kept_from],
            wishes=[(self._counted(wish.pods.name, wish.key, every), wish.weight) for wish in rules.wishes],
        )
        hard = [rule for rule in rules.spread if rule.required]
        for rule in rules.spread:
            counted = self._counts_for(pods, rule, hard if rule.required else [rule])
            counts = self._counted(rule.pods.name, rule.key, counted)
            if rule.required:
                compiled.spread.append(_Spread(rule, counts, int(rule.pods.name in names)))
                if (pinned := self._pinned(rule)) is not None:
                    compiled.pinned.append(_Spread(rule, pinned, int(rule.pods.name in names)))
            else:
                compiled.evened.append(counts)
        for near in rules.near:
            compiled.near = [self._counted(near.pods.name, key, every) for key in near.keys]
            anywhere = np.logical_or.reduce([counts.labelled() for counts in compiled.near])
            # One domain for all nodes that have any of the labels.
            compiled.near_pods = self._on_any(near.pods.name, anywhere)
            compiled.meets_own = near.pods.name in names
        return compiled

    def _pinned(self, rule: SpreadRule) -> DomainCounts | None:
        """Counts by node where ``minDomains`` meets the node that Muster gives a pod; None for other rules.

        That node is part of the pod's required node affinity. With ``nodeAffinityPolicy: Honor`` kube-scheduler then
        sees one domain with that node alone. That are fewer than ``minDomains``, so the emptiest counts as empty, and
        the node takes ``maxSkew`` pods.
        """
        if rule.min_domains < 2 or not rule.honors_affinity:
            return None
        index = (rule.pods.name, HOST_ALONE, b"")
        if index not in self._counts:
            size = len(self._every)
            pods = np.zeros(size, np.int64)
            for column, number in self._trial.ports.counted(rule.pods.name).items():
                pods[column] = number
            counts = DomainCounts(HOST_ALONE, np.arange(size), self._every, pods, np.zeros(size, np.bool_))
            self._counts[index] = counts
            self._by_name.setdefault(rule.pods.name, []).append(counts)
        return self._counts[index]

    def _on_any(self, name: str, nodes: Mask) -> DomainCounts:
        index = (name, "", nodes.tobytes())
        if index not in self._counts:
            pods = np.zeros(1, np.int64)
            for column, number in self._trial.ports.counted(name).items():
                pods[0] += number * int(nodes[column])
            of = np.zeros(len(nodes), np.int64)
            found = self._counts[index] = DomainCounts("", of, nodes, pods, np.ones(1, np.bool_))
            self._by_name.setdefault(name, []).append(found)
        return self._counts[index]

    def _counts_for(self, pods: PodSet, rule: SpreadRule, together: Sequence[SpreadRule]) -> Mask:
        """(N,) nodes that count for a spread rule; ``together``: rules whose labels they need."""
        layout = self._trial.layout
        counts = self._every
        for other in together:
            counts = counts & (layout.labels.domains(other.key)[0] >= 0)
        if rule.honors_affinity:
            counts = counts & layout.chosen(pods.nodes)
        if rule.honors_taints:
            counts = counts & layout.tolerated(pods.nodes)
        return counts


def is_one_per_host(pods: PodSet) -> bool:
    """Whether host ports say all that pods of this set mean to one another: at most one of them on each host."""
    rules = pods.rules
    keys = (*(rule.key for rule in rules.apart), *(key for key, _ in pods.kept_from))
    return (
        any(port.protocol == ANTI_AFFINITY for port in pods.ports)
        and not rules.near
        and not any(rule.required for rule in rules.spread)
        and all(key == HOST for key in keys)
    )


def kept_free(trial: Trial, pods: PodSet) -> Mask | None:
    """(N,) nodes for pods that go one to a host, with regard to other pods; None for all, or if other rules decide."""
    if not pods.has_rules or not is_one_per_host(pods):
        return None
    return RuleBoard(trial, [pods]).rules[0].allowed()


def wished_cost(trial: Trial, pods: PodSet) -> Amounts | None:
    """(N,) cost of a node by what the pods prefer with regard to other pods; None if they prefer nothing."""
    if not pods.rules.wishes and all(rule.required for rule in pods.rules.spread):
        return None
    score = RuleBoard(trial, [pods]).rules[0].score()
    return None if score is None else -score
