"""What a change of quota would do to work is told before it is made, and keeps nobody from making it."""

from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from admission.cli.output import Output
from admission.cli.plugin import comparison as quota_trial
from admission.cli.plugin.comparison import effects_text
from queues.read_api.trials import ComparisonBody, DifferenceBody
from tests.builders.trials.worlds_in_memory import GPU
from tests.fakes.fake_api_server import answers, refusal
from tests.fakes.plugin import Asking, Plugin
from tests.fakes.read_api.trial_server import TrialServer, crowded_server
from tests.tables import with_rows


@pytest.fixture
async def server() -> AsyncIterator[TrialServer]:
    async with crowded_server() as server:
        yield server


@pytest.fixture
def ask(plugin: Plugin, server: TrialServer) -> Asking:
    return plugin.at(server)


SET = ("quota", "set", "team", "--deserved", "gpu=24", "--capability", "gpu=24")
LEND = ("quota", "lend", "other", "team", "8", "--until", "2027-02-01")
EFFECTS = """\
Evicted, and would wait: 1
  WORKLOAD    NAMESPACE   QUEUE   PODS   ASKS     REASON
  job/guest   ml          other      2   16 gpu   NoFit
Would start now: 1
  WORKLOAD   NAMESPACE   QUEUE   PODS   ASKS
  job/late   ml          team       1   8 gpu
"""


@pytest.mark.parametrize("words", [SET, LEND])
@pytest.mark.parametrize("how", ["--dry-run=client", "--dry-run=server", "--yes"])
async def test_what_becomes_of_work_is_told_before_each_kind_of_change(
    server: TrialServer, ask: Asking, words: tuple[str, ...], how: str
) -> None:
    code, out, err = await ask(*words, how)
    assert (code, err) == (0, "")
    limits, effects, rest = out.partition(EFFECTS)
    assert (limits[:5].lower(), effects) == ("queue", EFFECTS)
    assert rest.count("\n") == (2 if words is LEND else 1)
    assert bool(server.writes()) is (how == "--yes")


async def test_limits_that_a_loan_changes_are_told_as_they_will_count(ask: Asking) -> None:
    _, out, _ = await ask(*LEND, "--dry-run=client")
    assert out.partition(EFFECTS)[0].splitlines() == [
        f"queue other: deserved {GPU} 8 → 0",
        f"queue team: deserved {GPU} 16 → 24",
        f"queue team: capability {GPU} 16 → 24",
    ]


async def test_it_is_told_before_the_question_whether_to_go_on(server: TrialServer, ask: Asking) -> None:
    code, out, err = await ask(*LEND)
    assert (code, EFFECTS in out, server.writes()) == (1, True, [])
    assert "Add --yes to go on." in err


async def test_try_says_the_same_in_the_same_words(
    server: TrialServer, ask: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUSTER_SERVER", server.muster)
    code, out, _ = await ask("try", "--quota", "team.gpu=24", "--quota", "team.capability.gpu=24")
    assert code == 0
    titles = [line for line in out.splitlines() if line[:1].isupper()]
    assert titles[1:] == [line for line in EFFECTS.splitlines() if line[:1].isupper()]


@pytest.mark.parametrize("words", [SET, LEND])
async def test_it_may_be_left_out(server: TrialServer, ask: Asking, words: tuple[str, ...]) -> None:
    code, out, err = await ask(*words, "--no-trial", "--yes")
    assert (code, err, "Would start" in out) == (0, "", False)
    assert server.writes()
    assert not server.tried


@pytest.mark.parametrize("more", [(), ("--deserved", "gpu=24", "--capability", "gpu=24")])
async def test_limits_of_users_are_no_quota_and_not_tried(
    server: TrialServer, ask: Asking, more: tuple[str, ...]
) -> None:
    code, out, err = await ask("quota", "set", "team", "--max-pending", "20", *more, "--dry-run=server")
    assert (code, "unknown" in out + err) == (0, False), (out, err)
    assert (EFFECTS in out) is bool(more)
    code, out, err = await ask("quota", "set", "root", "--max-pending", "20", "--dry-run=client")
    assert (code, "unknown" in out + err) == (0, False), (out, err)


@with_rows("status", "message", "why")
async def test_where_the_leader_does_not_answer_one_line_says_so_and_the_change_is_made(
    server: TrialServer, ask: Asking, status: int, message: str, why: str
) -> None:
    server.answers = lambda: refusal(status, message, "")
    code, out, err = await ask(*SET, "--yes")
    assert (code, out.splitlines()[-1]) == (0, "queue team changed")
    (line,) = err.splitlines()
    assert line.startswith("Effects on waiting and running work are unknown: ")
    assert why in line


async def test_a_leader_that_says_nothing_is_not_waited_for(
    server: TrialServer, ask: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quota_trial, "_PATIENCE", 0.5)
    server.silent = True
    code, _, err = await ask(*SET, "--yes")
    assert (code, server.deserved()["team"]) == (0, "24")
    assert err.startswith("Effects on waiting and running work are unknown: Asking Muster at ")
    assert err.endswith("no answer within 0.5 seconds.\n")


async def test_a_replica_that_does_not_know_the_question_keeps_nobody_waiting(
    server: TrialServer, ask: Asking
) -> None:
    for body in ({"items": [], "comparison": None}, {"items": []}, []):
        server.answers = lambda body=body: web.json_response(body)  # type: ignore[misc]
        code, _, err = await ask(*SET, "--dry-run=client")
        assert (code, err.count("\n"), "are unknown: " in err) == (0, 1, True)


# -- what is told ---------------------------------------------------------------------------------------------


def workload(name: str | None, what: str = "starts") -> DifferenceBody:
    kind, namespace = (None, None) if name is None else ("job", "ml")
    return DifferenceBody(
        what=what, kind=kind, namespace=namespace, name=name, queue=None, priority=0, pods=1, asks={}
    )


def comparison(*workloads: DifferenceBody, counts: dict[str, int], at_rest: bool = True) -> ComparisonBody:
    return ComparisonBody(changes=(), counts=counts, workloads=workloads, at_rest=at_rest)


def test_what_the_user_may_not_see_has_no_name() -> None:
    found = effects_text(comparison(workload(None, "stops"), counts={"stops": 1}), Output(headers=False))
    assert found.split() == ["Evicted,", "and", "would", "wait:", "1", "another", "workload", "1", "-"]


def test_names_of_others_command_no_terminal() -> None:
    assert "\x1b" not in effects_text(comparison(workload("a\x1b[31m"), counts={"starts": 1}), Output())


def test_where_nothing_differs_that_is_said() -> None:
    nothing = "No workload would start, stop or change now.\n"
    assert effects_text(comparison(counts={}), Output()) == nothing
    found = effects_text(comparison(counts={}, at_rest=False), Output())
    assert found == nothing + "There was more to decide when this was broken off.\n"


# -- what is refused ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [SET, LEND])
async def test_of_a_change_that_would_be_refused_only_that_is_told(
    server: TrialServer, ask: Asking, words: tuple[str, ...]
) -> None:
    for how in ("--dry-run=server", "--yes", "--dry-run=none"):
        server.once("PATCH", answers(403, 'User "vic" cannot patch resource "queues"', "Forbidden"))
        code, out, err = await ask(*words, how)
        assert (code, "Evicted" in out, server.tried, server.writes()) == (1, False, 0, [])
        assert out == ""
        assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (
            "set team --deserved gpu=many --dry-run=client",
            "Change of queue team: spec.deserved[nvidia.com/gpu]: found 'many'",
        ),
        ("lend other team 9 --until 2027-02-01 --yes", f"queue other has 8 {GPU} to lend"),
    ],
)
async def test_what_the_leader_refuses_is_not_written(
    server: TrialServer, ask: Asking, words: str, refusal: str
) -> None:
    code, _, err = await ask("quota", *words.split())
    assert (code, server.writes()) == (1, [])
    assert refusal in err


async def test_what_the_api_server_takes_is_written_though_the_leader_does_not_know_of_it_yet(
    server: TrialServer, ask: Asking
) -> None:
    server.answers = lambda: web.json_response(
        {"error": "Change of queue team: too much", "hint": ""}, status=400
    )
    code, out, err = await ask(*SET, "--yes")
    assert (code, out.splitlines()[-1]) == (0, "queue team changed")
    assert err == "Effects on waiting and running work are unknown: Change of queue team: too much.\n"


async def test_what_the_leader_warns_of_is_told(ask: Asking) -> None:
    code, _, err = await ask("quota", "set", "team", "--deserved", "amd.com/gpu=2", "--dry-run=client")
    assert (code, err) == (0, "Warning: no usable node has amd.com/gpu now.\n")
