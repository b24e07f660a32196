"""Which queues any namespace may use, by the Queues of the cluster."""

from typing import Any

import pytest

from admission.cli.access.queue_objects import QueueObject, is_open_to_all
from admission.cli.page.layout import render
from queues.read_api.bodies import PendingList
from tests.fakes.fake_reader import queue

SELECTS = {"access": {"namespaceSelector": {"matchLabels": {"team": "a"}}}}


def queues(**specs: dict[str, Any]) -> dict[str, QueueObject]:
    return {
        name: QueueObject(document={"metadata": {"name": name}, "spec": spec}) for name, spec in specs.items()
    }


@pytest.mark.parametrize(
    ("known", "is_open"),
    [
        (queues(a={}), True),
        (queues(a=SELECTS), False),
        (queues(a={"parent": "b"}, b={}), True),
        (queues(a={"parent": "b"}, b=SELECTS), False),
        (queues(a={"parent": "b"}), False),
        (queues(a={"parent": "b"}, b={"parent": "a"}), False),
        (None, False),
    ],
    ids=["alone", "selects", "below", "below a selector", "below an unknown one", "a circle", "not known"],
)
def test_a_queue_is_open_to_every_namespace_if_nothing_on_its_path_selects(
    known: dict[str, QueueObject] | None, is_open: bool
) -> None:
    assert is_open_to_all(known, "a") == is_open


@pytest.mark.parametrize("is_open", [True, False])
def test_the_page_of_a_queue_says_so(is_open: bool) -> None:
    waiting = PendingList(now="2026-11-21T10:00:00Z", total=0, total_everywhere=0, items=())
    one = queue("a", "root")
    more = {"resource": "cpu", "planned": "", "is_open": is_open}
    html = render("queue.html", queue=one, queues=[one], below=[one], waiting=waiting, **more)
    assert ("every namespace: no namespaceSelector here or above" in html) == is_open
