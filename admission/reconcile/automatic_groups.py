"""PodGroups that Muster makes for owners whose pods start together. Pure.

Their pods name the group, and say how many of them start together: a policy has written both into the owner's template
(``admission/kube/policies/documents/owners.yaml``); pods of a LeaderWorkerSet say it by their own labels.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from admission.facts.pods import PodFact
from admission.facts.workloads import WorkloadFact
from admission.workloads.kinds import support_of
from admission.workloads.state import WorkloadState
from admission.workloads.workload import queue_to_move_to, telling_pod
from admission.world.world import World
from queues import kind_names
from queues.api.api_resources import POD_GROUPS, Document
from queues.api.names import AUTOMATIC_GROUP_OF_PODS, DEFAULT_QUEUE
from queues.workload import UNUSABLE_QUEUE, WorkloadKey


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupWanted:
    """A PodGroup as it should be, because of a pod."""

    namespace: str
    name: str
    minimum: int
    #: "": it keeps the one that it has.
    queue: str
    #: The pod whose owner it is for.
    pod: str
    #: Uid of the group; "": it is to be made.
    uid: str = ""
    #: Its last pod is gone, and it has no owner to go with.
    is_unneeded: bool = False

    def document(self, owner: Mapping[str, Any] | None, asked: Mapping[str, str]) -> Document:
        """The object. ``owner``: a reference to what it goes with; None if that is not known. ``asked``: what the gang
        asks for."""
        metadata: Document = {"name": self.name, "namespace": self.namespace}
        if owner is not None:
            kept = ("apiVersion", "kind", "name", "uid")
            metadata["ownerReferences"] = [{field: owner[field] for field in kept}]
        return {
            "apiVersion": POD_GROUPS.api_version,
            "kind": POD_GROUPS.kind,
            "metadata": metadata,
            "spec": self.spec(asked),
        }

    def spec(self, asked: Mapping[str, str]) -> Document:
        """What is written into its spec."""
        spec: Document = {"minMember": self.minimum, "minResources": dict(asked)}
        return {**spec, "queue": self.queue} if self.queue else spec


def groups_wanted(world: World, keys: Sequence[WorkloadKey]) -> Iterator[tuple[WorkloadKey, GroupWanted]]:
    """Groups that are to be made, or to get another size or queue, because of these workloads."""
    for key in keys:
        state = world.states.get(key)
        if state is None:
            continue
        found: GroupWanted | None = None
        fact = world.facts.get(key)
        if fact is not None and support_of(key).is_group and not world.recreations.is_awaited(key):
            found = unneeded(fact, state.pods)
        if found is None and not state.is_over:
            if key.kind == kind_names.POD:
                found = _missing(state)
            elif fact is not None and support_of(key).is_group:
                found = changed(fact, state.pods, has_seats=bool(state.seat_maps))
        if found is not None:
            yield key, found


def _missing(state: WorkloadState) -> GroupWanted | None:
    """The group of a pod that waits alone although it names one: there is none yet."""
    pod = next(iter(state.pods), None)
    if pod is None or not (pod.group and pod.group_minimum and pod.gated):
        return None
    return wanted_by(pod)


def wanted_by(pod: PodFact) -> GroupWanted:
    """The group that a pod names."""
    queue = pod.queue if pod.queue not in (None, UNUSABLE_QUEUE) else None
    return GroupWanted(
        namespace=pod.namespace,
        name=pod.group or "",
        minimum=pod.group_minimum,
        queue=queue or DEFAULT_QUEUE,
        pod=pod.name,
    )


def unneeded(fact: WorkloadFact, pods: Sequence[PodFact]) -> GroupWanted | None:
    """The group of pods without an owner, when none of them is left; None if it has pods or an owner, or if others made
    it.

    Pods that were evicted and are made again find it still there: it has their turn.
    """
    if pods or fact.deleting or fact.conduct.user or not fact.name.startswith(AUTOMATIC_GROUP_OF_PODS):
        return None
    return GroupWanted(
        namespace=fact.namespace,
        name=fact.name,
        minimum=0,
        queue=fact.queue or DEFAULT_QUEUE,
        pod="",
        uid=fact.key.uid,
        is_unneeded=True,
    )


def changed(fact: WorkloadFact, pods: Sequence[PodFact], *, has_seats: bool) -> GroupWanted | None:
    """The group with the size and the queue that its newest pod states; None if it has these, or others made it.

    While members have seats, these are of its queue.
    """
    newest = None if fact.deleting else telling_pod(fact, pods)
    if newest is None:
        return None
    queue = None if has_seats else queue_to_move_to(fact, newest)
    if queue is None and newest.group_minimum == fact.minimum:
        return None
    return replace(wanted_by(newest), name=fact.name, queue=queue or "", uid=fact.key.uid)
