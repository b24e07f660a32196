"""Others go so that somebody can come in: he runs whole; they wait, are told why, and run again."""

import json
import re

import pytest

from tests.cluster_faults import kubectl_muster
from tests.e2e.support.api_paths import path
from tests.e2e.support.gang_kinds import finish_all
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

    sandbox.wait(lambda: any(ending in note for note in events()), f"an event of {name} to tell it")


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
