"""``kubectl muster jobs`` and ``who``, and the story of what is gone, to the letter."""

import json
from pathlib import Path

import pytest
from msgspec import structs

from admission.cli.output import Output
from admission.cli.plugin.jobs import jobs_table
from admission.cli.rendering.terminal import devices
from queues.read_api.bodies import WorkloadList
from tests.fakes.fake_reader import FakeReader
from tests.fakes.plugin import Asking
from tests.fakes.read_api.fake_lists import LISTED
from tests.fakes.read_api.fake_lists import NOW as NOW_TOLD
from tests.tables import with_rows

GOLDEN = Path(__file__).parent / "golden"
NOW = 1_795_000_000


@with_rows("golden", "words")
async def test_the_text_is_the_golden_one(ask: Asking, golden: str, words: str) -> None:
    code, out, err = await ask(words)

    expected = (GOLDEN / f"{golden.replace(' ', '-')}.txt").read_text(encoding="utf-8")
    assert (code, err) == (0, "")
    assert expected == out


async def test_the_jobs_of_a_team_fit_a_terminal_of_80_columns(ask: Asking) -> None:
    _, out, _ = await ask("jobs -n lab")
    assert max(map(len, out.splitlines())) <= 80


async def test_states_and_users_are_asked_for_in_the_words_of_the_read_api(
    ask: Asking, reader: FakeReader
) -> None:
    await ask("jobs -A --state running --state waiting --user ben")
    assert (reader.asked.states, reader.asked.user) == (("admitted", "evicting", "pending"), "ben")
    await ask("jobs -A --state suspended")
    assert reader.asked.states == ("suspended",)
    await ask("jobs -A")
    assert reader.asked.states == ("pending", "admitted", "evicting", "suspended")
    await ask("jobs -A --mine --state ended")
    assert (reader.asked.states, reader.asked.user) == (("finished",), "admin")
    assert reader.asked.since > 0


@with_rows("words", "sentence")
async def test_an_empty_list_says_where_else_there_are_workloads(
    ask: Asking, words: str, sentence: str
) -> None:
    assert await ask(words) == (0, "", sentence + "\n")


async def test_lists_are_fetched_page_by_page(ask: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = await ask("jobs -A --no-headers")
    everybody = await ask("who --no-headers")
    monkeypatch.setattr("admission.cli.access.requests.LARGEST_PAGE", 1)

    assert await ask("jobs -A --no-headers") == whole
    assert await ask("who --no-headers") == everybody
    code, out, err = await ask("jobs -A --limit 2 --no-headers")
    assert (code, len(out.splitlines()), err) == (0, 2, "2 of 4 shown; --limit shows more.\n")


async def test_the_json_is_the_answer_of_the_read_api(ask: Asking) -> None:
    _, out, _ = await ask("jobs -n ml -o json")
    assert [one["name"] for one in json.loads(out)["items"]] == ["bert", "llama-pretrain", "tune-3"]
    _, out, _ = await ask("who -o json")
    assert json.loads(out)["items"][1]["you"] is True


@pytest.mark.parametrize(
    "words", ["jobs -n a -A", "jobs --mine --user x", "jobs --since lately", "jobs --state pending"]
)
async def test_a_wrong_command_line_is_refused(ask: Asking, words: str) -> None:
    code, out, err = await ask(words)
    assert (code, out) == (2, "")
    assert "Traceback" not in err


@with_rows("user", "shown")
def test_names_of_users_are_shortened_where_lines_are_too_long(user: str, shown: str | None) -> None:
    one = structs.replace(LISTED[1], user=user, name="n" * 60)
    body = WorkloadList(now=NOW_TOLD, total=1, total_everywhere=1, items=(one,))

    [line] = jobs_table(body, Output(headers=False), everywhere=False).splitlines()
    assert line.split()[3] == (shown or "-")


@with_rows("taken", "text")
def test_gpus_are_a_number_and_other_devices_have_their_names(
    taken: dict[str, str], text: str | None
) -> None:
    assert devices(taken) == text
