"""Work that has held its seats for as long as its queue allows is warned, then ended, and not run again."""

from typing import Any

from tests.e2e.support.api_paths import Document, path
from tests.e2e.support.manifests import batch_job
from tests.e2e.support.sandbox import Sandbox

#: Seconds.
LIMIT = 12


def limited(sandbox: Sandbox) -> str:
    """A queue whose parent lets work hold its seats for so long."""
    top = sandbox.add_queue("top", access={"maxRunTime": f"{LIMIT}s"})
    return sandbox.add_queue("leaf", parent=top)


def in_queue(document: Document, queue: str) -> Document:
    document["metadata"].setdefault("labels", {})["muster.dev/queue-name"] = queue
    return document


def events(sandbox: Sandbox, name: str) -> list[tuple[str, str]]:
    found = sandbox.api.get(path("Event", sandbox.name))["items"]
    return [(each["reason"], each["note"]) for each in found if each["regarding"]["name"] == name]


def warnings(sandbox: Sandbox, name: str) -> list[str]:
    return [
        note for reason, note in events(sandbox, name) if reason == "MaxRunTime" and "it is ended at" in note
    ]


def evictions(sandbox: Sandbox, name: str) -> list[Any]:
    return [each for each in sandbox.ledger.decisions(sandbox.name, name) if each[0] == "evict"]


def test_a_batch_job_is_warned_then_fails_with_the_reason_and_is_not_run_again(sandbox: Sandbox) -> None:
    sandbox.add_nodes(1)
    queue = limited(sandbox)
    with sandbox.as_user("alice") as alice:
        alice.create(path("batch/v1 Job", sandbox.name), in_queue(batch_job(sandbox, "long", 1, 8), queue))
        sandbox.wait_running("long", 1)
        assert "access.maxRunTime" in sandbox.explain("long")
        alice.create(path("batch/v1 Job", sandbox.name), in_queue(batch_job(sandbox, "next", 1, 8), queue))
        sandbox.wait(lambda: sandbox.job_is("long", "Failed"), "the Job to fail")
        sandbox.wait_running("next", 1)
    [failed] = [
        each
        for each in sandbox.get("batch/v1 Job", "long")["status"]["conditions"]
        if each["type"] == "Failed"
    ]
    assert failed["reason"] == "MaxRunTime"
    assert f"the {LIMIT}s that queue {sandbox.name}-top allows (access.maxRunTime)" in failed["message"]
    [admitted] = [note for reason, note in events(sandbox, "long") if reason == "Admitted"]
    assert "it is ended at" in admitted
    assert len(warnings(sandbox, "long")) == 1
    assert [code for _, code, _ in evictions(sandbox, "long")] == ["MaxRunTime"]
    assert "it has held its seats for" in sandbox.explain("long")
