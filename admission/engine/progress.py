"""What a decision is busy with: written by the engine, read from another thread while the decision goes on."""

from dataclasses import dataclass

from queues.workload import WorkloadKey


@dataclass(slots=True)
class Progress:
    """Takes no part in a decision. The engine has no clock: its caller measures the time."""

    #: The workload that is being tried, or was last; None if none was yet.
    workload: WorkloadKey | None = None
