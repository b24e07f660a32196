"""Checks of the lives of pods, alone and beside the admissions that they were let go for."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Final

from queues.api import names
from tests.chaos.checker.breach import Breach
from tests.chaos.checker.ledger import Seat
from tests.chaos.checker.objects import (
    ENDED,
    GPU,
    Life,
    PodLife,
    admission_of,
    allocatable_of,
    annotations_of,
    group_of,
    is_gated,
    is_ready,
    is_released,
    nodes_of,
    owner_of,
    phase_of,
    requests_of,
)
from tests.chaos.checker.recording import CLOCKS_DIFFER, KINDS, AdmissionLife, Recording, is_replica
from tests.chaos.history import SCHEDULER, USER, Document, ObjectChange

#: What nodes never have too little of.
_BOUNDED: Final = (GPU, "cpu", "memory")


def no_seat_has_two_live_pods(recording: Recording) -> Iterator[Breach]:
    """A pod that was let go for a seat has ended before the next one is let go for it."""
    for (admission, seat), pods in _by_seat(recording).items():
        for earlier, later in pairwise(pods):
            assert later.released is not None
            if earlier.ended is None or earlier.ended.number > later.released.number:
                what = f"{later.name} in seat {seat} of admission {admission} beside {earlier.name}"
                yield Breach(what=what, change=later.released.number)


def _by_seat(recording: Recording) -> dict[tuple[int, str], list[PodLife]]:
    found: dict[tuple[int, str], list[PodLife]] = defaultdict(list)
    for pod in recording.pods:
        if pod.admission is not None and pod.seat is not None:
            found[pod.admission, pod.seat].append(pod)
    for pods in found.values():
        pods.sort(key=lambda pod: pod.released.number if pod.released else 0)
    return found


def pods_run_only_as_admitted(recording: Recording) -> Iterator[Breach]:
    """A pod that had to wait is let go for an admission of its workload, on its nodes, and asks no more than it has."""
    for pod in recording.pods:
        first = pod.first
        loose = next((each for each in pod.changes if not is_gated(each.document)), None)
        if pod.released is None:
            if is_gated(first.document) and loose is not None and loose.change != "DELETED":
                yield Breach(what=f"{pod.name} runs without an admission", change=loose.number)
            continue
        life = recording.admissions.get(pod.admission or 0)
        if life is None:
            what = f"{pod.name} names admission {pod.admission}, which there never was"
            yield Breach(what=what, change=pod.released.number)
            continue
        yield from _not_as_admitted(recording, pod, pod.released, life)


def _not_as_admitted(
    recording: Recording, pod: PodLife, released: ObjectChange, life: AdmissionLife
) -> Iterator[Breach]:
    uid = life.last.owner[1]
    mine = {pod.uid, owner_of(released.document), *_groups(recording, released.document)}
    if uid not in mine:
        yield Breach(what=f"{pod.name} was let go for {life.last}", change=released.number)
        return
    if recording.since_beginning(life.opened) > released.at + CLOCKS_DIFFER:
        yield Breach(what=f"{pod.name} was let go before there was {life.last}", change=released.number)
    asked = requests_of(released.document["spec"])
    seats = _seats_for(life, pod)
    bound = next((each for each in pod.changes if each.document["spec"].get("nodeName")), released)
    nodes = nodes_of(bound.document)
    if not any(_is_large_enough(seat, asked) and seat.node in nodes for seat in seats):
        what = (
            f"{pod.name} asks {asked} on {sorted(nodes)}, {life.last} has {[_told(seat) for seat in seats]}"
        )
        yield Breach(what=what, change=bound.number)


def _groups(recording: Recording, pod: Document) -> list[str]:
    name = group_of(pod)
    return [life.uid for life in recording.of("podgroups") if life.name == name] if name else []


def _seats_for(life: AdmissionLife, pod: PodLife) -> list[Seat]:
    seats = life.last.seats()
    return [seat for seat in seats if pod.seat in (None, f"{seat.pod_set}/{seat.ordinal}")]


def _is_large_enough(seat: Seat, asked: Mapping[str, int]) -> bool:
    return all(units <= seat.takes.get(resource, 0) for resource, units in asked.items())


def _told(seat: Seat) -> str:
    return f"{seat.pod_set}/{seat.ordinal} on {seat.node}: {dict(seat.takes)}"


def no_seat_is_given_back_under_a_pod(recording: Recording) -> Iterator[Breach]:
    """When a seat is given back no pod of it lives, and none is let go for it afterwards."""
    for pod in recording.pods:
        life = recording.admissions.get(pod.admission or 0)
        if life is None or pod.released is None:
            continue
        given_back = life.closed
        if pod.seat is not None:
            index = next(
                (
                    index
                    for index, seat in enumerate(life.last.seats())
                    if f"{seat.pod_set}/{seat.ordinal}" == pod.seat
                ),
                None,
            )
            given_back = None if index is None else life.end_of(index)
        adopting = recording.adopting(pod.uid)
        if given_back and adopting and adopting.opened.number < given_back.number:
            # Beyond the seats of the admission that let it go: another one holds it.
            life, given_back = adopting, adopting.closed
        if given_back is None:
            continue
        moment = recording.since_beginning(given_back)
        if pod.ended is not None and pod.ended.earliest <= moment + CLOCKS_DIFFER:
            continue
        if _was_out_of_reach(recording, pod, moment):
            continue
        when = "later" if pod.ended is None else f"{pod.ended.at - moment:.2f} s later"
        let_go = f"{pod.name} (let go {_told_at(pod, moment)})"
        what = f"seat {pod.seat} of {life.last} was given back, {let_go} ended {when}"
        yield Breach(what=what, row=given_back.number, change=pod.released.number)


def _told_at(pod: PodLife, moment: float) -> str:
    assert pod.released is not None
    return f"{abs(moment - pod.released.at):.2f} s {'before' if pod.released.at < moment else 'after'}"


def _was_out_of_reach(recording: Recording, pod: PodLife, moment: float) -> bool:
    """Whether the node of a pod was gone or not ready before that moment: its pods may count as gone."""
    for change in pod.changes:
        name = change.document["spec"].get("nodeName")
        if name is None:
            continue
        lives = recording.nodes.get(name, [])
        if not lives:
            return True
        seen = [each for life in lives for each in life.changes if each.earliest <= moment + CLOCKS_DIFFER]
        return any(
            each.change == "DELETED" or not is_ready(each.document)
            for each in seen
            if each.at >= change.earliest
        ) or any(not is_ready(each.document) for each in seen[-1:])
    return False


def nodes_are_never_too_small_for_their_pods(recording: Recording) -> Iterator[Breach]:
    """When a pod is bound, all pods on its node fit; when one is let go for it, so do all that Muster let go for it."""
    seen: dict[str, Document] = {}
    nodes: dict[str, Document] = {}
    for change in sorted(recording.history.objects, key=lambda each: each.number):
        document = change.document
        uid = document["metadata"]["uid"]
        if change.resource == "nodes":
            nodes[document["metadata"]["name"]] = document
        if change.resource != "pods":
            continue
        before = seen.pop(uid, None)
        if change.change == "DELETED" or phase_of(document) in ENDED:
            continue
        seen[uid] = document
        node = _its_node(document)
        if node is None or node not in nodes or (before is not None and _its_node(before) == node):
            continue
        room = allocatable_of(nodes[node])
        bound = bool(document["spec"].get("nodeName"))
        taken = _taken(recording, seen.values(), node, bound=bound)
        for resource in _BOUNDED:
            if taken[resource] > room.get(resource, 0):
                kind = "bound to" if bound else "let go for"
                what = f"{taken[resource]} {resource} on {node}, which has {room.get(resource, 0)}: a pod was {kind} it"
                yield Breach(what=f"{what}, {document['metadata']['name']}", change=change.number)


def _its_node(pod: Document) -> str | None:
    nodes = nodes_of(pod) if pod["spec"].get("nodeName") or is_released(pod) else set()
    return next(iter(nodes)) if len(nodes) == 1 else None


def _taken(recording: Recording, pods: Iterable[Document], node: str, *, bound: bool) -> Counter[str]:
    """What pods take on a node: the bound ones, or those that Muster let go for it, bound or not.

    Pods of a Job that is released by its template count as far as it has seats there: its controller makes a pod while
    the one that it replaces is still ending.
    """
    taken: Counter[str] = Counter()
    directed: dict[int, Counter[str]] = defaultdict(Counter)
    for pod in pods:
        if _its_node(pod) != node:
            continue
        if bound:
            if pod["spec"].get("nodeName"):
                taken.update(requests_of(pod["spec"]))
        elif is_released(pod):
            if names.SEAT in annotations_of(pod):
                taken.update(requests_of(pod["spec"]))
            else:
                directed[int(annotations_of(pod)[names.ADMISSION_ID])].update(requests_of(pod["spec"]))
    for id_, asked in directed.items():
        life = recording.admissions.get(id_)
        its: Counter[str] = Counter()
        for seat in life.last.seats() if life is not None else ():
            if seat.node == node:
                its.update(seat.takes)
        taken.update({resource: min(units, its[resource]) for resource, units in asked.items()})
    return taken


def no_job_has_more_pods_than_seats(recording: Recording) -> Iterator[Breach]:
    """Of the pods that name an admission and no seat, as a Job's template does, no more live than it holds seats when
    one is made: seats that were given back before count no more.

    Those that are being deleted are left out: the Job controller makes their successors at once.
    """
    admission_of_pod: dict[str, int] = {}
    live: Counter[int] = Counter()
    for change in sorted(recording.history.objects, key=lambda each: each.number):
        if change.resource != "pods":
            continue
        pod, uid = change.document, change.document["metadata"]["uid"]
        if (before := admission_of_pod.pop(uid, None)) is not None:
            live[before] -= 1
        id_ = admission_of(pod)
        is_over = (
            change.change == "DELETED" or phase_of(pod) in ENDED or "deletionTimestamp" in pod["metadata"]
        )
        if is_over or id_ is None or is_gated(pod) or names.SEAT in annotations_of(pod):
            continue
        admission_of_pod[uid] = id_
        live[id_] += 1
        if before is not None:
            continue
        life = recording.admissions.get(id_)
        seats = 0 if life is None else _seats_held(recording, life, change.earliest - CLOCKS_DIFFER)
        if live[id_] > seats:
            what = f"{live[id_]} pods for the {seats} seats of admission {id_}, {pod['metadata']['name']} the last"
            yield Breach(what=what, change=change.number)


def _seats_held(recording: Recording, life: AdmissionLife, at: float) -> int:
    """How many seats an admission held so many seconds after the beginning of the run, or had when it was opened."""
    earlier = [version for tx, version in life.versions if recording.since_beginning(tx) <= at]
    return len((earlier or [life.versions[0][1]])[-1].held())


def what_succeeded_never_runs_again(recording: Recording) -> Iterator[Breach]:
    """A task of a Volcano Job (in one version of it) or an index of a Job that has succeeded gets no pod any more.

    A pod that was being deleted did not end by itself, whatever its last phase says.
    """
    done: dict[tuple[str, ...], PodLife] = {}
    for pod in sorted(recording.pods, key=lambda each: each.first.number):
        place = _place_of(pod)
        if place is None:
            continue
        before = done.get(place)
        if before is not None and before.ended is not None and before.ended.number < pod.first.number:
            yield Breach(what=f"{pod.name} again, it had succeeded as {before.name}", change=pod.first.number)
        if any(_has_succeeded(change.document) for change in pod.changes):
            done.setdefault(place, pod)


def _has_succeeded(pod: Document) -> bool:
    return phase_of(pod) == "Succeeded" and "deletionTimestamp" not in pod["metadata"]


def _place_of(pod: PodLife) -> tuple[str, ...] | None:
    document = pod.first.document
    said, owner = annotations_of(document), owner_of(document)
    if not owner:
        return None
    if names.TASK_INDEX in said:
        return owner, said.get(names.JOB_VERSION, ""), said.get(names.TASK_SPEC, ""), said[names.TASK_INDEX]
    if names.COMPLETION_INDEX in said:
        return owner, said[names.COMPLETION_INDEX]
    return None


def no_pod_is_made_again_twice(recording: Recording) -> Iterator[Breach]:
    """A pod without an owner that was taken back has at most one successor."""
    successors: dict[str, PodLife] = {}
    for pod in recording.pods:
        before = annotations_of(pod.first.document).get(names.RECREATED_FROM)
        if before is None:
            continue
        if before in successors:
            what = f"{pod.name} and {successors[before].name} both succeed pod {before}"
            yield Breach(what=what, change=pod.first.number)
        successors[before] = pod


def pods_without_owner_come_back(recording: Recording) -> Iterator[Breach]:
    """A pod of a user's that Muster or the scheduler deleted before it had ended is there again at the end."""
    if recording.history.unrest:
        return
    by_name: dict[str, list[PodLife]] = defaultdict(list)
    for pod in recording.pods:
        by_name[pod.name].append(pod)
    for name, pods in by_name.items():
        pods.sort(key=lambda pod: pod.first.number)
        last = pods[-1]
        if pods[0].first.writer != USER or owner_of(last.document) or last.deleted is None:
            continue
        asked = next(
            (each for each in last.changes if "deletionTimestamp" in each.document["metadata"]), last.deleted
        )
        # One that is ended by its deletion has failed as well.
        if any(phase_of(each.document) in ENDED for each in last.changes if each.number < asked.number):
            continue
        taken_back = is_replica(asked.writer) or asked.writer == SCHEDULER
        if taken_back and _has_group(recording, last):
            yield Breach(
                what=f"{name} was deleted by {asked.writer} and is not there again", change=asked.number
            )


def _has_group(recording: Recording, pod: PodLife) -> bool:
    """Whether the PodGroup of a pod is there at the end, if it has one."""
    name = group_of(pod.document)
    return not name or any(life.is_there for life in recording.of("podgroups") if life.name == name)


#: Parts of the spec of a Job that a release or a suspension writes.
_OF_RELEASE: Final = ("suspend", "template")


def what_users_write_stays(recording: Recording) -> Iterator[Breach]:
    """Muster changes of a Job's spec whether it is suspended and where its pods run, and nothing that a user wrote."""
    for life in recording.of(*KINDS):
        for before, after in pairwise(life.changes):
            if not is_replica(after.writer) or after.change == "DELETED":
                continue
            mine, theirs = _written(life, before.document), _written(life, after.document)
            if mine != theirs:
                what = f"{after.writer} changed {life} from {mine} to {theirs}"
                yield Breach(what=what, change=after.number)


def _written(life: Life, document: Document) -> Document:
    """What of a spec is the user's."""
    spec = document.get("spec") or {}
    if life.first.resource == "pods":
        return {"containers": spec.get("containers")}
    found = {name: value for name, value in spec.items() if name not in _OF_RELEASE}
    if life.first.resource == "jobs":
        found["containers"] = spec["template"]["spec"]["containers"]
    return found
