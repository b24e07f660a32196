"""What is borrowed and lent, and how fair that is."""

import pytest

from admission.figures.quota_figures import QuotaFigures, quota_figures
from queues.quota.accounts import Account
from queues.quota.queue import ROOT, Limits, Queue
from queues.quota.tree import QueueTree
from queues.resources import GPU, Resources
from queues.workload import NO_FLAVOR, QueueName

GPUS = Account(NO_FLAVOR, GPU)
A, B, C, TEAM, GUEST = QueueName("a"), QueueName("b"), QueueName("c"), QueueName("team"), QueueName("guest")


def queue(name: QueueName, deserved: int, *, parent: QueueName = TEAM, guarantee: int = 0) -> Queue:
    limits = Limits(guarantee=Resources({GPU: guarantee}), deserved={GPU: deserved})
    return Queue(name=name, parent=parent, limits=limits)


def figures(used: dict[QueueName, int], *waiting: QueueName) -> QuotaFigures:
    queues = (queue(TEAM, 12, parent=ROOT, guarantee=2), queue(A, 4), queue(B, 4), queue(C, 4))
    queues += (queue(GUEST, 0, parent=ROOT),)
    tree = QueueTree.build({each.name: each for each in queues}, Resources({GPU: 16}))
    deserved = {(name, GPUS): tree.deserved(name, GPUS) for name in tree.paths}
    return quota_figures(tree, {(name, GPUS): units for name, units in used.items()}, deserved, waiting)


def test_what_one_queue_borrows_its_siblings_lend_in_proportion_to_what_they_leave_idle() -> None:
    found = figures({ROOT: 9, TEAM: 9, A: 7, B: 2})
    assert found.borrowed == {(A, GPUS): 3}
    assert found.lent == {(B, GPUS): 1, (C, GPUS): 2}


def test_no_more_is_lent_than_is_idle() -> None:
    found = figures({ROOT: 15, TEAM: 15, A: 9, B: 3, C: 3})
    assert found.borrowed == {(A, GPUS): 5, (TEAM, GPUS): 3}
    assert found.lent == {(B, GPUS): 1, (C, GPUS): 1}


def test_root_borrows_from_nobody_even_if_nodes_are_taken_out_of_service() -> None:
    assert figures({ROOT: 20, TEAM: 12}).borrowed == {}


def test_limits_are_those_that_are_stated_and_of_root_what_nodes_have() -> None:
    found = figures({})
    assert found.guarantee == {(TEAM, GPUS): 2}
    assert found.capability == {(ROOT, GPUS): 16}


@pytest.mark.parametrize(
    ("used", "waiting", "below", "above"),
    [
        ({A: 6, B: 1}, (B,), 0.75, 0.5),
        ({A: 6, B: 1}, (), 0.0, 0.0),  # who asks for nothing is not treated unfairly
        ({A: 6, B: 4}, (A, B), 0.0, 0.0),
        ({A: 4}, (C,), 1.0, 0.0),
        ({A: 6}, (GUEST,), 0.0, 0.0),  # it deserves nothing
    ],
)
def test_a_deviation_counts_while_a_queue_below_its_share_waits(
    used: dict[QueueName, int], waiting: tuple[QueueName, ...], below: float, above: float
) -> None:
    found = figures(used, *waiting)
    assert (found.below, found.above) == (below, above)
    assert TEAM not in found.shares
