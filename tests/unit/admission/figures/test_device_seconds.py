"""Device-seconds are exact between the states that are kept."""

from admission.figures.device_seconds import MOST_STATES, DeviceSeconds, DeviceState
from queues.quota.accounts import Account
from queues.quota.queue import ROOT, Limits, Queue
from queues.quota.tree import QueueTree
from queues.resources import GPU, MEMORY, Resources
from queues.workload import NO_FLAVOR, FlavorName, QueueName

GPUS = Account(NO_FLAVOR, GPU)
A = QueueName("a")
TEAM = QueueName("team")
TREE = QueueTree.build(
    {
        TEAM: Queue(name=TEAM, parent=ROOT),
        A: Queue(name=A, parent=TEAM, limits=Limits(deserved={GPU: 4000})),
    },
    Resources({GPU: 16_000}),
)
DESERVED = {(A, GPUS): 4000}


def state(since: float, gpus: int, tree: QueueTree | None = TREE) -> DeviceState:
    used = {(name, GPUS): gpus * 1000 for name in (ROOT, TEAM, A)}
    others = {(A, Account(NO_FLAVOR, MEMORY)): 10, (A, Account(FlavorName("h100"), GPU)): gpus * 1000}
    return DeviceState(since, tree, used | others, DESERVED)


def test_what_is_deserved_is_owned_and_the_rest_borrowed() -> None:
    seconds = DeviceSeconds()
    seconds.note(state(100, 3))
    seconds.note(state(110, 10))
    seconds.sum_up(130)
    assert seconds.of_queues == {(A, GPU, "owned"): 3 * 10 + 4 * 20, (A, GPU, "borrowed"): 6 * 20}
    assert seconds.of_cluster == {(GPU, "used"): 30 + 200, (GPU, "idle"): 13 * 10 + 6 * 20}


def test_each_second_counts_once_however_often_it_is_read() -> None:
    seconds = DeviceSeconds()
    seconds.note(state(100, 2))
    for now in (101, 104, 104, 110):
        seconds.sum_up(now)
    seconds.note(state(110, 0))
    seconds.sum_up(200)
    assert seconds.of_queues[A, GPU, "owned"] == 20


def test_nothing_counts_while_another_replica_leads() -> None:
    seconds = DeviceSeconds()
    seconds.note(state(100, 2))
    seconds.note(DeviceState(101, None, {}, {}))
    seconds.note(state(150, 2))
    seconds.sum_up(151)
    assert seconds.of_queues[A, GPU, "owned"] == 4


def test_a_state_that_follows_too_soon_is_left_to_a_later_call() -> None:
    seconds = DeviceSeconds()
    seconds.note(state(100, 1))
    later = state(101, 2)
    seconds.note(later)
    seconds.note(later._replace(since=105))
    seconds.sum_up(110)
    assert seconds.of_queues[A, GPU, "owned"] == 5 + 10


def test_what_nobody_reads_takes_no_more_memory() -> None:
    seconds = DeviceSeconds()
    for number in range(3 * MOST_STATES):
        seconds.note(state(10.0 * number, 1))
    assert len(seconds._states) == MOST_STATES


def test_a_queue_that_is_gone_leaves_no_series() -> None:
    seconds = DeviceSeconds()
    seconds.note(state(0, 1))
    seconds.sum_up(10)
    seconds.keep(QueueTree.build({}, None))
    assert not seconds.of_queues
