"""What is worked out in a child process while plug-ins may be asked: it ends, whatever they do, and names them."""

import os
from collections.abc import Callable
from typing import Any

import pytest

from admission.containment.child_process import ChildEnded, ChildFailed, contained, in_child
from queues.plugins.guard import AskedPolicy, PluginFault
from queues.plugins.interface import OrderPolicy
from queues.workload import QueueName
from tests.builders.plugin_policies import known, stand_still
from tests.waiting import LIMIT

ASKED = AskedPolicy(queue=QueueName("team"), plugin="tried", digest="d1")


def asks(answer: Callable[[], int]) -> Callable[[], int]:
    return lambda: ASKED.ask(answer, (), lambda found: "" if type(found) is int else "answered no number")


def test_the_answer_arrives_and_nothing_of_the_parent_changes() -> None:
    given = [1]

    def changes() -> list[int]:
        given.append(2)
        return given

    assert in_child(changes, LIMIT) == [1, 2]
    assert given == [1]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (stand_still, r"did not answer for 3 s"),
        (lambda: os._exit(3), "ended the process that asks it"),
        (lambda: 1 // 0, "raised ZeroDivisionError"),
        (lambda: 0.5, "answered no number"),
    ],
)
def test_a_plug_in_that_gives_no_answer_is_named(answer: Callable[[], Any], why: str) -> None:
    with pytest.raises(PluginFault, match=why) as raised:
        in_child(asks(answer), 3.0)
    assert raised.value.asked == ASKED


def test_nobody_is_named_where_none_is_asked() -> None:
    with pytest.raises(ChildFailed, match="ZeroDivisionError"):
        in_child(lambda: 1 // 0, LIMIT)
    with pytest.raises(ChildEnded, match="no answer within"):
        in_child(stand_still, 0.1)
    with pytest.raises(ChildEnded, match="it gave no answer"):
        in_child(lambda: os._exit(3), LIMIT)


class Tried(OrderPolicy):
    name = "tried"


def test_only_a_process_with_plug_ins_pays_for_it() -> None:
    assert contained(os.getpid, LIMIT)() == os.getpid()
    with known(Tried):
        assert contained(os.getpid, LIMIT)() != os.getpid()
