"""The commands of the page about ``try`` print what the page says."""

import asyncio
import re
from pathlib import Path

import pytest
import yaml

from admission.cli.command_line import finish
from admission.cli.kubectl_muster import kubectl_muster
from tests.builders.trials.worlds_in_memory import WorldInMemory, batch_job, stored, two_racks
from tests.console_sessions import Exchange, exchanges
from tests.fakes.fake_reader import FakeLeader, FakeReader, served
from tests.fakes.read_api.trial_server import crowded_server

PAGE = Path(__file__).parents[2] / "docs/how-to/try.md"


def busy() -> WorldInMemory:
    """Queue team uses all that it may, and a Job of it waits."""
    world = two_racks()
    for name, pods in (("day", 3), ("night", 1)):
        world.store(stored(batch_job(name, pods, queue="team", gpu=8), name))
        world.settle()
    return world


def write_files() -> None:
    """The Job of the page, and a larger one."""
    (written,) = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    Path("train.yaml").write_text(written)
    large = yaml.safe_load(written)
    large["metadata"]["name"], large["spec"]["parallelism"] = "large", 4
    large["spec"]["completions"] = 4
    Path("large.yaml").write_text(yaml.safe_dump(large))


async def _check_change(
    exchange: Exchange, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A command that changes quota, in the cluster of its own test."""
    async with crowded_server() as server:
        with monkeypatch.context() as patched:
            patched.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path)))
            words = exchange.command.split()[2:]
            code = await asyncio.to_thread(finish, kubectl_muster, "kubectl muster", words)
    printed = capfd.readouterr()
    assert (code, printed.err) == (0, "")
    assert exchange.matches(printed.out), f"$ {exchange.command}\n{printed.out}"


async def test_commands_print_what_the_page_says(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere/config")
    monkeypatch.chdir(tmp_path)
    write_files()
    commands = list(exchanges(PAGE))
    assert len(commands) == 4
    for exchange in commands:
        words = exchange.command.split()
        if words[2] == "quota":
            await _check_change(exchange, capfd, monkeypatch, tmp_path)
            continue
        assert words[:3] == ["kubectl", "muster", "try"]
        world = two_racks() if "-f" in words else busy()
        async with served(FakeReader(), leader=FakeLeader(world)) as url:
            monkeypatch.setenv("MUSTER_SERVER", url)
            code = await asyncio.to_thread(finish, kubectl_muster, "kubectl muster", words[2:])
        printed = capfd.readouterr()
        assert (code, printed.err) == (0, "")
        assert exchange.matches(printed.out), f"$ {exchange.command}\n{printed.out}"
