"""Nodes are reserved and drained by users with the command line, with no other rights than their role has."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime

import pytest

from queues.text_format import rfc3339
from tests.e2e.support.api_paths import Document, path
from tests.e2e.support.manifests import batch_job
from tests.e2e.support.people import Person
from tests.e2e.support.sandbox import GPU, SANDBOX, Sandbox


@pytest.fixture
def made(sandbox: Sandbox) -> Iterator[ExitStack]:
    """Takes back what a test made in the cluster."""
    with ExitStack() as undo:
        yield undo


def user(sandbox: Sandbox, name: str, role: str) -> Person:
    """Somebody with a role in the whole cluster and ``view`` in the sandbox."""
    found = Person(sandbox, f"{sandbox.name}-{name}", role)
    sandbox.bind(found.name, "view", sandbox.name)
    return found


def tried(person: Person, *words: str) -> tuple[int, str]:
    """Exit code, and all that is printed, of ``kubectl muster``."""
    done = person.says(*words)
    return done.returncode, done.stdout + done.stderr


def flavor(sandbox: Sandbox, made: ExitStack) -> str:
    """The sandbox's nodes: nobody else's are chosen."""
    sandbox.api.create(
        path("ResourceFlavor", ""),
        {
            "apiVersion": "muster.dev/v1alpha1",
            "kind": "ResourceFlavor",
            "metadata": {"name": sandbox.name},
            "spec": {"nodeLabels": {SANDBOX: sandbox.name}},
        },
    )
    made.callback(lambda: sandbox.api.delete(path("ResourceFlavor", "", sandbox.name)))
    return sandbox.name


def status(sandbox: Sandbox, kind: str, name: str) -> Document:
    found: Document = sandbox.api.get(path(kind, "", name)).get("status", {})
    return found


def in_queue(document: Document, queue: str) -> Document:
    document["metadata"]["labels"]["muster.dev/queue-name"] = queue
    return document


def gone(sandbox: Sandbox, kind: str, name: str) -> bool:
    return all(each["metadata"]["name"] != name for each in sandbox.api.get(path(kind, ""))["items"])


def second(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def begins_in(sandbox: Sandbox, minutes: int) -> float:
    """Move the beginning of the reservation; the second of its new beginning."""
    begin = int(time.time()) + 60 * minutes
    sandbox.merge("Reservation", sandbox.name, {"spec": {"from": rfc3339(begin)}})
    return begin


def test_a_reservation_clears_a_borrower_in_time_and_its_holders_gang_starts_in_the_window(
    sandbox: Sandbox, made: ExitStack
) -> None:
    lead = user(sandbox, "lead", "muster-tenant-admin")
    nodes = sandbox.add_nodes(2)
    team = sandbox.add_queue("team", deserved={GPU: 16}, access={"admins": [{"user": lead.name}]})
    others = sandbox.add_queue("others")
    hardware = flavor(sandbox, made)
    sandbox.add(in_queue(batch_job(sandbox, "borrower", 2, 8), others))
    sandbox.wait_running("borrower", 2)

    plan = ("--gpus", "16", "--for", "10m", "--flavor", hardware, "--name", sandbox.name)
    sandbox.wait(
        lambda: tried(lead, "reserve", team, *plan, "--from", "1h", "--dry-run=server")[0] == 0,
        "the right to reserve",
    )
    code, told = tried(lead, "reserve", others, *plan, "--from", "1h")
    assert code == 1
    assert f"{lead.name} may not reserve for queue {others}" in told
    times = ("--from", "1h", "--lead-time", "2h", "--clear-before", "30m")
    code, told = tried(lead, "reserve", team, *plan, *times)
    assert code == 0, told
    assert f"reservation {sandbox.name} created: 16 {GPU} for queue {team} from " in told
    made.callback(
        lambda: gone(sandbox, "Reservation", sandbox.name) or tried(lead, "reserve", "--cancel", sandbox.name)
    )
    sandbox.wait(
        lambda: sorted(status(sandbox, "Reservation", sandbox.name).get("nodes", ())) == sorted(nodes),
        "the nodes to be chosen",
    )
    assert sandbox.running("borrower"), "it is not cleared before its time"
    sandbox.add(in_queue(batch_job(sandbox, "gang", 2, 8), team))
    begins_in(sandbox, 20)
    message = sandbox.wait_reason("borrower", "NoFit")
    assert "kept for a reservation until " in message
    assert "(NodesReserved)" in sandbox.explain("job/borrower")

    assert not sandbox.history.bound(sandbox.name, "gang-"), "it has not begun"
    begin = begins_in(sandbox, 0)
    sandbox.wait_running("gang", 2)
    assert min(second(each["status"]["startTime"]) for each in sandbox.running("gang")) >= begin - 1
    sandbox.wait(
        lambda: status(sandbox, "Reservation", sandbox.name).get("phase") == "Active", "its phase to be told"
    )
    code, told = tried(lead, "reservations", "-q", team)
    assert code == 0, told
    assert "16 gpu" in told
    assert "Active" in told

    code, told = tried(lead, "reserve", "--cancel", sandbox.name)
    assert (code, told) == (0, f"reservation {sandbox.name} cancelled\n")
    sandbox.delete("batch/v1 Job", "gang")
    sandbox.wait_running("borrower", 2)


def test_a_drained_node_takes_no_gang_and_loses_what_it_has_at_the_time(
    sandbox: Sandbox, made: ExitStack
) -> None:
    admin = user(sandbox, "admin", "muster-queue-admin")
    lead = user(sandbox, "lead", "muster-tenant-admin")
    first, second_node = sandbox.add_nodes(2)
    sandbox.add_queue()
    sandbox.add(batch_job(sandbox, "whole", 2, 8))
    sandbox.wait_running("whole", 2)

    sandbox.wait(lambda: tried(lead, "reservations")[0] == 0, "the right to see drains")
    code, told = tried(lead, "drain", first, "--at", "1h", "--name", sandbox.name)
    assert code == 1
    assert "may not create nodedrains.muster.dev; ask a cluster administrator" in told
    drain = ("drain", first, "--at", "15s", "--lead-time", "15s", "--name", sandbox.name)
    sandbox.wait(lambda: tried(admin, *drain, "--dry-run=server")[0] == 0, "the right to drain")
    code, told = tried(admin, *drain)
    assert code == 0, told
    made.callback(lambda: gone(sandbox, "NodeDrain", sandbox.name) or tried(admin, "undrain", sandbox.name))
    message = sandbox.wait_reason("whole", "NoFit")
    assert f"kept for nodedrain {sandbox.name} from " in message
    sandbox.wait(lambda: not sandbox.running("whole"), "the whole gang to be evicted")
    assert "Maintenance" in sandbox.explain("job/whole")

    sandbox.add(batch_job(sandbox, "small", 1, 8))
    (pod,) = sandbox.wait_running("small", 1)
    assert pod["spec"]["nodeName"] == second_node

    def is_empty() -> bool:
        drained = status(sandbox, "NodeDrain", sandbox.name)
        return drained["phase"] == "Active" and drained.keys() == {"phase", "nodes", "closesFrom"}

    sandbox.wait(is_empty, "an empty node")
    drained = status(sandbox, "NodeDrain", sandbox.name)
    assert drained["nodes"] == [first]
    assert drained["closesFrom"] <= rfc3339(time.time())
    code, told = tried(admin, "reservations")
    assert "maintenance" in told

    sandbox.delete("batch/v1 Job", "small")
    assert tried(admin, "undrain", first) == (0, f"nodedrain {sandbox.name} deleted\n")
    sandbox.wait_running("whole", 2)
