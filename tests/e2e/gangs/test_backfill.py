"""A gang at the head that cannot start keeps its future place: who is gone by then passes it, others do not."""

from collections.abc import Callable

import pytest

from tests.e2e.support.api_paths import Document
from tests.e2e.support.gang_kinds import finish_all
from tests.e2e.support.manifests import batch_job, volcano_job
from tests.e2e.support.sandbox import Yard


def lasting(document: Document, run_time: str) -> Document:
    """The same work, which says how long it runs."""
    document["metadata"].setdefault("annotations", {})["muster.dev/run-time"] = run_time
    return document


@pytest.mark.parametrize(("job", "kind"), [(volcano_job, "vcjob"), (batch_job, "job")])
def test_short_work_passes_a_gang_that_waits_and_long_work_does_not_delay_it(
    yard: Yard, job: Callable[[Yard, str, int, int], Document], kind: str
) -> None:
    yard.add_nodes(2)
    yard.add_queue()
    yard.add(lasting(job(yard, "first", 1, 8), "30m"))
    yard.wait_running("first-", 1)
    yard.add(job(yard, "gang", 2, 8))
    yard.wait_reason("gang", "NoFit")

    yard.add(lasting(job(yard, "long", 1, 8), "2h"), job(yard, "untold", 1, 4))
    for name in ("long", "untold"):
        assert f"{kind}/{yard.name}/gang" in yard.wait_reason(name, "Reserved")
    for name in ("short", "brief"):  # one after the other, on the node that the gang waits for
        yard.add(lasting(job(yard, name, 1, 8), "1m"))
        yard.wait_running(f"{name}-", 1)
        finish_all(yard, f"{name}-")
    yard.wait(
        lambda: all(len(yard.books.admissions(yard.name, name)) == 1 for name in ("short", "brief")),
        "both to be booked once",
    )
    for name in ("long", "untold"):  # again, now that the node is free
        yard.wait_reason(name, "Reserved")
    assert not yard.books.admissions(yard.name, "gang")

    finish_all(yard, "first-")
    yard.wait_running("gang-", 2)
    for name in ("long", "untold"):
        assert not yard.history.bound(yard.name, f"{name}-")
        yard.wait_reason(name, "NoFit")
        assert not yard.books.admissions(yard.name, name)
    finish_all(yard, "gang-")
    yard.wait_running("long-", 1)
    yard.wait_running("untold-", 1)
