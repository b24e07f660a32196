"""A gang at the head that cannot start keeps its future place: who is gone by then passes it, others do not."""

from collections.abc import Callable

import pytest

from tests.e2e.support.api_paths import Document
from tests.e2e.support.gang_kinds import finish_all
from tests.e2e.support.manifests import batch_job, volcano_job
from tests.e2e.support.sandbox import Sandbox


def lasting(document: Document, run_time: str) -> Document:
    """The same work, which says how long it runs."""
    document["metadata"].setdefault("annotations", {})["muster.dev/run-time"] = run_time
    return document


@pytest.mark.parametrize(("job", "kind"), [(volcano_job, "vcjob"), (batch_job, "job")])
def test_short_work_passes_a_gang_that_waits_and_long_work_does_not_delay_it(
    sandbox: Sandbox, job: Callable[[Sandbox, str, int, int], Document], kind: str
) -> None:
    sandbox.add_nodes(2)
    sandbox.add_queue()
    sandbox.add(lasting(job(sandbox, "first", 1, 8), "10m"))
    sandbox.wait_running("first-", 1)
    sandbox.add(job(sandbox, "gang", 2, 8))
    sandbox.wait_reason("gang", "NoFit")

    sandbox.add(lasting(job(sandbox, "long", 1, 8), "2h"), job(sandbox, "untold", 1, 4))
    for name in ("long", "untold"):
        assert f"{kind}/{sandbox.name}/gang" in sandbox.wait_reason(name, "Reserved")
    for name in ("short", "brief"):  # one after the other, on the node that the gang waits for
        sandbox.add(lasting(job(sandbox, name, 1, 8), "1m"))
        sandbox.wait_running(f"{name}-", 1)
        finish_all(sandbox, f"{name}-")
    sandbox.wait(
        lambda: all(len(sandbox.ledger.admissions(sandbox.name, name)) == 1 for name in ("short", "brief")),
        "both to be booked once",
    )
    for name in ("long", "untold"):  # again, now that the node is free
        sandbox.wait_reason(name, "Reserved")
    assert not sandbox.ledger.admissions(sandbox.name, "gang")

    finish_all(sandbox, "first-")
    sandbox.wait_running("gang-", 2)
    for name in ("long", "untold"):
        assert not sandbox.history.bound(sandbox.name, f"{name}-")
        sandbox.wait_reason(name, "NoFit")
        assert not sandbox.ledger.admissions(sandbox.name, name)
    finish_all(sandbox, "gang-")
    sandbox.wait_running("long-", 1)
    sandbox.wait_running("untold-", 1)
