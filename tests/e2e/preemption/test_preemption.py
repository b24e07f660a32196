"""Others go so that somebody can come in: he runs whole; they wait, are told why, and run again."""

import json
import re

import pytest

from tests.cluster_faults import kubectl_muster
from tests.e2e.support.api_paths import Document, path
from tests.e2e.support.gang_kinds import as_batch_job, as_volcano_job, finish_all
from tests.e2e.support.manifests import batch_job, volcano_job
from tests.e2e.support.sandbox import Sandbox


@pytest.fixture
def urgent(sandbox: Sandbox) -> str:
    """A priority class above the default."""
    return sandbox.add_priority_class(1000)


def evicted(sandbox: Sandbox, name: str) -> list[tuple[str, str]]:
    """Code and message of each eviction of a workload, from the log of decisions."""
    return [
        (code, message)
        for kind, code, message in sandbox.ledger.decisions(sandbox.name, name)
        if kind == "evict"
    ]


def sentence(sandbox: Sandbox, name: str) -> str:
    """Why a workload waits, as ``kubectl muster pending`` tells it."""
    found: list[str] = []

    def listed() -> bool:
        items = json.loads(kubectl_muster(sandbox.stack, "pending", "-n", sandbox.name, "-o", "json"))[
            "items"
        ]
        found[:] = [one["reason"]["message"] for one in items if one["name"] == name and one["reason"]]
        return len(found) == 1

    sandbox.wait(listed, f"{name} to be listed with its reason")
    return found[0]


def check_that_everybody_tells_who_took_the_place(sandbox: Sandbox, kind: str, name: str, told: str) -> None:
    """``told``: by which rule and for whom. List, story, object and event say it with the same sentence."""
    message = sentence(sandbox, name)
    assert re.fullmatch(rf".*; evicted at [0-9TZ:-]+ {re.escape(told)}", message), message
    # Messages of objects are as old as their codes, so that numbers may be others.
    ending = message.rpartition("; ")[2]
    assert ending in sandbox.explain(name)
    sandbox.wait(lambda: ending in sandbox.told(kind, name), f"{name} to tell it itself")

    def events() -> list[str]:
        found = sandbox.api.get(path("Event", sandbox.name))["items"]
        return [each["note"] for each in found if each["regarding"]["name"] == name]

    sandbox.wait(lambda: any(note.endswith(ending) for note in events()), f"an event of {name} to tell it")


def in_queue(document: Document, queue: str) -> Document:
    if document["apiVersion"].startswith("batch.volcano"):
        document["spec"]["queue"] = queue
    else:
        document["metadata"]["labels"]["muster.dev/queue-name"] = queue
    return document


def test_a_more_urgent_gang_takes_the_place_of_the_least_urgent_and_both_run_in_the_end(
    sandbox: Sandbox, urgent: str
) -> None:
    sandbox.add_nodes(2)
    sandbox.add_queue()
    sandbox.add(batch_job(sandbox, "one", 1, 8), volcano_job(sandbox, "two", 1, 8))
    sandbox.wait_running("one-", 1)
    sandbox.wait_running("two-", 1)

    sandbox.add(volcano_job(sandbox, "urgent", 2, 8, priorityClassName=urgent))
    sandbox.wait_running("urgent-", 2)
    for name in ("one", "two"):
        assert [code for code, _ in evicted(sandbox, name)] == ["Preempted"]
        assert "urgent" in evicted(sandbox, name)[0][1]
        assert sandbox.wait_reason(name, "NoFit")
    for kind, name in (("batch/v1 Job", "one"), ("Job", "two")):
        check_that_everybody_tells_who_took_the_place(
            sandbox, kind, name, f"(Preempted) for vcjob/{sandbox.name}/urgent"
        )

    finish_all(sandbox, "urgent-")
    sandbox.wait_running("one-", 1)
    sandbox.wait_running("two-", 1)
    sandbox.wait(
        lambda: "evicted at" not in sandbox.told("batch/v1 Job", "one") + sandbox.told("Job", "two"),
        "both to forget it",
    )
    assert sandbox.ledger.ask("SELECT count(*) FROM claims") == [(0,)]


@pytest.mark.parametrize("kind", [as_volcano_job, as_batch_job])
def test_a_queue_gets_back_what_it_deserves_and_no_more(sandbox: Sandbox, kind) -> None:  # type: ignore[no-untyped-def]
    sandbox.add_nodes(3)
    lender = sandbox.add_queue("lender", deserved={"nvidia.com/gpu": 8})
    borrower = sandbox.add_queue("borrower", deserved={"nvidia.com/gpu": 16})
    for number in range(3):
        (document,) = kind(sandbox, f"lent{number}", 2, 4)
        sandbox.add(in_queue(document, borrower))
        sandbox.wait_running(f"lent{number}-", 2)

    (mine,) = kind(sandbox, "mine", 2, 4)
    sandbox.add(in_queue(mine, lender))
    sandbox.wait_running("mine-", 2)
    gone = [number for number in range(3) if evicted(sandbox, f"lent{number}")]
    assert len(gone) == 1, "one was enough"
    ((code, message),) = evicted(sandbox, f"lent{gone[0]}")
    assert code == "Reclaimed"
    assert f"queue {borrower} uses 24 nvidia.com/gpu and deserves 16" in message

    (more,) = kind(sandbox, "more", 1, 8)
    sandbox.add(in_queue(more, lender))
    sandbox.wait_reason("more", "NoFit")
    assert len(sandbox.running("lent")) == 4, "nobody goes for what the queue does not deserve"


def test_a_place_is_cleared_for_a_gang_that_starves(sandbox: Sandbox) -> None:
    sandbox.add_nodes(2)
    queue = sandbox.add_queue()
    for name in ("small", "other"):
        sandbox.add(volcano_job(sandbox, name, 1, 5))
        sandbox.wait_running(f"{name}-", 1)

    sandbox.add(volcano_job(sandbox, "starved", 2, 8))
    sandbox.wait_reason("starved", "NoFit")
    sandbox.merge("Queue", queue, {"spec": {"policy": {"starvation": {"clearAfter": "1s"}}}})
    sandbox.wait_running("starved-", 2)
    for name in ("small", "other"):
        assert [code for code, _ in evicted(sandbox, name)] == ["Cleared"]
        sandbox.wait_reason(name, "NoFit")

    finish_all(sandbox, "starved-")
    sandbox.wait_running("small-", 1)
    sandbox.wait_running("other-", 1)


def test_work_that_may_not_be_preempted_stays_and_the_urgent_waits(sandbox: Sandbox, urgent: str) -> None:
    sandbox.add_nodes(1)
    sandbox.add_queue()
    kept = volcano_job(sandbox, "kept", 1, 8)
    kept["metadata"]["annotations"] = {"volcano.sh/preemptable": "false"}
    sandbox.add(kept)
    sandbox.wait_running("kept-", 1)

    sandbox.add(volcano_job(sandbox, "urgent", 1, 8, priorityClassName=urgent))
    sandbox.wait_reason("urgent", "NoFit")
    sandbox.api.merge(
        path("Job", sandbox.name, "kept"), {"metadata": {"annotations": {"volcano.sh/preemptable": "true"}}}
    )
    sandbox.wait_running("urgent-", 1)
    assert [code for code, _ in evicted(sandbox, "kept")] == ["Preempted"]
