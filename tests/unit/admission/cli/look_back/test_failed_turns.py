"""``muster failed-turns``: turns that could not be decided, listed, and brought elsewhere byte for byte."""

import asyncio
import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest

from admission.cli.failures import finish
from admission.cli.muster import muster
from admission.containment.failed_turns import FailedTurns
from admission.replay.snapshot_file import load
from queues.sql.database import Database
from queues.sql.history.failed_turns import store
from tests.builders.facts import NOW, job, node, queue, world


def call(*words: str) -> int:
    return finish(muster, "muster", ["failed-turns", *words])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where turns are kept, as the pod's environment has it."""
    monkeypatch.setenv("MUSTER_FAILED_TURNS_DIR", str(tmp_path / "turns"))
    monkeypatch.delenv("MUSTER_DSN", raising=False)
    return tmp_path / "turns"


@pytest.fixture
def two_kept(folder: Path) -> list[Path]:
    """Two failed turns, the older one first."""
    known = world([job(1), node("n1"), queue("root"), queue("team", parent="root")])
    kept = []
    for second in (0, 1):
        file = FailedTurns(folder, "me").keep(known.freeze(NOW + second))
        assert file is not None
        os.utime(file, (NOW + second, NOW + second))
        kept.append(file)
    return kept


def test_the_newest_is_listed_first_with_its_time_and_size(
    two_kept: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("list") == 0
    header, newest, older = capsys.readouterr().out.splitlines()
    assert header.split() == ["NAME", "KEPT", "BYTES", "REPLICA"]
    assert newest.split() == [
        two_kept[1].name,
        "2027-01-15T08:00:01Z",
        str(two_kept[1].stat().st_size),
        "this",
        "disk",
    ]
    assert older.split()[0] == two_kept[0].name


def test_the_newest_or_a_named_one_comes_through_a_pipe_unchanged(two_kept: list[Path]) -> None:
    for words, wanted in (((), two_kept[1]), ((two_kept[0].name,), two_kept[0])):
        command = [sys.executable, "-m", "admission.cli.muster", "failed-turns", "print", *words]
        content = subprocess.run(command, capture_output=True, check=True).stdout
        assert content == wanted.read_bytes()
        assert load(gzip.decompress(content)).snapshot.now in (NOW, NOW + 1)


@pytest.mark.usefixtures("folder")
def test_where_none_is_kept_that_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("list") == 0
    assert capsys.readouterr().out == "No failed turn is kept.\n"
    assert call("print") == 1
    assert "Printing a failed turn: none is kept." in capsys.readouterr().err


def test_those_of_a_replica_that_is_gone_come_from_the_database(
    database: str,
    two_kept: list[Path],
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    content = two_kept[0].read_bytes()

    async def store_two() -> None:
        muster = await Database.connect(database)
        async with muster.transaction() as tx:
            await store(tx, "turn-1-1.json.gz", "muster-gone", content, NOW + 5)
            await store(tx, two_kept[0].name, "muster-here", content, NOW)
        await muster.close()

    asyncio.run(store_two())
    monkeypatch.setenv("MUSTER_DSN", database)
    assert call("list") == 0
    listed = capfdbinary.readouterr().out.decode().splitlines()[1:]
    assert [(line.split()[0], line.split()[3]) for line in listed] == [
        ("turn-1-1.json.gz", "muster-gone"),
        (two_kept[1].name, "this"),
        (two_kept[0].name, "muster-here"),
    ]
    assert call("print") == 0
    assert capfdbinary.readouterr().out == content


def test_a_database_that_is_away_is_told_and_the_disk_still_read(
    two_kept: list[Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MUSTER_DSN", "postgresql://nobody@/nothing?host=/nowhere")
    assert call("list") == 0
    told = capsys.readouterr()
    assert [line.split()[0] for line in told.out.splitlines()[1:]] == [
        file.name for file in reversed(two_kept)
    ]
    assert "Only this disk was looked at" in told.err


def test_an_unknown_name_is_told_with_those_that_there_are(
    two_kept: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("print", "../../etc/passwd") == 1
    told = capsys.readouterr().err
    assert "there is no ../../etc/passwd" in told
    assert two_kept[0].name in told.replace("\n", "")


def test_bytes_are_not_written_to_a_terminal(
    two_kept: list[Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert call("print") == 1
    assert "standard output is a terminal" in capsys.readouterr().err
