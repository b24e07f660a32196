"""Volcano Jobs between the world and the rules of their life."""

from dataclasses import replace
from typing import Any

from admission.facts.changes import Change, FactKind
from admission.facts.pods import PodFact, PodPhase
from admission.facts.volcano_jobs import JobSpec
from admission.facts.workloads import WorkloadFact
from admission.reconcile.events import acted_events
from admission.reconcile.volcano_jobs import VolcanoJobController
from admission.volcano_jobs.pods import PodRules
from admission.volcano_jobs.state import JobState, Phase
from admission.world.world import World
from queues import kind_names
from tests.builders.facts import NOW, VOLCANO, admission, group, node, released, see, volcano_job, world
from tests.builders.volcano_jobs import job


def written(**spec: Any) -> JobSpec:
    return replace(job(plugins={}, **spec), uid=VOLCANO.uid)


def four(**facts: Any) -> WorkloadFact:
    return volcano_job(4, **{"job": written()} | facts)


def members(first: PodPhase = PodPhase.RUNNING) -> list[PodFact]:
    """The four pods, of which all but the first run."""
    return [
        released(
            f"p{index}",
            f"worker/{index}",
            "n1",
            owner=VOLCANO,
            task="worker",
            index=index,
            phase=PodPhase.RUNNING if index else first,
        )
        for index in range(4)
    ]


def over(known: World, *, finished_at: int) -> None:
    state = JobState(uid=VOLCANO.uid, phase=Phase.COMPLETED, finished_at=finished_at)
    known.put_job(VOLCANO, state)
    known.refresh(NOW)


def test_a_job_that_is_gone_or_cannot_be_read_has_nothing_to_do() -> None:
    job_controller = VolcanoJobController(PodRules())
    for known in (world([]), world([volcano_job(0)])):
        assert job_controller.transitions(known, [VOLCANO], NOW) == ()
        assert job_controller.work(known, [VOLCANO], NOW) == []


def test_a_new_job_enters_pending_and_then_follows_its_pods() -> None:
    job_controller, known = VolcanoJobController(PodRules()), world([node("n1"), four()])
    (entered,) = job_controller.transitions(known, known.states, NOW)
    assert (entered.old, entered.new.phase) == (None, Phase.PENDING)
    known.put_job(VOLCANO, entered.new)
    running = world([node("n1"), four(), *members()], [admission(VOLCANO, "n1 n1 n1 n1")])
    running.put_job(VOLCANO, entered.new)
    (started,) = job_controller.transitions(running, running.states, NOW)
    assert started.new.phase is Phase.RUNNING


def test_what_policies_have_a_job_do_is_told_though_it_goes_on_at_once() -> None:
    policies = [{"event": "PodFailed", "action": "RestartJob"}]
    job_controller, failed = VolcanoJobController(PodRules()), PodPhase.FAILED
    spec = written(policies=policies, maxRetry=1)
    facts = [node("n1"), four(job=spec), *members(failed)]
    known = world(facts, [admission(VOLCANO, "n1 n1 n1 n1")])
    known.put_job(VOLCANO, JobState(uid=VOLCANO.uid, phase=Phase.RUNNING, history=((Phase.RUNNING, 1),)))
    (ended,) = job_controller.transitions(known, known.states, NOW)
    assert ended.new.phase is Phase.FAILED, "it was the last retry"
    (told,) = acted_events(known, [ended])
    assert (told.reason, told.ref.name) == ("ExecuteAction", four().name)
    assert told.message == "Start to execute action RestartJob: PodFailed: pod p0 failed"


def test_what_did_not_change_is_no_transition() -> None:
    job_controller, known = VolcanoJobController(PodRules()), world([four()])
    (entered,) = job_controller.transitions(known, known.states, NOW)
    known.put_job(VOLCANO, entered.new)
    known.refresh(NOW)
    assert job_controller.transitions(known, known.states, NOW) == ()


def test_pods_are_made_for_the_seats_that_lack_them() -> None:
    seat = released("train-worker-0", "worker/0", "n1", owner=VOLCANO, task="worker", index=0)
    known = world([node("n1"), four(priority=5), seat], [admission(VOLCANO, "n1 n1")])
    job_controller = VolcanoJobController(PodRules())
    (work,) = job_controller.work(known, [VOLCANO], NOW)
    assert [wanted.index for wanted in work.creates] == [1]
    assert work.lacks_group
    assert [each.default_priority for each in work.pod_settings.values()] == [5]


def test_a_job_is_looked_at_when_its_time_after_the_end_has_come() -> None:
    job_controller = VolcanoJobController(PodRules())
    known = world([four(job=written(ttlSecondsAfterFinished=60))])
    over(known, finished_at=NOW)
    (work,) = job_controller.work(known, [VOLCANO], NOW)
    assert (work.remove, job_controller.due(NOW + 59)) == (False, set())
    assert job_controller.due(NOW + 60) == {VOLCANO}
    assert job_controller.due(NOW + 61) == set()
    (work,) = job_controller.work(known, [VOLCANO], NOW + 60)
    assert work.remove


def test_a_defect_in_one_job_is_noted_and_stops_nobody() -> None:
    job_controller, known = VolcanoJobController(PodRules()), world([four()])
    known.volcano_jobs.outcomes[VOLCANO] = {("worker", 0): None}  # type: ignore[dict-item]
    assert job_controller.transitions(known, known.states, NOW) == ()
    assert known.take_defects().keys() == {VOLCANO}


def test_a_job_that_is_gone_while_it_restarts_gives_its_seats_back() -> None:
    known = world([node("n1"), four()], [admission(VOLCANO, "n1 n1 n1 n1")])
    known.put_job(VOLCANO, JobState(uid=VOLCANO.uid, phase=Phase.RESTARTING))
    known.refresh(NOW)
    assert known.freeze(NOW).ended == {}
    see(known, Change(FactKind.WORKLOAD, VOLCANO.uid, None, kind_names.VOLCANO_JOB))
    assert list(known.freeze(NOW).ended.values()) == [{0, 1, 2, 3}]


def test_a_job_that_restarts_gives_no_seat_back_though_a_pod_ends() -> None:
    known = world([node("n1"), four(), *members(PodPhase.FAILED)], [admission(VOLCANO, "n1 n1 n1 n1")])
    (given_back,) = known.freeze(NOW).ended.values()
    assert given_back == {0}
    known.put_job(VOLCANO, JobState(uid=VOLCANO.uid, phase=Phase.RESTARTING))
    known.refresh(NOW)
    assert known.freeze(NOW).ended == {}
    known.put_job(VOLCANO, JobState(uid=VOLCANO.uid, phase=Phase.PENDING))
    known.refresh(NOW)
    assert known.snapshot_is_stale
    assert list(known.freeze(NOW).ended.values()) == [given_back]


def test_a_job_has_its_podgroup_written_when_there_is_none_and_when_it_names_another_minimum() -> None:
    job_controller = VolcanoJobController(PodRules())
    spec = written()

    def lacks(*minimums: int) -> bool:
        own = {"name": spec.group_name, "namespace": spec.namespace, "stands_for": VOLCANO}
        groups = [replace(group(minimum), **own) for minimum in minimums]
        known = world([node("n1"), four(), *groups])
        (found,) = job_controller.work(known, [VOLCANO], NOW)
        return found.lacks_group

    assert [lacks(), lacks(4), lacks(5)] == [True, False, True]
