"""A workload that the engine fails on costs itself its admission, and nobody else."""

import gzip
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from admission.containment import failed_turns
from admission.containment.decider import Decider
from admission.containment.decision_thread import FEWEST, DecisionSamples, DecisionThread, DecisionTooLong
from admission.containment.failed_turns import MOST_FILES, FailedTurns
from admission.containment.repeated_failures import TELL_AFTER, RepeatedFailures
from admission.engine import decide as engine
from admission.engine.decide import Memo
from admission.engine.placement import gangs
from admission.engine.placement.need import MissingMembers
from admission.engine.snapshot import Snapshot
from admission.engine.trial import Trial
from admission.replay.snapshot_file import load
from queues import kind_names
from queues.plan import Admit, Plan, Reason
from queues.workload import Workload, WorkloadKey
from tests.builders.facts import NOW, TEAM, job, node, queue, world
from tests.waiting import LIMIT, until

KEYS = [WorkloadKey(kind_names.JOB, f"job-{number}") for number in range(9)]
POISON = KEYS[4]

decide = engine.decide


def snapshot() -> Snapshot:
    """Nine Jobs of one pod, and room for eight of them."""
    jobs = [replace(job(1), key=key, name=key.uid) for key in KEYS]
    known = world(
        [*jobs, node("n1"), queue("root"), queue("team", parent="root")],
        arrivals={key: number for number, key in enumerate(KEYS)},
    )
    return known.freeze(NOW)


@pytest.fixture
def poisoned(monkeypatch: pytest.MonkeyPatch) -> list[Snapshot]:
    """An engine that fails on one workload; what it was asked."""
    asked: list[Snapshot] = []

    def fails_on_poison(found: Snapshot, memo: Memo, *_: Any, **__: Any) -> tuple[Plan, Memo]:
        asked.append(found)
        if POISON in found.pending:
            raise ZeroDivisionError("of poison")
        return decide(found, memo)

    monkeypatch.setattr(engine, "decide", fails_on_poison)
    return asked


def nowhere(_: Snapshot) -> Path | None:
    return None


def decider(keep: Any = nowhere, limit: float = 60.0) -> Decider:
    return Decider(DecisionThread(limit), keep)


@pytest.mark.usefixtures("poisoned")
async def test_all_others_are_decided_as_if_it_were_not_there() -> None:
    kept: list[Snapshot] = []
    decision = await decider(kept.append).decide(snapshot())
    assert decision.culprits.keys() == {POISON}
    assert [type(error) for error in decision.culprits.values()] == [ZeroDivisionError]
    assert {admit.workload for admit in decision.plan.admits} == set(KEYS) - {POISON}
    assert decision.plan == decide(snapshot().without({POISON}), Memo())[0]
    assert [POISON in each.pending for each in kept] == [True]


async def test_an_error_that_a_memo_brought_about_is_gone_without_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spoiled = decider()
    first = (await spoiled.decide(snapshot())).plan
    memo = spoiled.memo

    def fails_with_that_memo(found: Snapshot, given: Memo, *_: Any, **__: Any) -> tuple[Plan, Memo]:
        if given is memo:
            raise KeyError("of the memo")
        return decide(found, given)

    monkeypatch.setattr(engine, "decide", fails_with_that_memo)
    decision = await spoiled.decide(snapshot())
    assert (decision.plan, decision.culprits, spoiled.failures) == (first, {}, 1)


async def test_an_engine_that_fails_whatever_waits_ends_the_term(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(found: Snapshot, memo: Memo, *_: Any, **__: Any) -> tuple[Plan, Memo]:
        raise ZeroDivisionError

    monkeypatch.setattr(engine, "decide", fails)
    with pytest.raises(ZeroDivisionError):
        await decider().decide(snapshot())


async def test_a_decision_that_takes_too_long_is_told_and_no_other_is_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from threading import Event

    go, asked = Event(), 0

    def hangs(found: Snapshot, memo: Memo, *_: Any, **__: Any) -> tuple[Plan, Memo]:
        nonlocal asked
        asked += 1
        go.wait(LIMIT)
        return decide(found, memo)

    monkeypatch.setattr(engine, "decide", hangs)
    thread = DecisionThread(0.05)
    with pytest.raises(DecisionTooLong, match="this replica leads no more"):
        await Decider(thread, nowhere).decide(snapshot())
    assert thread.is_busy()
    assert "for longer than 0.05 s" in str(await thread.problem())
    until(lambda: asked > 0, "the decision to begin")
    assert asked == 1
    go.set()
    thread._thread.join(LIMIT)  # type: ignore[union-attr]
    assert not thread.is_busy()
    assert await thread.problem() is None


async def test_a_decision_that_takes_too_long_names_the_workloads_that_take_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from threading import Event

    go, admit = Event(), gangs.admit

    def hangs(workload: Workload, need: MissingMembers, trial: Trial) -> Admit | Reason:
        found = admit(workload, need, trial)
        if workload.key == POISON:
            go.wait(LIMIT)
        return found

    monkeypatch.setattr(gangs, "admit", hangs)
    thread, kept, asked = DecisionThread(1.0), list[Snapshot](), snapshot()
    failures = RepeatedFailures("terms", first=1.0, longest=1.0)
    with pytest.raises(DecisionTooLong) as raised:
        await Decider(thread, kept.append).decide(asked)
    go.set()
    thread._thread.join(LIMIT)  # type: ignore[union-attr]
    assert kept == [asked], "whoever looks into it needs the turn"
    assert "It tried job/ns/job-4 (" in raised.value.__notes__[0]
    assert set(raised.value.culprits) == set(KEYS), "all of them ask for the same"
    for name in ("job-4", "job-5"):
        error = DecisionTooLong(seconds=60)
        error.add_note(f"It tried job/ns/{name} (100 % of the time).")
        for _ in range(TELL_AFTER):
            failures.note(error)
    told = failures.told()
    assert told is not None
    assert "10 terms in a row" in told.message, "it is the same failure whatever takes the time"
    assert "It tried job/ns/job-5" in told.message


async def test_a_decision_that_takes_too_long_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    def never_ends(found: Snapshot, memo: Memo, *_: Any, **__: Any) -> tuple[Plan, Memo]:
        while True:
            try:
                sleep(0.001)
            except Exception:
                raise AssertionError("no error that the engine may expect") from None

    monkeypatch.setattr(engine, "decide", never_ends)
    thread = DecisionThread(0.05)
    with pytest.raises(DecisionTooLong) as raised:
        await Decider(thread, nowhere).decide(snapshot())
    assert raised.value.culprits == ()
    thread._thread.join(LIMIT)  # type: ignore[union-attr]
    assert not thread.is_busy()
    assert await thread.problem() is None


def test_nobody_is_blamed_for_a_time_that_many_workloads_share() -> None:
    def blamed(*tried: WorkloadKey | None) -> WorkloadKey | None:
        samples = DecisionSamples()
        for samples.progress.workload in tried:
            samples.look()
        return samples.culprit()

    assert blamed(*KEYS * 10) is None
    assert blamed(*KEYS[:2] * 10) is None, "half of the time is not most of it"
    assert blamed(None, *[POISON] * 30, *KEYS) == POISON
    assert blamed(*[None] * 30, *[POISON] * 20) is None
    assert blamed(*[POISON] * (FEWEST - 1)) is None, "a few looks tell little"


@pytest.mark.usefixtures("poisoned")
async def test_the_turn_is_kept_for_replay_and_old_ones_go(tmp_path: Path) -> None:
    turns = FailedTurns(tmp_path / "turns", "me", "muster-0")
    for second in range(MOST_FILES + 2):
        await decider(turns.keep).decide(replace(snapshot(), now=NOW + second))
    files = sorted((tmp_path / "turns").iterdir())
    assert [file.name for file in files] == [
        f"turn-{NOW + second}-0.json.gz" for second in range(2, MOST_FILES + 2)
    ]
    saved = load(gzip.decompress(files[-1].read_bytes()))
    assert saved.snapshot.pending == snapshot().pending


def test_turns_that_are_kept_take_little_room_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    turns = FailedTurns(tmp_path, "me", "muster-0")
    first = turns.keep(snapshot())
    assert first is not None
    copy = caplog.records[-1].copy  # type: ignore[attr-defined]
    assert copy.startswith("kubectl exec -n muster-system muster-0 -- python3 -c")
    program = copy.partition('"')[2].rpartition('"')[0]
    assert subprocess.check_output([sys.executable, "-c", program]) == first.read_bytes()
    monkeypatch.setattr(failed_turns, "MOST_BYTES", first.stat().st_size * 2 + 100)
    for second in range(1, 4):
        turns.keep(replace(snapshot(), now=NOW + second))
    assert {file.name for file in tmp_path.iterdir()} == {
        f"turn-{NOW + second}-0.json.gz" for second in (2, 3)
    }
    monkeypatch.setattr(failed_turns, "MOST_BYTES", 100)
    assert turns.keep(replace(snapshot(), now=NOW + 4)) is None


@pytest.mark.usefixtures("poisoned")
async def test_a_disk_that_takes_no_file_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "turns").write_text("no folder")
    decision = await decider(FailedTurns(tmp_path / "turns", "me", "muster-0").keep).decide(snapshot())
    assert decision.culprits.keys() == {POISON}


@pytest.mark.usefixtures("poisoned")
async def test_a_turn_that_cannot_be_written_stops_nothing() -> None:
    def fails(_: Snapshot) -> Path | None:
        raise TypeError("no JSON")

    assert (await decider(fails).decide(snapshot())).culprits.keys() == {POISON}


def test_workloads_left_out_of_a_snapshot_keep_what_they_hold() -> None:
    whole = snapshot()
    plan, _ = decide(whole, Memo())
    later = whole.after(plan)
    without = later.without({KEYS[0]})
    assert without.admissions == later.admissions
    assert KEYS[0] not in without.workloads()
    assert TEAM in without.queues
