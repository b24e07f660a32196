"""Changes of a cluster that administrators think of: other limits of queues, nodes that leave or come. Pure.

They are made in a copy of the engine's input.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from admission.engine.nodes.levels import HOST
from admission.engine.nodes.table import Node, NodeTable
from admission.engine.snapshot import Snapshot
from admission.replay.snapshot_file import level_keys, nodes_of
from admission.trials.quota_changes import (
    QueueFacts,
    QueuePatch,
    UnusableChange,
    patches_of,
    with_quota,
)
from queues.admissions import AdmissionState
from queues.api.names import HYPERNODE_TIER, NVL_DOMAIN
from queues.api.validation.tenant_rules import Requester
from queues.resources import NOTHING
from queues.text_format import counted, listed
from queues.workload import NodeName, WorkloadKey

#: Nodes that may be added, and nodes that they may be like: for each of these the table is built anew.
MOST_ADDED: Final = 5000
MOST_MODELS: Final = 8
#: Changes of one kind.
MOST_CHANGES: Final = 64

_Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to be changed, as people write it."""

    #: Limits of queues: see ``quota_changes.patches_of``.
    quota: tuple[str, ...] = ()
    #: The flavor whose limits these are; "": the plain ones.
    flavor: str = ""
    #: Writes of Queues.
    patches: tuple[QueuePatch, ...] = ()
    #: Who would change quota; None: one who may change that of every queue.
    by: Requester | None = None
    #: A node, a domain (``rack-3``, ``rack=rack-3``), or labels (``pool=a,zone=b``).
    drain: tuple[str, ...] = ()
    #: So many nodes like this one.
    add: tuple[tuple[int, str], ...] = ()

    def is_empty(self) -> bool:
        """Whether nothing is to be changed."""
        return not (self.quota or self.patches or self.drain or self.add)


@dataclass(frozen=True, slots=True)
class Changed:
    """The engine's input with the changes, and what they are in words."""

    snapshot: Snapshot
    notes: tuple[str, ...]
    #: Workloads with seats on nodes that are drained.
    drained: frozenset[WorkloadKey]
    #: What the API server would warn of.
    warnings: tuple[str, ...] = ()


def changed(snapshot: Snapshot, wanted: Wanted, facts: QueueFacts) -> Changed:
    """The snapshot with these changes. ``facts``: the Queues that there are.

    Raises UnusableChange, RefusedChange, NoQueueToChange, NotAdministered.
    """
    notes: list[str] = []
    warnings: tuple[str, ...] = ()
    if wanted.quota or wanted.patches:
        patches = (*patches_of(wanted.quota, wanted.flavor, facts, wanted.by), *wanted.patches)
        quota = with_quota(snapshot, patches, facts, wanted.by)
        snapshot, warnings = quota.snapshot, quota.warnings
        notes += quota.notes
    more = sum(count for count, _ in wanted.add)
    if more > MOST_ADDED:
        raise UnusableChange(
            option="--add-nodes", found=f"{more} in all", expected=f"at most {MOST_ADDED} at a time"
        )
    for count, like in wanted.add:
        snapshot = replace(snapshot, nodes=_with_nodes(snapshot.nodes, count, like, notes))
    drained: frozenset[WorkloadKey] = frozenset()
    if wanted.drain:
        snapshot, drained = _drained(snapshot, wanted.drain, notes)
    return Changed(snapshot, tuple(notes), drained, warnings)


# ── nodes that leave ────────────────────────────────────────────────────────────────────────────────────────


def _drained(
    snapshot: Snapshot, wanted: Sequence[str], notes: list[str]
) -> tuple[Snapshot, frozenset[WorkloadKey]]:
    """No new pod on these nodes, and none of those that are there: their owners make others."""
    table = snapshot.nodes
    mask: _Mask = np.zeros(len(table), np.bool_)
    for text in wanted:
        chosen = nodes_named(table, text)
        if not chosen.any():
            expected = "a node, a domain such as rack-3, or KEY=VALUE of nodes that there are"
            raise UnusableChange(option="--drain", found=repr(text[:100]), expected=expected)
        mask |= chosen
    names = {table.layout.names[column] for column in np.flatnonzero(mask)}
    notes.append(f"{counted(len(names), 'node')} drained: {listed(sorted(names))}")
    layout = replace(
        table.layout,
        usable=table.layout.usable & ~mask,
        why_not=tuple(
            "drained" if is_drained else why
            for why, is_drained in zip(table.layout.why_not, mask.tolist(), strict=True)
        ),
        _filters={},  # they depend on what is usable
    )
    ended, moving = dict(snapshot.ended), dict(snapshot.pending)
    touched: set[WorkloadKey] = set()
    for number, admission in snapshot.admissions.items():
        if admission.state is not AdmissionState.OPEN:
            continue
        gone = frozenset(
            index
            for index, seat in enumerate(admission.seats)
            if seat.node in names and index not in admission.ended
        )
        if not gone:
            continue
        ended[number] = ended.get(number, frozenset()) | gone
        touched.add(admission.workload)
        holder = snapshot.holders.get(admission.workload)
        if holder is not None:
            moving[admission.workload] = holder
    nodes = replace(table, layout=layout)
    return replace(snapshot, nodes=nodes, ended=ended, pending=moving), frozenset(touched)


def nodes_named(table: NodeTable, text: str) -> _Mask:
    """(N,) the nodes that a text names: one by its name, those of a domain, those with labels. None: no node."""
    layout = table.layout
    mask: _Mask = np.zeros(len(table), np.bool_)
    if (column := layout.position.get(NodeName(text))) is not None:
        mask[column] = True
        return mask
    if "=" not in text:
        levels = [level for chain in layout.chains for level in chain[:-1]]
        for level in levels:
            found = [each == text or each.rpartition("/")[2] == text for each in level.domains]
            of = np.array([*found, False], np.bool_)[level.of]  # -1: in no domain
            if of.any():
                return of
        return mask
    wanted = [part.strip().partition("=")[::2] for part in text.split(",")]
    for column in range(len(table)):
        labels = layout.labels.of(column)
        mask[column] = all(_has(labels, key, value) for key, value in wanted)
    return mask


def _has(labels: Mapping[str, str], key: str, value: str) -> bool:
    """Whether a label is there, by its whole key, or by what follows the ``/`` in it."""
    if "/" in key or key in labels:
        return labels.get(key) == value
    return any(each.rpartition("/")[2] == key and text == value for each, text in labels.items())


# ── nodes that come ─────────────────────────────────────────────────────────────────────────────────────────


def _with_nodes(table: NodeTable, count: int, like: str, notes: list[str]) -> NodeTable:
    """More nodes like one: empty, usable, and in its domains."""
    column = table.layout.position.get(NodeName(like))
    if column is None:
        raise UnusableChange(option="--like", found=repr(like[:100]), expected="a node that there is")
    if not 0 < count <= MOST_ADDED:
        raise UnusableChange(option="--add-nodes", found=str(count), expected=f"1 to {MOST_ADDED}")
    nodes = list(nodes_of(table))
    model = nodes[column]
    names = [NodeName(f"{like}-like-{number}") for number in range(1, count + 1)]
    added = [_copy(model, name) for name in names]
    domain = _innermost(table, column)
    notes.append(
        f"{counted(count, 'node')} like {like} more" + (f", in {domain}" if domain else "") + ", empty"
    )
    built = NodeTable.build([*nodes, *added], _levels(table), _tree(table, like, names), table.layout.growth)
    limits = table.attach_limits
    if like in limits:
        limits = {**limits, **dict.fromkeys(names, limits[NodeName(like)])}
    return replace(built, ports=table.ports, attach_limits=limits)


def _copy(model: Node, name: NodeName) -> Node:
    labels = {**model.labels, HOST: name} if HOST in model.labels else model.labels
    return replace(model, name=name, used=NOTHING, labels=labels, usable=True, why_not="")


def _innermost(table: NodeTable, column: int) -> str:
    for level in reversed(table.layout.chains[0][:-1]) if table.layout.chains else ():
        if (domain := int(level.of[column])) >= 0:
            return f"{level.key.rpartition('/')[2]} {level.domains[domain]}"
    return ""


def _levels(table: NodeTable) -> list[list[str]]:
    """The keys of the topologies that a table was built with; those of HyperNodes, and of NVLink domains that nodes
    tell by themselves, are left out."""
    chains = [level_keys(table.layout, chain) for chain in table.layout.chains]
    if len(chains) > 1 and chains[-1] == [NVL_DOMAIN]:
        chains.pop()
    return [keys for keys in chains if keys and not keys[0].startswith(HYPERNODE_TIER)]


def _tree(table: NodeTable, like: str, names: Sequence[NodeName]) -> list[tuple[str, dict[NodeName, str]]]:
    """The domains of HyperNodes, with the new nodes where the one is that they are like."""
    layout = table.layout
    for chain in layout.chains:
        if len(chain) > 1 and chain[0].key.startswith(HYPERNODE_TIER):
            found = []
            for level in chain[:-1]:
                of = level.of.tolist()
                domains = {
                    name: level.domains[of[column]]
                    for column, name in enumerate(layout.names)
                    if of[column] >= 0
                }
                if like in domains:
                    domains |= dict.fromkeys(names, domains[NodeName(like)])
                found.append((level.key, domains))
            return found
    return []
