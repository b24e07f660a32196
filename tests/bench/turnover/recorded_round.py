"""One round of a recorded load: what was seen, what Muster logged meanwhile, and what it took."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from tests.bench import processes, report
from tests.bench.documents import GANG, Document
from tests.bench.rounds import Scene, cpu_seconds, run_load
from tests.bench.turnover.decision_log import DecisionLog, decisions
from tests.bench.turnover.recorded_load import Order, Record


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRound:
    """What one round was like."""

    record: Record
    #: Empty without Muster, as the memory is 0.
    log: DecisionLog = field(default_factory=DecisionLog)
    #: CPU seconds by component, and of the load.
    cpu: Mapping[str, float] = field(default_factory=dict)
    memory_mb: float = 0.0

    def spent(self, what: str) -> str:
        """The CPU per workload, a line for people. ``what``: the kind of workload."""
        return report.spent(self.cpu, len(self.record.workloads), what)


def play_recorded(on: Scene, collection: str, documents: Sequence[Document]) -> RecordedRound:
    """Submit documents to a control plane, and wait until all have ended. Raises RuntimeError: one has failed."""
    order = Order(kubeconfig=str(on.cluster.kubeconfig), collection=collection, documents=list(documents))
    before = cpu_seconds(on.pids)
    record = Record.from_json(run_load("tests.bench.turnover.recorded_load", asdict(order)))
    after = cpu_seconds(on.pids)
    none_failed(record)
    cpu = {name: after[name] - before[name] for name in on.pids} | {"load": record.cpu_seconds}
    if on.muster is None:
        return RecordedRound(record=record, cpu=cpu)
    log = decisions(on.muster.log.read_text().splitlines(), record.workloads[0].submitted)
    memory = processes.peak_memory_mb(on.muster.process.pid)
    return RecordedRound(record=record, log=log, cpu=cpu, memory_mb=memory)


def none_failed(record: Record) -> None:
    """Raises RuntimeError: a workload has failed, so the figures of the round say nothing."""
    if failed := [number for number, each in enumerate(record.workloads) if each.failed]:
        raise RuntimeError(f"{len(failed)} workloads failed, {GANG.format(failed[0])} among them")
