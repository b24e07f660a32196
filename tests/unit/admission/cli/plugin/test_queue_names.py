"""A queue that there is not gets one answer from every command: which name was meant, or which there are."""

from admission.cli.names import queue_hint
from tests.fakes.fake_api_server import answers
from tests.fakes.plugin import Asking
from tests.tables import with_rows
from tests.unit.admission.cli.plugin.queue_server import QueueServer


@with_rows("words")
async def test_a_misspelt_queue_is_told_with_the_name_that_was_meant(
    server: QueueServer, ask: Asking, words: str
) -> None:
    code, _, err = await ask(*words.split())
    assert (code, err) == (1, "Error: There is no queue visoin.\nDid you mean vision?\n")
    assert server.writes() == []


async def test_a_name_that_a_role_does_not_list_is_told_with_the_name_that_was_meant(
    server: QueueServer, ask: Asking
) -> None:
    server.once("LIST", answers(403, 'queues "visoin" is forbidden', "Forbidden"))
    code, _, err = await ask("queue", "pause", "visoin")
    assert (code, err) == (
        1,
        'Error: Reading queue visoin: queues "visoin" is forbidden.\nDid you mean vision?\n',
    )


def test_without_a_name_alike_some_are_told_and_how_many_more() -> None:
    names = [f"team-{number}" for number in range(12)]
    assert queue_hint("x", names[:2]) == "You may see: team-0, team-1."
    assert queue_hint("x", names).endswith("team-7 and 2 more: `kubectl muster queues`.")
    assert queue_hint("x", []) == "`kubectl muster queues` lists those that you may see."
