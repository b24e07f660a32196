"""``kubectl muster top``: one screen."""

import asyncio

import pytest

from admission.cli.failures import finish
from admission.cli.kubectl_muster import kubectl_muster
from tests.fakes.fake_reader import FakeReader, served


async def said(capfd: pytest.CaptureFixture[str], url: str, *words: str) -> tuple[int, str, str]:
    line = ("top", "--once", "--server", url, *words)
    code = await asyncio.to_thread(finish, kubectl_muster, "kubectl muster", line)
    out, err = capfd.readouterr()
    return code, out, err


async def test_queues_and_what_waits_fit_the_terminal(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(FakeReader()) as url:
        code, out, err = await said(capfd, url)
        assert (code, err) == (0, "")
        tree, _, waiting = out.partition("\n\n")
        assert tree.splitlines()[0].startswith("QUEUE")
        assert "└─ " in tree
        rows = waiting.splitlines()
        assert rows[0].split()[:3] == ["POSITION", "NAMESPACE", "WORKLOAD"]
        everything = int(rows[-1].split()[0])
        assert len(rows) == everything + 2

        monkeypatch.setenv("LINES", "10")
        monkeypatch.setenv("COLUMNS", "80")
        _, out, _ = await said(capfd, url)
        assert len(out.partition("\n\n")[2].splitlines()) == 3 + 2
        code, _, err = await said(capfd, url, "-q", "nothing")
        assert code == 1
        assert err.endswith(
            "There is no queue nothing.\nYou may see: dev, lost, root, team-a, team-b, train.\n"
        )
