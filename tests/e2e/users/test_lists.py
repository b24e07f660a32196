"""What a member of a team sees of workloads and users, with that member's own rights."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.support.api_paths import path
from tests.e2e.support.gang_kinds import finish_all
from tests.e2e.support.manifests import grouped, pod_group, volcano_job
from tests.e2e.support.people import Person
from tests.e2e.support.sandbox import GPU, Sandbox


def jobs(person: Person, *words: str) -> dict[str, dict[str, Any]]:
    """What ``kubectl muster jobs`` lists, by name."""
    return {one["name"]: one for one in person.json("jobs", *words)["items"]}


@pytest.fixture
def elsewhere(sandbox: Sandbox) -> Iterator[str]:
    """Another namespace."""
    name = f"{sandbox.name}-2"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    sandbox.api.create(path("Namespace", ""), namespace)
    yield name
    sandbox.api.delete(path("Namespace", "", name))


def test_a_user_lists_jobs_from_their_start_to_after_they_are_gone(sandbox: Sandbox, elsewhere: str) -> None:
    sandbox.add_nodes(1)
    queue = sandbox.add_queue(deserved={GPU: 8})
    alice = Person(sandbox, "alice", edits=(sandbox.name, elsewhere))
    with sandbox.as_user("ann") as ann:
        ann.create(path("Job", sandbox.name), volcano_job(sandbox, "runs", 2, 3))
    sandbox.wait_running("runs-", 2)
    sandbox.add(pod_group(sandbox, "ring", 1), grouped(sandbox, "ring", "ring-0"))
    sandbox.wait_running("ring-", 1)
    finish_all(sandbox, "ring-")
    sandbox.add(volcano_job(sandbox, "waits", 1, 4))
    sandbox.wait_reason("waits", "NoFit")
    # A group without a live pod waits for nothing.
    sandbox.wait(lambda: "ring" not in jobs(alice, "-n", sandbox.name), "the group to have ended")
    ring = jobs(alice, "-n", sandbox.name, "--state", "ended")["ring"]
    assert (ring["result"], ring["held"][GPU], ring["gone"]) == ("succeeded", "1", False)
    assert "ring" not in alice.does("pending", "-n", sandbox.name)

    found = jobs(alice, "-n", sandbox.name)

    assert {name: one["state"] for name, one in found.items()} == {"runs": "admitted", "waits": "pending"}
    runs = found["runs"]
    assert (runs["user"], runs["held"][GPU], runs["nodes"]) == ("ann", "6", sandbox.nodes)
    assert jobs(alice, "-n", sandbox.name, "--user", "ann").keys() == {"runs"}
    assert jobs(alice, "-n", sandbox.name, "--mine") == {}
    table = alice.does("jobs", "-n", sandbox.name).splitlines()
    assert table[1].split()[:2] == ["runs", "vcjob"]
    assert "(NoFit)" in table[2]
    users = {one["user"]: one for one in alice.json("who", "-q", queue)["items"]}
    assert (users["ann"]["used"][GPU], users["alice"]["you"]) == ("6", True)

    # A name that is wrong, or in another namespace.
    assert "Did you mean runs?" in alice.complaint("explain", "run", "-n", sandbox.name)
    told = alice.complaint("explain", "runs", "-n", elsewhere)
    assert f"Did you mean runs in namespace {sandbox.name}?" in told

    sandbox.delete("Job", "waits")
    finish_all(sandbox, "runs-")
    sandbox.wait_phase("Job", "runs", "Completed")
    sandbox.wait(
        lambda: jobs(alice, "-n", sandbox.name, "--state", "ended").keys() == {"ring", "runs", "waits"},
        "both to be listed",
    )
    sandbox.delete("Job", "runs")
    sandbox.wait(
        lambda: jobs(alice, "-n", sandbox.name, "--state", "ended")["runs"]["gone"], "runs to be gone"
    )

    ended = jobs(alice, "-n", sandbox.name, "--state", "ended", "--since", "1h")
    assert {name: one["result"] for name, one in ended.items()} == {
        "ring": "succeeded",
        "runs": "succeeded",
        "waits": "deleted",
    }
    assert ended["runs"]["held"][GPU] == "6"
    story = alice.does("explain", "runs", "-n", sandbox.name)
    assert "finished: succeeded; its object is gone" in story
    assert "User      ann" in story
    assert f"2 seats on {sandbox.nodes[0]}" in story
    assert "Ran " in story
    assert "admit" in story
