"""Gangs start whole, where they asked to be, and within their queue's limits."""

import pytest

from deploy.local.stack import Stack
from tests.cluster_faults import stop_muster
from tests.e2e.support.gang_kinds import EACH_KIND, GangMaker, as_pod_group, finish_all
from tests.e2e.support.sandbox import Sandbox


def check_that_a_gang_waits_whole(sandbox: Sandbox, gang: GangMaker) -> None:
    """Four pods of a node each, on four nodes of which two are taken; one that fits goes past it."""
    sandbox.add_nodes(4)
    sandbox.add_queue()
    sandbox.add(*gang(sandbox, "early", 2, 8))
    sandbox.wait_running("early-", 2)

    sandbox.add(*gang(sandbox, "big", 4, 8))
    sandbox.wait(
        lambda: sandbox.reason("big")[0] == "NoFit" or bool(sandbox.history.bound(sandbox.name, "big-")),
        "big to be considered",
    )
    assert not sandbox.history.bound(sandbox.name, "big-"), "two nodes of four are not enough"
    sandbox.add(*gang(sandbox, "small", 2, 4))
    sandbox.wait_running("small-", 2)
    finish_all(sandbox, "early-")
    sandbox.wait(
        lambda: len(sandbox.ledger.admissions(sandbox.name, "early")) == 1, "early to be booked once"
    )
    sandbox.wait(
        lambda: sandbox.ledger.admissions(sandbox.name, "early")[0][1] == "closed", "early to be over"
    )
    assert not sandbox.history.bound(sandbox.name, "big-"), "three nodes of four are not enough"

    moments = len(sandbox.history.of(sandbox.name))
    finish_all(sandbox, "small-")
    sandbox.wait_running("big-", 4)
    since = sandbox.history.of(sandbox.name)[:moments]
    assert not [
        m for m in since if m.name.startswith(f"{sandbox.name}/big-") and (m.node or m.phase == "Running")
    ]
    assert len(sandbox.ledger.admissions(sandbox.name, "big")) == 1
    assert len({m.admission for m in sandbox.history.of(sandbox.name, "big-") if m.node}) == 1


@pytest.mark.parametrize("gang", EACH_KIND)
def test_a_gang_that_does_not_fit_has_no_pod_bound_while_one_that_fits_goes(
    sandbox: Sandbox, gang: GangMaker
) -> None:
    check_that_a_gang_waits_whole(sandbox, gang)


@pytest.fixture
def with_planted_bug(whole_stack: Stack):  # type: ignore[no-untyped-def]
    """A Muster that lets gangs in piece by piece, in place of the good one."""
    stop_muster(whole_stack, whole_stack.replicas[0])
    bad = whole_stack.start_muster("planted", program=("-m", "tests.e2e.support.muster_with_planted_bug"))
    yield
    stop_muster(whole_stack, bad)
    whole_stack.start_muster()


@pytest.mark.long
def test_the_check_notices_an_engine_that_admits_gangs_piece_by_piece(
    with_planted_bug: None, sandbox: Sandbox
) -> None:
    # At the first look, or, if those pods are bound a moment later, at the second: either way at some, not all.
    noticed = r"^(two|three) nodes of four are not enough\nassert not \{'[^']+/big-\d'"
    with pytest.raises(AssertionError, match=noticed):
        check_that_a_gang_waits_whole(sandbox, as_pod_group)
