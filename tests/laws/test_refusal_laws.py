"""Laws of gangs that the stock scheduler refuses by rules that Muster cannot know, and bugs that break them."""

from typing import Any

import pytest
from hypothesis import given

from admission.workloads import rollback, workload
from admission.world.learned.refused_nodes import RefusedNodes
from tests.builders.facts import NOW
from tests.laws.laws.refusals import (
    an_allowed_place_is_found,
    no_place_is_tried_twice,
    what_is_refused_everywhere_comes_to_rest,
    what_nodes_take_fewer_of_starts_or_comes_to_rest,
)
from tests.laws.planted.bug import Bug, is_broken_in, tried
from tests.laws.worlds.refusals import (
    RACK,
    ZONE,
    Life,
    apart_by,
    at_most,
    crowded_lives,
    detached_at,
    hopeless_lives,
    only_in,
    only_on,
    startable_lives,
)
from tests.laws.worlds.settings import in_worlds, law_test

worlds = in_worlds(60)


test_an_allowed_place_is_found = law_test(an_allowed_place_is_found, startable_lives(), worlds)


@in_worlds(20)
@given(hopeless_lives())
def test_what_is_refused_everywhere_comes_to_rest(life: Life) -> None:
    what_is_refused_everywhere_comes_to_rest(life)


@in_worlds(40)
@given(crowded_lives())
def test_what_nodes_take_fewer_of_starts_or_comes_to_rest(life: Life) -> None:
    what_nodes_take_fewer_of_starts_or_comes_to_rest(life)


test_no_place_is_tried_twice = law_test(no_place_is_tried_twice, hopeless_lives(), worlds)


def test_a_volume_of_one_zone_is_found_at_once_by_trying_the_zones() -> None:
    """36 nodes in three zones; the first nodes of two zones are refused."""
    life = Life(zones=3, racks=1, in_rack=12, pods=2, rule=only_in(ZONE, frozenset({"z2"}))).live()
    assert life.started_at is not None
    assert life.rollbacks == 2, life.attempts


def test_pods_that_keep_apart_by_rack_start_in_three_racks() -> None:
    life = Life(zones=1, racks=3, in_rack=2, pods=3, rule=apart_by(RACK)).live()
    assert life.started_at is not None
    assert life.rollbacks <= 3, life.attempts


def test_more_pods_than_racks_hold_nothing_once_no_place_is_left() -> None:
    life = Life(zones=1, racks=2, in_rack=2, pods=3, rule=apart_by(RACK)).live(3600)
    assert not life.held_until_the_end
    assert life.reason is not None
    assert "2 on which the stock scheduler refused its pods" in life.reason.message


def test_a_node_that_still_detaches_volumes_is_tried_again_in_minutes() -> None:
    life = Life(zones=1, racks=1, in_rack=1, pods=1, rule=detached_at(NOW + 120)).live(3600)
    assert life.started_at is not None
    assert life.started_at - NOW < 600


def test_a_gang_whose_pods_no_node_takes_together_is_tried_once_for_each_node() -> None:
    """The scheduler lets two onto each of four nodes with room for four: how many a node takes is not learned."""
    life = Life(zones=1, racks=1, in_rack=4, pods=4, room=4, rule=at_most(2)).live(3600)
    assert (life.started_at, life.rollbacks, life.held_until_the_end) == (None, 4, False)


@pytest.mark.parametrize("at", ["z0-r0-n0", "z0-r0-n1"])
def test_a_launcher_keeps_its_only_node_where_workers_are_refused(at: str) -> None:
    rule = only_on(frozenset({"z0-r0-n2"}))
    life = Life(zones=1, racks=1, in_rack=3, pods=1, rule=rule, launcher=at).live(3600)
    assert life.started_at is not None, life.reason
    assert life.rollbacks == 2, life.attempts


def test_a_pod_that_every_node_refuses_is_told_so() -> None:
    life = Life(zones=1, racks=1, in_rack=3, pods=1, rule=only_on(frozenset())).live(3600)
    assert life.reason is not None
    assert life.reason.message.startswith(
        "refused by the stock scheduler on all 3 nodes that its pods may use"
    )


def _for_a_while(self: RefusedNodes, key: Any, revision: str, refusing: Any, now: int) -> None:
    _note(self, key, revision, refusing, now - rollback.REFUSAL_MEMORY + 30)


_note = RefusedNodes.note
_usual = lambda inputs, now, timeouts: timeouts.next_try(inputs.setbacks.rollbacks, now)  # noqa: E731

BUGS = (
    Bug("refusals are forgotten after seconds", RefusedNodes, "note", _for_a_while, no_place_is_tried_twice),
    Bug("refusals are not noted", RefusedNodes, "note", lambda *_: None, an_allowed_place_is_found, 7),
    Bug("refusals do not count where pods are bound beside", RefusedNodes, "note", lambda *_: None,
        what_nodes_take_fewer_of_starts_or_comes_to_rest),
    Bug("nothing holds a refused gang back", workload, "held_back_by_refusals", lambda inputs: None,
        what_is_refused_everywhere_comes_to_rest, rare=True),
    Bug("a node that changes sets its gangs free at once", rollback, "next_try_after_refusal", _usual,
        what_is_refused_everywhere_comes_to_rest, rare=True),
)  # fmt: skip


@pytest.mark.parametrize("bug", tried(BUGS))
def test_a_planted_bug_breaks_its_law(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    of_law = {
        an_allowed_place_is_found: startable_lives,
        what_nodes_take_fewer_of_starts_or_comes_to_rest: crowded_lives,
    }
    lives = of_law.get(bug.law, hopeless_lives)()
    is_broken_in(lives, bug.law, first=bug.first)
