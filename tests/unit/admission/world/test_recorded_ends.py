"""What a workload is recorded with when it leaves, over all kinds: how it was seen to end, whatever goes first."""

from dataclasses import replace
from typing import Final, NamedTuple

import pytest

from admission.facts.pods import PodFact, PodPhase
from admission.facts.workloads import WorkloadFact
from admission.intake import described_result
from admission.volcano_jobs.state import JobState, Phase
from admission.workloads.kinds import known_kinds
from admission.world.world import World
from queues import kind_names
from queues.admissions import AdmissionState
from queues.api.names import AUTOMATIC_GROUP
from queues.kind_names import KindName
from queues.resources import Resources
from queues.workload import AdmissionId, PodSet, Result, WorkloadKey
from tests.builders.facts import NOW, TEAM, admission, gone, node, pod, released, seen, world
from tests.tables import named_rows

#: Kinds of objects, and "automatic": a PodGroup that Muster made.
NAMES: Final = tuple(support.kind for support in known_kinds().supports)
EVERY: Final = (*NAMES, "automatic")
_ENDS: Final = (Result.SUCCEEDED, Result.FAILED)
_PHASES: Final = {Result.SUCCEEDED: PodPhase.SUCCEEDED, Result.FAILED: PodPhase.FAILED}


class Life(NamedTuple):
    """One workload that runs with two pods, or one if it is a pod."""

    world: World
    key: WorkloadKey
    #: None: a bare pod.
    fact: WorkloadFact | None
    pods: tuple[PodFact, ...]

    @property
    def told_by_pods(self) -> bool:
        return self.key.kind in (kind_names.POD, kind_names.POD_GROUP)

    def see(self, *facts: PodFact | WorkloadFact) -> None:
        self.world.observe([seen(fact) for fact in facts])

    def end(self, result: Result) -> None:
        """By itself: of a group that failed one pod did, the first."""
        for member, phase in zip(self.pods, (_PHASES[result], PodPhase.SUCCEEDED), strict=False):
            self.see(replace(member, phase=phase))
        if self.key.kind == kind_names.VOLCANO_JOB:
            phase = Phase.COMPLETED if result is Result.SUCCEEDED else Phase.FAILED
            self.world.put_job(self.key, JobState(uid=self.key.uid, phase=phase))
        elif self.fact is not None and not self.told_by_pods:
            self.see(replace(self.fact, finished=True, failed=result is Result.FAILED))

    def remove_object(self) -> None:
        if self.fact is not None:
            self.world.observe([gone(self.fact)])

    def remove_pods(self) -> None:
        self.world.observe([gone(member) for member in self.pods])

    def close(self) -> None:
        open_ = self.world.admissions.get(AdmissionId(1))
        if open_ is not None:
            self.world.put_admissions([replace(open_, state=AdmissionState.CLOSED)])

    def look(self) -> None:
        self.world.refresh(NOW)

    def go_on(self, steps: str, result: Result) -> None:
        """These things happen, one after the other: ``gone`` is a look that finds it gone while it holds seats."""
        for step in steps.split():
            match step:
                case "end":
                    self.end(result)
                case "look":
                    self.look()
                case "close":
                    self.close()
                case "object":
                    self.remove_object()
                case "first":
                    self.world.observe([gone(self.pods[0])])
                case "pods":
                    self.remove_pods()
                case "gone":
                    self.look()
                    state = self.world.states[self.key]
                    assert (state.is_gone, described_result(self.world, state)) == (True, result)


def _life(kind: KindName | str) -> Life:
    known = kind_names.POD_GROUP if kind == "automatic" else KindName(kind)
    key = WorkloadKey(known, "a" if known == kind_names.POD else "uid")
    name = f"{AUTOMATIC_GROUP}x" if kind == "automatic" else "train"
    grouped = known == kind_names.POD_GROUP
    sets = () if grouped else (PodSet(name="main", count=2, takes=Resources({"pods": 1})),)
    fact = WorkloadFact(key=key, namespace="ns", name=name, queue=TEAM, minimum=2, pod_sets=sets)
    owned = {"group": name} if grouped else {} if known == kind_names.POD else {"owner": key}
    names = ("a",) if known == kind_names.POD else ("a", "b")
    pods = tuple(
        released(each, f"main/{index}", "n1", queue=TEAM, index=index, **owned)
        for index, each in enumerate(names)
    )
    objects = () if known == kind_names.POD else (fact,)
    held = admission(key, " ".join("n1" for _ in pods), pod_set="main", name=name, started=True)
    begun = world([node("n1"), *objects, *pods], [held], {key: 1})
    return Life(begun, key, *(objects or (None,)), pods)


@named_rows(
    "steps",
    {
        "one after the other": "end look close look object look pods look",
        "pods first, as a collector of garbage may do it": "end look close look first look pods look object look",
        "ended and gone before anybody looks": "end object pods look close look",
        "pods and then the object before anybody looks": "end pods object look close look",
        "gone while it holds seats": "end look object look pods gone close look",
    },
)
@pytest.mark.parametrize("kind", EVERY)
def test_what_ended_leaves_as_it_ended(kind: KindName | str, steps: str) -> None:
    for result in _ENDS:
        life = _life(kind)
        life.go_on(steps, result)
        assert life.world.unsaved.departed == {life.key: result}


@pytest.mark.parametrize("result", _ENDS)
def test_a_leader_that_begins_with_an_ended_pod_knows_how_it_ended(result: Result) -> None:
    ended = pod("a", "n1", queue=TEAM, phase=_PHASES[result])
    key = WorkloadKey(kind_names.POD, "a")
    assert world([node("n1"), ended], (), {key: 1}).unsaved.departed == {key: result}


@pytest.mark.parametrize("kind", EVERY)
def test_what_is_deleted_while_it_runs_has_not_ended(kind: KindName | str) -> None:
    life = _life(kind)
    if life.fact is not None:
        life.see(replace(life.fact, deleting=True))
    for phase in (PodPhase.RUNNING, PodPhase.FAILED):
        # Its processes are stopped, whatever they make of that.
        ending = [replace(each, deleting=True, ended_first=False, phase=phase) for each in life.pods]
        life.see(*ending)
        life.look()
    life.remove_pods()
    life.look()
    assert life.world.states[life.key].result in (Result.DELETED, Result.UNKNOWN)
    life.remove_object()
    life.close()
    life.look()
    assert life.world.unsaved.departed == {life.key: Result.UNKNOWN}


@pytest.mark.parametrize("kind", [kind for kind in NAMES if kind not in ("pod", "podgroup")])
def test_ended_pods_do_not_end_an_object_that_tells_itself(kind: KindName) -> None:
    life = _life(kind)
    life.see(*(replace(member, phase=PodPhase.SUCCEEDED) for member in life.pods))
    life.remove_object()
    life.look()
    assert life.world.states[life.key].result is Result.DELETED
    life.close()
    life.look()
    assert life.world.unsaved.departed == {life.key: Result.UNKNOWN}


@pytest.mark.parametrize("kind", [kind_names.POD_GROUP, "automatic"])
def test_a_group_that_went_on_with_other_pods_has_not_ended(kind: KindName | str) -> None:
    life = _life(kind)
    life.end(Result.SUCCEEDED)
    life.close()
    life.look()
    life.remove_pods()
    life.look()
    further = pod("c", gated=True, group=life.fact.name, queue=TEAM)
    life.see(further)
    life.look()
    life.world.observe([gone(further), gone(life.fact)])
    life.look()
    assert life.world.unsaved.departed == {life.key: Result.UNKNOWN}


def test_a_pod_that_failed_and_is_deleted_then_had_failed() -> None:
    life = _life(kind_names.POD)
    failed = replace(life.pods[0], phase=PodPhase.FAILED)
    life.see(failed, replace(failed, deleting=True, ended_first=None))
    life.remove_pods()
    life.close()
    life.look()
    assert life.world.unsaved.departed == {life.key: Result.FAILED}
