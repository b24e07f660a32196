"""A tenant's administrator is told what a change of quota would do to work; that is what it does when it is made."""

from collections.abc import Iterator

import pytest

from tests.e2e.administrators.test_quota import BINDINGS, Person
from tests.e2e.support.manifests import batch_job
from tests.e2e.support.sandbox import GPU, Sandbox


@pytest.fixture
def lea(sandbox: Sandbox) -> Iterator[Person]:
    """The administrator of a tenant, who sees the work of one namespace."""
    person = Person(sandbox, f"lea-{sandbox.name}", "muster-tenant-admin")
    sandbox.somebody(person.name)
    yield person
    sandbox.api.delete(f"{BINDINGS}/{person.name}")


@pytest.fixture
def tenant(sandbox: Sandbox, lea: Person) -> tuple[str, str]:
    """Two queues of her tenant, which deserves a node: one with half of it, and one with nothing."""
    lab = sandbox.add_queue(deserved={GPU: 8}, access={"admins": [{"user": lea.name}]})
    one = sandbox.add_queue("a", parent=lab, deserved={GPU: 4})
    return one, sandbox.add_queue("b", parent=lab, deserved={GPU: 0}, capability={GPU: 0})


def submit(sandbox: Sandbox, name: str, queue: str, pods: int, gpus: int, run_time: str) -> None:
    document = batch_job(sandbox, name, pods, gpus)
    document["metadata"]["labels"]["muster.dev/queue-name"] = queue
    document["metadata"]["annotations"] = {"muster.dev/run-time": run_time}
    sandbox.add(document)


def effects(lea: Person, sandbox: Sandbox, *words: str) -> list[str]:
    """What is told of a change, once the leader has time to answer."""
    told: list[str] = []

    def is_told() -> bool:
        done = lea.says("quota", *words)
        assert done.returncode == 0, done.stderr
        told[:] = done.stdout.splitlines()
        return "unknown" not in done.stderr

    sandbox.wait(is_told, "the effects of a change of quota to be known")
    return told


def test_what_is_told_of_a_change_of_quota_is_what_it_does(
    sandbox: Sandbox, tenant: tuple[str, str], lea: Person
) -> None:
    sandbox.add_nodes(1)
    one, other = tenant
    submit(sandbox, "runs", one, 1, 4, "20m")
    sandbox.wait_running("runs", 1)
    submit(sandbox, "gang", one, 2, 4, "20m")
    sandbox.wait_reason("gang", "NoFit")
    submit(sandbox, "short", other, 2, 2, "2h")
    sandbox.wait_reason("short", "NeverFits")

    change = ("set", other, "--deserved", "gpu=4", "--capability", "gpu=4")
    told = effects(lea, sandbox, *change, "--dry-run=server")

    starts = told.index("Would start now: 1")
    assert told[starts + 1] == f"  job/short in {sandbox.name}"
    assert told[-1] == f"queue {other} would be changed (server dry run)"
    assert sandbox.running("short") == []

    assert lea.does("quota", *change, "--yes").splitlines()[-1] == f"queue {other} changed"
    sandbox.wait_running("short", 2)
    assert sandbox.reason("gang")[0] == "NoFit"
    # The first has ended, and the gang has to wait for the other one still.
    sandbox.delete("batch/v1 Job", "runs")
    sandbox.wait(lambda: sandbox.pods("runs") == [], "the first Job to be gone")
    told = effects(lea, sandbox, "set", other, "--capability", "gpu=8", "--dry-run=client")
    assert told[-2] == "Nothing would be different now."
    assert sandbox.running("gang") == []


def test_nobody_learns_of_work_that_they_may_not_see(
    sandbox: Sandbox, tenant: tuple[str, str], lea: Person
) -> None:
    sandbox.add_nodes(1)
    _, other = tenant
    submit(sandbox, "short", other, 2, 2, "2h")
    sandbox.wait_reason("short", "NeverFits")
    mia = Person(sandbox, f"mia-{sandbox.name}", "muster-queue-admin")
    try:
        words = ("set", other, "--deserved", "gpu=4", "--capability", "gpu=4", "--dry-run=client")
        told = effects(mia, sandbox, *words)
        starts = told.index("Would start now: 1")
        assert told[starts + 1] == "  1 that you may not see"
        assert not any("short" in line or sandbox.name in line for line in told[starts:-1])

        done = mia.says("try", "--quota", f"{other[:-1]}c.gpu=4")
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(
            f"Error: There is no queue {other[:-1]}c.\nDid you mean {sandbox.name}-"
        )
    finally:
        sandbox.api.delete(f"{BINDINGS}/{mia.name}")
