"""Commands for a Volcano Job, and for a Queue, are carried out once."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from admission.decode.admin_documents import command_of
from admission.facts.changes import Change, FactKind
from admission.reconcile.volcano_jobs import VolcanoJobController
from admission.volcano_jobs.lifecycle import carry_out
from admission.volcano_jobs.pods import PodRules
from admission.volcano_jobs.state import MOST_COMMANDS, JobState, Phase
from admission.volcano_jobs.view import JobView
from admission.wire import WireCommand
from admission.world.volcano_jobs import TARGET_SEEN_WITHIN, first_state
from queues.api.types.queue import QueueDocument
from queues.command import Command
from queues.workload import QueueName
from tests.builders.decoded_workloads import a_volcano_job, task
from tests.builders.facts import NOW, VOLCANO, queue, volcano_job, world
from tests.builders.volcano_jobs import KEY, UID, job

UID_OF_QUEUE = "q-uid"


def command(number: int, action: str, **fields: Any) -> Command:
    given = {"target_kind": "Job", "target_name": "train", "target_uid": UID, "created": number, **fields}
    return Command(uid=f"c{number}", namespace="team-a", name=f"command-{number}", action=action, **given)


def state(phase: Phase, **fields: Any) -> JobState:
    return JobState(uid=UID, phase=phase, history=((phase, 0),), **fields)


def seen(*commands: Command, **view: Any) -> JobView:
    return JobView(spec=job(), commands=commands, **view)


@pytest.mark.parametrize(
    ("before", "action", "after"),
    [
        (Phase.RUNNING, "AbortJob", Phase.ABORTING),
        (Phase.PENDING, "TerminateJob", Phase.TERMINATING),
        (Phase.RUNNING, "CompleteJob", Phase.COMPLETING),
        (Phase.RUNNING, "RestartJob", Phase.RESTARTING),
        (Phase.ABORTED, "ResumeJob", Phase.RESTARTING),
        (Phase.RUNNING, "ResumeJob", Phase.RUNNING),
        (Phase.COMPLETED, "RestartJob", Phase.COMPLETED),
        (Phase.RUNNING, "RestartPod", Phase.RUNNING),
        (Phase.RUNNING, "OpenQueue", Phase.RUNNING),
    ],
)
def test_a_command_is_carried_out_once_whatever_it_does(before: Phase, action: str, after: Phase) -> None:
    view = seen(command(1, action))
    new = carry_out(state(before), view, NOW)
    assert (new.phase, new.commands) == (after, ("c1",))
    assert carry_out(new, view, NOW) is new
    assert JobState.from_json(new.to_json()) == new


def test_a_job_that_is_being_aborted_is_resumed_when_its_last_pod_is_gone() -> None:
    """Before, some of its seats are given back already: what it still holds would be half a gang."""
    abort = command(1, "AbortJob", message="wrong data")
    view = seen(abort, command(2, "ResumeJob"), command(3, "AbortJob"), command(4, "ResumeJob"))
    aborting = carry_out(state(Phase.RUNNING), view, NOW)
    assert (aborting.phase, aborting.commands) == (Phase.ABORTING, ("c1",))
    assert aborting.message == "Command command-1: wrong data"
    assert carry_out(aborting, view, NOW) is aborting
    again = carry_out(replace(aborting, phase=Phase.ABORTED), view, NOW)
    assert (again.phase, again.commands) == (Phase.ABORTING, ("c1", "c2", "c3"))
    last = carry_out(replace(again, phase=Phase.ABORTED), view, NOW)
    assert (last.phase, last.retry_count) == (Phase.RESTARTING, 0)


def test_the_last_commands_are_remembered_and_those_that_are_still_there() -> None:
    held = command(0, "AbortJob")
    known = carry_out(state(Phase.RUNNING), seen(held), NOW)
    for number in range(1, 3 * MOST_COMMANDS):
        known = carry_out(known, seen(held, command(number, "RestartJob")), NOW)
    assert len(known.commands) == MOST_COMMANDS + 1
    assert known.commands[0] == "c0"


def test_nothing_is_carried_out_on_a_job_that_is_being_deleted() -> None:
    before = state(Phase.RUNNING)
    assert carry_out(before, seen(command(1, "AbortJob"), deleting=True), NOW) is before


def test_a_command_names_its_target_in_any_version() -> None:
    other = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": UID}
    target = {**other, "apiVersion": "batch.volcano.sh/v1beta7"}
    meta = {"uid": "u", "namespace": "team-a", "name": "c", "creationTimestamp": None}
    written = {"metadata": meta, "action": "AbortJob", "target": target, "reason": "Why"}
    found = command_of(msgspec.convert(written, WireCommand))
    assert (found.target_kind, found.target_uid, found.message) == ("Job", UID, "Why")
    assert command_of(msgspec.convert({"metadata": {}, "target": other}, WireCommand)).target_kind == ""
    assert command_of(msgspec.convert({"metadata": {}}, WireCommand)).action == ""


# ── in the world ────────────────────────────────────────────────────────────────────────────────────────────────


def a_queue(name: str = "team", *, closed: bool = False) -> Any:
    return replace(queue(name, closed=closed), uid=UID_OF_QUEUE)


def asked(*commands: Command, known: Any = None) -> Any:
    known = known or world([a_queue()])
    known.observe([Change(FactKind.COMMAND, each.uid, each) for each in commands])
    return known


def on_queue(number: int, action: str, **fields: Any) -> Command:
    given = {"target_kind": "Queue", "target_name": "team", "target_uid": UID_OF_QUEUE}
    return command(number, action, **{**given, **fields})


def finished(known: Any, now: int = 0) -> list[str]:
    stored = known.volcano_jobs.stored
    return [each.name for each in known.commands.finished(known.facts, stored, known.queues, now)]


def wanted(known: Any) -> bool | None:
    found: bool | None = known.commands.wants_closed(QueueName("team"), UID_OF_QUEUE)
    return found


def test_the_object_of_a_command_goes_once_its_job_has_stored_it() -> None:
    known = asked(command(1, "AbortJob", target_uid=KEY.uid), known=world([volcano_job(4)]))
    assert known.commands.of_job(KEY) == (command(1, "AbortJob"),)
    assert finished(known) == []
    known.put_job(KEY, state(Phase.ABORTING, commands=("c1",)))
    assert finished(known) == ["command-1"]
    known.observe([Change(FactKind.COMMAND, "c1", None)])
    assert known.commands.of_job(KEY) == ()
    assert finished(known) == []


@pytest.mark.parametrize("fields", [{"namespace": "evil"}, {"target_name": "mine"}])
def test_a_command_from_elsewhere_or_by_another_name_is_none_for_the_job(fields: dict[str, str]) -> None:
    """The API server asked for the rights of its author by namespace and name; the uid says nothing about them."""
    jobs = VolcanoJobController(PodRules())
    evil = replace(command(1, "TerminateJob", target_uid=VOLCANO.uid), **{"namespace": "ns", **fields})
    known = asked(evil, known=world([volcano_job(4, job=job(plugins={}))]))
    assert jobs.view(known, VOLCANO).commands == ()
    assert finished(known, now=TARGET_SEEN_WITHIN + 1) == ["command-1"]


def test_a_command_for_a_job_that_cannot_be_read_goes_after_a_while() -> None:
    abort = replace(command(1, "AbortJob", target_uid=VOLCANO.uid), namespace="ns")
    known = asked(abort, known=world([volcano_job(4, job=job())]))
    assert finished(known, now=TARGET_SEEN_WITHIN + 1) == []
    unreadable = asked(abort, known=world([volcano_job(4)]))
    assert finished(unreadable, now=TARGET_SEEN_WITHIN) == []
    assert finished(unreadable, now=TARGET_SEEN_WITHIN + 1) == ["command-1"]


@pytest.mark.parametrize("phase", ["Completed", "Failed", "Terminated", "Aborted", "Aborting"])
def test_what_has_ended_stays_so_though_the_ledger_does_not_know_it(phase: str) -> None:
    status = {"state": {"phase": phase, "lastTransitionTime": "2026-01-01T00:00:00Z"}, "version": 3}
    found = first_state(VOLCANO, a_volcano_job(task(), status=status))
    assert (found.phase, found.version, found.last_transition) == (phase, 3, 1_767_225_600)
    assert found.is_stopped()


def test_a_job_that_ran_begins_with_the_version_of_its_pods() -> None:
    status = {"state": {"phase": "Running"}, "version": 3, "retryCount": 2}
    found = first_state(VOLCANO, a_volcano_job(task(), status=status))
    assert found == JobState(uid=VOLCANO.uid, version=3, retry_count=2)


def test_a_command_for_nothing_that_there_is_goes_after_a_while() -> None:
    known = asked(command(1, "AbortJob"), on_queue(2, "CloseQueue", target_name="gone"))
    assert finished(known, now=TARGET_SEEN_WITHIN) == []
    assert finished(known, now=TARGET_SEEN_WITHIN + 2) == ["command-1", "command-2"]


def test_a_queue_obeys_the_last_command_and_then_whoever_changes_it() -> None:
    known = asked(on_queue(1, "OpenQueue"), on_queue(2, "CloseQueue"))
    assert wanted(known) is True
    assert finished(known) == []
    known.observe([Change(FactKind.QUEUE, "team", a_queue(closed=True))])
    # The older one goes first: who knows nothing of what was done finds the last.
    assert finished(known) == ["command-1"]
    known.observe([Change(FactKind.COMMAND, "c1", None)])
    assert finished(known) == ["command-2"]
    assert wanted(known) is None
    assert not known.commands.awaits_queues()
    known.observe([Change(FactKind.QUEUE, "team", a_queue())])
    assert wanted(known) is None
    asked(on_queue(3, "CloseQueue"), known=known)
    assert wanted(known) is True


@pytest.mark.parametrize(
    "fields", [{"target_uid": "of an earlier queue"}, {"target_name": "root"}, {"action": "EatQueue"}]
)
def test_a_command_that_cannot_be_obeyed_changes_nothing(fields: dict[str, str]) -> None:
    known = asked(replace(on_queue(1, "CloseQueue"), **fields), known=world([a_queue(), a_queue("root")]))
    assert wanted(known) is None
    assert finished(known) == ["command-1"]


def test_the_state_of_a_queue_says_whether_it_was_closed_itself() -> None:
    def closed(name: str, state: str, by_parent: str) -> bool:
        conditions = [{"type": "ClosedByParent", "status": by_parent}]
        status = {"state": state, "conditions": conditions}
        return QueueDocument.read({"metadata": {"name": name}, "status": status}).to_domain().closed

    assert closed("team", "Closing", "False")
    assert not closed("team", "Closed", "True")
    assert not closed("team", "Open", "True")
    assert not closed("root", "Closed", "False")
