"""Who may use which queue, followed from namespaces and queues as they change."""

from queues.quota.permissions import QueuePermissions, QueueUser
from queues.quota.queue import Queue
from queues.quota.tree import QueueTree
from queues.workload import QueueName, Requirement, WorkloadKey
from tests.builders.facts import JOB, TEAM

GOLD = (Requirement("tier", "In", ("gold",)),)


class Permissions(QueuePermissions):
    """Permissions by queues that are put one by one."""

    def __init__(self, *queues: Queue) -> None:
        self._queues = {each.name: each for each in queues}
        super().__init__(lambda: QueueTree.build(self._queues, None))

    def put_queue(self, name: QueueName, queue: Queue | None) -> None:
        self._queues.pop(name, None)
        if queue is not None:
            self._queues[name] = queue


def permissions(*queues: Queue) -> Permissions:
    return Permissions(*queues)


def test_a_namespace_may_use_a_queue_as_soon_as_its_labels_say_so_and_no_longer() -> None:
    made = permissions(Queue(name=TEAM, namespace_selector=GOLD))
    answers = [made.may_use("ns", TEAM)]
    for fact in ({"tier": "gold"}, {"tier": "tin"}, {"tier": "gold"}, None):
        made.put_namespace("ns", fact)
        answers.append(made.may_use("ns", TEAM))
    assert answers == [False, True, False, True, False]


def test_a_queue_that_is_changed_or_gone_counts_at_once() -> None:
    made = permissions(Queue(name=QueueName("top")), Queue(name=TEAM, parent=QueueName("top")))
    assert made.may_use("ns", TEAM)
    made.put_queue(QueueName("top"), Queue(name=QueueName("top"), namespace_selector=GOLD))
    assert not made.may_use("ns", TEAM)
    made.put_queue(TEAM, None)
    assert made.may_use("ns", TEAM), "there is no such queue: that is told otherwise"


def test_the_labels_handed_out_never_change() -> None:
    made = permissions()
    made.put_namespace("ns", {"tier": "gold"})
    before = made.labels()
    assert made.labels() is before
    assert not made.put_namespace("ns", {"tier": "gold"}), "nothing new"
    assert made.labels() is before
    made.put_namespace("ns", {"tier": "tin"})
    assert (before["ns"], made.labels()["ns"]) == ({"tier": "gold"}, {"tier": "tin"})


def test_only_workloads_that_were_told_something_else_are_told_again() -> None:
    made = permissions(Queue(name=TEAM, namespace_selector=GOLD))
    user = QueueUser(JOB, "ns", TEAM)
    answers = [made.tell(user)]
    changes: list[set[WorkloadKey]] = []
    for labels in ({"tier": "gold"}, {"tier": "gold"}, {"tier": "tin"}, {"x": "y"}, {"tier": "gold"}):
        made.put_namespace("ns", labels)
        changes.append(made.changed().told)
        answers.append(made.tell(user))
    assert changes == [{JOB}, set(), {JOB}, set(), {JOB}]
    assert answers == [False, True, True, False, False, True]
    made.put_queue(TEAM, Queue(name=TEAM, namespace_selector=(Requirement("team", "Exists"),)))
    assert made.changed().told == {JOB}
