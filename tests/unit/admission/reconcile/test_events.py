"""Events about objects: HyperNodes that cannot be used, pods with other devices than they should have."""

from dataclasses import replace

from admission.facts.cluster import FlavorFact, HyperNodeFact, HyperNodeMember, TopologyFact
from admission.reconcile.events import ObjectEvents
from admission.world.hypernodes import problems_of


def hypernode(name: str, *inner: str, problems: tuple[str, ...] = ()) -> HyperNodeFact:
    members = tuple(HyperNodeMember(hypernode=True, exact=each) for each in inner)
    return HyperNodeFact(name=name, tier=1, uid=f"uid-{name}", members=members, problems=problems)


BAD = hypernode("bad", problems=("spec.members[0]: found x, expected y",))
GOOD = hypernode("good", "bad")


def test_what_is_wrong_is_told_once_and_once_more_when_it_changed() -> None:
    complaints = ObjectEvents()

    (note,) = complaints.new([BAD, GOOD])
    assert (note.ref.resource.kind, note.ref.name, note.ref.uid) == ("HyperNode", "bad", "uid-bad")
    assert note.warning
    assert "spec.members[0]: found x, expected y" in note.message
    assert complaints.new([BAD, GOOD]) == []
    assert complaints.new([BAD, replace(GOOD, tier=2)]) == []

    other = replace(BAD, problems=("spec.members[1]: found z, expected y",))
    assert ["z" in each.message for each in complaints.new([other, GOOD])] == [True]
    assert complaints.new([GOOD]) == []
    assert len(complaints.new([other, GOOD])) == 1


def test_of_many_problems_some_are_told() -> None:
    many = hypernode("bad", problems=tuple(f"problem {number}" for number in range(100)))

    assert problems_of([many])["bad"].endswith("problem 0; problem 1; problem 2; and 97 more.")


def test_hypernodes_inside_one_another_are_told_the_way_around() -> None:
    around = [hypernode("c", "a"), hypernode("a", "b", "nobody"), hypernode("b", "c")]

    assert problems_of(around).keys() == {"a"}
    assert "a → b → c → a" in problems_of(around)["a"]
    assert problems_of(around[:2]) == {}


def test_a_flavor_or_topology_that_is_not_read_whole_gets_an_event_whenever_that_changes() -> None:
    events, parts = ObjectEvents(), "spec.nodeLabels: found 5001 entries, expected at most 5000"
    whole, cut = FlavorFact(name="whole", uid="w"), FlavorFact(name="cut", uid="c", unread=parts)
    topology = TopologyFact(name="site", levels=(), uid="s", unread="spec.levels: found more")
    (first, second) = events.new((), [whole, cut], [topology])
    assert (first.ref.path, first.reason, first.warning) == (
        "/apis/muster.dev/v1alpha1/resourceflavors/cut",
        "BeyondBounds",
        True,
    )
    assert first.message == f"what is beyond these bounds is not read: {parts}"
    assert second.ref.name == "site"
    assert events.new((), [whole, cut], [topology]) == []
    assert [note.ref.name for note in events.new((), [whole, replace(cut, unread="more")], [])] == ["cut"]
