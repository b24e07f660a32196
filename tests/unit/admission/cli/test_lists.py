"""Lists of work: what is asked for, and what is said where there is nothing."""

import json

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


async def test_states_and_users_are_asked_for_in_the_words_of_the_read_api(
    ask: Asking, reader: FakeReader
) -> None:
    await ask("jobs -A --state running --state waiting --user ben")
    assert (reader.asked.states, reader.asked.chosen.user) == (("admitted", "evicting", "pending"), "ben")
    await ask("jobs -A --state suspended")
    assert reader.asked.states == ("suspended",)
    await ask("jobs -A")
    assert reader.asked.states == ("pending", "admitted", "evicting", "suspended")
    await ask("jobs -A --mine --state ended")
    assert (reader.asked.states, reader.asked.chosen.user) == (("finished",), "admin")
    assert reader.asked.since > 0
    for words, namespace in (("jobs --mine", None), ("jobs --mine -n ml", "ml"), ("jobs -n ml", "ml")):
        await ask(words)
        assert reader.asked.namespace == namespace


def test_what_is_suspended_has_left_its_nodes_and_says_how_it_goes_on() -> None:
    stopped = structs.replace(LISTED[0], state="suspended", reason=None, nodes=("n1",), node_count=1)
    body = WorkloadList(now="2026-11-21T10:00:00Z", total=1, total_everywhere=1, items=(stopped,))
    text = jobs_table(body, Output(), everywhere=False)
    assert "n1" not in text
    assert (
        f"`kubectl muster resume {stopped.kind}/{stopped.name} -n {stopped.namespace}` has it wait again"
        in text
    )


def test_what_runs_says_what_else_is_to_be_known_of_it() -> None:
    notes = ("3 of 8 members have succeeded", "It is on hold")
    runs = structs.replace(LISTED[0], state="admitted", reason=None, notes=notes)
    body = WorkloadList(now=NOW_TOLD, total=1, total_everywhere=1, items=(runs,))
    for output in (Output(), Output(form="wide")):
        assert ". ".join(notes) in jobs_table(body, output, everywhere=False)


@with_rows("words", "sentence")
async def test_an_empty_list_says_where_else_there_are_workloads(
    ask: Asking, words: str, sentence: str
) -> None:
    assert await ask(words) == (0, "", sentence + "\n")


async def test_the_json_is_the_answer_of_the_read_api(ask: Asking) -> None:
    _, out, _ = await ask("jobs -n ml -o json")
    assert [one["name"] for one in json.loads(out)["items"]] == ["bert", "llama-pretrain", "tune-3"]
    _, out, _ = await ask("who -o json")
    assert json.loads(out)["items"][1]["you"] is True


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
