"""A gang that is deleted, at any moment of its life, gives everything back."""

import pytest

from deploy.local.stack import Stack
from tests.e2e.support.gang_kinds import EACH_KIND, Gang, as_batch_job, as_volcano_job, bind, wait_released
from tests.e2e.support.manifests import volcano_job
from tests.e2e.support.sandbox import Yard


def delete_gang(yard: Yard, gang: Gang, name: str) -> None:
    match gang:
        case _ if gang is as_volcano_job:
            yard.delete("Job", name)
        case _ if gang is as_batch_job:
            yard.delete("batch/v1 Job", name)
        case _:
            yard.delete("PodGroup", name)
            for each in yard.pods(f"{name}-"):
                yard.delete("Pod", each["metadata"]["name"])


@pytest.mark.parametrize("gang", EACH_KIND)
def test_a_pending_gang_that_is_deleted_leaves_nothing(yard: Yard, gang: Gang) -> None:
    yard.add_nodes(1)
    yard.add_queue()
    yard.add(*gang(yard, "train", 2, 8))
    yard.wait_reason("train", "NoFit")
    delete_gang(yard, gang, "train")
    yard.wait(lambda: not yard.books.workloads(yard.name), "the gang to be forgotten")
    assert not yard.pods()
    assert yard.held() == {}


@pytest.mark.parametrize("gang", EACH_KIND)
def test_a_half_released_gang_that_is_deleted_gives_everything_back(
    idle_scheduler: Stack, yard: Yard, gang: Gang
) -> None:
    yard.add_nodes(2)
    yard.add_queue()
    # Three pods of three: no node is filled, so Jobs are released pod by pod.
    yard.add(*gang(yard, "train", 3, 3))
    names = wait_released(yard, "train-", 3)
    bind(yard, names[0])
    yard.wait_running("train-", 1)
    assert yard.held()

    delete_gang(yard, gang, "train")
    yard.wait(lambda: not yard.pods(), "its pods to go")
    yard.wait_free()
    yard.wait(lambda: not yard.books.workloads(yard.name), "the gang to be forgotten")


@pytest.mark.parametrize("gang", EACH_KIND)
def test_a_running_gang_that_is_deleted_makes_room_for_the_next(yard: Yard, gang: Gang) -> None:
    yard.add_nodes(2)
    yard.add_queue()
    yard.add(*gang(yard, "train", 2, 8))
    yard.wait_running("train-", 2)
    yard.add(*gang(yard, "next", 2, 8))
    yard.wait_reason("next", "NoFit")

    delete_gang(yard, gang, "train")
    yard.wait_running("next-", 2)
    delete_gang(yard, gang, "next")
    yard.wait_free()


def test_seats_are_held_until_the_last_pod_is_really_gone(yard: Yard) -> None:
    yard.add_nodes(1)
    yard.add_queue()
    slow = {"kwok.muster.dev/stop-after": "1500ms"}
    yard.add(volcano_job(yard, "slow", 1, 8, annotations=slow))
    yard.wait_running("slow-", 1)
    yard.add(volcano_job(yard, "next", 1, 8))
    yard.wait_reason("next", "NoFit")

    yard.delete("Job", "slow")
    yard.wait_running("next-", 1)
    moments = yard.history.of(yard.name)
    gone = [i for i, m in enumerate(moments) if m.kind == "DELETED" and "/slow-" in m.name]
    bound = [i for i, m in enumerate(moments) if m.node and "/next-" in m.name]
    assert gone
    assert gone[0] < bound[0]
