"""Work that has held its seats for as long as its queue allows is warned, then ended, and not run again."""

from typing import Any

import pytest

from queues.errors import ApiError
from tests.e2e.support.api_paths import Document, path
from tests.e2e.support.manifests import batch_job, grouped, pod_group, volcano_job
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


def test_a_volcano_job_is_warned_then_terminated_with_the_reason_and_its_seats_go_to_the_next(
    sandbox: Sandbox,
) -> None:
    sandbox.add_nodes(2)
    queue = limited(sandbox)
    with sandbox.as_user("alice") as alice:
        alice.create(path("Job", sandbox.name), volcano_job(sandbox, "long", 2, 8, queue=queue))
        sandbox.wait_running("long-", 2)
        assert "access.maxRunTime" in sandbox.explain("long")
        alice.create(path("Job", sandbox.name), volcano_job(sandbox, "next", 2, 8, queue=queue))
        sandbox.wait_reason("next", "NoFit")
        sandbox.wait_phase("Job", "long", "Terminated")
        sandbox.wait_running("next-", 2)
    state = sandbox.get("Job", "long")["status"]["state"]
    assert state["reason"] == "MaxRunTime"
    assert f"the {LIMIT}s that queue {sandbox.name}-top allows (access.maxRunTime)" in state["message"]
    [admitted] = [note for reason, note in events(sandbox, "long") if reason == "Admitted"]
    assert "it is ended at" in admitted
    assert len(warnings(sandbox, "long")) == 1
    assert [code for _, code, _ in evictions(sandbox, "long")] == ["MaxRunTime"]
    told = sandbox.explain("long")
    assert "MaxRunTime" in told
    assert "it has held its seats for" in told


def test_a_batch_job_is_warned_then_fails_with_the_reason_and_is_not_run_again(sandbox: Sandbox) -> None:
    sandbox.add_nodes(1)
    queue = limited(sandbox)
    with sandbox.as_user("alice") as alice:
        alice.create(path("batch/v1 Job", sandbox.name), in_queue(batch_job(sandbox, "long", 1, 8), queue))
        sandbox.wait_running("long", 1)
        alice.create(path("batch/v1 Job", sandbox.name), in_queue(batch_job(sandbox, "next", 1, 8), queue))
        sandbox.wait(lambda: sandbox.job_is("long", "Failed"), "the Job to fail")
        sandbox.wait_running("next", 1)
    [failed] = [
        each
        for each in sandbox.get("batch/v1 Job", "long")["status"]["conditions"]
        if each["type"] == "Failed"
    ]
    assert failed["reason"] == "MaxRunTime"
    assert len(warnings(sandbox, "long")) == 1
    assert [code for _, code, _ in evictions(sandbox, "long")] == ["MaxRunTime"]
    assert "MaxRunTime" in sandbox.explain("long")


def test_pods_without_a_controller_are_deleted_and_not_made_again(sandbox: Sandbox) -> None:
    sandbox.add_nodes(1)
    queue = limited(sandbox)
    sandbox.add(pod_group(sandbox, "pair", 2, queue=queue))
    sandbox.add(*(grouped(sandbox, "pair", f"pair-{number}", 4) for number in range(2)))
    sandbox.wait_running("pair-", 2)
    message = sandbox.wait_reason("pair", "MaxRunTime")
    assert "is not run again; submit it anew" in message
    sandbox.wait(lambda: sandbox.pods("pair-") == [], "its pods to go")
    sandbox.wait_free()
    sandbox.add(grouped(sandbox, "pair", "late", 4))
    sandbox.wait(lambda: sandbox.reason("pair")[0] == "MaxRunTime", "what comes later not to run either")
    assert sandbox.running("late") == []


def test_an_orphaning_deletion_prolongs_nothing(sandbox: Sandbox) -> None:
    """The pods become admissions of their own, which end when the Job would have ended."""
    sandbox.add_nodes(1)
    queue = limited(sandbox)
    with sandbox.as_user("alice") as alice:
        alice.create(path("batch/v1 Job", sandbox.name), in_queue(batch_job(sandbox, "long", 2, 4), queue))
        sandbox.wait_running("long", 2)
        orphan = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Orphan"}
        alice.request("DELETE", path("batch/v1 Job", sandbox.name, "long"), orphan)
        sandbox.wait(lambda: sandbox.pods("long") == [], "its pods to go")
    sandbox.wait_free()
    opened = sandbox.ledger.ask(
        "SELECT opened_at FROM closed_admissions WHERE namespace = $1 ORDER BY id", sandbox.name
    )
    assert len(opened) == 3
    assert len({at for (at,) in opened}) == 1, "the pods' admissions count from that of the Job"


def test_work_that_declares_a_longer_run_time_is_refused_before_it_starts(sandbox: Sandbox) -> None:
    sandbox.add_nodes(1)
    queue = limited(sandbox)
    long = {"muster.dev/run-time": "1h"}
    job = in_queue(batch_job(sandbox, "long", 1, 8), queue)
    job["metadata"]["annotations"] = long
    sandbox.add(job)
    told = sandbox.wait_reason("long", "RunTimeTooLong")
    assert f"longer than the {LIMIT}s that queue {sandbox.name}-top allows" in told
    assert f"access.maxRunTime 1h instead of {LIMIT}s in queue {sandbox.name}-top" in sandbox.explain("long")
    refused = volcano_job(sandbox, "refused", 1, 8, queue=queue)
    refused["metadata"]["annotations"] = long
    with pytest.raises(ApiError, match=r"metadata.annotations\[muster.dev/run-time\]: found '1h'"):
        sandbox.add(refused)
