"""Statuses that the objects of the cluster should have, worked out from the world. Pure."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from admission.engine.reasons import not_allowed
from admission.facts.admission_checks import AdmissionCheckFact
from admission.facts.pods import PodFact, PodPhase
from admission.facts.volcano_jobs import job_group_name
from admission.facts.workloads import WorkloadFact
from admission.reconcile.enqueued_groups import EnqueuedGroups
from admission.reconcile.events import start_event, unschedulable_event, waiting_event
from admission.reconcile.expected_starts import ExpectedStart, ToldStarts
from admission.reconcile.named_workloads import reason_told_in
from admission.reconcile.status import (
    ANSWERING,
    EventNote,
    StatusCondition,
    StatusWanted,
    WorkloadStatus,
    admitted_condition,
    job_status,
    pod_group_status,
    queue_status,
)
from admission.reconcile.volcano_jobs import VolcanoJobController
from admission.volcano_jobs.pod_changes import companions_of
from admission.workloads.kinds import StatusForm, object_ref, support_of
from admission.workloads.seats import is_live
from admission.workloads.state import WorkloadState
from admission.world.queues import Standing
from admission.world.world import World
from queues.admissions import AdmissionState
from queues.api.api_resources import ADMISSION_CHECKS, POD_GROUPS, ObjectRef
from queues.api.types.admission_check import QUEUES_SHOWN
from queues.errors import InvalidDocument
from queues.plan import Reason
from queues.quota.queue import ROOT
from queues.quota.tree import AskedOfShare, QueueTree
from queues.reason_codes import ReasonCode, advice_on, with_advice
from queues.text_format import counted, rfc3339, span
from queues.workload import NO_FLAVOR, QueueName, Workload, WorkloadKey

_DEPLOYMENT: Final = "deployment/"
#: What a new pod of a Deployment waits for that its predecessor has.
_FOR_ROOM: Final = (
    ReasonCode.QUEUE_LIMIT,
    ReasonCode.USER_LIMIT,
    ReasonCode.NO_FIT,
    ReasonCode.NAMESPACE_QUOTA,
)
#: The two ways out of an update that waits for itself.
WAYS_OUT: Final = "set maxUnavailable of its strategy to 1 or more, or maxSurge to 0"


@dataclass(frozen=True, slots=True)
class WorldStatuses:
    """Statuses of workloads and queues, as the world is now."""

    world: World
    jobs: VolcanoJobController
    #: Writes for a workload that the API server refuses.
    problems: Mapping[WorkloadKey, Reason]
    #: What root is to say about turns or terms that fail; None if they do not.
    failing: Callable[[], Reason | None] = lambda: None
    #: What root is to say about seats that are kept; None for nothing.
    keeping: Callable[[], Reason | None] = lambda: None
    #: PodGroups whose pods are not made yet.
    enqueued: EnqueuedGroups = field(default_factory=EnqueuedGroups)
    #: When waiting workloads should start, as their objects show it.
    starts: ToldStarts = field(default_factory=ToldStarts)

    def of(self, key: WorkloadKey) -> Iterator[StatusWanted]:
        """Statuses of a workload's object, and of the PodGroup that stands for it; none if it is gone."""
        state, fact = self.world.states.get(key), self.world.facts.get(key)
        if state is None:
            return
        ref = object_ref(key, state.workload.namespace, state.workload.name)
        match support_of(key).status:
            case StatusForm.VOLCANO_JOB:
                yield from self._of_volcano_job(state, ref)
            case StatusForm.POD_GROUP if fact is not None:
                yield pod_group_status(self._workload_status(state, ref, fact.phase))
            case StatusForm.CONDITION | StatusForm.CUSTOM_CONDITION as form if not state.is_over:
                status = self._workload_status(state, ref)
                if status.admitted or status.reason is not None or not _is_ending(state):
                    yield admitted_condition(status, custom=form is StatusForm.CUSTOM_CONDITION)
            case _:
                return

    def why_waiting(self, key: WorkloadKey) -> Reason | None:
        """Why a workload waits or cannot go on, in the words for its object.

        None if it is gone or does neither, or if no decision was made yet.
        """
        state = self.world.states.get(key)
        reason = None if state is None else self._why_waiting(state)
        if state is None or reason is None:
            return None
        told = reason_told_in(state.workload.namespace, reason)
        # Who waits for pods of its own Deployment is shown the ways out of that.
        advice = "" if self._own_update(key) else advice_on(reason.code, reason.facts).owner
        return replace(told, message=with_advice(told.message, advice))

    def _why_waiting(self, state: WorkloadState) -> Reason | None:
        key = state.key
        if (problem := self._problem(state)) is not None:
            return problem
        reason = self.world.ledger.reasons.get(key) if state.needs_seats else None
        if reason is not None and (of_update := self._own_update(key)):
            reason = replace(reason, message=f"{reason.message}; {of_update}")
        if reason is not None and (refusal := self.enqueued.refusal(key)) is not None:
            # More pods would not help: what is in the way of minResources is in the way of the gang.
            if refusal.code == reason.code:
                return reason
            return replace(refusal, message=f"{refusal.message}; {reason.message}")
        if reason is None:
            return None
        last = self.world.ledger.last_evictions.get(key)
        message = reason.message if last is None else last.appended_to(reason.message)
        tree = self.world.queue_facts.tree()
        workload, asked = state.workload, self._asked_of_share(state.workload, tree)
        more = tree.rules_against(workload.queue, reason.code, workload.priority, asked)
        return replace(reason, message=message + more)

    def problems_of(self, namespace: str, name: str) -> Iterator[tuple[Workload, Reason]]:
        """Workloads of this name that do not go on, with what is wrong.

        They have seats, or they wait for older pods of their own Deployment.
        """
        held = {
            each.workload
            for each in self.world.admissions.values()
            if each.name == name and each.namespace == namespace
        }
        for key in sorted(held):
            state = self.world.states.get(key)
            if state is not None and (problem := self._problem(state)) is not None:
                yield state.workload, problem
        for key in sorted(self.world.pod_index.workloads_of_deployments() - held):
            state = self.world.states.get(key)
            if state is None or (state.workload.namespace, state.workload.name) != (namespace, name):
                continue
            if words := self._own_update(key):
                yield state.workload, replace(self.world.ledger.reasons[key], message=words)

    def waiting_note(self, key: WorkloadKey) -> tuple[EventNote | None, bool]:
        """The event that says why a workload waits, and whether its object said so when it was seen first.

        A gang of several pods has the event on its PodGroup, as in Volcano; a Volcano Job has it on itself.
        """
        state, fact, reason = self.world.states.get(key), self.world.facts.get(key), self.why_waiting(key)
        if state is None or reason is None:
            return None, False
        note = waiting_event(self.world, key, reason)
        if fact is not None and support_of(key).status is StatusForm.POD_GROUP:
            ref = object_ref(key, state.workload.namespace, state.workload.name)
            note = unschedulable_event(self._workload_status(state, ref)) or note
        group = self.job_group(key)
        # A Volcano Job has no condition for it: its PodGroup does.
        told = group.told if group is not None else None if fact is None else fact.told
        return note, told == ("False", reason.code)

    def start_note(self, key: WorkloadKey) -> EventNote | None:
        """The event that says when a workload should start; None if its status says it, or if it does not wait."""
        state, expected = self.world.states.get(key), self._expected(key)
        if state is None or expected is None or self.why_waiting(key) is None:
            return None
        ref = object_ref(key, state.workload.namespace, state.workload.name)
        return start_event(ref, expected) if _is_told_by_event(key, ref) else None

    def job_group(self, key: WorkloadKey) -> WorkloadFact | None:
        """The PodGroup that stands for a Volcano Job; None if there is none."""
        state = self.world.states.get(key)
        if state is None or support_of(key).status is not StatusForm.VOLCANO_JOB:
            return None
        return self.world.pod_index.job_groups.get((state.workload.namespace, _group_name(state)))

    def _own_update(self, key: WorkloadKey) -> str:
        """What is said of a workload that waits for older pods of its own Deployment; "": it does not."""
        state, reason = self.world.states.get(key), self.world.ledger.reasons.get(key)
        if state is None or reason is None:
            return ""
        controller = next((pod.controller for pod in state.pods if pod.controller), "")
        if not controller.startswith(_DEPLOYMENT):
            return ""
        others = self.world.pod_index.of_deployment(state.workload.namespace, controller)
        return own_update_words(reason, state.pods, others)

    def own_updates(self) -> frozenset[WorkloadKey]:
        """Workloads that wait for older pods of their own Deployment: no start can be expected."""
        return frozenset(filter(self._own_update, self.world.pod_index.workloads_of_deployments()))

    def _expected(self, key: WorkloadKey) -> ExpectedStart | None:
        """What the object of a waiting workload says of its start; None for nothing, or if its pods are in its way."""
        # Not only at the next forecast: an update may have begun just now.
        return None if self._own_update(key) else self.starts.of(key)

    def _asked_of_share(self, workload: Workload, tree: QueueTree) -> Iterator[AskedOfShare]:
        """Worked out for the few reasons that need it."""
        used, asks = self.world.queue_totals.allocated(workload.queue), workload.asks()
        for account, units in tree.own_deserved.get(workload.queue, {}).items():
            if account.flavor == NO_FLAVOR:
                yield AskedOfShare(asks.get(account.resource), used.get(account.resource), units)

    def _problem(self, state: WorkloadState) -> Reason | None:
        """What is wrong though the workload has seats; None if nothing is known to be."""
        admitted = any(place.admission.state is AdmissionState.OPEN for place in state.seat_maps)
        known = self.problems.get(state.key) or (state.problem if admitted else None)
        return known or (self._not_allowed(state) if admitted else None)

    def _told_problem(self, state: WorkloadState) -> Reason | None:
        problem = self._problem(state)
        return None if problem is None else reason_told_in(state.workload.namespace, problem)

    def _not_allowed(self, state: WorkloadState) -> Reason | None:
        """What running work shows when its namespace may not use the queue (any more); None if it may."""
        workload = state.workload
        refusal = self.world.queue_permissions.refusal(workload.namespace, workload.queue)
        if refusal is None:
            return None
        reason = not_allowed(workload.queue, workload.namespace, refusal)
        return replace(reason, message=f"what runs goes on, and nothing more is admitted: {reason.message}")

    def _of_volcano_job(self, state: WorkloadState, ref: ObjectRef) -> Iterator[StatusWanted]:
        world, key = self.world, state.key
        fact, view = world.facts.get(key), self.jobs.view(world, key)
        if fact is None or fact.deleting:
            return
        if view is None:
            message = "" if fact.obstacle is None else fact.obstacle.message
            document = {"phase": "Pending", "reason": ReasonCode.INVALID_SPEC, "message": message}
            yield StatusWanted(ref=ref, fields={"state": document}, seen=fact.phase)
            return
        job = world.volcano_jobs.of(key)
        try:
            companions = companions_of(view.spec) if view.admissions else ()
        except InvalidDocument:
            companions = ()
        reason, expected = self.why_waiting(key), self._expected(key)
        yield job_status(view, job, companions=companions, reason=reason, expected=expected, seen=fact.phase)
        if (group := self.job_group(key)) is not None:
            yield pod_group_status(self._workload_status(state, self._group_ref(state, group), group.phase))

    def _group_ref(self, state: WorkloadState, group: WorkloadFact) -> ObjectRef:
        namespace, name = state.workload.namespace, _group_name(state)
        return ObjectRef(resource=POD_GROUPS, namespace=namespace, name=name, uid=group.key.uid)

    def _workload_status(
        self, state: WorkloadState, ref: ObjectRef, seen: str | None = None
    ) -> WorkloadStatus:
        phases = Counter(pod.phase for pod in state.pods)
        admitted = any(place.admission.state is AdmissionState.OPEN for place in state.seat_maps)
        fact = self.world.facts.get(state.key)
        return WorkloadStatus(
            ref=ref,
            minimum=state.workload.minimum if fact is None else fact.minimum,
            admitted=admitted,
            is_idle=state.is_idle,
            reason=self.why_waiting(state.key) if not admitted else None,
            expected=None if admitted or _is_told_by_event(state.key, ref) else self._expected(state.key),
            problem=self._told_problem(state) if admitted else None,
            unsupported=fact.unsupported if fact is not None else (),
            pending=phases[PodPhase.PENDING],
            running=phases[PodPhase.RUNNING],
            bound=sum(pod.node is not None and is_live(pod) for pod in state.pods),
            succeeded=phases[PodPhase.SUCCEEDED],
            failed=phases[PodPhase.FAILED],
            wanted=sum(pods.count for pods in state.workload.pod_sets),
            enqueued=self.enqueued.is_enqueued(state.key),
            seen=seen,
            told=fact.told if fact is not None else None,
            fails_by=support_of(state.key).failing_condition if state.is_run_out and not admitted else "",
        )


def _is_ending(state: WorkloadState) -> bool:
    """Whether all pods that a workload has left have ended, and it waits for no others: what was said last may stay."""
    return bool(state.pods) and not state.needs_seats and not any(map(is_live, state.pods))


def _is_told_by_event(key: WorkloadKey, ref: ObjectRef) -> bool:
    """Whether the status of an object leaves the expected start out: an Event shows it, or the workload's own object.

    ``kubectl describe`` shows no messages of conditions of Kubernetes' own kinds, and it shows their Events.
    """
    return ref.uid != key.uid or support_of(key).status is StatusForm.CONDITION


def _group_name(state: WorkloadState) -> str:
    return job_group_name(state.workload.name, state.key.uid)


def own_update_words(reason: Reason, waiting: Iterable[PodFact], all_pods: Iterable[PodFact]) -> str:
    """What is said of a workload whose pods wait for older ones of their own Deployment; "": they do not.

    A Deployment that may have a pod more and none less takes an old pod away only when a new one runs. In a full queue
    that never comes, and nothing but the Deployment says so. Where nodes have room and a spread constraint or affinity
    keeps the new pod off them, the place of an old one is not what it lacks.
    ``reason``: why it waits; ``all_pods``: those of the same Deployment.
    """
    new = next((pod for pod in waiting if pod.gated), None)
    if new is None or reason.code not in _FOR_ROOM or not new.controller.startswith(_DEPLOYMENT):
        return ""
    if not all("anti-affinity" in rule for rule in reason.facts.get("by_rules", ())):
        return ""
    revision = _revision(new)
    is_held = any(
        pod.admission is not None and is_live(pod) and not pod.deleting and _revision(pod) != revision
        for pod in all_pods
    )
    name = new.controller.removeprefix(_DEPLOYMENT)
    return f"it waits for pods of its own Deployment {name}: {WAYS_OUT}" if is_held else ""


def _revision(pod: PodFact) -> str:
    """The hash of the template that a pod of a Deployment is made from, in its name between two dashes."""
    return pod.name.removeprefix(f"{pod.controller.removeprefix(_DEPLOYMENT)}-").partition("-")[0]


_LEFT = (Standing.PENDING, Standing.INQUEUE, Standing.RUNNING, Standing.UNKNOWN)


class QueueStates:
    """The queues of a world as they are to be shown: open, closing or closed.

    Volcano's rules (its ``pkg/controllers/queue``): what is closed takes nothing new, and what runs goes on; with a
    queue all below it are closed, and open again with it, but for those that were closed themselves. Commands, the
    objects of queues and queues above say what is closed.
    """

    def __init__(self, world: World) -> None:
        closed = {name for name, fact in world.queues.items() if fact.queue.closed}
        for name in world.commands.queues():
            if (fact := world.queues.get(name)) is not None:
                wanted = world.commands.wants_closed(name, fact.uid)
                closed = closed if wanted is None else closed | {name} if wanted else closed - {name}
        #: Queues that take nothing: by the nearest queue that is closed, they themselves or one above them.
        self.closed_by: dict[QueueName, QueueName] = {}
        #: Closed queues in which, or below which, something runs or waits, and those above them.
        self.busy: set[QueueName] = set()
        if not closed:
            return
        tree = world.queue_facts.tree()
        for name in tree.with_below(closed) & world.queues.keys():
            self.closed_by[name] = next(each for each in tree.paths[name] if each in closed)
            if any(world.queue_totals.workloads[name, each] for each in _LEFT):
                self.busy.update(tree.paths[name])


class QueueStatuses:
    """Statuses of queues: of all of them at first, then of those that may have another one than before."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._has_looked = False
        #: What was said of queues that is not counted by queue.
        self._said: tuple[Mapping[QueueName, Hashable], ...] = ()
        #: Names of the AdmissionChecks there were then.
        self._checks: frozenset[str] = frozenset()

    def changed(
        self,
        failing: Reason | None = None,
        keeping: Reason | None = None,
        enqueued: Mapping[QueueName, int] = MappingProxyType({}),
    ) -> Iterator[StatusWanted]:
        """The statuses that may be others than in the last call. ``failing``: what root says about turns that fail;
        ``keeping``: about seats that are kept though their Jobs are gone; ``enqueued``: PodGroups in phase Inqueue
        whose pods are not made yet."""
        world = self._world
        totals, problems, states = world.queue_totals, world.queue_problems(), QueueStates(world)
        names, plugins = world.take_changed_queues(), world.queue_facts.plugin_problems()
        busy = dict.fromkeys(states.busy & states.closed_by.keys(), True)
        root = {ROOT: (failing, keeping)}
        said: tuple[Mapping[QueueName, Hashable], ...] = (
            problems,
            plugins,
            states.closed_by,
            busy,
            dict(enqueued),
            root,
        )
        before, self._said = self._said, said
        if self._has_looked:
            for was, now in zip(before, said, strict=True):
                names.update(_differing(was, now))
            if self._checks != world.admission_checks.known.keys():
                names.update(name for name, fact in world.queues.items() if fact.queue.checks)
            names &= world.queues.keys()
        else:
            names, self._has_looked = set(world.queues), True
        self._checks = frozenset(world.admission_checks.known)
        for name in sorted(names):
            if (fact := world.queues.get(name)) is None:
                continue  # it went since
            waiting = enqueued.get(name, 0)
            counts = {each: totals.workloads[name, each] for each in Standing}
            counts[Standing.PENDING] -= waiting
            counts[Standing.INQUEUE] += waiting
            lacks = {
                ReasonCode.PLUGIN_NOT_USABLE: plugins.get(name),
                ReasonCode.UNKNOWN_CHECK: world.admission_checks.unknown(fact.queue.checks),
            }
            yield queue_status(
                fact,
                totals.allocated(name),
                counts,
                closed_by=states.closed_by.get(name),
                busy=name in busy,
                broken=problems.get(name),
                lacks={code: message for code, message in lacks.items() if message is not None},
                of_root=(failing, keeping),
            )


def _differing(one: Mapping[QueueName, Hashable], other: Mapping[QueueName, Hashable]) -> set[QueueName]:
    """Queues for which two mappings differ."""
    return {name for name in one.keys() | other.keys() if one.get(name) != other.get(name)}


def check_statuses(world: World, now: int) -> Iterator[StatusWanted]:
    """The status of every AdmissionCheck: which queues list it, and whether its account answers."""
    checks = world.admission_checks
    if not checks.known:
        return
    queues: dict[str, list[str]] = {name: [] for name in checks.known}
    for queue, fact in world.queues.items():
        for listed_check in fact.queue.checks:
            if listed_check in queues:
                queues[listed_check].append(queue)
    silent = checks.silent(now)
    for name, check in checks.known.items():
        yield StatusWanted(
            ref=ObjectRef(resource=ADMISSION_CHECKS, name=name, uid=check.uid),
            fields={"queues": sorted(queues[name])[:QUEUES_SHOWN]},
            conditions=(_answering(check, silent[name], is_listed=bool(queues[name])),),
        )


def _answering(check: AdmissionCheckFact, silent: Sequence[int], *, is_listed: bool) -> StatusCondition:
    """``silent``: when the requests were made that have no answer for too long."""
    if silent:
        message = (
            f"{check.account} is silent: {counted(len(silent), 'request')} without an answer for longer than "
            f"{span(check.silent_after)}, the oldest since {rfc3339(min(silent))}"
        )
        return StatusCondition(type=ANSWERING, status="False", reason="Silent", message=message)
    if not is_listed:
        return StatusCondition(
            type=ANSWERING, status="Unknown", reason="NotListed", message="no queue lists it"
        )
    message = f"no request is without an answer for longer than {span(check.silent_after)}"
    return StatusCondition(type=ANSWERING, status="True", reason="Answers", message=message)
