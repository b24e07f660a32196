"""Reasons of gangs with a request for nodes, as they are stored and shown. The decision knows of no requests."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace

from admission.engine.pending.classes import ClassAnswers
from admission.provisioning.found_requests import RequestPhase
from admission.provisioning.request_progress import FACT, NodesAsked, RequestProgress, is_for_nodes
from queues.plan import NODES_REFUSED, Plan, Reason
from queues.reason_codes import ReasonCode
from queues.workload import Workload, WorkloadKey


class ToldRequests:
    """What the gangs of one term show about their requests. ``stored``: reasons as the ledger has them at its start."""

    def __init__(self, stored: Mapping[WorkloadKey, Reason]) -> None:
        #: None if this term has not looked at the requests yet.
        self._known: Mapping[WorkloadKey, NodesAsked] | None = None
        #: Gangs whose stored reason names a request, or may do so.
        self._told = {key for key, reason in stored.items() if FACT in reason.facts}
        #: Gangs that were refused nodes for good.
        self.refused = without_more_nodes(stored)

    def put(self, known: Mapping[WorkloadKey, NodesAsked]) -> bool:
        """What a look has found. True if gangs are to show something else."""
        known = {key: self._as_before(key, each) for key, each in known.items()}
        changed = known != (self._known or {})
        # What the term before has stored about requests that are gone has to go as well.
        changed |= self._known is None and bool(self._told)
        self._known = known
        self.refused = frozenset(
            key for key, each in known.items() if isinstance(each, RequestProgress) and each.refused
        )
        return changed

    def _as_before(self, key: WorkloadKey, asked: NodesAsked) -> NodesAsked:
        """A further request that is not answered yet changes nothing for a gang that was refused nodes for good."""
        if not isinstance(asked, RequestProgress) or key not in self.refused:
            return asked
        is_open = asked.phase is RequestPhase.OPEN and asked.next_at is None
        return replace(asked, refused=True) if is_open else asked

    def told_in(
        self, plan: Plan, pending: Mapping[WorkloadKey, Workload], stored: Mapping[WorkloadKey, Reason]
    ) -> Plan:
        """The plan with the reasons that gangs show. ``stored``: reasons as the ledger has them now."""
        self._told = {key for key in self._told if key in stored and FACT in stored[key].facts}
        about = self._told | (self._known or {}).keys()
        if not about:
            return plan
        reasons = plan.reasons if isinstance(plan.reasons, ClassAnswers) else ClassAnswers({}, plan.reasons)
        of_classes = _reasons_in_classes(reasons, about, pending)
        own: dict[WorkloadKey, Reason] = {}
        for key in about:
            reason = reasons.own_reasons.get(key) or of_classes.get(key)
            if reason is not None:
                # Also where nothing is shown any more: the reason of its class may be an old one, compared long ago.
                own[key] = self._of(key, reason, stored)
                self._told.add(key)
        overlap = reasons.overlap + sum(key in of_classes and key not in reasons.own_reasons for key in own)
        return replace(plan, reasons=ClassAnswers(reasons.classes, {**reasons.own_reasons, **own}, overlap))

    def _of(self, key: WorkloadKey, reason: Reason, stored: Mapping[WorkloadKey, Reason]) -> Reason:
        if not is_for_nodes(reason):
            return reason
        if self._known is None:
            before = stored.get(key)
            return reason if before is None or before.code is not ReasonCode.PROVISIONING else before
        progress = self._known.get(key)
        return reason if progress is None else progress.told(reason)


def without_more_nodes(stored: Mapping[WorkloadKey, Reason]) -> frozenset[WorkloadKey]:
    """Gangs that were refused nodes for good, by their stored reasons."""
    return frozenset(key for key, reason in stored.items() if reason.facts.get(NODES_REFUSED))


def _reasons_in_classes(
    reasons: ClassAnswers, about: AbstractSet[WorkloadKey], pending: Mapping[WorkloadKey, Workload]
) -> dict[WorkloadKey, Reason]:
    """Reasons of some workloads by their classes, without an index of all that wait."""
    queues = {pending[key].queue for key in about if key in pending}
    return {
        key: answer.reason
        for answer in reasons.classes.values()
        if answer.queue in queues
        for key in answer.workloads()
        if key in about
    }
