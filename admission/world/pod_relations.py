"""Which pods the rules of others are about: topologySpreadConstraints, pod affinity and anti-affinity.

As long as no pod has such rules, nothing is kept. From the first one on, pods and workloads are indexed by namespace;
each selection that a workload's rules name is counted on the pods that it selects, and so are the pods with required
anti-affinity, which keep others away. The engine sees counts by node and no labels.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, TypeVar

from admission.facts.pods import PodFact
from admission.facts.workloads import WorkloadFact
from admission.workloads.pod_labels import labels_of_pods
from admission.workloads.state import WorkloadState
from queues.label_selectors import selects
from queues.workload import (
    COUNTED,
    ApartRule,
    HostPort,
    NodeName,
    PlacementRules,
    PodSelection,
    PodSet,
    Workload,
    WorkloadKey,
)

Rule = TypeVar("Rule")

#: All namespaces.
_ANY: Final = ""


class _Registered(NamedTuple):
    """What the rules of one workload or pod are about."""

    selections: frozenset[PodSelection] = frozenset()
    #: Required anti-affinity: it keeps selected pods away.
    apart: frozenset[ApartRule] = frozenset()


_NOTHING: Final = _Registered()
_Place = tuple[NodeName, tuple[HostPort, ...]]


class TriedPods(NamedTuple):
    """What pods count as where workloads are tried that do not exist."""

    #: The tried ones, and those that exist in whose namespaces other rules hold then.
    workloads: Mapping[WorkloadKey, Workload]
    #: What bound pods without a seat count as besides, by their node.
    more: Sequence[_Place]


class PodRelations:
    """Part of the world: rules of pods about other pods, and which pods they are about."""

    def __init__(
        self,
        states: Mapping[WorkloadKey, WorkloadState],
        facts: Mapping[WorkloadKey, WorkloadFact],
        namespaces: Callable[[], Mapping[str, Mapping[str, str]]],
        seatless: Callable[[], Iterable[tuple[str, PodFact]]],
    ) -> None:
        """``namespaces``: labels of each. ``seatless``: bound pods that have no seat, by uid."""
        self._states, self._facts = states, facts
        self._namespaces, self._seatless = namespaces, seatless
        self._is_used = False
        self._of_workloads: dict[WorkloadKey, _Registered] = {}
        self._of_pods: dict[str, _Registered] = {}
        self._selections: Counter[PodSelection] = Counter()
        self._apart: Counter[ApartRule] = Counter()
        #: Both by namespace that they may be about.
        self._selections_in: dict[str, dict[PodSelection, None]] = {}
        self._apart_in: dict[str, dict[ApartRule, None]] = {}
        #: Namespaces in which other rules hold than before.
        self._stale: set[str] = set()
        self._keys: dict[str, set[WorkloadKey]] = {}
        self._uids: dict[str, set[str]] = {}
        self._pods: dict[str, PodFact] = {}
        #: What pods without a seat count as, on which node.
        self._counted: dict[str, _Place] = {}

    def copy(
        self, more: Mapping[WorkloadKey, WorkloadFact], namespaces: Mapping[str, Mapping[str, str]]
    ) -> "PodRelations":
        """A copy that another thread changes, in which these objects are known too. ``namespaces``: labels of each."""
        pods = dict(self._pods) if self._is_used else dict(self._seatless())
        found = PodRelations(dict(self._states), {**self._facts, **more}, lambda: namespaces, pods.items)
        found._is_used, found._pods = self._is_used, pods if self._is_used else {}
        found._of_workloads, found._of_pods = dict(self._of_workloads), dict(self._of_pods)
        found._selections, found._apart = self._selections.copy(), self._apart.copy()
        found._selections_in = {name: dict(rules) for name, rules in self._selections_in.items()}
        found._apart_in = {name: dict(rules) for name, rules in self._apart_in.items()}
        found._stale = set(self._stale)
        found._keys = {name: set(keys) for name, keys in self._keys.items()}
        found._uids = {name: set(uids) for name, uids in self._uids.items()}
        found._counted = dict(self._counted)
        return found

    def put_tried(self, states: Mapping[WorkloadKey, WorkloadState]) -> TriedPods:
        """In a copy: these workloads appear."""
        before = dict(self._counted)
        self._states = {**self._states, **states}
        found = {key: self.put_workload(key, state) for key, state in states.items()}
        found |= {key: self.put_workload(key, state) for key, state in self.refresh()}
        more = {uid: (node, _without(ports, before.get(uid))) for uid, (node, ports) in self._counted.items()}
        return TriedPods(
            {key: workload for key, workload in found.items() if workload is not None},
            [(node, ports) for node, ports in more.values() if ports],
        )

    def put_workload(self, key: WorkloadKey, state: WorkloadState | None) -> Workload | None:
        """A workload that waits or holds seats changed; None if it does neither any more.

        Returns the workload with what its pods count as.
        """
        workload = None if state is None else state.workload
        registered = _NOTHING
        for pods in () if workload is None else workload.pod_sets:
            if pods.rules:
                registered = _Registered(
                    registered.selections.union(pods.rules.selections()),
                    registered.apart.union(pods.rules.apart),
                )
        self._register(self._of_workloads.pop(key, _NOTHING), registered)
        if registered is not _NOTHING:
            self._of_workloads[key] = registered
        if not self._is_used:
            return workload
        if workload is None or state is None:
            for keys in self._keys.values():
                keys.discard(key)
            return None
        self._keys.setdefault(workload.namespace, set()).add(key)
        return self._resolved(workload, state)

    def put_pod(self, uid: str, fact: PodFact | None) -> bool:
        """A bound pod without a seat appeared or changed; None if it is gone, or has a seat.

        Returns True if what is counted changed.
        """
        before = self._pods.pop(uid, None)
        if fact is None and before is None:
            return False
        registered = _NOTHING if fact is None else _Registered(apart=frozenset(fact.shape.rules.apart))
        if registered.apart or uid in self._of_pods:
            self._register(self._of_pods.pop(uid, _NOTHING), registered)
            if registered.apart:
                self._of_pods[uid] = registered
        if not self._is_used:
            return False
        if before is not None:
            self._uids[before.namespace].discard(uid)
        counted = self._counted.pop(uid, None)
        if fact is not None:
            self._pods[uid] = fact
            self._uids.setdefault(fact.namespace, set()).add(uid)
            self._count(uid, fact)
        return counted != self._counted.get(uid)

    def put_namespace(self) -> None:
        """Labels of a namespace changed."""
        if self._selections_in.get(_ANY) or self._apart_in.get(_ANY):
            self._stale.add(_ANY)

    @property
    def is_stale(self) -> bool:
        """Whether other rules hold than when workloads were last given what their pods count as."""
        return bool(self._stale)

    def refresh(self) -> Iterator[tuple[WorkloadKey, WorkloadState]]:
        """Count pods anew where other rules hold. Returns the workloads that are to be put again."""
        stale, self._stale = self._stale, set()
        namespaces = set(self._keys) | set(self._uids) if _ANY in stale else stale
        for namespace in sorted(namespaces):
            for uid in self._uids.get(namespace, ()):
                self._counted.pop(uid, None)
                self._count(uid, self._pods[uid])
        keys = [key for namespace in sorted(namespaces) for key in self._keys.get(namespace, ())]
        return ((key, self._states[key]) for key in keys if key in self._states)

    def counted_pods(self) -> Iterable[_Place]:
        """Pods without a seat that rules are about: their node, and what they count as."""
        return self._counted.values()

    # ── which rules there are ───────────────────────────────────────────────────────────────────────────────────

    def _register(self, before: _Registered, after: _Registered) -> None:
        if before == after:
            return
        self._begin()
        for selection in after.selections - before.selections:
            self._selections[selection] += 1
            if self._selections[selection] == 1:
                self._list(self._selections_in, selection, selection)
        for rule in after.apart - before.apart:
            self._apart[rule] += 1
            if self._apart[rule] == 1:
                self._list(self._apart_in, rule, rule.pods)
        for selection in before.selections - after.selections:
            self._selections[selection] -= 1
            if not self._selections[selection]:
                del self._selections[selection]
                self._list(self._selections_in, selection, selection, listed=False)
        for rule in before.apart - after.apart:
            self._apart[rule] -= 1
            if not self._apart[rule]:
                del self._apart[rule]
                self._list(self._apart_in, rule, rule.pods, listed=False)

    def _list(
        self, index: dict[str, dict[Rule, None]], rule: Rule, selection: PodSelection, *, listed: bool = True
    ) -> None:
        (first, *_) = selection.terms or (None,)
        anywhere = first is None or any(term.of_namespaces is not None for term in selection.terms)
        for namespace in (_ANY,) if anywhere or first is None else first.namespaces:
            of_namespace = index.setdefault(namespace, {})
            if listed:
                of_namespace[rule] = None
            else:
                of_namespace.pop(rule, None)
            self._stale.add(namespace)

    def _begin(self) -> None:
        """The first rules: index what there is."""
        if self._is_used:
            return
        self._is_used = True
        for key, state in self._states.items():
            if not (state.needs_seats or state.seat_maps):
                continue
            self._keys.setdefault(state.workload.namespace, set()).add(key)
        for uid, fact in self._seatless():
            self._pods[uid] = fact
            self._uids.setdefault(fact.namespace, set()).add(uid)

    # ── which pods they are about ───────────────────────────────────────────────────────────────────────────────

    def _resolved(self, workload: Workload, state: WorkloadState) -> Workload:
        namespace = workload.namespace
        own = any(pods.rules.apart for pods in workload.pod_sets)
        if not own and not self.may_be_about(namespace):
            return workload
        labels = labels_of_pods(workload, self._facts.get(workload.key), state.pods)
        pod_sets = tuple(
            self._with_counts(pods, namespace, labels.get(pods.name, {})) for pods in workload.pod_sets
        )
        return workload if pod_sets == workload.pod_sets else replace(workload, pod_sets=pod_sets)

    def may_be_about(self, namespace: str) -> bool:
        """True if rules of pods may be about pods of a namespace."""
        indices = (self._selections_in, self._apart_in)
        return any(index.get(name) for index in indices for name in (namespace, _ANY))

    def _with_counts(self, pods: PodSet, namespace: str, labels: Mapping[str, str]) -> PodSet:
        counted = self._counted_as(pods.rules, namespace, labels)
        kept_from = tuple(
            sorted(
                (rule.key, rule.bearers)
                for rule in self._rules(self._apart_in, namespace)
                if self._is_about(rule.pods, namespace, labels)
            )
        )
        return replace(pods, counted=counted, kept_from=kept_from)

    def _count(self, uid: str, fact: PodFact) -> None:
        if fact.node is None or not (fact.shape.rules.apart or self.may_be_about(fact.namespace)):
            return
        counted = self._counted_as(fact.shape.rules, fact.namespace, dict(fact.labels))
        if counted:
            self._counted[uid] = (fact.node, counted)

    def _counted_as(
        self, rules: PlacementRules, namespace: str, labels: Mapping[str, str]
    ) -> tuple[HostPort, ...]:
        """What a pod with these rules and labels counts as."""
        selections = [
            selection.name
            for selection in self._rules(self._selections_in, namespace)
            if self._is_about(selection, namespace, labels)
        ]
        every = sorted({*selections, *(rule.bearers for rule in rules.apart)})
        return tuple(HostPort(0, COUNTED, name) for name in every)

    def _rules(self, index: Mapping[str, Mapping[Rule, None]], namespace: str) -> Iterator[Rule]:
        yield from index.get(namespace, ())
        yield from index.get(_ANY, ())

    def _is_about(self, selection: PodSelection, namespace: str, labels: Mapping[str, str]) -> bool:
        return all(
            (
                namespace in term.namespaces
                or (
                    term.of_namespaces is not None
                    and selects(term.of_namespaces, self._namespaces().get(namespace, {}))
                )
            )
            and selects(term.labels, labels)
            for term in selection.terms
        )


def _without(ports: tuple[HostPort, ...], before: _Place | None) -> tuple[HostPort, ...]:
    return ports if before is None else tuple(port for port in ports if port not in before[1])
