"""The writes that one Volcano Job needs: pods to create and to delete, companions that must exist first.

Compares the seats of open admissions and the Job's phase with the pods that exist.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from admission.facts.pods import PodFact, PodPhase
from admission.facts.volcano_jobs import JobSpec
from admission.volcano_jobs.companions import Companion
from admission.volcano_jobs.dependencies import waiting_tasks
from admission.volcano_jobs.lifecycle import expired
from admission.volcano_jobs.plugins import plugins_of
from admission.volcano_jobs.pods import PodRules, PodSettings
from admission.volcano_jobs.state import JobState
from admission.volcano_jobs.view import JobView
from admission.volcano_jobs.volumes import volume_claims
from queues.admissions import Admission, AdmissionState
from queues.quota.queue import PLAIN_RELEASE, ReleaseRules
from queues.resources import devices_text
from queues.workload import AdmissionId, NodeName, Toleration, WorkloadKey

#: Pods that are made before the next ones are looked for: each takes the loop some microseconds in every turn.
MOST_CREATES: Final = 1000
#: Reason to delete a pod: its admission is closed, or is evicted.
_CLOSED: Final = "AdmissionClosed"
#: The same: its task has fewer replicas now.
_SCALED_DOWN: Final = "ScaledDown"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodWanted:
    """A pod to create."""

    task: str
    index: int
    node: NodeName
    admission: AdmissionId
    #: Its seat, as an index into those of the admission.
    seat: int
    #: Numbers of the devices that the pod gets a part of; "": none.
    devices: str = ""
    #: Of the Job: what is under way for an older one is not wanted any more.
    version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PodUnwanted:
    """A pod to delete, by uid."""

    name: str
    uid: str
    #: AdmissionClosed, ScaledDown, Stale, or the phase of the Job.
    reason: str
    #: PodDisruptionBudgets have a say: its admission is evicted.
    evict: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobWork:
    """All writes that one Job needs now."""

    key: WorkloadKey
    spec: JobSpec
    #: Of each open admission.
    pod_settings: Mapping[AdmissionId, PodSettings] = field(default_factory=dict)
    #: At most MOST_CREATES.
    creates: tuple[PodWanted, ...] = ()
    deletes: tuple[PodUnwanted, ...] = ()
    #: Objects that must exist, and be up to date, before the pods are created and before surplus ones are deleted.
    companions: tuple[Companion, ...] = ()
    #: The Job's PodGroup does not exist yet, or not for as many pods, as far as the watch has shown.
    lacks_group: bool = False
    #: The Job ended ``ttlSecondsAfterFinished`` ago: its object is to be deleted.
    remove: bool = False

    def __bool__(self) -> bool:
        return bool(self.creates or self.deletes or self.lacks_group or self.remove)


def work_for(
    key: WorkloadKey,
    state: JobState,
    view: JobView,
    now: int,
    *,
    rules: PodRules,
    has_group: bool = True,
    release: ReleaseRules = PLAIN_RELEASE,
) -> JobWork:
    """The writes of one Job. A Job that is being deleted needs no writes: its pods are deleted with it.

    ``release``: rules of its queue.

    Raises InvalidDocument when a plugin's flags cannot be used.
    """
    spec = view.spec
    if view.deleting:
        return JobWork(key=key, spec=spec)
    open_ = [admission for admission in view.admissions if admission.state is AdmissionState.OPEN]
    deletes = tuple(_deletes(view, state))
    creates = tuple(islice(_missing(view, open_, state), MOST_CREATES)) if state.wants_pods() else ()
    return JobWork(
        key=key,
        spec=spec,
        pod_settings={
            each.id: PodSettings(
                admission=each.id,
                version=state.version,
                retry_count=state.retry_count,
                rules=rules,
                default_priority=view.priority,
                kept=release.kept,
                tolerations=_tolerations(each, release) if release.tolerations else {},
            )
            for each in open_
        },
        creates=creates,
        deletes=deletes,
        # The list of hosts loses what is scaled down, also when nothing is created.
        companions=companions_of(spec)
        if creates or any(each.reason == _SCALED_DOWN for each in deletes)
        else (),
        lacks_group=not has_group and not state.is_over(),
        remove=expired(state, spec, now),
    )


def _tolerations(admission: Admission, release: ReleaseRules) -> dict[str, tuple[Toleration, ...]]:
    """What pods get of the flavors of their seats, by task: all pods of a task are of one flavor."""
    tasks = {seat.pod_set: seat for seat in admission.holding()}
    return {task: release.tolerations_for((seat,)) for task, seat in tasks.items()}


def companions_of(spec: JobSpec) -> tuple[Companion, ...]:
    """All companions of a Job, in the order to create them. Raises InvalidDocument."""
    return (
        *volume_claims(spec),
        *(companion for plugin in plugins_of(spec) for companion in plugin.companions()),
    )


def _missing(view: JobView, admissions: Iterable[Admission], state: JobState) -> Iterator[PodWanted]:
    """Pods for seats that are held and empty, and that have what the pods would ask, of tasks that may start.

    A pod's name is free only when the last pod of that name is gone. A pod without Muster's annotation that no
    admission has adopted is none of the Job's members, whatever its name: the create fails because the name is taken. A
    pod with a recorded outcome (``admission.world.volcano_jobs``) is not created again.
    """
    spec = view.spec
    adopted = {uid for admission in view.admissions for uid in admission.adopted or ()}
    taken = {pod.name for pod in view.pods if pod.admission is not None or pod.uid in adopted}
    waiting = {each.task for each in waiting_tasks(state, view)}
    tasks = {task.name: task for task in spec.tasks if task.name not in waiting}
    for admission in admissions:
        over = admission.ended | view.ended.get(admission.id, frozenset())
        over |= view.outgrown.get(admission.id, frozenset())
        for index, seat in enumerate(admission.seats):
            if index in over:
                continue
            name = spec.pod_name(seat.pod_set, seat.ordinal)
            task = tasks.get(seat.pod_set)
            ended = (seat.pod_set, seat.ordinal) in view.outcomes
            if task is None or seat.ordinal >= task.replicas or name in taken or ended:
                continue
            taken.add(name)
            yield PodWanted(
                task=seat.pod_set,
                index=seat.ordinal,
                node=seat.node,
                admission=admission.id,
                seat=index,
                devices=devices_text(seat.takes),
                version=state.version,
            )


def _deletes(view: JobView, state: JobState) -> Iterator[PodUnwanted]:
    """Pods that are not to be there. What is evicted goes as budgets allow, what its owner wants gone in any case."""
    by_id = {admission.id: admission for admission in view.admissions}
    adopted_by = {uid: admission for admission in view.admissions for uid in admission.adopted or ()}
    for pod in view.pods:
        admission = adopted_by.get(pod.uid)
        if admission is None and pod.admission is not None:
            admission = by_id.get(pod.admission)
        if pod.deleting or (reason := _reason_to_delete(pod, view.spec, state, admission)) is None:
            continue
        evict = reason == _CLOSED and admission is not None and admission.asks_budgets()
        evict = evict and admission is not None and admission.id not in view.beyond_budgets
        yield PodUnwanted(name=pod.name, uid=pod.uid, reason=reason, evict=evict)


def _reason_to_delete(
    pod: PodFact, spec: JobSpec, state: JobState, admission: Admission | None
) -> str | None:
    """Why a pod must be deleted; None if it may stay. A pod that ended by itself stays for its logs.

    ``admission``: the one of its seat or that has adopted it; None if it has none, or if that is closed.
    """
    # Pods that Volcano made may have a higher version than the Job has here.
    replaced = pod.version < state.version or pod.uid in state.restarted
    if pod.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED):
        return "Stale" if replaced and not state.is_stopped() else None
    if state.is_stopped():
        return state.phase.value
    if replaced:
        return "Stale"
    task = spec.task(pod.task)
    if task is not None and pod.index is not None and pod.index >= task.replicas:
        return _SCALED_DOWN
    if admission is None:
        # A pod that names none may be older than Muster: the engine adopts it.
        return None if pod.admission is None else _CLOSED
    return None if admission.state is AdmissionState.OPEN else _CLOSED
