"""Limits of users, gangs and run times are set as quota is: told before, with what they do to running work."""

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec import structs

from admission.cli.access.requests import Unanswered
from admission.cli.plugin import quota_set as access_limits
from queues.api.names import CHANGE_REASON
from queues.read_api.bodies import WorkloadList
from tests.fakes.plugin import Asking
from tests.fakes.read_api.fake_lists import LISTED
from tests.unit.admission.cli.plugin.queue_server import GPU, QueueServer

NOW = "2026-11-20T12:00:00Z"
WORK = tuple(
    structs.replace(LISTED[1], name=name, namespace="ml", admitted=admitted)
    for name, admitted in (("old", "2026-11-20T06:00:00Z"), ("new", "2026-11-20T11:00:00Z"))
)


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Mapping[str, str | None]]]:
    """What is asked of the read API, which has two workloads."""
    seen: list[tuple[str, Mapping[str, str | None]]] = []

    def ask(_: Any, path: str, form: Any, query: Mapping[str, str | None]) -> Any:
        seen.append((path, query))
        assert form is WorkloadList
        return WorkloadList(now=NOW, items=WORK, total=len(WORK), total_everywhere=len(WORK))

    monkeypatch.setattr(access_limits, "ask", ask)
    return seen


async def test_limits_are_told_and_written_together_with_quota(server: QueueServer, ask: Asking) -> None:
    code, out, _ = await ask(
        *(
            "quota",
            "set",
            "vision",
            "--deserved",
            "gpu=32",
            "--max-run-time",
            "90m",
            "--max-per-user",
            "gpu=16,cpu=8",
        ),
        *(
            "--max-gang",
            "64",
            "--max-pending",
            "100",
            "--max-pending-per-user",
            "0",
            "--reason",
            "tidy",
            "--yes",
        ),
    )

    assert code == 0
    assert [line.split() for line in out.splitlines()[1:7]] == [
        ["vision", f"deserved[{GPU}]", "64", "→", "32"],
        ["vision", "access.maxRunTime", "-", "→", "1h30m"],
        ["vision", "access.maxGang", "-", "→", "64"],
        ["vision", "access.maxPending", "-", "→", "100"],
        ["vision", "access.maxPendingPerUser", "-", "→", "0"],
        ["vision", f"access.maxPerUser[{GPU}]", "-", "→", "16"],
    ]
    (written,) = server.writes()
    assert written.body["spec"]["access"] == {
        "maxRunTime": "1h30m",
        "maxGang": 64,
        "maxPending": 100,
        "maxPendingPerUser": 0,
        "maxPerUser": {GPU: "16", "cpu": "8"},
    }
    assert written.body["metadata"]["annotations"] == {CHANGE_REASON: "tidy"}


async def test_a_dry_run_tells_what_is_ended(golden: Any, server: QueueServer, ask: Asking) -> None:
    code, out, _ = await ask(
        *("quota", "set", "vision", "--max-run-time", "4h", "--max-per-user", "gpu=8", "--dry-run", "client")
    )

    assert (code, server.writes()) == (0, [])
    told = out.splitlines()[3:]
    assert told == golden


async def test_limits_are_removed_and_the_same_ones_are_no_change(
    server: QueueServer, ask: Asking, asked: list[Any]
) -> None:
    access = {"maxRunTime": "240m", "maxGang": 8, "maxPerUser": {GPU: "8", "cpu": "4"}}
    await server.add("vision", parent="lab", access=access)
    same = await ask(
        "quota", "set", "vision", "--max-run-time", "4h", "--max-gang", "8", "--max-per-user", "gpu=8"
    )
    assert same == (0, "queue vision has these limits already; nothing was changed\n", "")

    code, out, _ = await ask(
        *(
            "quota",
            "set",
            "vision",
            "--max-run-time",
            "none",
            "--max-gang",
            "none",
            "--max-per-user",
            "gpu=",
            "--yes",
        )
    )
    assert (code, asked) == (0, [])
    assert "access.maxRunTime" in out
    assert server.queue("vision")["spec"]["access"] == {"maxPerUser": {"cpu": "4"}}


async def test_root_may_have_limits_of_users_but_no_quota(server: QueueServer, ask: Asking) -> None:
    assert (await ask("quota", "set", "root", "--max-run-time", "72h", "--yes"))[0] == 0
    assert server.queue("root")["spec"]["access"] == {"maxRunTime": "72h"}


async def test_a_limit_is_set_although_its_effect_is_not_known(
    server: QueueServer, ask: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> Any:
        raise Unanswered(status=503, tried="Asking", found="no replica answers", hint="")

    monkeypatch.setattr(access_limits, "ask", refused)
    code, out, _ = await ask("quota", "set", "vision", "--max-run-time", "4h", "--yes")
    assert (code, len(server.writes())) == (0, 1)
    assert "What this does to running work is not known: Asking: no replica answers." in out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("--max-run-time soon", "found 'soon', expected a duration such as 90m, 4h, 1h30m or 2d."),
        ("--max-gang 0", "0 is not in the range 1<=x<=1000000"),
        ("--max-pending -1", "-1 is not in the range"),
        ("--max-per-user 8", "--max-per-user: found '8', expected NAME=AMOUNT[,…]: gpu=32,cpu=128"),
        ("--max-per-user gpx=8", "found resource 'gpx', expected gpu, cpu, memory"),
        ("--max-per-user gpu=8,gpu=9", f"--max-per-user: found {GPU} twice, expected it once."),
    ],
)
async def test_a_wrong_limit_gets_one_clear_line(
    server: QueueServer, ask: Asking, words: str, complaint: str
) -> None:
    code, out, err = await ask("quota", "set", "vision", *words.split(), "--yes")
    assert (code, out, server.writes()) == (2, "", [])
    assert complaint in err


async def test_a_budget_is_set_changed_and_removed_with_its_last_hours(
    server: QueueServer, ask: Asking
) -> None:
    words = ("quota", "set", "vision", "--yes")
    code, _, err = await ask(*words, "--when-spent", "hold")
    assert (code, "expected --budget gpu=HOURS as well" in err) == (2, True)
    code, out, _ = await ask(
        *words, "--budget", "gpu=1000,cpu=500", "--when-spent", "hold", "--reason", "a quarter"
    )
    assert [line.split() for line in out.splitlines()[1:4]] == [
        ["vision", f"budget.hours[{GPU}]", "-", "→", "1000"],
        ["vision", "budget.hours[cpu]", "-", "→", "500"],
        ["vision", "budget.whenSpent", "-", "→", "hold"],
    ]
    budget = {"hours": {GPU: "1000", "cpu": "500"}, "whenSpent": "hold"}
    assert (code, server.queue("vision")["spec"]["budget"]) == (0, budget)
    assert server.queue("vision")["metadata"]["annotations"][CHANGE_REASON] == "a quarter"
    await ask(*words, "--budget", "gpu-")
    assert server.queue("vision")["spec"]["budget"] == {**budget, "hours": {"cpu": "500"}}
    await ask(*words, "--budget", "cpu=")
    assert server.queue("vision")["spec"].get("budget") is None
