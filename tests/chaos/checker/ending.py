"""Checks of a run at rest: nothing is lost, seats and pods match, gangs that fit are admitted, statuses are true."""

from collections.abc import Iterator
from typing import Final

from queues.resources import amount
from tests.chaos.checker.breach import Breach
from tests.chaos.checker.ledger import Admission
from tests.chaos.checker.objects import (
    ENDED,
    GPU,
    Life,
    PodLife,
    admission_of,
    allocatable_of,
    is_released,
    phase_of,
    requests_of,
    takes_pods,
)
from tests.chaos.checker.reasons import NOT_OF_ROOM
from tests.chaos.checker.recording import OVER, Recording, is_replica, minimum_of, state_of

#: Lines of the log that tell of a defect, whatever the faults were.
_DEFECTS: Final = (
    "cannot translate an object",
    "row set aside: the database refuses it",
    "term ended by a defect",
    "workload cannot be handled",
    "workload cannot be released",
    "write failed unexpectedly",
)


def the_run_comes_to_rest(recording: Recording) -> Iterator[Breach]:
    """After the last fault some replica leads, and everything that can be done is done."""
    if recording.history.unrest:
        yield Breach(what=recording.history.unrest)


def no_defect_is_logged(recording: Recording) -> Iterator[Breach]:
    """Faults end turns and terms by errors that have a name."""
    for line in recording.history.log:
        if line.message in _DEFECTS:
            yield Breach(what=f"{line.replica}: {line.message} {dict(line.facts)}")


def no_workload_is_lost(recording: Recording) -> Iterator[Breach]:
    """What a user has created and not deleted is over, admitted, or waits for a reason that is told."""
    if recording.history.unrest:
        return
    end = recording.end
    admitted = {each.owner for each in end.admissions() if each.state != "closed"}
    for key, workload in recording.workloads.items():
        if not workload.is_there or "deletionTimestamp" in workload.document["metadata"]:
            if any(pod.is_running for pod in recording.members(workload)):
                continue  # they hold their seats until they end
            if key in admitted:
                yield Breach(what=f"{workload} is gone, its admission is still open")
            elif key in end.of("workloads"):
                yield Breach(what=f"{workload} is gone, the ledger still has it")
        elif recording.is_over(workload):
            continue
        elif key not in end.of("workloads"):
            yield Breach(what=f"{workload} is not known to the ledger")
        elif key not in admitted and key not in end.of("reasons") and not _tells_why(workload):
            yield Breach(what=f"{workload} is neither admitted nor told why it waits")


def _tells_why(workload: Life) -> bool:
    """Whether its status gives a reason for waiting."""
    status = workload.document.get("status") or {}
    said = [
        each for each in status.get("conditions") or () if each.get("reason") and each.get("status") != "True"
    ]
    told = [each for each in status.get("conditions") or () if each.get("type") == "Unschedulable"]
    return bool(said or told or state_of(workload.document).get("reason"))


def seats_and_pods_match_at_the_end(recording: Recording) -> Iterator[Breach]:
    """At rest no admission is being evicted, each held seat has a live pod, and no pod lives without a held seat."""
    if recording.history.unrest:
        return
    running = [pod for pod in recording.pods if pod.is_running]
    held = {each.id: each for each in recording.end.admissions() if each.state != "closed"}
    for admission in held.values():
        if admission.state == "evicting":
            yield Breach(what=f"{admission} is still being evicted: {admission.row['cause_message']}")
            continue
        if admission.is_adopted:
            continue
        live = [pod for pod in running if _names(pod, admission)]
        sitting = {pod.seat for pod in live}
        empty = [seat for seat in admission.held() if f"{seat.pod_set}/{seat.ordinal}" not in sitting]
        if None in sitting:  # of a Job that was released by its template
            empty = empty[len([pod for pod in live if pod.seat is None]) :]
        for seat in empty:
            yield Breach(what=f"no pod is in seat {seat.pod_set}/{seat.ordinal} of {admission}")
    for pod in running:
        admission_id = admission_of(pod.document)
        if admission_id not in held:
            yield Breach(what=f"{pod.name} lives, admission {admission_id} is closed", change=pod.last.number)
    for row in recording.end.of("recreations").values():
        yield Breach(what=f"pod {row['namespace']}/{row['name']} still is to be made again")


def _names(pod: PodLife, admission: Admission) -> bool:
    return pod.admission == admission.id


# ── gangs that fit ──────────────────────────────────────────────────────────────────────────────────────────────

_PLACED: Final = ("nodeSelector", "affinity", "tolerations", "nodeName")


def every_gang_that_fits_is_admitted(recording: Recording) -> Iterator[Breach]:
    """At rest no gang waits that the free nodes and its queue have room for, unless something else keeps it back."""
    if recording.history.unrest:
        return
    end = recording.end
    admitted = {each.owner for each in end.admissions() if each.state != "closed"}
    free = _free_nodes(recording)
    for key, workload in recording.workloads.items():
        known = end.of("workloads").get(key)
        if recording.is_over(workload) or key in admitted or known is None:
            continue
        reason = end.of("reasons").get(key, {"code": "", "message": "no reason"})
        pods = _smallest_gang(recording, key[0], workload)
        if reason["code"] in NOT_OF_ROOM or not pods:
            continue
        if _all_fit(pods, free) and _has_quota(recording, known["queue"], pods):
            yield Breach(what=f"{workload} waits ({reason['code']}: {reason['message']}) though it fits")


def _smallest_gang(recording: Recording, kind: str, workload: Life) -> list[dict[str, int]]:
    """What the pods of a gang ask that must start together, the smallest ones; []: not known, or they are choosy."""
    document = workload.document
    spec = document.get("spec") or {}
    if kind == "job":
        specs = [spec["template"]["spec"]] * minimum_of(document)
        annotations = [spec["template"].get("metadata") or {}]
    elif kind == "vcjob":
        tasks = [task for task in spec["tasks"] for _ in range(int(task.get("replicas", 1)))]
        specs = [task["template"]["spec"] for task in tasks]
        annotations = [task["template"].get("metadata") or {} for task in tasks]
    else:
        members = (
            [pod for pod in recording.members(workload) if pod.ended is None] if kind != "pod" else [workload]
        )
        specs = [pod.document["spec"] for pod in members]
        annotations = [pod.document["metadata"] for pod in members]
    if len(specs) < minimum_of(document) or any(_is_choosy(each) for each in specs):
        return []
    if any("topology" in key for each in annotations for key in each.get("annotations") or {}):
        return []
    asked = sorted((requests_of(each) for each in specs), key=lambda each: sorted(each.items()))
    return asked[: max(1, minimum_of(document))]


def _is_choosy(spec: dict[str, object]) -> bool:
    return any(spec.get(name) for name in _PLACED)


def _free_nodes(recording: Recording) -> dict[str, dict[str, int]]:
    """What is left of nodes that take pods, beside the pods that are bound to them."""
    free = {
        life.document["metadata"]["name"]: allocatable_of(life.document)
        for life in recording.of("nodes")
        if life.is_there and takes_pods(life.document)
    }
    for pod in recording.pods:
        node = pod.document["spec"].get("nodeName")
        if pod.ended is None and node in free:
            free[node]["pods"] = free[node].get("pods", 110) - 1
            for resource, units in requests_of(pod.document["spec"]).items():
                free[node][resource] = free[node].get(resource, 0) - units
    return free


def _all_fit(pods: list[dict[str, int]], free: dict[str, dict[str, int]]) -> bool:
    left = {node: dict(amounts) for node, amounts in free.items()}
    for pod in sorted(pods, key=lambda each: -each.get(GPU, 0)):
        place = next(
            (
                node
                for node in left.values()
                if all(node.get(name, 0) >= units for name, units in pod.items())
            ),
            None,
        )
        if place is None or place.get("pods", 1) < 1:
            return False
        place["pods"] = place.get("pods", 1) - 1
        for name, units in pod.items():
            place[name] -= units
    return True


def _has_quota(recording: Recording, queue: str, pods: list[dict[str, int]]) -> bool:
    """Whether every queue on the path has as much left, as it is stored; flavors are left out."""
    end = recording.end
    asked: dict[str, int] = {}
    for pod in pods:
        for name, units in pod.items():
            asked[name] = asked.get(name, 0) + units
    here: str | None = queue
    while here is not None:
        for name, units in asked.items():
            ceiling = end.of("queue_limits").get((here, "", name), {}).get("ceiling")
            counted = end.of("queue_balances").get((here, "", name), {}).get("counted", 0)
            if ceiling is not None and counted + units > ceiling:
                return False
        here = end.of("queues").get((here,), {}).get("counts_in")
    return not any(key[1] for key in end.of("queue_limits"))


# ── what is stored, and what is told ────────────────────────────────────────────────────────────────────────────


def what_is_stored_is_true_at_the_end(recording: Recording) -> Iterator[Breach]:
    """Nodes, queues and workloads in the database are those of the cluster, with what they offer."""
    if recording.history.unrest:
        return
    end = recording.end
    nodes = {life.document["metadata"]["name"]: life for life in recording.of("nodes") if life.is_there}
    for name in sorted({key[0] for key in end.of("nodes")} ^ nodes.keys()):
        yield Breach(
            what=f"node {name} is {'there, and not stored' if name in nodes else 'stored, and not there'}"
        )
    for (name,), row in end.of("nodes").items():
        if name in nodes:
            yield from _wrong_node(recording, nodes[name], row["usable"])
    queues = {
        life.document["metadata"]["name"]: life.document for life in recording.of("queues") if life.is_there
    }
    stored = {key[0]: row for key, row in end.of("queues").items() if row["present"]}
    for name in sorted(stored.keys() ^ queues.keys()):
        yield Breach(
            what=f"queue {name} is {'there, and not stored' if name in queues else 'stored, and not there'}"
        )
    for name in sorted(stored.keys() & queues.keys()):
        meta = queues[name]["metadata"]
        if (stored[name]["uid"], stored[name]["generation"]) != (meta["uid"], meta.get("generation", 0)):
            what = f"queue {name} is stored as generation {stored[name]['generation']}, it is {meta.get('generation')}"
            yield Breach(what=what)


def _wrong_node(recording: Recording, node: Life, usable: bool) -> Iterator[Breach]:
    name = node.document["metadata"]["name"]
    takes = takes_pods(node.document)
    if takes != usable:
        yield Breach(what=f"node {name} {'takes' if takes else 'takes no'} pods, stored is usable={usable}")
    if not takes:
        return
    others = sum(
        requests_of(pod.document["spec"]).get(GPU, 0)
        for pod in recording.pods
        if pod.ended is None
        and pod.document["spec"].get("nodeName") == name
        and not is_released(pod.document)
    )
    offered = allocatable_of(node.document).get(GPU, 0) - others
    stored = recording.end.of("node_limits").get((name, GPU), {}).get("amount", 0)
    if stored != offered:
        yield Breach(what=f"node {name} offers {offered} {GPU} beside other pods, stored is {stored}")


def no_end_is_told_early(recording: Recording) -> Iterator[Breach]:
    """A Volcano Job or PodGroup is told to be completed only after as many pods ended as it needs."""
    for workload in recording.of("jobs.batch.volcano.sh", "podgroups"):
        before = ""
        for change in workload.changes:
            status = change.document.get("status") or {}
            phase = str(status.get("phase") or state_of(change.document).get("phase") or "")
            if phase == "Completed" != before and is_replica(change.writer):
                succeeded = workload.first.resource != "podgroups"
                done = {
                    pod.name
                    for pod in recording.members(workload)
                    if pod.outcome in (("Succeeded",) if succeeded else ENDED)
                    and any(
                        phase_of(each.document) in ENDED
                        for each in pod.changes
                        if each.number < change.number
                    )
                }
                needed = minimum_of(change.document)
                if len(done) < needed and not _was_told_to_end(workload):
                    what = f"{workload} is told to be completed, {len(done)} of {needed} pods have ended"
                    yield Breach(what=what, change=change.number)
            before = phase


def _was_told_to_end(workload: Life) -> bool:
    """Whether policies may end a Job before its pods do."""
    spec = workload.document.get("spec") or {}
    policies = [spec.get("policies"), *(task.get("policies") for task in spec.get("tasks") or ())]
    return any(policies)


def statuses_are_true_at_the_end(recording: Recording) -> Iterator[Breach]:
    """What has ended is told to have ended; what waits is told to wait, and what runs is not."""
    if recording.history.unrest:
        return
    admitted = {each.owner for each in recording.end.admissions() if each.state == "open"}
    yield from _wrong_queues(recording)
    for key, workload in recording.workloads.items():
        if not workload.is_there or "deletionTimestamp" in workload.document["metadata"]:
            continue
        status = workload.document.get("status") or {}
        if key[0] in ("vcjob", "podgroup"):
            told, runs = int(status.get("running") or 0), _running(recording, workload)
            if told != runs:
                yield Breach(what=f"{workload} is told to run {told} pods, {runs} run")
        if key[0] == "vcjob":
            yield from _wrong_volcano_job(recording, workload)
        elif key[0] == "podgroup":
            members = recording.members(workload)
            ended = (
                members
                and all(pod.outcome and pod.is_there for pod in members)
                and len(members) >= minimum_of(workload.document)
            )
            if ended and status.get("phase") != "Completed":
                yield Breach(what=f"{workload} is told to be {status.get('phase')}, all its pods have ended")
        elif not recording.is_over(workload):
            told = {each["type"]: each["status"] for each in status.get("conditions") or ()}
            if (told.get("muster.dev/Admitted") == "False") == (key in admitted):
                what = f"{workload} is {'' if key in admitted else 'not '}admitted, its status says {told}"
                yield Breach(what=what)


def _wrong_volcano_job(recording: Recording, workload: Life) -> Iterator[Breach]:
    spec = workload.document["spec"]
    replicas = sum(int(task.get("replicas", 1)) for task in spec["tasks"])
    succeeded = {pod.name for pod in recording.members(workload) if pod.outcome == "Succeeded"}
    phase = state_of(workload.document).get("phase")
    if len(succeeded) >= replicas and phase not in OVER:
        yield Breach(what=f"{workload} is told to be {phase}, all its pods have succeeded")


def _running(recording: Recording, workload: Life) -> int:
    """Pods of a workload that run at the end."""
    return sum(pod.is_there and phase_of(pod.document) == "Running" for pod in recording.members(workload))


def _wrong_queues(recording: Recording) -> Iterator[Breach]:
    """Queues that are told to use something else than their admissions do."""
    for queue in recording.of("queues"):
        if not queue.is_there:
            continue
        name = queue.document["metadata"]["name"]
        told = (queue.document.get("status") or {}).get("allocated") or {}
        holds = recording.end.of("queue_balances").get((name, "", GPU), {}).get("own", 0)
        if amount(GPU, told.get(GPU, "0")) != holds:
            yield Breach(what=f"{queue} is told to use {told.get(GPU, 0)} {GPU}, it holds {holds} units")
