"""What people see when they ask ``kubectl muster``, to the letter."""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec import structs
from msgspec.json import decode

from admission.cli.output import Output
from admission.cli.plugin.pending import pending_table
from admission.cli.rendering.explanation import workload_text
from admission.cli.rendering.quota import history_table, value_words
from admission.cli.rendering.terminal import rounded
from queues.read_api import bodies
from tests.fakes import fake_reader
from tests.fakes.fake_reader import FADING, GPU, STORY, FakeReader, account, path_bodies, queue
from tests.fakes.plugin import Asking
from tests.tables import with_rows

#: One file for each answer, looked at by a person whenever it changes.
GOLDEN = Path(__file__).parent / "golden"


@with_rows("golden", "words")
async def test_the_text_is_the_golden_one(ask: Asking, golden: str, words: str) -> None:
    said = await ask(*words.split())

    expected = (GOLDEN / f"{golden.replace(',', '').replace(' ', '-')}.txt").read_text(encoding="utf-8")
    assert (said.code, said.err) == (0, "")
    assert expected == said.out


async def test_what_is_wrong_with_a_workload_that_has_its_seats_is_explained(
    ask: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = bodies.ReasonBody(code="NotReady", message="2 of 2 pods missing since noon: …")
    bert = {"kind": "vcjob", "name": "bert", "uid": "bert-uid", "changes": ()}
    outlook = structs.replace(fake_reader.OUTLOOK, **bert, problem=problem)
    monkeypatch.setattr(fake_reader, "OUTLOOK", outlook)

    said = await ask("explain", "vcjob/bert", "-n", "ml")

    assert "Does not go on because\n  NotReady\n  2 of 2 pods missing since noon: …\n" in said.out
    assert "What would let it in" not in said.out


@pytest.mark.parametrize("words", ["queues", "pending -n ml", "explain bert -n ml", "queues -o json"])
@with_rows("as_of", "behind", "code", "line")
async def test_old_data_is_told_as_such_and_very_old_data_by_the_exit_code(
    ask: Asking, reader: FakeReader, words: str, as_of: str | None, behind: str, code: int, line: str
) -> None:
    reader.as_of, reader.behind = as_of, behind

    said = await ask(*words.split())

    assert (said.code, said.err) == (code, line)
    assert said.out


@pytest.mark.parametrize(("words", "count"), [("pending -A", 3), ("jobs -A", 4), ("who", 3)])
async def test_long_lists_are_fetched_page_by_page_and_a_cut_one_says_so(
    ask: Asking, monkeypatch: pytest.MonkeyPatch, words: str, count: int
) -> None:
    whole = (await ask(f"{words} --no-headers")).out
    assert len(whole.splitlines()) == count
    monkeypatch.setattr("admission.cli.access.requests.LARGEST_PAGE", 1)

    assert (await ask(f"{words} --no-headers")).out == whole
    if words != "who":
        _, out, err = await ask(f"{words} --limit 2")
        assert (len(out.splitlines()), err) == (3, f"2 of {count} shown; --limit shows more.\n")


@pytest.mark.parametrize("form", ["table", "wide"])
async def test_past_use_is_shown_where_it_counts(ask: Asking, reader: FakeReader, form: str) -> None:
    reader.tree = FADING

    said = await ask("queues", "-o", form)

    expected = (GOLDEN / f"queues-with-past-use-{form}.txt").read_text(encoding="utf-8")
    assert said.err == "Past use is not known yet: the leader has not summed it up.\n"
    assert expected == said.out


async def test_past_use_is_always_in_the_json(ask: Asking, reader: FakeReader) -> None:
    plain = json.loads((await ask("queues", "-o", "json")).out)["items"]
    reader.tree = FADING
    fading = json.loads((await ask("queues", "team-a", "-o", "json")).out)["items"]

    assert {queue["usageHalfLifeSeconds"] for queue in plain} == {None}
    assert [line["pastUse"] for line in fading[0]["accounts"]] == ["21873m", "1240", "12345678901"]


@with_rows("resource", "text", "expected")
def test_averages_have_three_digits(resource: str, text: str, expected: str) -> None:
    assert expected == rounded(resource, text)


def test_a_queue_asks_its_parent_for_what_its_guarantee_does_not_cover(golden: Any) -> None:
    own = account("8", None, "64", guarantee="16")
    above = account("8", None, "20", counted="16")

    path = path_bodies(queue("own", "root", own), queue("root", None, above), asks=STORY.asks)
    told = workload_text(structs.replace(STORY, path=path), Output())

    rows = [line.split() for line in told.splitlines() if line.split()[:2] in (["own", GPU], ["root", GPU])]
    assert [dict(zip(("used", "kept", "asked"), row[3:6], strict=True)) for row in rows] == golden
    assert [row[8] for row in rows] == ["-", "-"]


@pytest.mark.parametrize("begins", [None, "2026-11-16T00:00:00Z"])
def test_where_a_history_was_cut_is_said(begins: str | None) -> None:
    told = workload_text(structs.replace(STORY, history_begins=begins), Output())
    assert ("decisions before 2026-11-16T00:00:00Z were dropped" in told) == (begins is not None)


@with_rows("text", "words")
def test_values_of_fields_are_told_in_words(text: str | None, words: str | None) -> None:
    assert value_words(text) == words


@pytest.mark.parametrize("width", [None, 80])
def test_a_history_has_no_json_in_its_cells(width: int | None) -> None:
    admins = '[{"kind": "Group", "name": "team-a-admins"}]'
    version = bodies.QueueVersionBody(
        version=1,
        at="2026-11-20T09:00:00Z",
        what="changed",
        by="ada",
        reason="",
        changes=(bodies.FieldChangeBody(field="access.admins", before="[]", after=admins),),
    )

    told = history_table({"team-a": [version]}, Output(headers=False, width=width))

    assert told.split() == [
        "2026-11-20T09:00:00Z",
        "ada",
        *["access.admins", "none", "Group", "team-a-admins", "-"],
    ]


async def test_a_history_with_the_queues_below_names_them_in_one_order(ask: Asking) -> None:
    shown = await ask("quota", "history", "team-a", "--below", "--limit", "3", "--no-headers")
    whole = json.loads((await ask("quota", "history", "team-a", "--below", "-o", "json")).out)

    changes = [line.split() for line in shown.out.splitlines() if line[0] != " "]
    assert [(words[0][:10], words[1]) for words in changes] == [
        ("2026-11-20", "team-a"),
        ("2026-11-14", "train"),
        ("2026-11-12", "team-a"),
    ]
    assert "older changes" in shown.err
    assert Counter(each["queue"] for each in whole["items"]) == {"team-a": 4, "train": 1}


async def test_a_history_that_is_cut_says_so_and_one_since_a_time_is_not(
    golden: Any, ask: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("admission.cli.plugin.quota.PAGE", 1)
    two = await ask("quota", "history", "team-a", "--limit", "2", "--no-headers")
    recent = await ask("quota", "history", "team-a", "--since", "2026-11-15", "--no-headers")
    none = await ask("quota", "history", "team-a", "--since", "2026-11-21", "--no-headers")
    whole = json.loads((await ask("quota", "history", "team-a", "-o", "json")).out)

    assert [line.split()[0] for line in two.out.splitlines() if line[0] != " "] == golden
    assert two.err == "There are older changes; --limit and --since show more.\n"
    assert ("2026-11-12" in recent.out, recent.err) == (False, "")
    assert (none.out, none.err) == ("", "Queue team-a was not changed since 2026-11-21T00:00:00Z.\n")
    assert [each["version"] for each in whole["items"]] == [41, 37, 23, 9]


@pytest.mark.parametrize("columns", [80, 140])
async def test_pending_uses_the_width_of_the_terminal(ask: Asking, columns: int) -> None:
    body = decode((await ask("pending", "-A", "-o", "json")).out, type=bodies.PendingList, strict=True)

    text = pending_table(body, Output(width=columns), everywhere=True)

    expected = (GOLDEN / f"pending-everywhere-on-{columns}-columns.txt").read_text(encoding="utf-8")
    assert expected == text
    if columns == 80:
        assert max(map(len, text.splitlines())) <= columns


async def test_json_and_yaml_are_the_answer_of_the_api(ask: Asking) -> None:
    as_json = json.loads((await ask("explain", "tune-3", "-n", "ml", "-o", "json")).out)
    as_yaml = yaml.safe_load((await ask("explain", "tune-3", "-n", "ml", "-o", "yaml")).out)

    assert as_json == as_yaml
    assert as_json[0]["reason"]["facts"]["limit"] == "32"


async def test_flags_may_stand_before_the_subcommand(ask: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    url = os.environ["MUSTER_SERVER"]
    monkeypatch.delenv("MUSTER_SERVER")

    assert (await ask("--server", url, "queues")).code == 0


@with_rows("words", "code", "complaint")
async def test_errors_are_sentences_and_codes(ask: Asking, words: str, code: int, complaint: str) -> None:
    said = await ask(words)

    assert (said.code, said.out) == (code, "")
    assert complaint in said.err
    assert "Traceback" not in said.err


async def test_postgres_down_is_told_as_such(ask: Asking, reader: FakeReader) -> None:
    reader.down = True
    said = await ask("queues")

    assert said.code == 1
    assert (
        "Postgres cannot do this now: connection refused. It is tried again; running pods go on" in said.err
    )
    assert "Traceback" not in said.err


async def test_a_server_that_is_not_there_is_told_as_such(ask: Asking) -> None:
    said = await ask("queues", "--server", "127.0.0.1:1")

    assert said.code == 1
    assert said.err.startswith("Error: Asking Muster at https://127.0.0.1:1: connection refused.\n")


async def test_without_a_kubeconfig_the_files_that_were_tried_are_named(
    ask: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MUSTER_SERVER")
    said = await ask("queues")

    assert said.code == 1
    assert "no file at /nowhere/config" in said.err


def test_a_running_job_tells_when_it_is_ended() -> None:
    ends = "2036-11-24T08:00:00Z"
    held = bodies.AdmissionBody(
        id=1,
        queue="own",
        state="open",
        opened=STORY.now,
        ends=ends,
        adopted=False,
        eviction=None,
        seats=(),
        ended=0,
    )
    story = structs.replace(STORY, state="admitted", admissions=(held,))
    told = workload_text(story, Output())
    (line,) = (line for line in told.splitlines() if line.startswith("  Ends "))
    assert line.startswith(f"  Ends      {ends} at the latest (in ")
    assert line.endswith("d): access.maxRunTime")
    assert len(line) <= 80
    endless = structs.replace(story, admissions=(structs.replace(held, ends=None),))
    without = workload_text(endless, Output())
    assert "  Ends " not in without
