"""Limits are changed as asked, told before, and never over another administrator's change."""

from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web

from queues.api.names import CHANGE_REASON, CHANGED_BY
from tests.fakes.fake_api_server import FakeApiServer, answers, breaks_before_answering
from tests.unit.admission.cli.plugin.queue_server import (
    GPU,
    QueueServer,
    answers_after_all,
    first_does,
)

Said = tuple[int, str, str]
Asking = Callable[..., Awaitable[Said]]


SET = ("quota", "set", "vision", "--deserved", f"{GPU}=72")


async def test_what_changes_is_told_before_it_is_written(server: QueueServer, ask: Asking) -> None:
    code, out, err = await ask(*SET, "--reason", "new nodes", "--yes")

    assert (code, err) == (0, "")
    assert [line.split() for line in out.splitlines()[:2]] == [
        ["QUEUE", "FIELD", "BEFORE", "AFTER"],
        ["vision", f"deserved[{GPU}]", "64", "→", "72"],
    ]
    assert out.splitlines()[2:] == [
        "queue vision changed",
    ]
    assert server.queue("vision")["spec"] == {
        "parent": "lab",
        "deserved": {GPU: "72"},
        "guarantee": {"resource": {GPU: 8}},
    }
    assert server.queue("vision")["metadata"]["annotations"] == {CHANGE_REASON: "new nodes"}
    (written,) = server.writes()
    assert written.body["metadata"]["resourceVersion"]


async def test_a_limit_is_removed(server: QueueServer, ask: Asking) -> None:
    for removal in (f"{GPU}=", f"{GPU}=-", f"{GPU}-"):
        await server.add("language", capability={GPU: "40", "cpu": 8})
        assert (await ask("quota", "set", "language", "--capability", removal, "--yes"))[0] == 0
        assert server.queue("language")["spec"]["capability"] == {"cpu": 8}


async def test_limits_of_a_flavor_are_set_beside_those_of_others(server: QueueServer, ask: Asking) -> None:
    await server.add("vision", flavors=[{"name": "a100", "deserved": {GPU: 8}}])
    assert (await ask(*SET, "--flavor", "h100", "--yes"))[0] == 0
    assert server.queue("vision")["spec"] == {
        "flavors": [{"name": "a100", "deserved": {GPU: 8}}, {"name": "h100", "deserved": {GPU: "72"}}]
    }


async def test_nothing_is_written_where_nothing_changes(server: QueueServer, ask: Asking) -> None:
    code, out, _ = await ask("quota", "set", "vision", "--deserved", f"{GPU}=64", "--yes")
    assert (code, out) == (0, "queue vision has these limits already; nothing was changed\n")
    assert server.writes() == []


async def test_without_a_terminal_nothing_is_changed_unless_the_user_says_yes(
    server: QueueServer, ask: Asking
) -> None:
    code, _, err = await ask(*SET)
    assert (code, "Add --yes" in err) == (1, True)
    assert server.writes() == []


async def test_a_dry_run_of_the_client_sends_nothing_and_one_of_the_server_a_dry_run(
    server: QueueServer, ask: Asking
) -> None:
    code, out, _ = await ask(*SET, "--dry-run=client")
    assert (code, "(client dry run)" in out, server.seen("PATCH")) == (0, True, [])

    code, out, _ = await ask(*SET, "--dry-run=server")
    assert (code, "(server dry run)" in out, server.writes()) == (0, True, [])
    assert {each.query.get("dryRun") for each in server.seen("PATCH")} == {"All"}


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (
            "set vision",
            "Nothing to change: expected --deserved, --guarantee, --capability, --budget or a --max option.",
        ),
        ("set vision --deserved 32", "--deserved: found '32', expected NAME=AMOUNT[,…]"),
        (f"set vision --deserved {GPU}=+8", "expected NAME=AMOUNT[,…]"),
    ],
)
async def test_a_wrong_command_line_is_answered_with_what_was_found(
    server: QueueServer, ask: Asking, words: str, complaint: str
) -> None:
    code, _, err = await ask("quota", *words.split())
    assert (code, server.writes()) == (2, [])
    assert complaint in err


async def test_a_queue_that_there_is_not_is_told_with_one_that_looks_alike(
    server: QueueServer, ask: Asking
) -> None:
    wrong = (1, "", "Error: There is no queue visoin.\nDid you mean vision?\n")
    assert await ask("quota", "set", "visoin", "--deserved", "gpu=8") == wrong
    assert await ask("quota", "lend", "language", "visoin", "8", "--for", "2h") == wrong
    _, _, err = await ask("quota", "set", "zzz", "--deserved", "gpu=8")
    assert err.endswith("There is no queue zzz.\nYou may see: lab, language, other, root, vision.\n")


async def test_a_status_that_changes_meanwhile_does_not_stand_against_a_change(
    server: QueueServer, ask: Asking
) -> None:
    async def running(server: FakeApiServer, _: web.Request) -> None:  # type: ignore[return]
        await server.put(
            "/apis/scheduling.volcano.sh/v1beta1/queues", {**server.queue("vision"), "status": {"running": 3}}
        )  # type: ignore[attr-defined]

    server.once("PATCH", first_does(running))  # type: ignore[arg-type]
    assert (await ask(*SET, "--yes"))[0] == 0
    assert server.deserved()["vision"] == "72"


async def test_another_administrators_change_is_not_written_over(server: QueueServer, ask: Asking) -> None:
    async def other(server: FakeApiServer, _: web.Request) -> None:  # type: ignore[return]
        await server.add("vision", parent="lab", deserved={GPU: 60})  # type: ignore[attr-defined]
        server.queue("vision")["metadata"]["annotations"] = {CHANGED_BY: "bob"}  # type: ignore[attr-defined]

    server.once("PATCH", first_does(other))  # type: ignore[arg-type]
    code, _, err = await ask(*SET, "--yes")

    assert code == 1
    assert "Change of queue vision: bob changed it meanwhile, so nothing was written.\n" in err
    assert server.deserved()["vision"] == 60


async def test_the_same_reason_given_twice_is_told_apart_from_one_left_over(
    server: QueueServer, ask: Asking
) -> None:
    for amount in ("70", "71", "72"):
        await ask("quota", "set", "vision", "--deserved", f"{GPU}={amount}", "--reason", "growth", "--yes")
    reasons = [each.body["metadata"]["annotations"][CHANGE_REASON] for each in server.writes()]
    assert reasons == ["growth", "growth ", "growth"]
    await ask("quota", "set", "vision", "--deserved", f"{GPU}=73", "--yes")
    assert CHANGE_REASON not in server.queue("vision")["metadata"]["annotations"]


@pytest.mark.parametrize("reason", ["x" * 501, "two\nlines"])
async def test_a_reason_is_one_line(server: QueueServer, ask: Asking, reason: str) -> None:
    code, _, err = await ask(*SET, "--reason", reason, "--yes")
    assert (code, server.writes()) == (1, [])
    assert "expected one line of at most 500" in err


async def test_a_user_without_the_right_gets_one_line(server: QueueServer, ask: Asking) -> None:
    forbidden = 'queues "vision" is forbidden: User "vic" cannot patch resource "queues"'
    server.once("PATCH", answers(403, forbidden, "Forbidden"))
    code, _, err = await ask(*SET, "--yes")
    told = "you (vic) may not patch queues; ask a cluster administrator for that right, which the ClusterRole"
    assert (code, err) == (1, f"Error: Change of queue vision: {told} muster-queue-admin has.\n")


async def test_an_outcome_that_is_not_known_is_told(server: QueueServer, ask: Asking) -> None:
    server.once("PATCH", answers_after_all)
    server.once("PATCH", breaks_before_answering)
    code, _, err = await ask(*SET, "--yes")
    assert code == 1
    assert "Change of queue vision: it is not known whether it was made" in err


async def test_a_command_that_was_removed_names_what_to_use_instead(server: QueueServer, ask: Asking) -> None:
    code, _, err = await ask("quota", "move", "vision", "language", "16", "--yes")
    assert (code, server.requests) == (2, [])
    assert 'muster has no command "quota move": kubectl muster quota set FROM' in " ".join(err.split())
