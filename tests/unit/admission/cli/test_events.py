"""``kubectl muster events``, asked of a replica."""

import asyncio
import json
import os
import signal
import sys

import pytest

from admission.cli.access.read_api import Route
from admission.cli.questions import events as events_module
from admission.read_api.bodies import DecisionList
from tests.fakes.fake_reader import FakeReader, served
from tests.fakes.plugin import Plugin
from tests.waiting import LIMIT


async def test_decisions_are_lines_in_time(plugin: Plugin) -> None:
    async with plugin.served(FakeReader(), "events") as ask:
        code, out, err = await ask("-A")
        assert (code, err) == (0, "")
        assert [line.split() for line in out.splitlines()] == [
            ["TIME", "NAMESPACE", "WORKLOAD", "QUEUE", "WHAT", "WHY"],
            ["2026-11-21T09:51:00Z", "ml", "vcjob/bert", "train", "admit", "4", "seats"],
            [
                "2026-11-21T09:52:00Z",
                "vision",
                "vcjob/yolo",
                "team-b",
                "evict",
                "Preempted:",
                "for",
                "vcjob/ml/tune-3",
            ],
        ]
        starts = {line.index(line.split()[2]) for line in out.splitlines()}
        assert len(starts) == 1

        code, out, _ = await ask("-n", "ml", "-o", "name")
        assert (code, out) == (0, "vcjob/bert\n")
        code, out, err = await ask("-n", "nothing")
        assert (code, out) == (0, "")
        assert err == (
            "No decision in namespace nothing in the last 24h that you may see. "
            "-A shows those of other namespaces.\n"
        )
        code, _, err = await ask("--since", "lately")
        assert code == 2
        assert "--since: found 'lately', expected how long ago" in err


async def test_what_is_followed_ends_by_ctrl_c_and_shows_each_decision_once() -> None:
    async with served(FakeReader()) as url:
        words = ["-m", "admission.cli.kubectl_muster", "events", "-A", "-f", "-o", "json", "--server", url]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": "1"}
        process = await asyncio.create_subprocess_exec(
            sys.executable, *words, env=environment, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        text = b""
        while not text.endswith(b"\n}\n"):
            text += await asyncio.wait_for(process.stdout.read(4096), LIMIT)
        process.send_signal(signal.SIGINT)
        rest = await process.stdout.read()
        assert await process.wait() == 130
        assert rest == b""
        assert [one["name"] for one in json.loads(text)["items"]] == ["bert", "yolo"]


async def test_following_and_watching_exclude_each_other(plugin: Plugin) -> None:
    async with plugin.served(FakeReader(), "events") as ask:
        code, out, err = await ask("-f", "-w")
        assert (code, out) == (2, "")
        assert "-f and -w exclude each other" in err


async def test_what_is_followed_is_asked_for_when_it_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, asked = FakeReader(), []

    class Enough(Exception):
        """The test has seen what it wanted."""

    def ask_thrice(route: Route, path: str, form: object, query: dict[str, str]) -> DecisionList:
        asked.append(query["continue"])
        if len(asked) == 3:
            raise Enough
        reader.mark += "x"  # something more happens
        return DecisionList(now="2026-11-21T10:00:00Z", items=(), continue_=str(len(asked)))

    monkeypatch.setattr(events_module, "ask", ask_thrice)
    monkeypatch.setattr(events_module, "_EVERY", 0.01)
    monkeypatch.setattr(events_module, "_SELDOM", 3600.0)
    monkeypatch.setattr(FakeReader, "mark", "0")
    async with served(reader) as url:
        with pytest.raises(Enough):
            await asyncio.to_thread(events_module._follow, Route(server=url), {}, "7", Silent())
    assert asked == ["7", "1", "2"]


class Silent:
    """Shows nothing."""

    def show(self, body: object) -> None:
        pass
