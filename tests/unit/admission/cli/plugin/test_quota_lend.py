"""A loan is made in one write, and ended by the same command."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from queues.api.names import CHANGE_REASON
from tests.tables import with_rows
from tests.unit.admission.cli.plugin.queue_server import GPU, QueueServer

Said = tuple[int, str, str]
Asking = Callable[..., Awaitable[Said]]

LATER = "2030-01-01T00:00:00Z"
LEND = ("quota", "lend", "vision", "language", "16", "--until", LATER)
END = ("quota", "lend", "vision", "language", "--end")


def loan(to: str, amount: int | str, until: str = LATER, **more: str) -> dict[str, Any]:
    return {"to": to, "resources": {GPU: str(amount)}, "until": until, **more}


def stated(server: QueueServer, queue: str = "vision") -> list[dict[str, Any]]:
    """The loans of a queue as they are stored."""
    found: list[dict[str, Any]] = server.queue(queue)["spec"].get("loans", [])
    return found


async def test_a_loan_is_one_write_with_its_reason(server: QueueServer, ask: Asking) -> None:
    code, out, err = await ask(*LEND, "--reason", "a deadline", "--yes")

    assert (code, err) == (0, "")
    ends, lent = out.splitlines()
    assert ends.startswith(f"ends by itself at {LATER}, in ")
    assert lent == f"lent 16 {GPU} from vision to language until {LATER}"
    (written,) = server.writes()
    assert written.body["metadata"]["resourceVersion"]
    assert stated(server) == [loan("language", 16, reason="a deadline")]
    assert server.queue("vision")["metadata"]["annotations"] == {CHANGE_REASON: "a deadline"}
    assert server.deserved() == {"root": None, "lab": "128", "vision": 64, "language": "32", "other": None}


async def test_a_loan_is_added_to_those_that_last_and_those_that_have_ended_go(
    server: QueueServer, ask: Asking
) -> None:
    before = [loan("language", 8, "2020-01-01T00:00:00Z"), loan("language", 4)]
    await server.add("vision", parent="lab", deserved={GPU: 64}, loans=before)

    assert (await ask(*LEND, "--yes"))[0] == 0
    assert stated(server) == [loan("language", 4), loan("language", 16)]


async def test_a_loan_of_a_flavor_is_of_the_flavor(server: QueueServer, ask: Asking) -> None:
    code, _, _ = await ask(
        "quota", "lend", "vision", "language", "4", "--for", "12h", "--flavor", "h100", "--yes"
    )

    assert code == 0
    assert [(each["flavor"], each["resources"]) for each in stated(server)] == [("h100", {GPU: "4"})]


@pytest.mark.parametrize("words", ["vision nowhere 1", "nowhere vision 1"])
async def test_a_queue_that_there_is_not_neither_lends_nor_is_lent_to(
    server: QueueServer, ask: Asking, words: str
) -> None:
    code, _, err = await ask("quota", "lend", *words.split(), "--until", LATER, "--yes")
    assert (code, server.seen("PATCH")) == (1, [])
    assert "There is no queue nowhere" in err


@with_rows("words", "complaint")
async def test_a_wrong_command_line_is_answered_with_what_was_found(
    server: QueueServer, ask: Asking, words: str, complaint: str
) -> None:
    code, _, err = await ask("quota", "lend", *words.split())
    assert (code, server.writes()) == (2, [])
    assert complaint in err


async def test_a_loan_is_ended_before_its_time_and_others_stay(server: QueueServer, ask: Asking) -> None:
    await server.add("third", parent="lab", deserved={GPU: 0})
    before = [loan("language", 8), loan("third", 4), loan("language", 2)]
    await server.add("vision", parent="lab", deserved={GPU: 64}, loans=before)
    code, out, _ = await ask(*END, "--reason", "back early", "--yes")

    assert code == 0
    assert out.endswith("the loan from vision to language has ended\n")
    assert stated(server) == [loan("third", 4)]
    assert server.queue("vision")["metadata"]["annotations"] == {CHANGE_REASON: "back early"}


async def test_a_loan_to_a_queue_that_is_gone_can_be_ended(server: QueueServer, ask: Asking) -> None:
    await server.add("vision", parent="lab", deserved={GPU: 64}, loans=[loan("gone", 8)])
    assert (await ask("quota", "lend", "vision", "gone", "--end", "--yes"))[0] == 0
    assert stated(server) == []


async def test_what_is_not_lent_is_not_ended(server: QueueServer, ask: Asking) -> None:
    await server.add("vision", parent="lab", deserved={GPU: 64}, loans=[loan("other", 8)])
    code, _, err = await ask(*END, "--yes")
    assert (code, server.writes()) == (1, [])
    assert err == "Error: Queue vision lends nothing to language now.\nIt lends to other.\n"


@pytest.mark.parametrize("words", [LEND, END])
async def test_without_a_yes_or_in_a_dry_run_nothing_is_lent_or_ended(
    server: QueueServer, ask: Asking, words: tuple[str, ...]
) -> None:
    await server.add("vision", parent="lab", deserved={GPU: 64}, loans=[loan("language", 4)])
    code, _, err = await ask(*words)
    assert (code, "Add --yes" in err) == (1, True)
    sent = server.seen("PATCH")
    code, out, _ = await ask(*words, "--dry-run=client")
    assert (code, "(client dry run)" in out, server.seen("PATCH")) == (0, True, sent)
    code, out, _ = await ask(*words, "--dry-run=server")
    assert (code, "(server dry run)" in out, server.writes()) == (0, True, [])
    assert stated(server) == [loan("language", 4)]


# -- names of resources ---------------------------------------------------------------------------------------


@with_rows("words", "option")
async def test_a_name_that_no_node_can_have_is_refused_with_the_one_that_was_meant(
    server: QueueServer, ask: Asking, words: str, option: str
) -> None:
    code, _, err = await ask(*words.split())
    assert (code, server.writes()) == (2, [])
    expected = "gpu, cpu, memory, ephemeral-storage, pods, hugepages-SIZE, or a device by its whole name"
    assert err.endswith(f"Error: {option}: found resource 'gpx', expected {expected}. Did you mean {GPU}?\n")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("quota set vision --deserved gpu=8", f"vision deserved[{GPU}] 64 → 8"),
        ("quota set vision --deserved GPU=8", f"vision deserved[{GPU}] 64 → 8"),
        ("quota set vision --deserved gpu=", f"vision deserved[{GPU}] 64 → -"),
        ("quota set vision --capability mem=8Gi", "vision capability[memory] - → 8Gi"),
        (
            "quota lend vision language 8 --resource gpu --for 2h",
            f"would lend 8 {GPU} from vision to language",
        ),
        ("reserve vision --resources gpu=8 --from 2h --for 1h", f"created: 8 {GPU} for queue vision"),
    ],
)
async def test_a_short_name_means_the_same_resource_in_every_command(
    server: QueueServer, ask: Asking, words: str, told: str
) -> None:
    kind = "server" if words.startswith("reserve") else "client"
    code, out, err = await ask(*words.split(), "--dry-run", kind)
    assert (code, err) == (0, "")
    assert told in " ".join(out.split())


async def test_a_resource_that_is_named_twice_is_refused(server: QueueServer, ask: Asking) -> None:
    for words in ("quota set vision --deserved", "queue create new --deserved"):
        code, _, err = await ask(*words.split(), f"gpu=8,{GPU}=9")
        assert (code, server.writes()) == (2, [])
        assert err.endswith(f"Error: --deserved: found {GPU} twice, expected it once.\n")


async def test_a_limit_of_a_short_name_that_is_there_can_be_removed(server: QueueServer, ask: Asking) -> None:
    await server.add("language", deserved={"gpu": 8, GPU: 4})
    assert (await ask("quota", "set", "language", "--deserved", "gpu=", "--yes"))[0] == 0
    assert server.queue("language")["spec"]["deserved"] == {GPU: 4}


async def test_root_has_no_limits_to_set(server: QueueServer, ask: Asking) -> None:
    code, _, err = await ask("quota", "set", "root", "--deserved", f"{GPU}=8", "--yes")
    assert (code, server.requests) == (1, [])
    assert err.startswith("Error: Queue root has what the usable nodes can allocate, and no quota to set.")
    assert len(err.splitlines()) == 1
