"""A queue as its administrator wrote it: its place in the tree, its limits, how it is served.

What follows from a queue's place (inherited policies, effective limits, shares) is in ``queues.quota.tree``.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from queues.admissions import Seat
from queues.plugins.registry import PluginSetAside
from queues.quota.accounts import Account
from queues.quota.budgets import HoursBudget, SpentBudget
from queues.resources import NOTHING, Resources
from queues.text_format import span
from queues.workload import NO_FLAVOR, FlavorName, QueueName, Requirement, Toleration

ROOT = QueueName("root")
#: Levels of queues below root. What looks at a queue looks at all queues above it, one inside the other.
MOST_LEVELS: Final = 32
#: Why a queue whose object was deleted cannot be used.
WAS_REMOVED: Final = "it was removed"

#: Value of ``policy.health.onFault`` that leaves gangs where they are.
REPORT: Final = "report"
#: Values of ``policy.jobs``: all pods of a Job start together, or each when it has a place.
GANG: Final = "gang"
ARRAY: Final = "array"
#: Value of ``policy.onPluginFailure`` with which nothing is admitted while a plug-in cannot be used.
HOLD: Final = "hold"
#: The value with which Muster recovers nodes too, where ``root`` has it.
RECOVER: Final = "recover"

#: The highest value that Kubernetes allows for priority classes of users. The classes ``system-…`` rank above it.
HIGHEST_USER_PRIORITY = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one queue in one flavor, or (``NO_FLAVOR``) over all. Units of ``queues.resources``."""

    guarantee: Resources = NOTHING
    #: A resource that is absent has no deserved amount of its own: the weighted share counts.
    deserved: Mapping[str, int] = field(default_factory=dict)
    #: A resource that is absent is limited by the ancestors only.
    capability: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePolicy:
    """How a queue is served (``spec.policy``). None if inherited from the parent, at the top the default."""

    #: never | lower-priority | lower-or-newer-equal; default lower-priority.
    within_queue: str | None = None
    #: never | lower-priority | any; default any.
    reclaim: str | None = None
    #: May preempt though it borrows, victims of at most this priority; default: it may not.
    borrow_max_priority: int | None = None
    #: Seconds after which space is cleared for a starved gang; default 3600.
    clear_after: int | None = None
    #: Seconds after its start in which a workload of the queue is protected; default 0.
    min_run_time: int | None = None
    #: So often a workload of the queue is evicted for others at most; default: no bound.
    max_evictions: int | None = None
    #: Seconds in which the pods of a gang have to get ready, from the last one bound; default 600, 0: any time.
    ready_within: int | None = None
    #: So often a gang is tried again after its pods did not get ready in that time; default 3.
    ready_backoff_limit: int | None = None
    #: Seconds in which past use counts half; default and 0: only present use counts.
    usage_half_life: int | None = None
    #: try-next | stop, before borrowing in a flavor; default try-next.
    before_borrowing: str | None = None
    #: try-next | stop, before preempting in a flavor; default try-next.
    before_preempting: str | None = None
    #: The highest priority that counts in the queue; the smallest on the path. Default ``HIGHEST_USER_PRIORITY``.
    max_priority: int | None = None
    #: Seconds for which work is protected at most by its user's wish, or because its gang waited; the smallest on the
    #: path. Default: no bound.
    max_protection: int | None = None
    #: report | evict | recover: what is done with a gang on an unhealthy device; default report.
    on_fault: str | None = None
    #: gang | array: how the pods of a batch/v1 Job start that says nothing of it, together or one by one; default gang.
    jobs: str | None = None
    #: Names of policies (``queues.plugins``): what evicting its work costs, and which of its flavors are tried.
    victim_cost: str | None = None
    flavors_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecoveryRules:
    """How nodes with faults are recovered (``policy.health`` of root)."""

    #: Whether Muster closes nodes with a fault. Gangs on faulty devices are evicted by the policies of their own
    #: queues, whatever is said here.
    recovers: bool = False
    #: CronJob (``namespace/name``) that repair Jobs are made from. None: the node waits until its agent reports its
    #: devices as healthy, for instance because other software repairs it.
    job: str | None = None
    #: CronJob that test Jobs are made from. None: what the agent reports is enough.
    verify_job: str | None = None
    #: Most nodes that are out of service at a time. None for a tenth of all nodes with devices, and one at least.
    max_nodes_out: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisioningRules:
    """How nodes are asked for (``policy.provisioning``), for gangs that wait for nodes only."""

    #: Class of the ProvisioningRequests; "": none are made, whatever a queue above says.
    class_name: str = ""
    #: Parameters that the class gets, by name, sorted.
    parameters: tuple[tuple[str, str], ...] = ()
    #: Seconds after which a request without an answer, or room that the gang cannot use, is given up.
    timeout: int = 900
    #: Requests of one queue that may be open at a time.
    max_open: int = 10


#: Rules for which the smallest value on the path counts, not the nearest: a queue cannot grant itself more than it has.
SMALLEST_COUNTS = frozenset(("max_priority", "max_protection"))

#: Values where no queue of the path sets one.
DEFAULT_POLICY = QueuePolicy(
    within_queue="lower-priority",
    reclaim="any",
    clear_after=1800,
    min_run_time=0,
    ready_within=600,
    ready_backoff_limit=3,
    before_borrowing="try-next",
    before_preempting="try-next",
    max_priority=HIGHEST_USER_PRIORITY,
    on_fault=REPORT,
    jobs=GANG,
)


class PriorityLimit(NamedTuple):
    """The highest priority that counts in a queue."""

    most: int
    #: The queue on the path that states it; None if none does: then only the classes of the system are cut.
    by: QueueName | None

    def message(self, priority: int) -> str:
        """The sentence for people, about work of a higher priority."""
        why = "that of system classes is cut" if self.by is None else f"policy.maxPriority of queue {self.by}"
        return f"priority {priority} counts as {self.most} ({why})"


#: A workload is warned when a tenth of the time is left, and at most so many seconds before its end.
_LONGEST_WARNING: Final = 1800


class RunLimit(NamedTuple):
    """The longest time that workloads of a queue may hold their seats (``access.maxRunTime``).

    It runs from the admission: from then on no other workload can use the seats, and the ledger knows that second,
    whatever becomes of pods and leaders. How long a gang may take to get ready is the matter of ``policy.readyWithin``.
    """

    seconds: int
    #: The queue that states it: the queue itself, or one above it.
    queue: QueueName

    def end(self, opened_at: int) -> int:
        """The second (since the epoch) at which a workload is ended that was admitted at that second."""
        return opened_at + self.seconds

    def warning(self, opened_at: int) -> int:
        """The second from which on such a workload is warned."""
        return self.end(opened_at) - min(max(1, self.seconds // 10), _LONGEST_WARNING)

    def used_up(self) -> str:
        """The sentence for people about a workload that is ended."""
        return f"it has held its seats for {self._allowed()}"

    def refusal(self, declared: int) -> str:
        """The sentence for people about a workload that declares a longer run time, in seconds."""
        return f"a run time of {span(declared)} is declared, longer than {self._allowed()}"

    def _allowed(self) -> str:
        return f"the {span(self.seconds)} that queue {self.queue} allows (access.maxRunTime)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loan:
    """An amount that a queue lends."""

    to: QueueName
    account: Account
    #: Of ``queues.resources``.
    units: int
    #: When it ends, in seconds since the epoch.
    until: int
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A queue as its administrator wrote it, in domain terms. Parent of every top-level queue is ``root``."""

    name: QueueName
    parent: QueueName | None = ROOT
    weight: int = 1
    priority: int = 0
    reclaimable: bool = True
    limits: Limits = Limits()
    #: In the order in which flavors are tried.
    flavors: Mapping[FlavorName, Limits] = field(default_factory=dict)
    #: What it lends to other queues, ended loans included. A queue as it counts (``queues.quota.loans``) has none.
    loans: tuple[Loan, ...] = ()
    #: Name of its order (``queues.plugins``); None if inherited, at the top ``priority``.
    order: str | None = None
    ageing_per_hour: int | None = None
    #: Name of its placement (``queues.plugins``); None if inherited, at the top ``pack``.
    placement: str | None = None
    policy: QueuePolicy = QueuePolicy()
    #: Parameters of its policies as JSON, by the name of each. They count where the queue names the policy.
    plugin_parameters: Mapping[str, str] = field(default_factory=dict)
    #: hold | default: what becomes of its work while a policy that it names cannot be used; None if inherited, at the
    #: top ``hold``.
    on_plugin_failure: str | None = None
    #: Policies that it names and that are set aside. Another ``retry`` than then has them tried again.
    set_aside: tuple[PluginSetAside, ...] = ()
    retry: str = ""
    #: Counts of root only.
    node_recovery: NodeRecoveryRules = NodeRecoveryRules()
    #: None if as in the queue above; at the top no nodes are asked for.
    provisioning: ProvisioningRules | None = None
    #: Pods are marked so that cluster autoscalers do not end them; None if as in the queue above, at the top False.
    keep_from_autoscalers: bool | None = None
    #: Jobs are released pod by pod, so that they may grow; None if as in the queue above, at the top False.
    jobs_may_grow: bool | None = None
    #: Stops admissions of this queue and everything below.
    paused: bool = False
    #: Why nothing is admitted here and below that was never admitted before; None if it is.
    hold: str | None = None
    #: AdmissionChecks that have to say yes before work of the queue or one below it is admitted.
    checks: tuple[str, ...] = ()
    #: What the queue and those below it may use in a month; None for no budget of its own.
    budget: HoursBudget | None = None
    #: Its budget, if it is used up and holds.
    spent: SpentBudget | None = None
    #: Volcano's state: a closed queue takes and admits nothing new.
    closed: bool = False
    #: Why the queue's own document cannot be used; None if it can.
    broken: str | None = None
    #: Its object was deleted. It is here as long as something in it or below it is held, which counts where it did.
    removed: bool = False
    #: Pods per gang; None for no limit (``access.maxGang``).
    max_gang: int | None = None
    max_pending: int | None = None
    max_pending_per_user: int | None = None
    #: What one user may use of a resource in the queue and all below it (``access.maxPerUser``); absent: no limit.
    max_per_user: Mapping[str, int] = field(default_factory=dict)
    #: Seconds that a workload may declare to run, and for which it may hold its seats (``access.maxRunTime``).
    max_run_time: int | None = None
    #: Which namespaces may use the queue and all below it, as requirements over their labels
    #: (``access.namespaceSelector``); None for every one that the queues above allow.
    namespace_selector: tuple[Requirement, ...] | None = None
    #: Generation of the Kubernetes object.
    generation: int = 0

    def all_limits(self) -> dict[FlavorName, Limits]:
        """Its limits over all flavors, under ``NO_FLAVOR``, and those in each."""
        return {NO_FLAVOR: self.limits, **self.flavors}


def path_upwards(name: QueueName, known: Callable[[QueueName], Queue | None]) -> Iterator[Queue]:
    """A queue and those above it, nearest first: as far as they are known, and each once, also on a cycle."""
    seen: set[QueueName] = set()
    above: QueueName | None = name
    while above is not None and above not in seen and (queue := known(above)) is not None:
        yield queue
        seen.add(above)
        above = queue.parent


def path_below_root(name: QueueName | None, known: Callable[[QueueName], Queue | None]) -> list[QueueName]:
    """A queue and those above it below root, nearest first, as ``path_upwards``. Empty: there is no such queue."""
    path = () if name is None else path_upwards(name, known)
    return [each.name for each in path if each.name != ROOT]


def provisioning_rules(
    name: QueueName, known: Callable[[QueueName], Queue | None]
) -> ProvisioningRules | None:
    """How nodes are asked for in a queue: as it states, or the nearest queue above; None if they are not."""
    stated = (each.provisioning for each in path_upwards(name, known))
    rules = next((each for each in stated if each is not None), None)
    return rules if rules is not None and rules.class_name and rules.max_open else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseRules:
    """How the pods of a queue are released."""

    #: They are marked so that cluster autoscalers do not end them.
    kept: bool = False
    #: batch/v1 Jobs that say nothing else are released pod by pod, so that they may grow.
    jobs_may_grow: bool = False
    #: What they get on the nodes of a flavor that the queue names, by flavor.
    tolerations: Mapping[FlavorName, tuple[Toleration, ...]] = field(default_factory=dict)

    def tolerations_for(self, seats: Iterable[Seat]) -> tuple[Toleration, ...]:
        """What pods get for these seats."""
        if not self.tolerations:
            return ()
        flavors = sorted({seat.flavor for seat in seats})
        return tuple(each for flavor in flavors for each in self.tolerations.get(flavor, ()))


#: As they are without any queue's rules.
PLAIN_RELEASE: Final = ReleaseRules()


def release_rules(
    name: QueueName,
    known: Callable[[QueueName], Queue | None],
    tolerations: Mapping[FlavorName, tuple[Toleration, ...]],
) -> ReleaseRules:
    """The rules of a queue: as it states, or the nearest queue above. ``tolerations``: of all flavors."""
    path = tuple(path_upwards(name, known))

    def nearest(stated: Iterable[bool | None]) -> bool:
        return bool(next((each for each in stated if each is not None), False))

    flavors = next((each.flavors for each in path if each.flavors), {}) if tolerations else {}
    return ReleaseRules(
        kept=nearest(each.keep_from_autoscalers for each in path),
        jobs_may_grow=nearest(each.jobs_may_grow for each in path),
        tolerations={flavor: tolerations[flavor] for flavor in flavors if flavor in tolerations},
    )


def with_removed(
    known: Mapping[QueueName, Queue], held: Iterable[QueueName], parents: Mapping[QueueName, QueueName | None]
) -> dict[QueueName, Queue]:
    """These queues, and removed ones that still hold something. ``parents``: of the removed queues."""
    found = dict(known)
    for queue in held:
        name: QueueName | None = queue
        while name is not None and name != ROOT and name not in found and name in parents:
            found[name] = Queue(name=name, parent=parents[name], broken=WAS_REMOVED, removed=True)
            name = parents[name]
    return found


def jobs_policy(path: Iterable[Queue]) -> str | None:
    """How Jobs start that do not say it: ``GANG`` or ``ARRAY``. ``path``: a queue and those above it, nearest first."""
    return next((queue.policy.jobs for queue in path if queue.policy.jobs is not None), DEFAULT_POLICY.jobs)


def run_limit(path: Iterable[Queue]) -> RunLimit | None:
    """The limit for workloads of a queue; None if there is none. ``path``: the queue and those above it, nearest first.

    Of equal limits it is the nearest.
    """
    limits = [RunLimit(queue.max_run_time, queue.name) for queue in path if queue.max_run_time is not None]
    return min(limits, key=lambda limit: limit.seconds, default=None)
