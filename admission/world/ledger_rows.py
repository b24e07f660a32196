"""What the ledger says of workloads next to their admissions: arrivals, setbacks, claims, reasons. Pure."""

from collections.abc import Iterable, Mapping

from admission.world.reasons import without_more_nodes
from queues.admissions import NO_SETBACKS, Claim, LastEviction, Setbacks
from queues.plan import Reason
from queues.workload import WorkloadKey
from queues.world_rows import WorldRows


class LedgerRows:
    """Part of the world: rows by workload, as they were read and as applied plans have changed them since."""

    def __init__(self, rows: WorldRows) -> None:
        #: Of the last transaction.
        self.seq = rows.ledger_seq
        self.arrivals = dict(rows.arrivals)
        self.setbacks = dict(rows.setbacks)
        #: The last eviction for a beneficiary, of workloads that wait again.
        self.last_evictions = dict(rows.last_evictions)
        #: Space that is promised while victims leave.
        self.claims = {claim.workload: claim for claim in rows.claims}
        #: Why workloads wait.
        self.reasons = dict(rows.reasons)
        #: Those that were refused nodes for good by cluster autoscalers.
        self.without_more_nodes = without_more_nodes(rows.reasons)

    def setbacks_of(self, key: WorkloadKey) -> Setbacks:
        """The setbacks of a workload."""
        return self.setbacks.get(key, NO_SETBACKS)

    def put_claims(self, claims: Iterable[Claim], dropped: Iterable[WorkloadKey]) -> None:
        """Claims that an applied plan made or dropped."""
        for key in dropped:
            self.claims.pop(key, None)
        self.claims.update((claim.workload, claim) for claim in claims)

    def put_reasons(self, changed: Mapping[WorkloadKey, Reason], gone: Iterable[WorkloadKey]) -> None:
        """Why workloads wait, as the ledger has it now; ``gone``: workloads that wait no more."""
        for key in gone:
            self.reasons.pop(key, None)
        self.reasons.update(changed)

    def put_last_evictions(
        self, admitted: Iterable[WorkloadKey], evicted: Mapping[WorkloadKey, LastEviction | None]
    ) -> None:
        """Last evictions that are worth showing; forgotten once a workload is admitted again."""
        for key in (*admitted, *evicted):
            self.last_evictions.pop(key, None)
        self.last_evictions.update((key, last) for key, last in evicted.items() if last is not None)

    def pass_on(self, before: WorkloadKey, after: WorkloadKey) -> None:
        """The second workload takes the place of the first."""
        if (setbacks := self.setbacks.get(before)) is not None:
            self.setbacks[after] = setbacks
        if (last := self.last_evictions.get(before)) is not None:
            self.last_evictions[after] = last

    def forget(self, key: WorkloadKey) -> None:
        """The workload is gone and holds nothing."""
        self.arrivals.pop(key, None)
        self.setbacks.pop(key, None)
        self.last_evictions.pop(key, None)
        self.claims.pop(key, None)
        self.reasons.pop(key, None)
