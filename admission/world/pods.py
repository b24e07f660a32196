"""Objects that wait or run, and pods: which pod belongs to which workload. Pure."""

from collections.abc import Sequence
from typing import Final

from admission.facts.pods import PodFact
from admission.facts.workloads import Child, WorkloadFact
from admission.workloads.kinds import Holding, StatusForm, support_of
from admission.workloads.seats import is_live
from admission.world.admissions import AdmissionIndex, KeyIndex, replaced
from queues import kind_names
from queues.workload import QueueName, WorkloadKey

#: So many pods and seats of a workload take as long as the workload itself.
PODS_OF_ONE: Final = 10

_DEPLOYMENT: Final = "deployment/"

#: Namespace and name.
Place = tuple[str, str]


class PodIndex:
    """Part of the world: pods, their groups and their controllers."""

    def __init__(self, admission_index: AdmissionIndex) -> None:
        self._admission_index = admission_index
        self.facts: dict[WorkloadKey, WorkloadFact] = {}
        self.pods: dict[str, PodFact] = {}
        #: PodGroups that stand for Volcano Jobs.
        self.job_groups: dict[Place, WorkloadFact] = {}
        self._job_group_places: dict[str, Place] = {}
        self._groups: dict[Place, WorkloadKey] = {}
        self._owner: dict[str, WorkloadKey] = {}
        self._of: KeyIndex[WorkloadKey, str] = KeyIndex()
        self._of_group: KeyIndex[Place, str] = KeyIndex()
        self._controlled: KeyIndex[WorkloadKey, str] = KeyIndex()
        #: What operators made for workloads, by uid.
        self._children: dict[str, Child] = {}
        self._children_of: KeyIndex[WorkloadKey, str] = KeyIndex()
        #: Pods of Deployments, by namespace and ``PodFact.controller``.
        self._of_deployment: KeyIndex[Place, str] = KeyIndex()

    def put_pod(self, uid: str, fact: PodFact | None) -> None:
        """A pod appeared, changed or went away. It is to be settled then."""
        before = replaced(self.pods, uid, fact)
        if before is not None and before.group:
            self._of_group.discard((before.namespace, before.group), uid)
        if before is not None and before.owner is not None:
            self._controlled.discard(before.owner, uid)
        if before is not None and before.controller.startswith(_DEPLOYMENT):
            self._of_deployment.discard((before.namespace, before.controller), uid)
        if fact is None:
            return
        if fact.controller.startswith(_DEPLOYMENT):
            self._of_deployment.add((fact.namespace, fact.controller), uid)
        if fact.group:
            self._of_group.add((fact.namespace, fact.group), uid)
        if fact.owner is not None:
            self._controlled.add(fact.owner, uid)

    def put_workload(self, key: WorkloadKey, fact: WorkloadFact | None) -> set[str]:
        """An object appeared, changed or went away. Returns the pods that may be another workload's now, to be settled
        anew."""
        before = replaced(self.facts, key, fact)
        unsettled: set[str] = set()
        named = fact or before
        if named is not None and support_of(key).is_group:
            place = (named.namespace, named.name)
            group = self._groups.get(place)
            if fact is not None:
                self._groups[place] = key
            elif group == key:
                del self._groups[place]
            if self._groups.get(place) != group:
                unsettled.update(self._of_group.of(place))
        if (before is None) != (fact is None) or (before and fact and before.queue != fact.queue):
            unsettled.update(self._controlled.of(key))
        return unsettled

    def put_child(self, uid: str, child: Child | None) -> set[WorkloadKey]:
        """An object that an operator made for a workload appeared or changed; None if it is gone, or was none.

        Returns the workloads that it is or was a part of.
        """
        before = replaced(self._children, uid, child)
        if before is not None:
            self._children_of.discard(before.workload, uid)
        if child is not None:
            self._children_of.add(child.workload, uid)
        return {each.workload for each in (before, child) if each is not None}

    def children(self, key: WorkloadKey) -> Sequence[Child]:
        """What an operator made for a workload, by name."""
        if key not in self._children_of:
            return ()
        return sorted(
            (self._children[uid] for uid in self._children_of.of(key)), key=lambda child: child.name
        )

    def of_deployment(self, namespace: str, controller: str) -> list[PodFact]:
        """Pods of a Deployment, as ``PodFact.controller`` names it, in no particular order."""
        return [self.pods[uid] for uid in self._of_deployment.of((namespace, controller))]

    def workloads_of_deployments(self) -> set[WorkloadKey]:
        """Workloads with pods of Deployments."""
        places = self._of_deployment.keys()
        owners = (self._owner.get(uid) for place in places for uid in self._of_deployment.of(place))
        return {owner for owner in owners if owner is not None}

    def count(self, key: WorkloadKey) -> int:
        """Number of pods of a workload."""
        return len(self._of.of(key))

    def put_job_group(self, uid: str, fact: WorkloadFact) -> None:
        """A PodGroup stands for a Volcano Job: it has no members of its own."""
        place = (fact.namespace, fact.name)
        self.job_groups[place] = fact
        self._job_group_places[uid] = place

    def drop_job_group(self, uid: str) -> bool:
        """A PodGroup does not stand for a Volcano Job (any more). Whether it did."""
        place = self._job_group_places.pop(uid, None)
        if place is None:
            return False
        self.job_groups.pop(place, None)
        return True

    def settle(self, uid: str) -> tuple[WorkloadKey | None, WorkloadKey | None]:
        """Assign a pod to its workload: the workload before, and the workload now. None for none."""
        fact = self.pods.get(uid)
        before = self._owner.get(uid)
        owner = None if fact is None else self._find_owner(fact)
        if before is not None and before != owner:
            self._of.discard(before, uid)
            del self._owner[uid]
        if owner is not None:
            self._owner[uid] = owner
            self._of.add(owner, uid)
        self._admission_index.note_owner(uid, fact, owner)
        return before, owner

    def _find_owner(self, pod: PodFact) -> WorkloadKey | None:
        job = pod.owner
        if job is not None and self._is_managed(job) and not self.why_disowned(pod):
            return job
        if pod.group is not None:
            group = self._groups.get((pod.namespace, pod.group)) or self._group_gone(pod)
            if group is not None:
                return group
        named = pod.gated or pod.queue is not None or pod.admission is not None
        # What was adopted stays so, also when its namespace has no default queue any more.
        if named or self._admission_index.admission_of(pod) is not None:
            return WorkloadKey(kind_names.POD, pod.uid)
        return None

    def _is_managed(self, job: WorkloadKey) -> bool:
        """Whether pods that this Job controls are Muster's by that."""
        if job.kind == kind_names.POD:
            return False
        fact = self.facts.get(job)
        managed = fact is not None and fact.queue is not None
        return managed or not support_of(job).needs_queue or self._admission_index.holds(job)

    def why_disowned(self, pod: PodFact) -> str:
        """What keeps a pod from being one of the Job that it names as its controller; "": nothing does.

        An owner reference alone proves nothing: a user who may create a pod may write any uid into one. Kubernetes
        itself never lets an owner be in another namespace.
        """
        job = pod.owner
        if job is None or not self._is_managed(job):
            return ""
        place = self._place_of(job)
        found = f"found {job.kind} {pod.owner_name} as its controller"
        if place is not None and place != (pod.namespace, pod.owner_name):
            # Where that one is, and what it is called, is not shown to other users.
            return f"{found} with the uid of another one, expected the uid of a Job of its namespace"
        if not pod.marked or (pod.gated and support_of(job).holding is Holding.NO_PODS):
            return f"{found}, expected a pod that was made for this Job"
        return ""

    def _place_of(self, key: WorkloadKey) -> Place | None:
        """Where an object is, or was as long as it holds seats; None if not known."""
        known = self.facts.get(key) or next(iter(self._admission_index.of(key)), None)
        return None if known is None else (known.namespace, known.name)

    def _group_gone(self, pod: PodFact) -> WorkloadKey | None:
        """The PodGroup that was deleted while this pod of it holds a seat."""
        admission = self._admission_index.admission_of(pod)
        if admission is None or not support_of(admission.workload).is_group:
            return None
        named = (admission.namespace, admission.name) == (pod.namespace, pod.group)
        return admission.workload if named else None

    def owner_of(self, uid: str) -> WorkloadKey | None:
        """The workload that a pod belongs to; None for a pod that is not Muster's."""
        return self._owner.get(uid)

    def uids_of(self, key: WorkloadKey) -> list[str]:
        """Pods of a workload, in no particular order."""
        return list(self._of.of(key))

    def of(self, key: WorkloadKey) -> list[PodFact]:
        """Pods of a workload, by name."""
        if key not in self._of:
            return []
        return sorted(self.unsorted(key), key=lambda pod: pod.name)

    def unsorted(self, key: WorkloadKey) -> list[PodFact]:
        """Pods of a workload, in no particular order."""
        return [self.pods[uid] for uid in self._of.of(key)]

    def ended_in(self, key: WorkloadKey) -> QueueName | None:
        """The queue of an object that has ended, with its pods, and holds no seat.

        None if it has not, or if its status says so already.
        """
        fact = self.facts.get(key)
        if (
            fact is None
            or not fact.finished
            or support_of(key).status
            not in (
                StatusForm.CONDITION,
                StatusForm.CUSTOM_CONDITION,
            )
        ):
            return None
        runs = any(is_live(self.pods[uid]) for uid in self._of.of(key))
        return None if runs or self._admission_index.holds(key) else fact.queue

    def has_group(self, namespace: str, name: str) -> bool:
        """Whether there is a PodGroup of that name."""
        return (namespace, name) in self._groups
