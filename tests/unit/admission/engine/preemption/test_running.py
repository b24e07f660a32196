"""Running workloads followed from turn to turn."""

from sys import getrefcount

from admission.engine.forced_changes import OpenAdmissions
from admission.engine.preemption.candidates import ChargesByShape, HeldAdmission, VictimCandidates
from admission.engine.preemption.running import RunningWorkloads
from admission.engine.snapshot import Snapshot
from queues import kind_names
from queues.quota.queue import Queue
from queues.quota.usage import Usage
from queues.workload import AdmissionId, QueueName, WorkloadKey
from tests.builders.running_work import candidates_in, running, snapshot_of, tree_of

TREE = tree_of({"q": Queue(name=QueueName("q")), "r": Queue(name=QueueName("r"))}, gpus=100)
USAGE = Usage(TREE)
ONE, TWO, THREE = running("one"), running("two", queue="r"), running("three")


class Followed:
    """Running workloads of one snapshot after another."""

    def __init__(self) -> None:
        self.held: dict[AdmissionId, HeldAdmission] = {}
        self._shapes, self._open = ChargesByShape(), OpenAdmissions()
        self._before: Snapshot | None = None
        self.running = RunningWorkloads(TREE, self._open, self.held)

    def go_on_to(self, snapshot: Snapshot) -> None:
        before = {} if self._before is None else self._before.admissions
        for number in before.keys() | snapshot.admissions.keys():
            was, now = before.get(number), snapshot.admissions.get(number)
            if was is not now:
                self._open.update(number, was, now)
                self.held.pop(number, None)
                if now is not None:
                    self.held[number] = self._shapes.hold(now)
                self.running.mark_dirty([each.workload for each in (was, now) if each is not None])
        self._before = snapshot


def names(found: VictimCandidates) -> dict[str, list[str]]:
    return {
        queue: sorted(each.workload.name for each in of_queue) for queue, of_queue in found.of_queue.items()
    }


def test_candidates_are_those_found_from_nothing_however_many_turns_did_not_ask() -> None:
    followed = Followed()
    first = snapshot_of([ONE, TWO])
    followed.go_on_to(first)
    assert names(followed.running.candidates(first, USAGE)) == {"q": ["one"], "r": ["two"]}
    for works in ([ONE], [ONE, TWO, THREE], [TWO], [TWO, THREE]):
        followed.go_on_to(snapshot_of(works))
    last = snapshot_of([THREE, TWO])
    followed.go_on_to(last)
    assert names(followed.running.candidates(last, USAGE)) == names(candidates_in(last, TREE))


def test_workloads_that_come_and_go_unasked_are_not_remembered() -> None:
    followed = Followed()
    world = snapshot_of([ONE, TWO])
    followed.go_on_to(world)
    ended = [WorkloadKey(kind_names.JOB, f"before-{number}") for number in range(100)]
    followed.running.mark_dirty(ended)
    followed.running.candidates(world, USAGE)
    ended += [WorkloadKey(kind_names.JOB, f"after-{number}") for number in range(100)]
    for key in ended[100:]:
        followed.running.mark_dirty([key])
    unknown = WorkloadKey(kind_names.JOB, "unknown")
    assert sum(getrefcount(key) > getrefcount(unknown) + 1 for key in ended) <= len(world.admissions)
