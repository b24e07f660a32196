"""Workloads of one shape in one queue, which get one answer; and what such classes share."""

from collections.abc import Hashable
from dataclasses import dataclass, field

from admission.engine.eligible import Wants
from admission.engine.kept import waits_since
from admission.engine.plan import Reason
from admission.engine.preemption import Refused
from admission.engine.verdicts import Verdict
from queues.order.line import Alike
from queues.order.policies import Candidate, Rank
from queues.workload import FlavorName, QueueName, Workload


@dataclass(slots=True, eq=False)
class Pods:
    """The pods of workloads that hold no seat. Equal ones are the same object."""

    name: Hashable
    wants: Wants
    #: So many workloads ask for them.
    asked: int = 0


@dataclass(slots=True, eq=False)
class Kind:
    """Classes that get one answer from the nodes."""

    name: Hashable
    wants: Wants
    #: One of them: all ask for the same pods.
    workload: Workload
    flavors: tuple[FlavorName, ...]
    #: Classes whose queues let them in as things stand at the start of the turn.
    open: dict["Batch", None] = field(default_factory=dict)
    #: So many classes are of this kind.
    classes: int = 0
    #: Why not even one goes in at the start of the turn; None: it may.
    reason: Reason | None = None
    #: Whether that has to be worked out anew.
    stale: bool = True


@dataclass(slots=True, eq=False)
class Batch:
    """A class: workloads of one shape in one queue, and why they wait."""

    name: Hashable
    alike: Alike
    wants: Wants
    kind: Kind
    #: Why none of them will go in until queues or nodes are other ones.
    never: Reason | None
    #: Why the queue lets none of them in at the start of this turn.
    limit: Reason | None = None
    #: Whether that has to be worked out anew.
    fresh: bool = True
    #: The last answer, kept as long as it and the members stay the same.
    verdict: Verdict | None = None
    refused: Refused | None = None
    #: Who of them has waited longest, once that was asked.
    longest: Candidate | None = None

    @property
    def queue(self) -> QueueName:
        """Where they wait."""
        return self.alike.queue

    @property
    def waits(self) -> bool:
        """Whether somebody was not admitted."""
        return self.alike.taken < len(self.alike.candidates)

    def waits_longest(self) -> Candidate:
        """Who of them has waited longest."""
        if self.longest is None:
            self.longest = min(self.alike.candidates, key=lambda each: waits_since(each.workload))
        return self.longest

    def refused_already(self) -> Reason | None:
        """Why none of them could go in even alone."""
        return self.limit or self.kind.reason

    def judge(self, reason: Reason) -> Verdict:
        """This is why those of them wait who were not admitted."""
        known = self.verdict
        if known is None or known.reason is not reason:
            members = tuple(self.alike.rest()) if known is None else known.members
            known = self.verdict = Verdict(self.queue, reason, members)
        return known

    def refuse(self) -> Refused:
        """The last answer, for those who could make room."""
        verdict, known = self.verdict, self.refused
        assert verdict is not None
        if known is None or known.reason is not verdict.reason or known.members is not verdict.members:
            known = Refused(members=verdict.members, need=self.wants.need, reason=verdict.reason)
            self.refused = known
        return known


@dataclass(slots=True, eq=False)
class Entry:
    """One workload that waits."""

    candidate: Candidate
    wants: Wants
    #: None: it holds seats.
    pods: Pods | None
    #: None: it waits for a reason of its own.
    batch: Batch | None = None
    #: Its place in the class; None: it is left out for now.
    rank: Rank | None = None
