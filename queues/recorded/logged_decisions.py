"""Lines of the decision log, as a plan that is decided again is compared with them."""

from dataclasses import dataclass

from queues.workload import WorkloadKey


@dataclass(frozen=True, slots=True, order=True)
class LoggedDecision:
    """One line of the decision log."""

    #: evict | free | adopt | admit | reject (admitted by the plan, and refused by the ledger)
    what: str
    workload: WorkloadKey
    namespace: str
    name: str
    queue: str
    #: The code of a reason, or by which rule seats were given.
    rule: str

    def __str__(self) -> str:
        return (
            f"{self.what} {self.workload.kind}/{self.name} (namespace {self.namespace}, queue {self.queue})"
        )
