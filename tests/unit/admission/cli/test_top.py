"""``kubectl muster top``: one screen."""

import pytest

from tests.fakes.fake_reader import FakeReader
from tests.fakes.plugin import Plugin


async def test_queues_and_what_waits_fit_the_terminal(
    plugin: Plugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with plugin.served(FakeReader(), "top", "--once") as ask:
        code, out, err = await ask()
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
        _, out, _ = await ask()
        assert len(out.partition("\n\n")[2].splitlines()) == 3 + 2
        code, _, err = await ask("-q", "nothing")
        assert code == 1
        assert err.endswith(
            "There is no queue nothing.\nYou may see: dev, lost, root, team-a, team-b, train.\n"
        )
