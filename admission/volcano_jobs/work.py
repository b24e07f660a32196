"""What is to be done for one Volcano Job: pods to make and to remove, objects that must exist first.

Compares what should be (seats of the open admission, the Job's phase) with what is (pods).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from admission.facts import PodFact, PodPhase
from admission.volcano_jobs.companions import Companion
from admission.volcano_jobs.job import JobSpec
from admission.volcano_jobs.lifecycle import expired
from admission.volcano_jobs.plugins import plugins_of
from admission.volcano_jobs.pods import PodRules, Stamp
from admission.volcano_jobs.state import STOPPED, JobState
from admission.volcano_jobs.view import JobView
from admission.volcano_jobs.volumes import volume_claims
from queues.admissions import Admission, AdmissionState
from queues.resources import devices_text
from queues.workload import AdmissionId, NodeName, WorkloadKey


@dataclass(frozen=True, slots=True, kw_only=True)
class PodWanted:
    """A pod to make."""

    task: str
    index: int
    node: NodeName
    admission: AdmissionId
    #: Numbers of the devices that it has parts of; "": none.
    devices: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodUnwanted:
    """A pod to remove, by uid."""

    name: str
    uid: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobWork:
    """All writes that one Job needs now."""

    key: WorkloadKey
    spec: JobSpec
    #: What pods of each open admission carry.
    stamps: Mapping[AdmissionId, Stamp] = field(default_factory=dict)
    creates: tuple[PodWanted, ...] = ()
    deletes: tuple[PodUnwanted, ...] = ()
    #: Must exist before the pods are made.
    companions: tuple[Companion, ...] = ()
    #: The Job's PodGroup has not been seen.
    lacks_group: bool = False
    #: Its time after the end is over: the object goes.
    remove: bool = False

    def __bool__(self) -> bool:
        return bool(self.creates or self.deletes or self.lacks_group or self.remove)


def work_for(
    key: WorkloadKey, state: JobState, view: JobView, now: int, *, rules: PodRules, has_group: bool = True
) -> JobWork:
    """What one Job needs. Nothing for one that is being deleted: its pods go with it.

    Raises InvalidDocument when a plugin's flags cannot be used.
    """
    spec = view.spec
    if view.deleting:
        return JobWork(key=key, spec=spec)
    open_ = [admission for admission in view.admissions if admission.state is AdmissionState.OPEN]
    ids = frozenset(admission.id for admission in open_)
    adopted = frozenset(uid for admission in open_ for uid in admission.adopted or ())
    deletes = tuple(
        PodUnwanted(name=pod.name, uid=pod.uid, why=why)
        for pod in view.pods
        if not pod.deleting and (why := _unwanted(pod, spec, state, ids, adopted)) is not None
    )
    creates = _missing(view, open_) if state.wants_pods() else ()
    return JobWork(
        key=key,
        spec=spec,
        stamps={
            id_: Stamp(admission=id_, version=state.version, retry_count=state.retry_count, rules=rules)
            for id_ in ids
        },
        creates=creates,
        deletes=deletes,
        companions=companions_of(spec) if creates else (),
        lacks_group=not has_group and not state.is_over(),
        remove=expired(state, spec, now),
    )


def companions_of(spec: JobSpec) -> tuple[Companion, ...]:
    """Everything that stands beside the pods, in the order to make it. Raises InvalidDocument."""
    return (
        *volume_claims(spec),
        *(companion for plugin in plugins_of(spec) for companion in plugin.companions(spec)),
    )


def _missing(view: JobView, admissions: Iterable[Admission]) -> tuple[PodWanted, ...]:
    """Pods for seats that are held and empty. A name is free only when its last holder is gone."""
    spec = view.spec
    taken = {pod.name for pod in view.pods}
    wanted: list[PodWanted] = []
    for admission in admissions:
        for seat in admission.holding():
            name = spec.pod_name(seat.pod_set, seat.ordinal)
            task = spec.task(seat.pod_set)
            ended = (seat.pod_set, seat.ordinal) in view.outcomes
            if task is None or seat.ordinal >= task.replicas or name in taken or ended:
                continue
            taken.add(name)
            wanted.append(
                PodWanted(
                    task=seat.pod_set,
                    index=seat.ordinal,
                    node=seat.node,
                    admission=admission.id,
                    devices=devices_text(seat.takes),
                )
            )
    return tuple(wanted)


def _unwanted(
    pod: PodFact,
    spec: JobSpec,
    state: JobState,
    admissions: frozenset[AdmissionId],
    adopted: frozenset[str],
) -> str | None:
    """Why a pod has to go; None: it may stay. What ended by itself stays for its logs."""
    if pod.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED):
        return "Stale" if pod.version < state.version and state.phase not in STOPPED else None
    if not state.wants_pods():
        return state.phase.value
    if pod.version < state.version:
        return "Stale"
    task = spec.task(pod.task)
    if task is not None and pod.index is not None and pod.index >= task.replicas:
        return "ScaledDown"
    if pod.uid not in adopted and (pod.admission is None or pod.admission not in admissions):
        # Without an admission it may be older than Muster: the engine adopts it.
        return None if pod.admission is None else "AdmissionClosed"
    return None
