"""A turn that was kept decides the same as the live one did, whatever the world looked like."""

from hypothesis import given, settings

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.snapshot import Snapshot
from admission.replay.compressed import compressed, load_compressed
from admission.replay.look_back import decided_again, decisions_of
from admission.replay.snapshot_file import load, save
from tests.laws.worlds.snapshots import snapshots


@settings(max_examples=100, deadline=None)
@given(snapshots())
def test_a_kept_turn_decides_the_same_as_the_live_one(snapshot: Snapshot) -> None:
    plan, _ = decide(snapshot, Memo())

    again = decided_again(
        load_compressed(compressed(snapshot, plan)), decisions_of(plan, snapshot.admissions)
    )

    assert again.is_same(), (again.differences, again.log_differences)
    assert save(again.saved.snapshot, again.plan) == save(snapshot, plan)


@settings(max_examples=50, deadline=None)
@given(snapshots())
def test_a_kept_turn_says_what_a_saved_one_says(snapshot: Snapshot) -> None:
    plan, memo = decide(snapshot, Memo())
    after = snapshot.after(plan)
    later, _ = decide(after, memo)

    kept, saved = load_compressed(compressed(after, later, "abc")), load(save(after, later, "abc"))

    assert kept.plan == saved.plan
    assert kept.configuration == saved.configuration
    assert save(kept.snapshot, later) == save(saved.snapshot, later)


@settings(max_examples=50, deadline=None)
@given(snapshots())
def test_a_decision_that_the_log_lacks_or_has_too_many_of_is_found(snapshot: Snapshot) -> None:
    plan, _ = decide(snapshot, Memo())
    log = decisions_of(plan, snapshot.admissions)
    saved = load_compressed(compressed(snapshot, plan))

    for number, line in enumerate(log):
        assert not decided_again(saved, [*log[:number], *log[number + 1 :]]).is_same()
        assert not decided_again(saved, [*log, line]).is_same()
