"""``kubectl muster events``, asked of a replica."""

from tests.fakes.fake_reader import FakeReader
from tests.fakes.plugin import Plugin


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
        code, _, err = await ask("-f")
        assert (code, "-f was removed: -w shows the latest decisions" in err) == (2, True)
        code, _, err = await ask("--since", "lately")
        assert code == 2
        assert "--since: found 'lately', expected how long ago" in err
