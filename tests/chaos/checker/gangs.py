"""Checks of gangs: whole when they are admitted, whole when they are evicted, whole when they run."""

from collections.abc import Iterator

from tests.chaos.checker.breach import Breach
from tests.chaos.checker.ledger import Admission, Transaction, moments
from tests.chaos.checker.objects import Life
from tests.chaos.checker.recording import CLOCKS_DIFFER, Recording, minimum_of


def gangs_are_admitted_whole(recording: Recording) -> Iterator[Breach]:
    """A gang gets as many seats at once as must start together, less what of it has ended already."""
    for transaction in recording.transactions:
        codes = {row["admission"]: row["code"] for row in transaction.inserted("decisions")}
        for row in transaction.inserted("admissions"):
            admission = Admission(row)
            workload = recording.workloads.get(admission.owner)
            if workload is None or codes.get(admission.id) != "gang":
                continue
            needed = _needed(recording, workload, transaction)
            if len(admission.seats()) < needed:
                what = f"{admission} has {len(admission.seats())} seats, it needs {needed} to start"
                yield Breach(what=what, row=transaction.number)


def _needed(recording: Recording, workload: Life, transaction: Transaction) -> int:
    """Pods that must start together at that moment; of several versions of the object the smallest number."""
    moment = recording.since_beginning(transaction)
    minimum = min(
        minimum_of(change.document)
        for change in workload.changes
        if change.earliest <= moment + CLOCKS_DIFFER
    )
    ended = sum(
        pod.outcome != "" and pod.ended is not None and pod.ended.earliest <= moment + CLOCKS_DIFFER
        for pod in recording.members(workload)
    )
    return minimum - ended


def gangs_are_evicted_whole(recording: Recording) -> Iterator[Breach]:
    """After an eviction a workload keeps all seats that must start together, or none at all."""
    for transaction, tables in moments(recording.transactions):
        owners = {
            Admission(change.after).owner
            for change in transaction.of("admissions")
            if change.after is not None
            and change.after["state"] == "evicting"
            and change.before is not None
            and change.before["state"] == "open"
        }
        for owner in sorted(owners):
            workload = recording.workloads.get(owner)
            if workload is None:
                continue
            left = [each for each in tables.admissions() if each.owner == owner and each.state == "open"]
            seats = sum(len(each.seats()) for each in left)
            held = sum(len(each.held()) for each in left)
            needed = _needed(recording, workload, transaction)
            if held and seats < needed and not any(each.is_adopted for each in left):
                what = f"{left[0]} is left with {seats} seats, {needed} must run together"
                yield Breach(what=what, row=transaction.number)


def no_gang_is_split_at_the_end(recording: Recording) -> Iterator[Breach]:
    """At rest as many pods of a gang run, or have ended, as must run together; or none runs."""
    if recording.history.unrest:
        return
    for key, workload in recording.workloads.items():
        if not workload.is_there or recording.is_over(workload):
            continue
        members = recording.members(workload) if key[0] != "pod" else []
        running = [pod for pod in members if pod.is_running]
        done = {pod.name for pod in members if pod.outcome == "Succeeded"}
        if key[0] != "job":  # the pods of a Job have successors of other names
            done |= {pod.name for pod in members if pod.outcome}
        needed = minimum_of(workload.document)
        together = len({pod.name for pod in running} | done)
        if running and together < needed:
            what = f"{workload}: {len(running)} pods run, {together} with those that ended, {needed} must run together"
            yield Breach(what=what)
