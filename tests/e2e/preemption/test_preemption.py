"""Others go so that somebody can come in: he runs whole; they wait, are told why, and run again."""

import json
import re
from collections.abc import Iterator

import pytest

from tests.e2e.support.api_paths import Document, path
from tests.e2e.support.gang_kinds import as_batch_job, as_volcano_job, finish_all
from tests.e2e.support.manifests import batch_job, volcano_job
from tests.e2e.support.sandbox import Yard

_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


@pytest.fixture
def urgent(yard: Yard) -> Iterator[str]:
    """A priority class above the default."""
    name = f"{yard.name}-urgent"
    yard.api.create(
        _CLASSES,
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": 1000,
        },
    )
    yield name
    yard.api.delete(f"{_CLASSES}/{name}")


def evicted(yard: Yard, name: str) -> list[tuple[str, str]]:
    """Code and message of each eviction of a workload, from the log of decisions."""
    return [
        (code, message) for kind, code, message in yard.books.decisions(yard.name, name) if kind == "evict"
    ]


def sentence(yard: Yard, name: str) -> str:
    """Why a workload waits, as ``kubectl muster pending`` tells it."""
    listed = json.loads(yard.stack.kubectl_muster("pending", "-n", yard.name, "-o", "json").stdout)
    (found,) = [one["reason"]["message"] for one in listed["items"] if one["name"] == name]
    return str(found)


def check_that_everybody_tells_who_took_the_place(yard: Yard, kind: str, name: str, told: str) -> None:
    """``told``: by which rule and for whom. List, story, object and event say it with the same sentence."""
    message = sentence(yard, name)
    assert re.fullmatch(rf".*; evicted at [0-9TZ:-]+ {re.escape(told)}", message), message
    # Messages of objects are as old as their codes, so that numbers may be others.
    ending = message.rpartition("; ")[2]
    assert ending in yard.explain(name)
    yard.wait(lambda: ending in yard.told(kind, name), f"{name} to tell it itself")

    def events() -> list[str]:
        found = yard.api.get(path("Event", yard.name))["items"]
        return [each["note"] for each in found if each["regarding"]["name"] == name]

    yard.wait(lambda: any(note.endswith(ending) for note in events()), f"an event of {name} to tell it")


def in_queue(document: Document, queue: str) -> Document:
    if document["apiVersion"].startswith("batch.volcano"):
        document["spec"]["queue"] = queue
    else:
        document["metadata"]["labels"]["muster.dev/queue-name"] = queue
    return document


def test_a_more_urgent_gang_takes_the_place_of_the_least_urgent_and_both_run_in_the_end(
    yard: Yard, urgent: str
) -> None:
    yard.add_nodes(2)
    yard.add_queue()
    yard.add(batch_job(yard, "one", 1, 8), volcano_job(yard, "two", 1, 8))
    yard.wait_running("one-", 1)
    yard.wait_running("two-", 1)

    yard.add(volcano_job(yard, "urgent", 2, 8, priorityClassName=urgent))
    yard.wait_running("urgent-", 2, seconds=60)
    for name in ("one", "two"):
        assert [code for code, _ in evicted(yard, name)] == ["Preempted"]
        assert "urgent" in evicted(yard, name)[0][1]
        assert yard.wait_reason(name, "NoFit")
    for kind, name in (("batch/v1 Job", "one"), ("Job", "two")):
        check_that_everybody_tells_who_took_the_place(
            yard, kind, name, f"(Preempted) for vcjob/{yard.name}/urgent"
        )

    finish_all(yard, "urgent-")
    yard.wait_running("one-", 1, seconds=60)
    yard.wait_running("two-", 1, seconds=60)
    yard.wait(
        lambda: "evicted at" not in yard.told("batch/v1 Job", "one") + yard.told("Job", "two"),
        "both to forget it",
    )
    assert yard.books.ask("SELECT count(*) FROM claims") == [(0,)]


@pytest.mark.parametrize("kind", [as_volcano_job, as_batch_job])
def test_a_queue_gets_back_what_it_deserves_and_no_more(yard: Yard, kind) -> None:  # type: ignore[no-untyped-def]
    yard.add_nodes(3)
    lender = yard.add_queue("lender", deserved={"nvidia.com/gpu": 8})
    borrower = yard.add_queue("borrower", deserved={"nvidia.com/gpu": 16})
    for number in range(3):
        (document,) = kind(yard, f"lent{number}", 2, 4)
        yard.add(in_queue(document, borrower))
        yard.wait_running(f"lent{number}-", 2)

    (mine,) = kind(yard, "mine", 2, 4)
    yard.add(in_queue(mine, lender))
    yard.wait_running("mine-", 2, seconds=60)
    gone = [number for number in range(3) if evicted(yard, f"lent{number}")]
    assert len(gone) == 1, "one was enough"
    ((code, message),) = evicted(yard, f"lent{gone[0]}")
    assert code == "Reclaimed"
    assert f"queue {borrower} uses 24 nvidia.com/gpu and deserves 16" in message

    (more,) = kind(yard, "more", 1, 8)
    yard.add(in_queue(more, lender))
    yard.wait_reason("more", "NoFit")
    assert len(yard.running("lent")) == 4, "nobody goes for what the queue does not deserve"


def test_a_place_is_cleared_for_a_gang_that_starves(yard: Yard) -> None:
    yard.add_nodes(2)
    yard.add_queue(policy={"starvation": {"clearAfter": "3s"}})
    for name in ("small", "other"):
        yard.add(volcano_job(yard, name, 1, 5))
        yard.wait_running(f"{name}-", 1)

    yard.add(volcano_job(yard, "starved", 2, 8))
    yard.wait_reason("starved", "NoFit")
    yard.wait_running("starved-", 2, seconds=60)
    for name in ("small", "other"):
        assert [code for code, _ in evicted(yard, name)] == ["Cleared"]
        yard.wait_reason(name, "NoFit")

    finish_all(yard, "starved-")
    yard.wait_running("small-", 1, seconds=60)
    yard.wait_running("other-", 1, seconds=60)


def test_work_that_may_not_be_preempted_stays_and_the_urgent_waits(yard: Yard, urgent: str) -> None:
    yard.add_nodes(1)
    yard.add_queue()
    kept = volcano_job(yard, "kept", 1, 8)
    kept["metadata"]["annotations"] = {"volcano.sh/preemptable": "false"}
    yard.add(kept)
    yard.wait_running("kept-", 1)

    yard.add(volcano_job(yard, "urgent", 1, 8, priorityClassName=urgent))
    yard.wait_reason("urgent", "NoFit")
    yard.api.merge(
        path("Job", yard.name, "kept"), {"metadata": {"annotations": {"volcano.sh/preemptable": "true"}}}
    )
    yard.wait_running("urgent-", 1, seconds=60)
    assert [code for code, _ in evicted(yard, "kept")] == ["Preempted"]
