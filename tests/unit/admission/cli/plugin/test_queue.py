"""Queues are paused, resumed and deleted, and what is said of it is how it is."""

from collections.abc import AsyncIterator

import pytest
from msgspec import structs

from admission.cli.output import Output
from admission.cli.plugin.queues import overview_table, queue_table
from queues.api.names import CHANGE_REASON
from queues.read_api.bodies import QueueBody
from tests.fakes.fake_api_server import answers
from tests.fakes.fake_reader import queue as shown_queue
from tests.fakes.plugin import Asking, Plugin
from tests.unit.admission.cli.plugin.queue_server import QueueServer

PAUSED = {"paused": True}


@pytest.fixture
async def server() -> AsyncIterator[QueueServer]:
    async with QueueServer() as server:
        await server.add("root")
        await server.add("robotics", policy={"order": "fifo"})
        await server.add("sim", parent="robotics", status={"running": 2, "inqueue": 1, "pending": 4})
        yield server


@pytest.fixture
def queue(plugin: Plugin, server: QueueServer) -> Asking:
    return plugin.at(server, "queue")


async def test_a_queue_is_paused_once_and_resumed_once(server: QueueServer, queue: Asking) -> None:
    assert await queue("pause", "robotics", "--reason", "new firmware") == (
        0,
        "queue robotics is paused; what runs goes on\n",
        "",
    )
    assert server.queue("robotics")["spec"]["policy"] == {"order": "fifo", "paused": True}
    assert server.queue("robotics")["metadata"]["annotations"] == {CHANGE_REASON: "new firmware"}
    assert await queue("pause", "robotics") == (
        0,
        "queue robotics is paused already; nothing was changed\n",
        "",
    )
    assert await queue("resume", "robotics") == (0, "queue robotics is not paused any more\n", "")
    assert server.queue("robotics")["spec"]["policy"] == {"order": "fifo", "paused": False}
    assert await queue("resume", "robotics") == (
        0,
        "queue robotics was not paused; nothing was changed\n",
        "",
    )
    assert len(server.writes()) == 2


@pytest.mark.parametrize("own", [True, False])
async def test_resuming_below_a_paused_queue_says_that_nothing_is_admitted_yet(
    server: QueueServer, queue: Asking, own: bool
) -> None:
    await server.add("robotics", policy=PAUSED)
    await server.add("sim", parent="robotics", policy=PAUSED if own else {})

    code, out, err = await queue("resume", "sim")

    assert code == 0
    assert out == (
        "queue sim is not paused itself any more\n"
        if own
        else "queue sim was not paused itself; nothing was changed\n"
    )
    assert err == (
        "It still admits nothing: queue robotics above it is paused. "
        "`kubectl muster queue resume robotics` ends that.\n"
    )


async def test_pausing_tells_of_a_pause_above(server: QueueServer, queue: Asking) -> None:
    await server.add("root", policy=PAUSED)
    _, out, _ = await queue("pause", "sim")
    assert out == "queue sim is paused; what runs goes on\nqueue root above it is paused too\n"


async def test_new_work_of_a_queue_is_held_back_with_a_reason_until_unhold(
    server: QueueServer, queue: Asking
) -> None:
    assert await queue("hold", "robotics", "--reason", "it moves") == (
        0,
        "queue robotics admits no new work; what runs goes on\n",
        "",
    )
    policy = {"order": "fifo", "hold": {"reason": "it moves"}}
    assert server.queue("robotics")["spec"]["policy"] == policy
    assert await queue("unhold", "sim") == (
        0,
        "queue sim was not on hold itself; nothing was changed\n",
        "It still admits no new work: queue robotics above it is on hold. "
        "`kubectl muster queue unhold robotics` ends that.\n",
    )
    ended = "queue robotics is not on hold any more\n"
    assert await queue("unhold", "robotics", "--reason", "it has moved") == (0, ended, "")
    assert server.queue("robotics")["metadata"]["annotations"]["muster.dev/change-reason"] == "it has moved"
    assert server.queue("robotics")["spec"]["policy"].get("hold") is None
    for reason in ([], ["--reason", " "]):
        code, _, err = await queue("hold", "sim", *reason)
        assert (code, "--reason" in err) == (2, True)


async def test_the_name_of_a_queue_in_the_place_of_a_command_leads_to_the_command_that_shows_it(
    queue: Asking,
) -> None:
    code, _, err = await queue("vision")
    assert code == 2
    assert "; if vision is a queue, kubectl muster queues vision shows it." in " ".join(err.split())


async def test_a_queue_that_is_not_there_cannot_be_paused(queue: Asking) -> None:
    for word in ("pause", "resume"):
        code, out, err = await queue(word, "nowhere")
        assert (code, out) == (1, "")
        assert err.startswith("Error: There is no queue nowhere.\n")


async def test_queues_above_that_the_user_may_not_see_do_not_matter(
    server: QueueServer, queue: Asking
) -> None:
    async def first(server: QueueServer, request: object) -> object:
        return server.list(request)  # type: ignore[arg-type]

    server.once("LIST", first)  # type: ignore[arg-type]
    server.once("LIST", answers(403, "no", "Forbidden"))
    assert await queue("pause", "sim") == (0, "queue sim is paused; what runs goes on\n", "")


async def test_pausing_root_pauses_everything(server: QueueServer, queue: Asking) -> None:
    _, out, _ = await queue("pause", "root")
    assert out == "queue root is paused, and with it all queues; what runs goes on\n"
    assert server.queue("root")["spec"]["policy"] == PAUSED


async def test_a_queue_with_work_is_deleted_only_after_a_question(server: QueueServer, queue: Asking) -> None:
    code, out, err = await queue("delete", "sim", "robotics")

    assert (code, out, server.writes()) == (1, "", [])
    assert err.startswith(
        "queue sim has 3 running and 4 waiting workloads\nWhat runs goes on and counts at root;"
    )
    assert "Add --yes to go on." in err

    code, out, _ = await queue("delete", "sim", "--yes")
    assert (code, out) == (0, "queue sim deleted\n")
    (written,) = server.writes()
    assert written.body["preconditions"] == {"uid": "uid-sim"}


async def test_work_that_its_status_does_not_count_yet_is_asked_for_too(
    server: QueueServer, queue: Asking
) -> None:
    server.shown = (shown_queue("robotics", "root", admitted=1),)
    code, _, err = await queue("delete", "robotics")
    assert (code, server.writes()) == (1, [])
    assert err.startswith("queue robotics has 1 running workload\n")


async def test_an_empty_queue_is_deleted_without_a_question(queue: Asking) -> None:
    assert await queue("delete", "robotics") == (0, "queue robotics deleted\n", "")


async def test_nothing_is_deleted_where_one_of_the_names_is_wrong(server: QueueServer, queue: Asking) -> None:
    code, out, err = await queue("delete", "robotics", "simm")
    assert (code, out, server.writes()) == (1, "", [])
    assert "There is no queue simm" in err


async def test_a_queue_that_is_so_already_is_not_asked_for(server: QueueServer, queue: Asking) -> None:
    by_parent = [{"type": "ClosedByParent", "status": "True"}]
    await server.add("shut", status={"state": "Closing"})
    await server.add("below", parent="shut", status={"state": "Closed", "conditions": by_parent})
    assert await queue("close", "shut") == (0, "queue shut is closed already; nothing was changed\n", "")
    assert await queue("open", "sim") == (0, "queue sim was not closed; nothing was changed\n", "")
    code, out, err = await queue("open", "below")
    assert (code, out) == (0, "queue below was not closed itself; nothing was changed\n")
    assert "queue shut above it is closed" in err
    assert server.writes() == []


async def test_what_may_not_be_asked_for_is_refused_in_words_of_the_command_line(
    server: QueueServer, queue: Asking
) -> None:
    told = 'commands.bus.volcano.sh is forbidden: User "ann" cannot create resource "commands"'
    server.once("POST", answers(403, told, "Forbidden"))
    code, out, err = await queue("close", "sim")
    assert (code, out) == (1, "")
    assert err.startswith(
        "Error: Closing queue sim: you may not create commands.bus.volcano.sh in namespace default"
    )
    assert "the ClusterRole muster-queue-admin has it" in err
    assert "CloseQueue" not in err


async def test_a_queue_below_one_with_work_is_made_only_after_a_question(
    server: QueueServer, queue: Asking
) -> None:
    code, _, err = await queue("create", "deep", "--parent", "sim")
    assert (code, server.writes()) == (1, [])
    assert "queue sim has 3 running and 4 waiting workloads itself, and takes none with deep below it" in err
    assert "Add --yes to go on." in err

    server.once("POST", answers(409, "it was sent", "AlreadyExists"))
    code, _, err = await queue("create", "deep", "--parent", "sim", "--yes")
    assert (code, "it was sent" in err) == (1, True)


@pytest.mark.parametrize("parent", ["robotics", "root"])
async def test_a_queue_below_one_that_takes_no_work_itself_is_made_without_a_question(
    server: QueueServer, queue: Asking, parent: str
) -> None:
    await server.add("robotics", status={"pending": 4})
    server.once("POST", answers(409, "it was sent", "AlreadyExists"))
    assert "it was sent" in (await queue("create", "second", "--parent", parent))[2]


def stopped(*, paused: bool) -> QueueBody:
    return structs.replace(shown_queue("dev", None, state="closed"), paused=paused)


def test_a_queue_that_is_closed_and_paused_says_both() -> None:
    both, closed = stopped(paused=True), stopped(paused=False)
    for shown in (Output(headers=False), Output(form="wide", headers=False)):
        assert " closed,paused " in queue_table([both], shown, resource="pods")
        assert " closed " in queue_table([closed], shown, resource="pods")
    assert "dev (closed,paused)" in overview_table([both], Output(width=80), resource="pods")


async def test_rights_are_asked_for_before_anything_else_is_told_or_asked(
    server: QueueServer, queue: Asking
) -> None:
    told = 'queues.scheduling.volcano.sh is forbidden: User "ann" cannot {} resource "queues" in API group ""'
    for verb, words in (
        ("create", ("create", "deep", "--parent", "sim")),
        ("delete", ("delete", "sim")),
        ("create", ("create", "deep", "--parent", "sim", "--dry-run=server")),
    ):
        server.once("POST" if verb == "create" else "DELETE", answers(403, told.format(verb), "Forbidden"))
        code, out, err = await queue(*words)
        assert (code, out, server.writes()) == (1, "", [])
        assert err.startswith("Error: ")
        assert f"you (ann) may not {verb} queues" in err
        assert "--yes" not in err


async def test_a_dry_run_makes_no_queue(server: QueueServer, queue: Asking) -> None:
    for how in ("server", "client"):
        code, out, err = await queue("create", "deep", "--parent", "sim", "--dry-run", how)
        assert (code, out) == (0, f"queue deep would be created ({how} dry run)\n")
        assert "queue sim has 3 running" in err
        assert server.writes() == []
    assert sum(each.verb == "POST" for each in server.requests) == 1
