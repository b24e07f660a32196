"""The nodes that a pod may use: nodeSelector, required node affinity, taints and tolerations.

The rules are those of the core API: requirements of a term are ANDed, terms are ORed, ``NotIn`` and
``DoesNotExist`` hold where the label is absent, ``Gt`` and ``Lt`` compare integers, ``PreferNoSchedule``
keeps no pod away. A whole column of nodes is compared at a time.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from queues.workload import NodeFilter, Preference, Requirement, Taint, Toleration

Mask = NDArray[np.bool_]

_ABSENT: Final = -1
_DIGITS: Final = re.compile(r"[+-]?[0-9]{1,25}")
_REPELS: Final = ("NoSchedule", "NoExecute")
#: Domains of taints that come and go with the state of a node, and such taints without a domain.
_PASSING_DOMAINS: Final = (
    "node.kubernetes.io",
    "node.cloudprovider.kubernetes.io",
    "cluster-autoscaler.kubernetes.io",
    "karpenter.sh",
    "muster.dev",
)
_PASSING_KEYS: Final = ("ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler")


class Labels:
    """Labels of all nodes, turned into one column of value codes per key when it is first asked for."""

    def __init__(self, labels: Sequence[Mapping[str, str]], names: Sequence[str]) -> None:
        self._labels = labels
        self._names = names
        self._columns: dict[str, tuple[NDArray[np.int64], dict[str, int]]] = {}

    def __len__(self) -> int:
        return len(self._labels)

    def of(self, column: int) -> Mapping[str, str]:
        """The labels of one node."""
        return self._labels[column]

    def meets(self, requirement: Requirement) -> Mask:
        """(N,) nodes that meet one requirement. No node meets an unknown operator."""
        codes, values = self._names_column() if requirement.field else self._column(requirement.key)
        match requirement.operator:
            case "In":
                return _any_of(codes, values, requirement.values)
            case "NotIn":
                return ~_any_of(codes, values, requirement.values)
            case "Exists":
                return np.not_equal(codes, _ABSENT)
            case "DoesNotExist":
                return np.equal(codes, _ABSENT)
            case "Gt" | "Lt":
                return _beyond(codes, values, requirement)
            case _:
                return np.zeros(len(self), np.bool_)

    def has(self, key: str, value: str) -> Mask:
        """(N,) nodes with that label."""
        codes, values = self._column(key)
        return _any_of(codes, values, (value,))

    def domains(self, key: str) -> tuple[NDArray[np.int64], int]:
        """(N,) number of the value that each node has for a label key, -1 without the label; and how many values."""
        codes, values = self._column(key)
        return codes, len(values)

    def _column(self, key: str) -> tuple[NDArray[np.int64], dict[str, int]]:
        if key not in self._columns:
            self._columns[key] = _encode([labels.get(key) for labels in self._labels])
        return self._columns[key]

    def _names_column(self) -> tuple[NDArray[np.int64], dict[str, int]]:
        if "" not in self._columns:  # no label key is empty
            self._columns[""] = _encode(list(self._names))
        return self._columns[""]


class TaintClasses:
    """Nodes grouped by equal taints, so that tolerations are compared once per group."""

    def __init__(self, taints: Sequence[tuple[Taint, ...]]) -> None:
        ids: dict[tuple[Taint, ...], int] = {}
        self._of = np.array([ids.setdefault(each, len(ids)) for each in taints], dtype=np.intp)
        self._classes = tuple(ids)

    def lasting(self) -> "TaintClasses":
        """The same nodes without the taints that say how a node is now."""
        kept: list[tuple[Taint, ...]] = [
            tuple(taint for taint in taints if not is_passing(taint)) for taints in self._classes
        ]
        left = TaintClasses(())
        left._of, left._classes = self._of, tuple(kept)
        return left

    def of(self, column: int) -> tuple[Taint, ...]:
        """The taints of one node."""
        return self._classes[self._of[column]]

    def tolerated(self, tolerations: Sequence[Toleration]) -> Mask:
        """(N,) nodes without a taint that keeps a pod with these tolerations away."""
        verdicts = [
            all(
                taint.effect not in _REPELS or any(tolerates(each, taint) for each in tolerations)
                for taint in taints
            )
            for taints in self._classes
        ]
        return np.array(verdicts, dtype=np.bool_)[self._of]


def is_passing(taint: Taint) -> bool:
    """Whether a taint says how a node is now (not ready, cordoned, being removed, out of service), and not what it is
    for: Kubernetes, cloud providers, autoscalers and Muster take such taints away again."""
    domain, slash, _ = taint.key.partition("/")
    if not slash:
        return taint.key in _PASSING_KEYS
    return any(domain == each or domain.endswith(f".{each}") for each in _PASSING_DOMAINS)


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether one toleration matches one taint."""
    if toleration.effect not in ("", taint.effect):
        return False
    if toleration.key not in ("", taint.key) or (not toleration.key and toleration.operator != "Exists"):
        return False
    return toleration.operator == "Exists" or (
        toleration.operator in ("", "Equal") and toleration.value == taint.value
    )


def chosen(nodes: NodeFilter, labels: Labels) -> Mask:
    """(N,) nodes that nodeSelector, required node affinity and volumes choose, taints aside."""
    mask = np.ones(len(labels), np.bool_)
    for key, value in nodes.selector:
        mask &= labels.has(key, value)
    for terms in (nodes.affinity, *nodes.also):
        if terms:
            mask &= _meets_any(terms, labels)
    return mask


def may_be_chosen(nodes: NodeFilter, labels: Mapping[str, str]) -> bool:
    """Whether nodes that have these labels, and others that are not known, can be among those that a pod chooses."""
    if any(labels.get(key, value) != value for key, value in nodes.selector):
        return False
    known = Labels([labels], [""])

    def may_meet(requirement: Requirement) -> bool:
        is_open = requirement.field or requirement.key not in labels
        return is_open or bool(known.meets(requirement)[0])

    alternatives = [terms for terms in (nodes.affinity, *nodes.also) if terms]
    return all(any(term and all(map(may_meet, term)) for term in terms) for terms in alternatives)


def preferred(prefers: Sequence[Preference], labels: Labels) -> NDArray[np.int64]:
    """(N,) the sum of the weights of the terms of preferred node affinity that each node meets."""
    score = np.zeros(len(labels), np.int64)
    for term in prefers:
        score += term.weight * _meets_all(term.requirements, labels)
    return score


def _meets_any(terms: Sequence[Sequence[Requirement]], labels: Labels) -> Mask:
    mask = np.zeros(len(labels), np.bool_)
    for term in terms:
        mask |= _meets_all(term, labels)
    return mask


def _meets_all(term: Sequence[Requirement], labels: Labels) -> Mask:
    # An empty term matches nothing, as in the core API.
    mask = np.full(len(labels), bool(term), np.bool_)
    for requirement in term:
        mask &= labels.meets(requirement)
    return mask


def _encode(values: Sequence[str | None]) -> tuple[NDArray[np.int64], dict[str, int]]:
    ids: dict[str, int] = {}
    codes = [_ABSENT if value is None else ids.setdefault(value, len(ids)) for value in values]
    return np.array(codes, dtype=np.int64), ids


def _any_of(codes: NDArray[np.int64], values: Mapping[str, int], wanted: Sequence[str]) -> Mask:
    mask = np.zeros(len(codes), np.bool_)
    for value in wanted:
        if value in values:
            mask |= codes == values[value]
    return mask


def _beyond(codes: NDArray[np.int64], values: Mapping[str, int], requirement: Requirement) -> Mask:
    bound = _integer(requirement.values[0]) if len(requirement.values) == 1 else None
    if bound is None:
        return np.zeros(len(codes), np.bool_)
    greater = requirement.operator == "Gt"
    numbers = {value: _integer(value) for value in values}
    fitting = [
        value
        for value, number in numbers.items()
        if number is not None and (number > bound if greater else number < bound)
    ]
    return _any_of(codes, values, fitting)


def _integer(text: str) -> int | None:
    """As the scheduler reads it: decimal digits of 64 bits; no ``1_000``, which is a label value as well."""
    if not _DIGITS.fullmatch(text):
        return None
    number = int(text)
    return number if -(1 << 63) <= number < 1 << 63 else None
