"""Rules of pods about other pods: topologySpreadConstraints, pod affinity and pod anti-affinity. Pure.

A selector that names a label in which pods of one template differ is refused: which of the pods it selects is not known
before they exist.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec

from admission.decode.fields import explained, one, requirements_of
from admission.engine.nodes.levels import HOST
from admission.facts.pods import PodShape
from queues.api import names
from queues.api.reading.user_values import LARGEST_AFFINITY, UserValues, counted_labels, counted_selector
from queues.api.types.pod import (
    WireAffinity,
    WireLabelSelector,
    WirePodAffinityTerm,
    WirePodSpec,
    WireSpreadConstraint,
)
from queues.label_selectors import selector_text, selects
from queues.workload import (
    ANTI_AFFINITY,
    AffinityWish,
    ApartRule,
    HostPort,
    NearRule,
    PlacementRules,
    PodSelection,
    PodTerm,
    Requirement,
    SpreadRule,
)

#: Rules about other pods of one pod.
MOST_RULES: Final = 64

#: Labels in which pods of one template differ.
OF_ONE_POD: Final = frozenset(
    (
        names.COMPLETION_INDEX,
        names.TASK_INDEX,
        "apps.kubernetes.io/pod-index",
        "statefulset.kubernetes.io/pod-name",
    )
)

#: Labels up to so many are shared with other pods; more are seldom alike.
_SHARED: Final = 32

_SPREAD: Final = msgspec.json.Decoder(tuple[WireSpreadConstraint, ...] | None)
_SELECTOR: Final = msgspec.json.Decoder(WireLabelSelector)

#: Selects no pod: a term without a selector.
_NO_POD: Final = (Requirement(key="", operator="In"),)


def template_labels(labels: Mapping[str, str], but: Collection[str] = ()) -> tuple[tuple[str, str], ...]:
    """Labels that all pods of a template have, without some. Pods of different Jobs have most of them in common."""
    found = counted_labels(
        {key: text for key, text in labels.items() if key not in OF_ONE_POD and key not in but}
    )
    return one(tuple(one((one(key), one(text))) for key, text in found)) if len(found) <= _SHARED else found


class PodOwner(NamedTuple):
    """What rules say of the pod that has them."""

    namespace: str
    labels: Mapping[str, str]


def with_rules(
    shape: PodShape,
    spec: WirePodSpec,
    affinity: WireAffinity | None,
    values: UserValues,
    where: str = "",
    *,
    owner: PodOwner,
) -> PodShape:
    """The shape with what the spec says about other pods. What cannot be used is left out and noted in ``values``.

    ``where``: what paths begin with, "" for a pod.
    """
    constraints = _spread_of(spec, values, f"{where}spec")
    if not constraints and (affinity is None or not (affinity.pod_affinity or affinity.pod_anti_affinity)):
        return shape
    rules = _rules_of(constraints, affinity or WireAffinity(), owner)
    count = (
        len(rules.spread) + len(rules.apart) + sum(len(near.keys) for near in rules.near) + len(rules.wishes)
    )
    if not values.at_most(f"{where}spec", count, MOST_RULES, "rules about other pods"):
        return shape
    for selection in rules.selections():
        if not _is_usable(selection, values, f"{where}spec"):
            return shape
    against = None if affinity is None else affinity.pod_anti_affinity
    terms = (against and against.required_during_scheduling_ignored_during_execution) or ()
    return shape.with_rules(one(rules), _kept_apart(terms, owner))


def _spread_of(spec: WirePodSpec, values: UserValues, where: str) -> tuple[WireSpreadConstraint, ...]:
    raw = spec.topology_spread_constraints
    if len(raw) <= 4:  # null, []
        return ()
    where = f"{where}.topologySpreadConstraints"
    if not values.at_most(where, len(raw), LARGEST_AFFINITY, "bytes"):
        return ()
    try:
        return _SPREAD.decode(raw) or ()
    except (msgspec.DecodeError, RecursionError) as error:
        said = explained(error) if isinstance(error, msgspec.DecodeError) else "nested too deeply"
        values.note(f"{where}.{said}")
        return ()


def _is_usable(selection: PodSelection, values: UserValues, where: str) -> bool:
    for term in selection.terms:
        if not counted_selector(term.labels) or len(term.namespaces) > MOST_RULES:
            values.refuse(
                where, "a selector of pods with too many expressions, values or namespaces", "fewer"
            )
            return False
        differing = next((each.key for each in term.labels if each.key in OF_ONE_POD), None)
        if differing is not None:
            expected = "labels that all pods of a template have"
            values.refuse(
                where, f"a selector of pods by {differing}, which differs from pod to pod", expected
            )
            return False
    return True


def _rules_of(
    constraints: Sequence[WireSpreadConstraint], affinity: WireAffinity, owner: PodOwner
) -> PlacementRules:
    near, apart = affinity.pod_affinity, affinity.pod_anti_affinity
    terms = (near and near.required_during_scheduling_ignored_during_execution) or ()
    against = (apart and apart.required_during_scheduling_ignored_during_execution) or ()
    wishes = [
        AffinityWish(
            wish.pod_affinity_term.topology_key,
            _selection([wish.pod_affinity_term], owner),
            sign * wish.weight,
        )
        for sign, part in ((1, near), (-1, apart))
        for wish in (part and part.preferred_during_scheduling_ignored_during_execution) or ()
    ]
    return PlacementRules(
        spread=tuple(_spread_rule(constraint, owner) for constraint in constraints),
        apart=tuple(ApartRule(term.topology_key, _selection([term], owner)) for term in against),
        near=(NearRule(tuple(dict.fromkeys(term.topology_key for term in terms)), _selection(terms, owner)),)
        if terms
        else (),
        wishes=tuple(wishes),
    )


def _spread_rule(constraint: WireSpreadConstraint, owner: PodOwner) -> SpreadRule:
    # Here, other than in terms of affinity, an empty selector counts no pod.
    labels = _labels_of(constraint.label_selector, constraint.match_label_keys, (), owner) or _NO_POD
    return SpreadRule(
        key=constraint.topology_key,
        pods=_named((PodTerm((owner.namespace,), labels),)),
        max_skew=max(1, constraint.max_skew),
        min_domains=max(1, constraint.min_domains or 1),
        honors_affinity=constraint.node_affinity_policy != "Ignore",
        honors_taints=constraint.node_taints_policy == "Honor",
        required=constraint.when_unsatisfiable != "ScheduleAnyway",
    )


def _selection(terms: Iterable[WirePodAffinityTerm], owner: PodOwner) -> PodSelection:
    return _named(tuple(_term(term, owner) for term in terms))


def _term(term: WirePodAffinityTerm, owner: PodOwner) -> PodTerm:
    of_namespaces = None
    if term.namespace_selector is not None:
        of_namespaces = requirements_of(_SELECTOR.decode(msgspec.json.encode(term.namespace_selector)))
    listed = tuple(sorted(set(term.namespaces or ())))
    if not listed and of_namespaces is None:
        listed = (owner.namespace,)
    labels = _labels_of(term.label_selector, term.match_label_keys, term.mismatch_label_keys, owner)
    return PodTerm(listed, labels, of_namespaces)


def _labels_of(
    selector: WireLabelSelector | None,
    matching: Sequence[str] | None,
    differing: Sequence[str] | None,
    owner: PodOwner,
) -> tuple[Requirement, ...]:
    """The requirements of a selector, with those that come from the pod's own values of some labels.

    Newer API servers have added these to the selector already.
    """
    if selector is None:
        return _NO_POD
    own = [
        Requirement(key, operator, (owner.labels[key],))
        for operator, keys in (("In", matching), ("NotIn", differing))
        for key in keys or ()
        if key in owner.labels
    ]
    return tuple(dict.fromkeys((*requirements_of(selector), *own)))


def _named(terms: tuple[PodTerm, ...]) -> PodSelection:
    text = repr([(term.namespaces, selector_text(term.labels), term.of_namespaces) for term in terms])
    return one(PodSelection(blake2b(text.encode(), digest_size=8).hexdigest(), terms))


def _kept_apart(terms: Sequence[WirePodAffinityTerm], owner: PodOwner) -> tuple[HostPort, ...]:
    """What keeps pods like this one off each other's nodes, as host ports do; (): nothing.

    One for each required term by host that selects pods like the one that has it: all pods of a namespace with such a
    term have the same, so that one of them gets a node at most, which is quickly placed.
    """
    selectors = [
        requirements_of(term.label_selector)
        for term in terms
        if term.topology_key == HOST
        and term.label_selector is not None
        and not (term.match_label_keys or term.mismatch_label_keys or term.namespace_selector is not None)
        and not set(term.namespaces or ()) - {owner.namespace}
    ]
    return tuple(
        dict.fromkeys(
            HostPort(0, ANTI_AFFINITY, _digest(owner.namespace, selector))
            for selector in selectors
            if selects(selector, owner.labels)
        )
    )


def _digest(namespace: str, selector: Iterable[Requirement]) -> str:
    """A short name for a selector in a namespace. It is in names of seats that are stored, so it stays as it is."""
    return blake2b(f"{namespace}/{selector_text(selector)}".encode(), digest_size=8).hexdigest()
