"""Nodes that kill the pods of any gang that they get, found from how pods end.

A pod that fails soon after its start may be the fault of its program. Pods of several gangs, of different tenants and
different users, that fail so on one node, and none that does not, are the fault of the node. Gangs of one tenant or one
user alone show nothing while others have gangs as well: one person can start as many programs that fail, in all
namespaces and queues that she may use, and would close nodes to all. Where no other tenant or user has gangs they
count, and the node is open again as soon as another one has. Pods that named the node show nothing either.

What a gang shows is limited in two ways: of the pods of one admission only the first failure counts, for the others may
be its consequence; and a gang that fails in this way on several nodes, admission after admission, shows nothing of any
of them.

All this is about pods with devices of the node.

Kept in memory only: a new leader finds it out again.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from admission.node_recovery.policy import BlackHoleRule
from admission.node_recovery.view import BlackHole
from queues.workload import AdmissionId, NodeName, WorkloadKey

#: Gangs with early failures that are remembered; beyond that the oldest are forgotten.
MOST_GANGS: Final = 10_000
#: The time between trials doubles at most so often.
_MOST_DOUBLINGS: Final = 5


class Submitter(NamedTuple):
    """Whose work a gang is: what of it others would have to share before its failures count as a node's."""

    #: The top-level queue above the gang's queue.
    tenant: str
    #: "": unknown.
    user: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRun:
    """How a pod with devices fared on a node. Times in seconds since the epoch.

    Not for pods that were deleted or evicted, nor for failures of pods that named the node: they show nothing. A pod
    that the kubelet refuses started when it failed.
    """

    node: NodeName
    gang: WorkloadKey
    submitter: Submitter
    admission: AdmissionId
    started: int
    #: When it ended; of a pod that still runs: now. That is worth knowing when it has run longer than ``within``.
    until: int
    failed: bool


@dataclass(frozen=True, slots=True)
class _EarlyFailure:
    """What a gang shows."""

    node: NodeName
    submitter: Submitter
    admission: AdmissionId
    failed: int
    #: It failed in this way on several nodes.
    everywhere: bool = False


@dataclass(frozen=True, slots=True)
class _Hole:
    """A node that gets no gangs, or one on trial."""

    since: int
    gangs: int
    #: From then on the node may get one gang.
    retry_at: int
    #: Trials that failed.
    trials: int = 0
    #: The gang on trial, and when it came. None if there is none.
    on_trial: tuple[WorkloadKey, int] | None = None
    #: The submitters of the gangs that failed.
    submitters: frozenset[Submitter] = frozenset()


class BlackHoleDetector:
    """The nodes of a cluster that kill pods. Bounded: ``MOST_GANGS`` gangs, and what was found of each node."""

    def __init__(self, rule: BlackHoleRule) -> None:
        self.rule = rule
        #: Submitters that have gangs; of many, those of two tenants and two users at least.
        self.submitters: frozenset[Submitter] = frozenset()
        #: The gangs whose failure is the oldest come first.
        self._failures: dict[WorkloadKey, _EarlyFailure] = {}
        self._on_node: dict[NodeName, set[WorkloadKey]] = {}
        self._holes: dict[NodeName, _Hole] = {}

    def saw(self, run: PodRun) -> None:
        """Take in how a pod fared."""
        if run.failed and run.until - run.started <= self.rule.within:
            self._failed_early(run)
        else:
            self._did_well(run)

    def black_hole(self, node: NodeName, now: int) -> BlackHole | None:
        """What was found of a node. None if it gets gangs, or one on trial."""
        hole = self._holes.get(node)
        if hole is None or hole.retry_at <= now:
            return None
        return BlackHole(since=hole.since, gangs=hole.gangs, trials=hole.trials)

    def takes_gangs(self, node: NodeName, now: int) -> bool:
        """Whether a gang may be seated on the node now."""
        hole = self._holes.get(node)
        if hole is None:
            return True
        if hole.retry_at > now:
            return False
        # A gang on trial that shows nothing, for it never started or left again, does not keep the node closed.
        return hole.on_trial is None or hole.on_trial[1] + self.rule.retry_after <= now

    def trial_from(self, node: NodeName, now: int) -> int | None:
        """From when on a gang that is admitted to the node is its trial.

        None if the node is not on trial, or its trial has begun.
        """
        hole = self._holes.get(node)
        if hole is None or not self.takes_gangs(node, now):
            return None
        return hole.retry_at if hole.on_trial is None else hole.on_trial[1] + 1

    def suspected(self) -> set[NodeName]:
        """Nodes with early failures that count, and nodes that were found to kill pods."""
        return {*self._on_node, *self._holes}

    def seated(self, node: NodeName, gang: WorkloadKey, now: int) -> None:
        """A gang was seated on the node: if the node is on trial, this is its trial."""
        hole = self._holes.get(node)
        if hole is not None and self.takes_gangs(node, now):
            self._holes[node] = replace(hole, on_trial=(gang, now))

    def try_now(self, node: NodeName, now: int) -> None:
        """Let the node have one gang, since it was recovered or a person says so."""
        hole = self._holes.get(node)
        if hole is not None:
            self._holes[node] = replace(hole, retry_at=now, on_trial=None)

    def open_beyond(self, most: int, now: int) -> None:
        """Of the nodes that take no gangs, keep so many closed: those closed longest.

        Pods that fail on many nodes at one time are no fault of the nodes, and gangs need somewhere to go.
        """
        closed = [(hole.since, node) for node, hole in self._holes.items() if not self.takes_gangs(node, now)]
        for _, node in sorted(closed)[most:]:
            del self._holes[node]

    def open_to_others(self) -> None:
        """What the gangs of one tenant or one user showed closes no node to others."""
        for node, hole in list(self._holes.items()):
            if not self._are_enough(hole.submitters):
                del self._holes[node]

    def forget_all(self) -> None:
        """Nothing is concluded any more."""
        self._failures.clear()
        self._on_node.clear()
        self._holes.clear()

    def forget(self, node: NodeName) -> None:
        """The node is gone."""
        self._holes.pop(node, None)
        for gang in self._on_node.pop(node, set()):
            self._failures.pop(gang, None)

    def expire(self, now: int) -> None:
        """Forget failures that are older than the window. What was found of nodes stays until a pod does well there."""
        for gang in [gang for gang, seen in self._failures.items() if seen.failed <= now - self.rule.window]:
            self._withdraw(gang)

    def _failed_early(self, run: PodRun) -> None:
        known = self._failures.get(run.gang)
        if known is None or known.failed <= run.until - self.rule.window:
            self._blame(run)
        elif known.everywhere:
            self._remember(run, everywhere=True)
            self._end_trial(run)
        elif known.node == run.node:
            self._blame(run)
        elif known.admission != run.admission:
            self._remember(run, everywhere=True)
            self._judge_again(known.node)
            self._end_trial(run)
        elif known.failed <= run.until:
            self._end_trial(run)
        else:
            self._blame(run)
            self._judge_again(known.node)

    def _did_well(self, run: PodRun) -> None:
        """The node did not kill this pod, so failures until then are not the node's, whenever the pod started.

        Of a pod that failed in the end only the first minutes are known to have been well.
        """
        well_until = min(run.until, run.started + self.rule.within) if run.failed else run.until
        for gang in sorted(self._on_node.get(run.node, ())):
            if self._failures[gang].failed <= well_until:
                self._withdraw(gang)
        hole = self._holes.get(run.node)
        if hole is not None and hole.since <= well_until:
            del self._holes[run.node]

    def _end_trial(self, run: PodRun) -> None:
        """The gang shows nothing of this node: if it was on trial there, another one may be tried from now on."""
        hole = self._holes.get(run.node)
        if hole is not None and hole.on_trial is not None and hole.on_trial[0] == run.gang:
            self._holes[run.node] = replace(hole, retry_at=run.until, on_trial=None)

    def _blame(self, run: PodRun) -> None:
        """The failure counts as the node's."""
        self._remember(run, everywhere=False)
        self._on_node.setdefault(run.node, set()).add(run.gang)
        self._judge(run)

    def _remember(self, run: PodRun, *, everywhere: bool) -> None:
        self._withdraw(run.gang)
        while len(self._failures) >= MOST_GANGS:
            self._withdraw(next(iter(self._failures)))
        self._failures[run.gang] = _EarlyFailure(
            run.node, run.submitter, run.admission, run.until, everywhere
        )

    def _judge(self, run: PodRun) -> None:
        """Close the node, if enough gangs failed there, or for longer, if its trial did."""
        recent, hole = self._recent(run.node, run.until), self._holes.get(run.node)
        if not recent:
            self._end_trial(run)
        elif hole is None and len(recent) >= self.rule.gangs:
            self._close(run, recent, _Hole(run.until, 0, run.until), trials=0)
        elif hole is not None and hole.retry_at <= run.started:
            self._close(run, recent, hole, trials=hole.trials + 1)

    def _close(self, run: PodRun, recent: list[Submitter], before: _Hole, *, trials: int) -> None:
        pause = self.rule.retry_after << min(trials, _MOST_DOUBLINGS)
        gangs = max(len(recent), before.gangs)
        self._holes[run.node] = _Hole(
            run.until, gangs, run.until + pause, trials, submitters=frozenset(recent)
        )

    def _judge_again(self, node: NodeName) -> None:
        """A failure on the node was not its fault: without it there may be too few."""
        hole = self._holes.get(node)
        if hole is not None and not hole.trials and len(self._recent(node, hole.since)) < self.rule.gangs:
            del self._holes[node]

    def _recent(self, node: NodeName, now: int) -> list[Submitter]:
        """Submitters of the gangs with an early failure on the node within the window; empty: they show nothing."""
        since = now - self.rule.window
        failures = [self._failures[gang] for gang in self._on_node.get(node, ())]
        submitters = [failure.submitter for failure in failures if failure.failed > since]
        return submitters if self._are_enough(submitters) else []

    def _are_enough(self, submitters: Collection[Submitter]) -> bool:
        """True if failures of these show something of a node.

        They do if they are of several tenants, or no other tenant has gangs; and the same of users.
        """
        return all(
            len(failed) > 1 or not {submitter[part] for submitter in self.submitters} - failed
            for part in range(len(Submitter._fields))
            for failed in [{submitter[part] for submitter in submitters}]
        )

    def _withdraw(self, gang: WorkloadKey) -> None:
        known = self._failures.pop(gang, None)
        if known is not None and (gangs := self._on_node.get(known.node)) is not None:
            gangs.discard(gang)
            if not gangs:
                del self._on_node[known.node]
