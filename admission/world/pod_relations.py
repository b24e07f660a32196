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
from admission.workloads.kinds import support_of
from admission.workloads.state import WorkloadState
from admission.world.admissions import KeyIndex
from admission.world.nodes import Place
from queues import kind_names
from queues.api import names
from queues.label_selectors import selects
from queues.workload import (
    COUNTED,
    ApartRule,
    HostPort,
    PlacementRules,
    PodSelection,
    PodSet,
    Workload,
    WorkloadKey,
)

Rule = TypeVar("Rule", PodSelection, ApartRule)

#: Pods that are counted for rules about them; or required anti-affinity, which keeps the pods that it is about away.
_Rule = PodSelection | ApartRule
_NOTHING: Final = frozenset[_Rule]()
#: All namespaces.
_ANY: Final = ""


class TriedPods(NamedTuple):
    """What pods count as where workloads are tried that do not exist."""

    #: The tried ones, and those that exist in whose namespaces other rules hold then.
    workloads: Mapping[WorkloadKey, Workload]
    #: What bound pods without a seat count as besides, by their node.
    more: Sequence[Place]


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
        #: Rules of workloads, and of pods without a seat (by uid), that have any.
        self._rules_of: dict[WorkloadKey | str, frozenset[_Rule]] = {}
        #: How many have a rule.
        self._bearers = Counter[_Rule]()
        #: By namespace that they may be about.
        self._rules_in: KeyIndex[str, _Rule] = KeyIndex()
        #: Namespaces in which other rules hold than before.
        self._stale: set[str] = set()
        self._keys: KeyIndex[str, WorkloadKey] = KeyIndex()
        self._uids: KeyIndex[str, str] = KeyIndex()
        self._pods: dict[str, PodFact] = {}
        #: What pods without a seat count as, on which node.
        self._counted: dict[str, Place] = {}

    def copy(
        self, more: Mapping[WorkloadKey, WorkloadFact], namespaces: Mapping[str, Mapping[str, str]]
    ) -> "PodRelations":
        """A copy that another thread changes, in which these objects are known too. ``namespaces``: labels of each."""
        pods = dict(self._pods) if self._is_used else dict(self._seatless())
        found = PodRelations(dict(self._states), {**self._facts, **more}, lambda: namespaces, pods.items)
        found._is_used, found._pods = self._is_used, pods if self._is_used else {}
        found._rules_of, found._bearers = dict(self._rules_of), self._bearers.copy()
        found._stale, found._counted = set(self._stale), dict(self._counted)
        found._rules_in, found._keys = self._rules_in.copy(), self._keys.copy()
        found._uids = self._uids.copy()
        return found

    def put_tried(self, states: Mapping[WorkloadKey, WorkloadState]) -> TriedPods:
        """In a copy: these workloads appear."""
        before = dict(self._counted)
        self._states = {**self._states, **states}
        found = {key: self.put_workload(key, state, state.workload) for key, state in states.items()}
        found |= {key: self.put_workload(key, state, state.workload) for key, state in self.refresh()}
        more = {uid: (node, _without(ports, before.get(uid))) for uid, (node, ports) in self._counted.items()}
        return TriedPods(found, [(node, ports) for node, ports in more.values() if ports])

    def put_workload(self, key: WorkloadKey, state: WorkloadState | None, workload: Workload) -> Workload:
        """A workload that waits or holds seats changed; None if it does neither any more.

        Returns the workload with what its pods count as.
        """
        rules = () if state is None else (pods.rules for pods in workload.pod_sets if pods.rules)
        self._register(
            key, _NOTHING.union(*(part for each in rules for part in (each.selections(), each.apart)))
        )
        if not self._is_used:
            return workload
        if state is None:
            self._keys.discard(workload.namespace, key)
            return workload
        self._keys.add(workload.namespace, key)
        return self._resolved(workload, state)

    def put_pod(self, uid: str, fact: PodFact | None) -> bool:
        """A bound pod without a seat appeared or changed; None if it is gone, or has a seat.

        Returns True if what is counted changed.
        """
        before = self._pods.pop(uid, None)
        if fact is None and before is None:
            return False
        self._register(uid, frozenset(() if fact is None else fact.shape.rules.apart))
        if not self._is_used:
            return False
        if before is not None:
            self._uids.discard(before.namespace, uid)
        counted = self._counted.pop(uid, None)
        if fact is not None:
            self._add_pod(uid, fact)
            self._count(uid, fact)
        return counted != self._counted.get(uid)

    def put_namespace(self) -> None:
        """Labels of a namespace changed."""
        if _ANY in self._rules_in:
            self._stale.add(_ANY)

    @property
    def is_stale(self) -> bool:
        """Whether other rules hold than when workloads were last given what their pods count as."""
        return bool(self._stale)

    def refresh(self) -> Iterator[tuple[WorkloadKey, WorkloadState]]:
        """Count pods anew where other rules hold. Returns the workloads that are to be put again."""
        stale, self._stale = self._stale, set()
        namespaces = sorted({*self._keys.keys(), *self._uids.keys()} if _ANY in stale else stale)
        for uid in (uid for namespace in namespaces for uid in self._uids.of(namespace)):
            self._counted.pop(uid, None)
            self._count(uid, self._pods[uid])
        keys = [key for namespace in namespaces for key in self._keys.of(namespace)]
        return ((key, self._states[key]) for key in keys if key in self._states)

    def noted_pods(self) -> Iterable[Place]:
        """Pods without a seat that rules are about: their node, and what they count as."""
        return self._counted.values()

    # ── which rules there are ───────────────────────────────────────────────────────────────────────────────────

    def _register(self, bearer: WorkloadKey | str, after: frozenset[_Rule]) -> None:
        """These are the rules of a workload or pod now."""
        before = self._rules_of.pop(bearer, _NOTHING)
        if after:
            self._rules_of[bearer] = after
        if before == after:
            return
        self._begin()
        for rule in before ^ after:
            is_new = rule not in self._bearers
            self._bearers[rule] += 1 if rule in after else -1
            is_gone = not self._bearers[rule]
            if is_gone:
                del self._bearers[rule]
            if is_new or is_gone:
                for namespace in _namespaces_of(rule):
                    (self._rules_in.add if is_new else self._rules_in.discard)(namespace, rule)
                    self._stale.add(namespace)

    def _begin(self) -> None:
        """The first rules: index what there is."""
        if self._is_used:
            return
        self._is_used = True
        for key, state in self._states.items():
            if state.needs_seats or state.seat_maps:
                self._keys.add(state.workload.namespace, key)
        for uid, fact in self._seatless():
            self._add_pod(uid, fact)

    def _add_pod(self, uid: str, fact: PodFact) -> None:
        self._pods[uid] = fact
        self._uids.add(fact.namespace, uid)

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
        return namespace in self._rules_in or _ANY in self._rules_in

    def _with_counts(self, pods: PodSet, namespace: str, labels: Mapping[str, str]) -> PodSet:
        counted = self._counted_as(pods.rules, namespace, labels)
        kept_from = sorted((rule.key, rule.bearers) for rule in self._about(ApartRule, namespace, labels))
        return replace(pods, counted=counted, kept_from=tuple(kept_from))

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
        selections = (selection.name for selection in self._about(PodSelection, namespace, labels))
        every = sorted({*selections, *(rule.bearers for rule in rules.apart)})
        return tuple(HostPort(0, COUNTED, name) for name in every)

    def _about(self, kind: type[Rule], namespace: str, labels: Mapping[str, str]) -> Iterator[Rule]:
        """Rules of one kind that are about pods of a namespace with these labels."""
        for rule in (*self._rules_in.of(namespace), *self._rules_in.of(_ANY)):
            if isinstance(rule, kind) and self._is_about(_selection_of(rule), namespace, labels):
                yield rule

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


def _selection_of(rule: _Rule) -> PodSelection:
    return rule.pods if isinstance(rule, ApartRule) else rule


def _namespaces_of(rule: _Rule) -> tuple[str, ...]:
    """Namespaces of the pods that a rule may be about."""
    terms = _selection_of(rule).terms
    if not terms or any(term.of_namespaces is not None for term in terms):
        return (_ANY,)
    return terms[0].namespaces


def _without(ports: tuple[HostPort, ...], before: Place | None) -> tuple[HostPort, ...]:
    return ports if before is None else tuple(port for port in ports if port not in before[1])


def labels_of_pods(
    workload: Workload, fact: WorkloadFact | None, pods: tuple[PodFact, ...]
) -> dict[str, Mapping[str, str]]:
    """Labels by the name of the pod set; sets without known labels are left out."""
    found: dict[str, Mapping[str, str]] = {}
    if fact is not None:
        for pod_set in workload.pod_sets:
            made = _made_for(workload, pod_set.name)
            found[pod_set.name] = {**dict(fact.pod_labels.get(pod_set.name, ())), **made}
    name_of = support_of(workload.key).pod_set_name
    of_pods: dict[str, Mapping[str, str]] = {}
    for pod in pods:
        name = pod.seat[0] if pod.seat is not None else name_of(pod, fact)
        if name not in of_pods:
            of_pods[name] = dict(pod.labels)
    return {**found, **of_pods}


def _made_for(workload: Workload, pod_set: str) -> dict[str, str]:
    """Labels that a pod gets from what makes it."""
    match workload.kind:
        case kind_names.JOB:
            values = (workload.key.uid, workload.key.uid, workload.name, workload.name)
            return dict(zip(names.CONTROLLER_LABELS, values, strict=True))
        case kind_names.VOLCANO_JOB:
            return {
                names.JOB_NAME: workload.name,
                names.JOB_NAMESPACE: workload.namespace,
                names.TASK_SPEC: pod_set,
                names.VOLCANO_QUEUE: workload.queue,
                names.RELEASED: "true",
            }
        case _:
            return dict.fromkeys(support_of(workload.key).name_labels, workload.name)
