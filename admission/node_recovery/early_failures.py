"""Nodes that kill the pods of any gang that they get, found from how pods with devices end.

A pod that fails soon after its start may be the fault of its program. Pods of several gangs, of different tenants and
different users, that fail so on one node, and none that does not, are the fault of the node. Gangs of one tenant or one
user alone show nothing while others have gangs as well: one person can start as many programs that fail, in all
namespaces and queues that she may use, and would close nodes to all. Where no other tenant or user has gangs they
count, and the node is open again as soon as another one has.

What a gang shows is limited in two ways: of the pods of one admission only the first failure counts, for the others may
be its consequence; and a gang that fails in this way on several nodes, admission after admission, shows nothing of any
of them.

Kept in memory only: a new leader finds it out again.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from queues.workload import AdmissionId, NodeName, WorkloadKey

#: So many different gangs have a pod that failed early, without any pod on the node that did not.
GANGS: Final = 3
#: A pod failed early if it failed within this time (seconds) after its start.
EARLY: Final = 120
#: Failures of this time (seconds) count.
WINDOW: Final = 1800
#: Seconds for which the node gets no gangs. It doubles each time that they fail there again, at most so often.
CLOSED_FOR: Final = 1800
_MOST_DOUBLINGS: Final = 5
#: Early failures that are remembered; beyond that the oldest are forgotten.
MOST_FAILURES: Final = 10_000


class Submitter(NamedTuple):
    """Whose work a gang is: what of it others would have to share before its failures count as a node's."""

    #: The top-level queue above the gang's queue.
    tenant: str
    #: "": unknown.
    user: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRun:
    """How a pod with devices fared on a node. Times in seconds since the epoch."""

    node: NodeName
    gang: WorkloadKey
    submitter: Submitter
    admission: AdmissionId
    started: int
    #: When it ended; of a pod that still runs: now. That is worth knowing when it has run for longer than ``EARLY``.
    until: int
    failed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class KillsPods:
    """The finding that a node kills pods."""

    #: The failures that show it, and when the last one was.
    failures: tuple[PodRun, ...]
    since: int
    #: The first second at which it may have gangs again.
    until: int
    #: How often it was found before, without a pod that did well since.
    before: int

    def __str__(self) -> str:
        gangs = len({failure.gang for failure in self.failures})
        return f"pods of {gangs} different gangs failed soon after their start"


class EarlyFailures:
    """Early failures in a cluster, and the nodes that kill pods."""

    def __init__(self) -> None:
        #: The first early failure of each admission; those that were seen first come first.
        self._first: dict[AdmissionId, PodRun] = {}
        self._found: dict[NodeName, KillsPods] = {}

    def saw(self, run: PodRun) -> None:
        """Take in how a pod fared."""
        if not run.failed or run.until - run.started > EARLY:
            self._did_well(run)
            return
        known = self._first.get(run.admission)
        if known is None or run.until < known.until:
            self._first[run.admission] = run
        if len(self._first) > MOST_FAILURES:
            del self._first[next(iter(self._first))]

    def suspected(self) -> set[NodeName]:
        """Nodes with early failures, and nodes that were found to kill pods."""
        return {*(failure.node for failure in self._first.values()), *self._found}

    def forget(self, node: NodeName) -> None:
        """The node is gone, or was recovered: what was seen of it counts no more."""
        self._found.pop(node, None)
        self._first = {admission: run for admission, run in self._first.items() if run.node != node}

    def find(self, submitters: Collection[Submitter], now: int) -> Mapping[NodeName, KillsPods]:
        """Nodes that kill pods, and get no gangs now. ``submitters``: those that have gangs; of many, those of two
        tenants and two users at least."""
        self._first = {number: run for number, run in self._first.items() if run.until > now - WINDOW}
        nodes_of: dict[WorkloadKey, set[NodeName]] = defaultdict(set)
        for run in self._first.values():
            nodes_of[run.gang].add(run.node)
        for node, found in list(self._found.items()):
            left = [run for run in found.failures if nodes_of.get(run.gang, {node}) == {node}]
            if found.until > now and not _show_something(left, submitters):
                del self._found[node]
        counting: dict[NodeName, list[PodRun]] = defaultdict(list)
        for run in self._first.values():
            if len(nodes_of[run.gang]) == 1:
                counting[run.node].append(run)
        for node, failures in counting.items():
            known = self._found.get(node)
            if (known is None or known.until <= now) and _show_something(failures, submitters):
                before = 0 if known is None else known.before + 1
                since = max(run.until for run in failures)
                until = since + (CLOSED_FOR << min(before, _MOST_DOUBLINGS))
                self._found[node] = KillsPods(
                    failures=tuple(failures), since=since, until=until, before=before
                )
        return {node: found for node, found in self._found.items() if found.until > now}

    def _did_well(self, run: PodRun) -> None:
        """The node did not kill this pod, so failures until then are not the node's, whenever the pod started.

        Of a pod that failed in the end only the first minutes are known to have been well.
        """
        well_until = min(run.until, run.started + EARLY) if run.failed else run.until
        for admission, failure in list(self._first.items()):
            if failure.node == run.node and failure.until <= well_until:
                del self._first[admission]
        found = self._found.get(run.node)
        if found is not None and found.since <= well_until:
            del self._found[run.node]


def _show_something(failures: Collection[PodRun], submitters: Collection[Submitter]) -> bool:
    """True if these failures are the fault of their node: of enough gangs, of several tenants unless no other tenant
    has gangs; and the same of users."""
    tenants = {run.submitter.tenant for run in failures}
    users = {run.submitter.user for run in failures}
    return (
        len({run.gang for run in failures}) >= GANGS
        and (len(tenants) > 1 or tenants >= {each.tenant for each in submitters})
        and (len(users) > 1 or users >= {each.user for each in submitters})
    )
