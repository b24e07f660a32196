"""``kubectl muster events``, asked of a replica."""

from typing import Any

from tests.fakes.fake_reader import FakeReader
from tests.fakes.plugin import Plugin


async def test_decisions_are_lines_in_time(golden: Any, plugin: Plugin) -> None:
    async with plugin.served(FakeReader(), "events") as ask:
        code, out, err = await ask("-A")
        assert (code, err) == (0, "")
        assert [line.split() for line in out.splitlines()] == golden["first"]
        starts = {line.index(line.split()[2]) for line in out.splitlines()}
        assert len(starts) == 1

        code, out, _ = await ask("-n", "ml", "-o", "name")
        assert (code, out) == (0, "vcjob/bert\n")
        code, out, err = await ask("-n", "nothing")
        assert (code, out) == (0, "")
        assert err == golden["second"]
        code, _, err = await ask("-f")
        assert (code, "-f was removed: -w shows the latest decisions" in err) == (2, True)
        code, _, err = await ask("--since", "lately")
        assert code == 2
        assert "--since: found 'lately', expected how long ago" in err
