"""An administrator of queues changes quota with kubectl muster; who may see a queue, sees who did what and why."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.local.client import LocalClient
from tests.console_sessions import Exchange, exchanges
from tests.e2e.support.api_paths import path
from tests.e2e.support.people import Person
from tests.e2e.support.sandbox import GPU, Sandbox

PAGE = list(exchanges(Path("docs/how-to/queues-and-quotas.md")))


def history(person: Person, queue: str) -> list[dict[str, Any]]:
    """Versions of a queue, the newest first."""
    items: list[dict[str, Any]] = person.json("quota", "history", queue)["items"]
    return items


@pytest.fixture
def tenants(sandbox: Sandbox) -> Iterator[None]:
    """The queues of the documentation."""
    sandbox.stack.apply(Path("deploy/examples/queues.yaml"))
    yield
    for name in ("robotics-sim", "robotics-main", "robotics", "vision", "language"):
        sandbox.api.delete(path("Queue", "", name))


@pytest.fixture
def tree(sandbox: Sandbox) -> tuple[str, str, str]:
    """A tenant with two teams."""
    lab = sandbox.add_queue(deserved={GPU: 16})
    one = sandbox.add_queue("a", parent=lab, deserved={GPU: 8})
    return lab, one, sandbox.add_queue("b", parent=lab, deserved={GPU: 8}, capability={GPU: 8})


def deserved(api: LocalClient, queue: str) -> str:
    return str(api.get(path("Queue", "", queue))["spec"]["deserved"][GPU])


def test_who_changed_quota_when_and_why_is_told_to_those_who_may_see_the_queue(
    sandbox: Sandbox, tree: tuple[str, str, str]
) -> None:
    quinn = Person(sandbox, f"quinn-{sandbox.name}", "muster-queue-admin")
    vic = Person(sandbox, f"vic-{sandbox.name}", "muster-viewer")
    lab, one, other = tree
    sandbox.wait(lambda: vic.says("quota", "history", other).returncode == 0, "the queues to be recorded")
    quinn.does("quota", "set", one, "--deserved", "gpu=4", "--reason", "a deadline", "--yes")
    limits = ("--deserved", "gpu=12", "--capability", "gpu=12")
    told = quinn.does("quota", "set", other, *limits, "--reason", "a deadline", "--yes")
    assert (deserved(sandbox.api, one), deserved(sandbox.api, other)) == ("4", "12")
    assert f"capability[{GPU}]" in told
    sandbox.wait(lambda: len(history(vic, other)) == 2, "the change to be recorded")
    last = history(vic, other)[0]
    assert (last["what"], last["by"], last["reason"]) == ("changed", quinn.name, "a deadline")
    assert [(each["field"], each["before"], each["after"]) for each in last["changes"]] == [
        (f"deserved[{GPU}]", "8", "12"),
        (f"capability[{GPU}]", "8", "12"),
    ]

    sandbox.merge("Queue", other, {"spec": {"deserved": {GPU: 11}}})
    sandbox.wait(lambda: len(history(vic, other)) == 3, "the next change to be recorded")
    last = history(vic, other)[0]
    assert (last["by"], last["reason"]) == ("admin", "")
    assert [line.split()[-2:] for line in vic.does("quota", "show", lab).splitlines()][-1] == ["12", "0"]


def _without_trial(text: str) -> str:
    """The text without what the leader says of effects, and of limits that a loan changes."""
    effects = (
        "No workload would start, stop or change now.",
        "When waiting work should start is not known now.",
    )
    kept = (
        line
        for line in text.splitlines()
        if line not in effects
        and not line.startswith("Starts were")
        and not re.match(r"queue \S+: .* → ", line)
    )
    return "".join(f"{line}\n" for line in kept)


def test_the_commands_of_the_documentation_print_what_it_says(sandbox: Sandbox, tenants: None) -> None:
    ada = Person(sandbox, "ada", "muster-queue-admin")
    assert len(PAGE) == 8
    for exchange in PAGE:
        kubectl, muster, *words = shlex.split(exchange.command)
        assert (kubectl, muster) == ("kubectl", "muster")
        if words[:2] in (["quota", "set"], ["quota", "lend"]):
            # Whether the leader has a forecast, and time to answer, is not what the page is about.
            printed = _without_trial(ada.does(*words))
            expected = Exchange(
                exchange.command, tuple(_without_trial("\n".join(exchange.expected)).splitlines())
            )
            assert expected.matches(printed), printed
        else:  # what was changed is recorded a moment later
            sandbox.wait(
                lambda words=words, exchange=exchange: exchange.matches(ada.says(*words).stdout),  # type: ignore[misc]
                f"{exchange.command} to print what the page says and not {ada.says(*words).stdout}",
            )
