"""What an administrator wants to happen to nodes with faults."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class BlackHoleRule:
    """When a node counts as one that kills the pods of whatever gang it gets. Times in seconds."""

    #: So many different gangs have a pod that failed early, without any pod on the node that did not.
    gangs: int = 3
    #: A pod failed early if it failed within this time after its start.
    within: int = 120
    #: Failures of this time count.
    window: int = 1800
    #: After this time the node gets one gang again, on trial. It doubles each time that the trial fails.
    retry_after: int = 1800


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultPolicy:
    """What follows from a fault. Times in seconds."""

    #: Whether Muster takes nodes out of service by itself. Gangs on faulty devices are evicted by the policies of their
    #: own queues, whatever is said here.
    recovers: bool = False
    #: Circuit breaker: Muster takes no further node out of service while so many are out. None if unbounded.
    max_nodes_out: int | None = None
    #: The same in per cent of all nodes with devices, rounded down, but at least one node. The smaller bound counts.
    max_percent_out: int | None = 10
    #: Gangs of the node that are not on faulty devices may go on for so long. 0: they go at once.
    drain_timeout: int = 3600
    #: CronJob (``namespace/name``) that recovery Jobs are made from. If None, the node waits until its agent reports
    #: its devices as healthy, for instance because other software repairs it.
    recovery_job: str | None = None
    #: CronJob that test Jobs are made from. If None, what the agent reports is enough.
    verify_job: str | None = None
    #: A Job that has not ended after this time has failed.
    job_timeout: int = 1800
    #: How long devices may take to be well again after a recovery Job has ended. Where no reading shows that a device
    #: has recovered, the agent calls it healthy ten minutes later, and one that was flapping another ten minutes later.
    verify_timeout: int = 1500
    #: So many recoveries are tried; then the node stays out and needs a person. 0: a person does all of them.
    attempts: int = 3
    #: A fault within this time after a recovery goes on with that recovery's count of attempts.
    attempts_within: int = 86_400
    #: If None, nothing is concluded from pods that fail.
    black_hole: BlackHoleRule | None = BlackHoleRule()
