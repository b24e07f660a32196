"""What the read API answers: the JSON documents of docs/reference/http.md, field by field.

Keys are camelCase as in Kubernetes. Amounts are quantities as Kubernetes writes them ("8", "500m", "64Gi").
Times are RFC 3339 in UTC. Fields are only ever added.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

#: Numbers behind a sentence, by name: amounts are quantities, times seconds.
Facts = Mapping[str, Any]


class Body(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A JSON object with camelCase keys."""


class AgedBody(Body, frozen=True, kw_only=True):
    """An answer that says how old it is."""

    #: When the answer was made; ages count up to it.
    now: str
    #: When the cluster was as the answer says; null: no replica has led yet.
    as_of: str | None = None
    #: Why that is some time ago, as a sentence; "" when nothing is behind.
    behind: str = ""


class PagedBody(AgedBody, frozen=True, kw_only=True):
    """A part of a list."""

    #: What gives the next page as parameter ``continue``; "": this was the last one.
    continue_: str = msgspec.field(default="", name="continue")


class AccountBody(Body, frozen=True, kw_only=True):
    """One line of a queue's books: one resource in one flavor."""

    #: "" sums over all flavors.
    flavor: str
    resource: str
    #: Use of the whole subtree now.
    used: str
    #: The amount that is compared with the capability: ``used``, and the unused guarantees of queues below.
    counted: str
    #: Never lent to other queues.
    guarantee: str
    #: Its own share as written; null: by weight.
    deserved: str | None
    #: Never above this; null: as much as the parent allows.
    capability: str | None
    #: used ÷ deserved; null: no deserved amount is written.
    share: float | None
    #: The decayed average of ``used``; null: the queue has no half-life, or its past is not summed up yet.
    past_use: str | None = None
    #: Half of ``used`` and half of ``pastUse`` ÷ deserved; null where one of them is.
    share_with_past: float | None = None
    #: How ``used`` compares with ``deserved`` and ``capability``, as a phrase with what reclaim can do about it; "":
    #: neither is written.
    standing: str = ""


class LoanBody(Body, frozen=True, kw_only=True):
    """An amount that a queue lends to another one until a time."""

    to: str
    #: "" is of the plain deserved amount.
    flavor: str
    resource: str
    amount: str
    until: str
    reason: str


class LoanInForceBody(LoanBody, frozen=True, kw_only=True):
    """A loan that has not ended."""

    #: null: a queue that the user may not see; then ``reason`` is "".
    from_: str | None = msgspec.field(name="from")
    #: How much of ``amount`` counts, and why that is not all of it; "": it is.
    counts: str
    problem: str


class AccessLimitsBody(Body, frozen=True, kw_only=True):
    """What a queue states of its users, gangs and run times; null: nothing. Each counts for all queues below, too."""

    #: After so many seconds work is ended.
    max_run_time_seconds: int | None = None
    #: What one user may use at a time, by resource.
    max_per_user: Mapping[str, str] = {}
    #: Pods per gang.
    max_gang: int | None = None
    #: Workloads that may wait, and those of one user.
    max_pending: int | None = None
    max_pending_per_user: int | None = None


class QueuePolicyBody(Body, frozen=True, kw_only=True):
    """How a queue is served, by policies of its own and of the queues above."""

    #: What the positions of its waiting work go by, as a phrase.
    order: str
    #: never | lower-priority | any: the borrowed work of other queues that is evicted for what it deserves.
    reclaim: str
    #: never | lower-priority | lower-or-newer-equal: work of its own that is evicted for work of its own.
    within_queue: str
    #: After so many seconds of waiting a place is cleared for a gang; null: never.
    clear_after_seconds: int | None
    #: So long its work is not evicted for others, and so often at most; null: no bound.
    min_run_time_seconds: int | None
    max_evictions: int | None
    #: Users and groups who administer it, those of the queues above included: ``group team-a-leads``.
    admins: tuple[str, ...] = ()


class BudgetLineBody(Body, frozen=True, kw_only=True):
    """One resource of a budget. Hours are of one GPU, CPU or byte."""

    resource: str
    #: What may be used in the period, by the queue and all below it.
    hours: str
    #: What was used of it until now; null: it takes too long to add up.
    used: str | None
    #: ``used`` in hundredths of ``hours``, rounded down; null: not known.
    percent: int | None


class BudgetBody(Body, frozen=True, kw_only=True):
    """The budget that a queue states, for the month that lasts."""

    #: report | hold: what happens when it is used up.
    when_spent: str
    begins: str
    #: When the next one begins.
    ends: str
    resources: tuple[BudgetLineBody, ...]


class QueueBody(Body, frozen=True, kw_only=True):
    """One queue with the use of its subtree."""

    name: str
    #: null: this is the root.
    parent: str | None
    #: open | paused | closed | broken
    state: str
    #: Why it is not open, or what else is to be known: a hold, a budget that is nearly used up; "": nothing is.
    message: str
    #: The user who changed its document last; "": unknown.
    changed_by: str
    #: The largest share over its accounts; null: no deserved amount is written.
    share: float | None
    #: Workloads of the whole subtree that wait, and that hold seats.
    pending: int
    admitted: int
    accounts: tuple[AccountBody, ...]
    #: Admissions are paused, here or above, also where ``state`` is closed: then both have to be taken back.
    paused: bool = False
    #: After how many seconds past use counts half, its own or inherited; null: only present use counts.
    usage_half_life_seconds: int | None = None
    #: The largest ``shareWithPast`` over its accounts; siblings are compared by it. null: there is none.
    share_with_past: float | None = None
    #: What it lends, and what is lent to it, now; ``accounts`` are with these.
    loans: tuple[LoanInForceBody, ...] = ()
    #: null: it states none.
    access_limits: AccessLimitsBody | None = None
    #: null: it states none.
    budget: BudgetBody | None = None
    #: Any namespace may use it: neither it nor a queue above it selects namespaces.
    open_to_all: bool = False
    #: null: it is broken.
    policy: QueuePolicyBody | None = None


class QueueList(AgedBody, frozen=True, kw_only=True):
    """``GET …/queues``: parents before their children, siblings by name."""

    items: tuple[QueueBody, ...]


class FieldChangeBody(Body, frozen=True, kw_only=True):
    """A field of a queue's spec before and after a change; null: absent."""

    field: str
    before: str | None
    after: str | None


class QueueVersionBody(Body, frozen=True, kw_only=True):
    """One recorded version of a queue, and what it changed."""

    #: Larger than those of all earlier versions of any queue.
    version: int
    queue: str = ""
    #: When it was recorded.
    at: str
    #: created | changed | removed | other: something else than the spec, such as its state
    what: str
    #: Who changed the spec, and why; "" unknown.
    by: str
    reason: str
    #: What it lends from then on, loans that have ended included.
    loans: tuple[LoanBody, ...] = ()
    #: Fields of the spec that differ, at most 200.
    changes: tuple[FieldChangeBody, ...]


class QueueVersionList(PagedBody, frozen=True, kw_only=True):
    """``GET …/queues/{name}/versions``: the newest first."""

    name: str
    items: tuple[QueueVersionBody, ...]


class ReasonBody(Body, frozen=True, kw_only=True):
    """Why a workload waits: the same code, sentence and numbers everywhere."""

    code: str
    message: str
    #: What the owner of the workload can do about it, as a sentence; "": the message says it, or it is no wait.
    advice: str = ""
    #: What an administrator of the queue can do besides, as a phrase; "": nothing, the user who asks is none, or this
    #: is in a list.
    for_administrators: str = ""
    #: The numbers behind the sentence, by name; amounts are quantities.
    facts: Facts = {}
    #: Since when this code applies; null: unknown.
    since: str | None = None


class WorkloadBody(Body, frozen=True, kw_only=True):
    """The names of a workload."""

    #: vcjob | job | podgroup | pod
    kind: str
    namespace: str
    name: str
    uid: str


class OwnerBody(Body, frozen=True, kw_only=True):
    """What controls a pod, by its kind in lower case: the Deployment of a pod of its ReplicaSet."""

    kind: str
    name: str


class ExpectedStartBody(Body, frozen=True, kw_only=True):
    """When a pending workload should start: within this interval in four of five cases."""

    #: When it was worked out.
    computed: str
    #: It starts at this time or later.
    earliest: str
    #: It starts at this time or earlier; null: not known, but at ``earliest`` or later.
    latest: str | None
    #: True: as far as can be foreseen nothing that ends or comes lets it start.
    never: bool = False
    #: True: nothing closer can be said yet. Too few runs have ended, or the interval would be too wide; ``earliest`` is
    #: then ``computed``.
    not_yet: bool = False
    #: It should have started by this time in four of five cases, and has not; null: that time is still to come. Then
    #: ``earliest`` is now, and ``latest`` null until there is another forecast.
    overdue_since: str | None = None
    #: What its own run time goes by: declared | user, image and shape | user and shape |
    #: image and shape | queue and shape | user | shape | everything | prior
    basis: str = ""
    #: The seconds that it is assumed to run for: as long as it states, or as half of the ended work that its run time
    #: goes by; null: the leader is of an older version.
    run_time: int | None = None
    #: True: more, since work of the same user and shape has run for ``run_time`` and was not over.
    at_least: bool = False
    #: Number of ended runs that the run times of all workloads were learned from.
    runs: int = 0
    #: Those of them that its own run time goes by; with ``basis`` declared or prior, all.
    class_runs: int = 0


class ExpectedLine(ExpectedStartBody, frozen=True, kw_only=True):
    """One workload in the leader's list."""

    kind: str
    namespace: str
    uid: str


class ExpectedList(Body, frozen=True, kw_only=True):
    """``GET …/expected-starts``: of all pending workloads in sight, as of one forecast."""

    #: null: no forecast was made yet.
    computed: str | None
    items: tuple[ExpectedLine, ...] = ()


class LineBody(WorkloadBody, frozen=True, kw_only=True):
    """A workload of a list."""

    queue: str
    #: The user that created it; "": unknown.
    user: str = ""
    #: The value of its priority class.
    priority: int
    created: str | None
    #: Pods it wants, and how many of them start together; of what has ended, the seats of its last admission.
    pods: int
    minimum: int
    #: What all of them take together, by resource.
    asks: Mapping[str, str]
    #: Of a pod that waits alone; null: of others, and of a pod that nothing controls.
    owner: OwnerBody | None = None
    #: Why it, or a part of it, waits; null: it does not, or was not considered yet.
    reason: ReasonBody | None = None
    #: What else is to be known while it runs, a sentence each: that it is on hold, how many of its members are done.
    notes: tuple[str, ...] = ()


class WaitingBody(LineBody, frozen=True, kw_only=True):
    """A pending workload."""

    #: 1-based place in its queue; null: not in line (it cannot be considered as it is).
    position: int | None
    #: Values of labels and annotations that cannot be read, as sentences with what counts in their place (at most 5).
    ignored_values: tuple[str, ...] = ()
    #: When it should start; null: not forecast yet, or the leader could not be asked.
    expected: ExpectedStartBody | None = None


class PendingList(PagedBody, frozen=True, kw_only=True):
    """``GET …/pending``: by queue, then position."""

    #: Pending workloads, also beyond ``limit``.
    total: int
    #: The same over all namespaces that the user may see.
    total_everywhere: int
    items: tuple[WaitingBody, ...]


class ListedBody(LineBody, frozen=True, kw_only=True):
    """A workload of a list, whether it waits, runs or has ended."""

    #: pending | admitted | evicting | suspended | finished
    state: str
    #: succeeded | failed | deleted; "": it has not ended, or that is not known.
    result: str
    #: True: its object is gone.
    gone: bool
    #: When the first of its open admissions was opened; of what has ended, its last one. null: there is none.
    admitted: str | None
    #: null: it has not.
    ended: str | None
    #: What its seats take, or took last, by resource.
    held: Mapping[str, str]
    #: At most twenty names of nodes of these seats, and how many there are.
    nodes: tuple[str, ...]
    node_count: int


class WorkloadList(PagedBody, frozen=True, kw_only=True):
    """``GET …/workloads``: by namespace and name."""

    #: Workloads that match, also beyond ``limit``. Counted up to 100,000.
    total: int
    #: The same over all namespaces that the user may see.
    total_everywhere: int
    items: tuple[ListedBody, ...]
    #: What ended before this time was dropped; null: nothing that was asked for.
    history_begins: str | None = None


class UserBody(Body, frozen=True, kw_only=True):
    """What the work of one user holds and waits for."""

    #: "": work whose user is not known.
    user: str
    #: True: the user who asks. Then all work counts, else what the user who asks may list.
    you: bool
    #: Amounts held now, by resource.
    used: Mapping[str, str]
    #: Workloads that wait, and that hold seats.
    pending: int
    admitted: int
    #: The largest use ÷ limit over the resources of the queue; null: no such limit is known.
    share: float | None
    #: 1-based, who uses most first; null: not all work of the queue is counted.
    rank: int | None


class UserList(PagedBody, frozen=True, kw_only=True):
    """``GET …/users``: who uses most first."""

    queue: str
    #: deserved | capability: what of the queue shares are of; "": there are none.
    share_of: str
    #: False: work that the user who asks may not list is not counted.
    complete: bool
    total: int
    items: tuple[UserBody, ...]


class SeatsBody(Body, frozen=True, kw_only=True):
    """Seats of one pod set on one node."""

    pod_set: str
    node: str
    flavor: str
    #: As ranges, for instance "0-3,7".
    ordinals: str
    count: int
    #: What they take together.
    takes: Mapping[str, str]
    #: Of a trial: the innermost topology domain above the node, as "block/rack"; "": it is in none.
    domain: str = ""


class AdmissionBody(Body, frozen=True, kw_only=True):
    """One admission of a workload."""

    id: int
    queue: str
    #: open | evicting | closed
    state: str
    opened: str
    #: When the last seat was given back; null: some are held.
    closed: str | None = None
    #: When it is ended at the latest, by access.maxRunTime of the queue or one above it; null: no limit, or not open.
    ends: str | None = None
    #: All seats, held or given back, their nodes (at most twenty names), and how many nodes they are.
    seat_count: int = 0
    nodes: tuple[str, ...] = ()
    node_count: int = 0
    #: True: its pods ran before Muster admitted them.
    adopted: bool
    #: Why it is being evicted; null: it is not.
    eviction: ReasonBody | None
    #: Seats that are held, and how many were given back already.
    seats: tuple[SeatsBody, ...]
    ended: int


class EventBody(Body, frozen=True, kw_only=True):
    """A decision about the workload."""

    at: str
    #: For instance admit, adopt, evict, free, refuse.
    what: str
    #: Reason code; "" when the kind says it all.
    code: str
    message: str
    #: The admission concerned; null: none.
    admission: int | None
    #: The workload that it was decided for, as "kind/uid"; null: none.
    beneficiary: str | None
    #: The numbers that the decision used.
    numbers: Facts
    #: Of ``free``: evicted, suspended, succeeded, failed or deleted; given back by a workload that went on; "": not
    #: known, or another decision.
    result: str = ""


class DecisionBody(EventBody, frozen=True, kw_only=True):
    """A decision, with the workload that it is about."""

    kind: str
    namespace: str
    name: str
    uid: str
    queue: str


class DecisionList(PagedBody, frozen=True, kw_only=True):
    """``GET …/decisions``: the newest, oldest first; or those after the ``continue`` of an earlier answer.

    ``continue`` is never empty: it gives the next ones, once there are any.
    """

    items: tuple[DecisionBody, ...]


class OutcomeBody(Body, frozen=True, kw_only=True):
    """How many pods of a workload ended alike."""

    #: Succeeded | Failed
    phase: str
    #: Of its first container that failed; null: not known.
    exit_code: int | None
    pods: int


class StageBody(Body, frozen=True, kw_only=True):
    """When a workload, or one of its admissions, came how far."""

    #: created | seen | admitted | adopted | released | bound | running | evicted | closed | ended
    stage: str
    #: With milliseconds, as far as they are known.
    at: str
    #: Seconds since the stage before; of ``admitted``: for which the workload had waited. null: there is nothing to
    #: count from.
    after_seconds: float | None
    #: null: of the workload itself.
    admission: int | None


class ChangeBody(Body, frozen=True, kw_only=True):
    """One change that would let a workload in, without any other change."""

    #: turn | time | end | workload | priority | deserved | capability | queue | nodes
    kind: str
    message: str
    #: The numbers behind the sentence; amounts are quantities, times seconds.
    facts: Facts = {}


class TakerBody(Body, frozen=True, kw_only=True):
    """One rule by which a workload that runs may lose its place."""

    #: Preempted | Reclaimed | Cleared | UnhealthyDevice
    rule: str
    #: Queues of those who could take the place, the first ones; empty: no workload takes it, or they are not named.
    queues: tuple[str, ...]
    #: From when on; not after ``now``: already.
    from_: str = msgspec.field(name="from")
    message: str


class StandingBody(Body, frozen=True, kw_only=True):
    """Who could take the place of a workload that runs."""

    #: Whether it runs on what its queue deserves or on lent quota, and what protects it.
    message: str
    #: Until then it is not evicted for others; null: it may be, or it never is.
    protected_until: str | None
    #: The soonest first. Empty if no workload could take the place.
    takers: tuple[TakerBody, ...]
    #: Why there are none; "": there are some.
    nobody: str


class OutlookBody(WorkloadBody, frozen=True, kw_only=True):
    """``GET …/workloads/{name}/outlook``: what would let a workload in, or keeps it from going on. From the leader."""

    #: The time of the leader's last decision, from which this was computed.
    now: str
    #: What it waits behind, as a sentence; "" = nothing.
    behind: str
    #: The smallest first; each was tried on a copy of the engine's input. Empty: no known change does, or it is in.
    changes: tuple[ChangeBody, ...]
    #: What is wrong with it though it has seats; null: nothing is known to be, or it has none.
    problem: ReasonBody | None = None
    #: Who could take its place; null: it holds none.
    standing: StandingBody | None = None
    #: When it should start; null: it has seats, or came after the last forecast.
    expected: ExpectedStartBody | None = None
    #: What is to be known of the budgets that it counts in, a sentence each.
    budgets: tuple[str, ...] = ()


class PathLimitBody(Body, frozen=True, kw_only=True):
    """What a workload asks of one line of a queue's books, next to what that line has."""

    #: "" sums over all flavors.
    flavor: str
    resource: str
    #: Use of the whole subtree, and what is kept for idle guarantees in it, which counts as used; null: nothing.
    used: str
    kept: str | None
    #: Less than the queue below is asked for while that one has guarantee left.
    asked: str
    deserved: str | None
    capability: str | None
    #: How much of it is above the capability; null: nothing.
    over: str | None


class PathQueueBody(Body, frozen=True, kw_only=True):
    """A queue on the path of a workload: its own, or one above."""

    name: str
    #: As in ``QueueBody``.
    state: str
    message: str
    #: Of the resources that the workload asks for; empty: it does not wait.
    limits: tuple[PathLimitBody, ...] = ()


class ExplanationBody(WaitingBody, frozen=True, kw_only=True):
    """``GET …/workloads/{name}``: everything about one workload, waiting or not."""

    #: As in ``AgedBody``.
    now: str
    as_of: str | None = None
    behind: str = ""
    #: pending | admitted | evicting | suspended | finished
    state: str
    #: succeeded | failed | deleted; "": it has not ended, or that is not known.
    result: str = ""
    #: null: it has not.
    ended: str | None = None
    #: True: its object is gone; all else is as it was last.
    gone: bool = False
    #: What its seats took of devices until now, by resource, in hours.
    device_hours: Mapping[str, float] = {}
    #: How its pods ended, those that succeeded first; empty: none has, or it is not stored (but of Volcano Jobs).
    outcomes: tuple[OutcomeBody, ...] = ()
    #: How far it came when, each admission by itself; what is not known is left out.
    stages: tuple[StageBody, ...] = ()
    #: How many wait in its queue; null: it does not wait.
    queue_length: int | None
    #: What the position is counted by, as a phrase; "" without one.
    position_by: str
    #: No attempt before this time, after so many rollbacks; null: no backoff.
    not_before: str | None
    rollbacks: int
    #: Workloads right before it in its queue, the nearest last (at most ten).
    ahead: tuple[WaitingBody, ...]
    #: Queues from its own up to root.
    path: tuple[PathQueueBody, ...]
    #: Open ones first, then the newest.
    admissions: tuple[AdmissionBody, ...]
    #: Newest last.
    history: tuple[EventBody, ...]
    #: Older decisions were dropped; null: none of it can be missing.
    history_begins: str | None = None
    #: What only the leader knows; null: it has ended or was not considered yet, or ``outlookUnknown`` says why.
    outlook: OutlookBody | None = None
    #: Why the leader did not say it, as a sentence; "": it did, or was not asked.
    outlook_unknown: str = ""


class ReplicaBody(Body, frozen=True, kw_only=True):
    """What one replica of Muster is."""

    #: Its pod.
    name: str
    #: null: it did not answer.
    version: str | None = None
    #: Each with its version and the digest of its code.
    plugins: tuple[str, ...] = ()


class VersionBody(Body, frozen=True, kw_only=True):
    """``GET …/version``."""

    version: str
    #: The replica that is asked first.
    replicas: tuple[ReplicaBody, ...] = ()


class ProblemBody(Body, frozen=True, kw_only=True):
    """Every answer that is not 2xx."""

    #: What went wrong, as a sentence.
    error: str
    #: What would have worked; "" when there is nothing to say.
    expected: str = ""
    #: What to do; "" when there is nothing to do.
    hint: str = ""


class AgedProblemBody(AgedBody, frozen=True, kw_only=True):
    """There is no such name, and the leader has said nothing of the cluster for a while. Else as ``ProblemBody``."""

    error: str
    expected: str = ""
    hint: str = ""


class CheckBody(Body, frozen=True, kw_only=True):
    """One check of ``/healthz`` or ``/readyz``."""

    name: str
    ok: bool
    message: str = ""


class Checks(Body, frozen=True, kw_only=True):
    """``GET /healthz`` and ``GET /readyz``: 200 when all are ok, else 503."""

    ok: bool
    checks: tuple[CheckBody, ...]
