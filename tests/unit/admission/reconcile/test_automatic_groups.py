"""PodGroups for owners whose pods start together: when they are made, and what size they have."""

from dataclasses import replace
from typing import Any

import pytest

from admission.facts.pods import Conduct, PodFact
from admission.reconcile.automatic_groups import changed, groups_wanted, unneeded, wanted_by
from queues.admissions import Recreation
from queues.workload import QueueName
from tests.builders.facts import gated, gone, group, see, world
from tests.builders.facts import pod as running
from tests.tables import named_rows, with_rows

NAME = "podgroup-deployment-web"


def member(name: str = "web-1", minimum: int = 3, **facts: object) -> PodFact:
    return gated(name, group=NAME, group_minimum=minimum, **facts)  # type: ignore[arg-type]


def test_a_pod_without_its_group_asks_for_one_and_is_told_so() -> None:
    pod = member(queue="team")
    found = world([pod])
    [(key, wanted)] = groups_wanted(found, list(found.states))
    assert (wanted.namespace, wanted.name, wanted.minimum, wanted.queue) == ("ns", NAME, 3, "team")
    assert (wanted.pod, wanted.uid) == ("web-1", "")
    assert "Muster makes it" in found.states[key].workload.obstacle.message


def test_nothing_is_asked_for_once_the_group_is_there_or_by_pods_of_groups_of_others() -> None:
    there = world([member(), group(3, name=NAME)])
    assert list(groups_wanted(there, list(there.states))) == []
    others = world([gated("a", group=NAME)])
    assert list(groups_wanted(others, list(others.states))) == []


def test_a_group_that_was_deleted_is_asked_for_again() -> None:
    ring = group(3, name=NAME)
    found = world([member(), ring])
    see(found, gone(ring), now=1)
    assert [wanted.name for _, wanted in groups_wanted(found, list(found.states))] == [NAME]


@named_rows(
    ("pods", "expected"),
    {
        "as it is": ((member("a", 3), member("b", 3)), None),
        "newer pods say less": ((member("a", 3, created=1), member("b", 2, created=2)), 2),
        "older pods say less": ((member("a", 2, created=1), member("b", 3, created=2)), None),
        "about to go": ((replace(member("a", 2), deleting=True),), None),
        "says nothing": ((running("a", group=NAME),), None),
        "no pods": ((), None),
    },
)
def test_a_group_has_the_size_that_its_newest_pod_tells(
    pods: tuple[PodFact, ...], expected: int | None
) -> None:
    wanted = changed(group(3, name=NAME), pods, has_seats=False)
    assert (wanted and wanted.minimum) == expected
    assert wanted is None or wanted.spec({}) == {"minMember": expected, "minResources": {}}


def test_a_group_that_others_made_keeps_its_size() -> None:
    assert changed(group(3, name="ring"), (member("a", 2, queue="b"),), has_seats=False) is None


@with_rows("said", "has_seats", "expected")
def test_a_group_moves_to_the_queue_that_its_newest_pod_names(
    said: str | None, has_seats: bool, expected: object
) -> None:
    pods = (member("a", created=1, queue="team"), member("b", created=2, queue=said))
    wanted = changed(group(3, name=NAME), pods, has_seats=has_seats)
    assert (wanted and wanted.spec({"pods": "3"})) == (
        expected and {**expected, "minResources": {"pods": "3"}}
    )


def test_a_group_gets_no_seats_in_the_queue_that_it_is_about_to_leave() -> None:
    members = [member(f"web-{index}", queue="other") for index in range(3)]
    shown = world([group(3, name=NAME, queue="team"), *members])
    [state] = shown.states.values()
    assert "names queue team, and its newest pod queue other" in str(state.workload.obstacle)
    see(shown, group(3, name=NAME, queue="other"), now=1)
    [state] = shown.states.values()
    assert state.workload.obstacle is None


def test_a_group_that_gets_another_size_and_has_seats_keeps_its_queue() -> None:
    pods = (member("a", 2, queue="other"),)
    wanted = changed(group(3, name=NAME), pods, has_seats=True)
    assert wanted.spec({}) == {"minMember": 2, "minResources": {}}


def test_a_group_without_pods_waits_for_nothing_until_one_comes() -> None:
    idle = world([group(3, name=NAME)])
    [state] = idle.states.values()
    assert (state.is_idle, state.needs_seats, state.workload.obstacle) == (True, False, None)
    see(idle, member(), now=1)
    [state] = idle.states.values()
    assert (state.is_idle, state.needs_seats) == (False, True)
    assert "1 of 3 pods exist" in str(state.workload.obstacle)
    assert [each.needs_seats for each in world([group(3, name="ring")]).states.values()] == [True]


def test_a_group_that_a_user_made_by_such_a_name_stays_as_it_is() -> None:
    alices = group(3, name=NAME, queue="team", conduct=Conduct(user="alice"))
    pods = [member(f"web-{index}", 2, queue="other") for index in range(3)]
    assert changed(alices, pods, has_seats=False) is None
    [state] = world([alices, *pods]).states.values()
    assert state.workload.obstacle is None
    [state] = world([alices]).states.values()
    assert (state.is_idle, state.needs_seats) == (False, True)


def test_a_group_goes_with_its_owner() -> None:
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u", "controller": True}
    document = wanted_by(member()).document(reference, {"cpu": "3"})
    assert document["metadata"]["ownerReferences"] == [
        {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u"}
    ]
    assert document["spec"] == {"minMember": 3, "queue": "default", "minResources": {"cpu": "3"}}
    assert "ownerReferences" not in wanted_by(member()).document(None, {})["metadata"]


def test_a_group_of_pods_without_an_owner_goes_with_its_last_pod() -> None:
    ring = group(2, name="podgroup-pods-ring")
    pods = [gated(name, group=ring.name, group_minimum=2) for name in ("a", "b")]
    found = world([*pods, ring])
    see(found, gone(pods[0]), now=1)
    assert list(groups_wanted(found, list(found.states))) == []
    see(found, gone(pods[1]), now=2)
    [(_, wanted)] = groups_wanted(found, list(found.states))
    assert (wanted.name, wanted.uid, wanted.is_unneeded) == (ring.name, ring.key.uid, True)


@pytest.mark.parametrize("stored", [False, True], ids=["about to be stored", "stored"])
def test_a_group_whose_pods_are_made_again_stays(stored: bool) -> None:
    ring = group(2, name="podgroup-pods-ring")
    member = gated("a", group=ring.name, group_minimum=2)
    found = world([member, ring])
    of = {"pod_uid": member.uid, "workload": ring.key, "namespace": "ns", "name": "a"}
    intent = Recreation(**of, queue=QueueName("team"), manifest="{}")
    found.recreations.put(member.uid, intent)
    if stored:
        found.recreations.saved({member.uid: intent})
        found.recreations.unsaved.clear()
    see(found, gone(member), now=1)
    assert list(groups_wanted(found, list(found.states))) == []


@named_rows(
    "about",
    {
        "of others": {"name": "ring"},
        "of an owner": {"name": NAME},
        "being deleted already": {"deleting": True},
        "a user made it": {"conduct": Conduct(user="alice")},
    },
)
def test_other_groups_are_not_deleted_with_their_last_pod(about: dict[str, Any]) -> None:
    assert unneeded(group(2, **{"name": "podgroup-pods-ring", **about}), ()) is None
