"""``kubectl muster usage``: which period is asked for, and how use is shown."""

import csv
import io
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import click
import pytest
import yaml

from admission.cli.plugin.usage import decimal, moment, month, unit
from admission.cli.times import as_text
from tests.fakes.fake_reader import GPU, FakeReader
from tests.fakes.plugin import Asking, Plugin
from tests.fakes.read_api.fake_usage import USED
from tests.tables import with_rows

NOW = datetime(2026, 11, 21, 10, 30, 15, tzinfo=UTC)


@pytest.fixture
async def ask(plugin: Plugin, reader: FakeReader) -> AsyncIterator[Asking]:
    plugin.monkeypatch.setattr("admission.cli.plugin.usage.time.time", NOW.timestamp)
    async with plugin.served(reader, "usage") as ask:
        yield ask


@with_rows("text", "meant")
def test_times_are_read_as_people_write_them(text: str, meant: str) -> None:
    assert meant == as_text(moment("--from", text, NOW))


@pytest.mark.parametrize(
    "text", ["", "-7x", "7", "-999999w", "tomorrow", "2026-13-01", "1969-12-31", "0001-01-01T00:00:00+10:00"]
)
def test_what_is_no_time_is_refused_with_how_times_are_written(text: str) -> None:
    with pytest.raises(click.UsageError, match="expected how long ago"):
        moment("--from", text, NOW)


@with_rows("text", "begins", "ends")
def test_a_month_is_its_first_day_to_the_first_of_the_next(text: str, begins: str, ends: str) -> None:
    assert [f"{begins}T00:00:00Z", f"{ends}T00:00:00Z"] == [
        as_text(each) for each in month("--month", text, NOW)
    ]
    assert month("--month", "last", datetime(2027, 1, 5, tzinfo=UTC))[0] == datetime(2026, 12, 1, tzinfo=UTC)


@pytest.mark.parametrize("text", ["2026", "2026-13", "2026-00", "november", "9999-12"])
def test_what_is_no_month_is_refused(text: str) -> None:
    with pytest.raises(click.UsageError, match="expected a month"):
        month("--month", text, NOW)


async def test_use_is_a_table_of_hours_the_largest_first_with_a_total(golden: Any, ask: Asking) -> None:
    said = await ask()
    assert (said.code, said.err) == (0, "")
    assert said.out == golden
    assert (await ask("--no-headers", "--limit", "1")).out == "train   1102.00\nTOTAL   1502.50\n"
    assert (await ask("--limit", "1")).err == "The largest 1 of 3 lines; --limit shows more.\n"


async def test_columns_come_in_the_order_in_which_they_were_asked_for(golden: Any, ask: Asking) -> None:
    said = await ask("--by", "user,queue", "-o", "wide", "-q", "train")
    assert [line.split() for line in said.out.splitlines()[2:]] == golden


async def test_all_pages_are_added_up(ask: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = await ask("--by", "queue,user,workload,flavor")
    monkeypatch.setattr("admission.cli.plugin.usage.LARGEST_PAGE", 1)
    assert await ask("--by", "queue,user,workload,flavor") == whole


async def test_another_resource_is_chosen_where_no_gpu_was_used(
    golden: Any, ask: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "CPU-HOURS\nteam-b    25600.00\n" in (await ask("--resource", "cpu")).out
    assert "1502.50" in (await ask("--resource", "gpu")).out
    nothing = await ask("--resource", "memory")
    assert (nothing.code, nothing.out) == (0, "")
    assert nothing.err == golden
    monkeypatch.setattr("tests.fakes.read_api.fake_usage.USED", USED[-1:])
    assert "CPU-HOURS" in (await ask()).out


@with_rows("words", "code", "line")
async def test_what_is_wrong_is_told_in_a_line(ask: Asking, words: str, code: int, line: str) -> None:
    said = await ask(*words.split())
    assert (said.code, said.out) == (code, "")
    assert line in said.err


async def test_csv_has_the_columns_that_were_asked_for_and_no_total(golden: Any, ask: Asking) -> None:
    said = await ask("--by", "user,workload", "-o", "csv", "-q", "team-b")
    assert list(csv.DictReader(io.StringIO(said.out))) == golden
    assert (await ask("--resource", "memory", "-o", "csv")).out.count("\n") == 1


async def test_json_and_yaml_are_the_answer_with_all_lines(ask: Asking) -> None:
    body = json.loads((await ask("--by", "user", "-o", "json")).out)
    assert [(item["user"], item["amountSeconds"]) for item in body["items"]] == [
        ("", "1800"),
        ("ada@example.com", "2887207"),
        ("bert", "1440000"),
        ("tim", "1080000"),
    ]
    assert yaml.safe_load((await ask("--by", "user", "-o", "yaml")).out) == body


async def test_what_is_missing_of_a_period_is_told(golden: Any, ask: Asking, reader: FakeReader) -> None:
    reader.postings_begin = int(datetime(2026, 11, 9, tzinfo=UTC).timestamp())
    said = await ask("--by", "workload")
    assert said.err == golden
    assert (await ask("--from", "2026-11-09")).err == ""


def test_nothing_is_rounded_before_it_is_shown(golden: Any) -> None:
    assert [decimal(Fraction(each), 2) for each in (0, "1/3", "-1/3", "2/3", 1000)] == golden["first"]
    assert [unit(each) for each in ("nvidia.com/gpu", "cpu", "memory", "aliyun.com/gpu-mem")] == golden[
        "second"
    ]


async def test_the_forms_of_other_commands_are_those_of_usage_too(ask: Asking) -> None:
    assert (await ask("-o", "name")).out == "queue/dev\nqueue/team-b\nqueue/train\n"
    assert (await ask("--by", "user,queue", "-o", "name")).err.endswith(
        "Error: -o name: what this shows has no names. -o json has all of it.\n"
    )
    assert json.loads((await ask("-o", "json")).out)["totals"][0]["resource"] == GPU
