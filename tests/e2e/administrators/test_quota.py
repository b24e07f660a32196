"""An administrator of queues changes quota with kubectl muster; who may see a queue, sees who did what and why."""

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from deploy.local.client import LocalClient
from tests.console_sessions import Exchange, exchanges
from tests.e2e.support.api_paths import path
from tests.e2e.support.manifests import volcano_job
from tests.e2e.support.sandbox import GPU, Sandbox

RBAC = "rbac.authorization.k8s.io"
PAGE = list(exchanges(Path("docs/how-to/queues-and-quotas.md")))
BINDINGS = f"/apis/{RBAC}/v1/clusterrolebindings"
ROLES = f"/apis/{RBAC}/v1/clusterroles"


class Person:
    """A user with a ClusterRole, at a terminal."""

    def __init__(self, sandbox: Sandbox, name: str, role: str) -> None:
        self.name = name
        self._stack = sandbox.stack
        self._kubeconfig = sandbox.stack.cluster.kubeconfig_for(self.name)
        sandbox.api.create(BINDINGS, self.binding(role))

    def binding(self, role: str) -> dict[str, Any]:
        """The binding of this user to a ClusterRole."""
        return {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": self.name},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": self.name}],
        }

    def says(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """``kubectl muster`` in this checkout."""
        plugin: list[str | Path] = [sys.executable, "-m", "admission.cli.kubectl_muster", *words]
        return self._stack.run([*plugin, "--kubeconfig", self._kubeconfig], check=False)

    def does(self, *words: str) -> str:
        """As ``says``, for what has to work: its output."""
        done = self.says(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def work(self, queue: str) -> tuple[int, int]:
        """Workloads of a queue that run, and that wait."""
        (shown,) = json.loads(self.does("queue", "get", queue, "-o", "json"))["items"]
        return shown["admitted"], shown["pending"]

    def history(self, queue: str) -> list[dict[str, Any]]:
        """Versions of a queue, the newest first."""
        items: list[dict[str, Any]] = json.loads(self.does("quota", "history", queue, "-o", "json"))["items"]
        return items


@pytest.fixture
def quinn(sandbox: Sandbox) -> Iterator[Person]:
    """An administrator of queues, with the role that comes with Muster."""
    person = Person(sandbox, f"quinn-{sandbox.name}", "muster-queue-admin")
    yield person
    sandbox.api.delete(f"{BINDINGS}/{person.name}")


@pytest.fixture
def vic(sandbox: Sandbox) -> Iterator[Person]:
    """Somebody who looks."""
    person = Person(sandbox, f"vic-{sandbox.name}", "muster-viewer")
    yield person
    sandbox.api.delete(f"{BINDINGS}/{person.name}")


@pytest.fixture
def hal(sandbox: Sandbox) -> Iterator[Person]:
    """Somebody who may see all queues, and change the one that is named after the sandbox and a."""
    rules = [
        {
            "apiGroups": ["scheduling.volcano.sh"],
            "resources": ["queues"],
            "verbs": ["get", "list", "administer"],
        },
        {
            "apiGroups": ["scheduling.volcano.sh"],
            "resources": ["queues"],
            "resourceNames": [f"{sandbox.name}-a"],
            "verbs": ["patch"],
        },
    ]
    role = f"half-{sandbox.name}"
    meta = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": role}}
    sandbox.api.create(ROLES, {**meta, "rules": rules})
    person = Person(sandbox, f"hal-{sandbox.name}", role)
    yield person
    sandbox.api.delete(f"{BINDINGS}/{person.name}")
    sandbox.api.delete(f"{ROLES}/{role}")


@pytest.fixture
def ada(sandbox: Sandbox) -> Iterator[Person]:
    """The administrator of the documentation."""
    person = Person(sandbox, "ada", "muster-queue-admin")
    yield person
    sandbox.api.delete(f"{BINDINGS}/{person.name}")


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
    sandbox: Sandbox, tree: tuple[str, str, str], quinn: Person, vic: Person
) -> None:
    lab, one, other = tree
    sandbox.wait(lambda: vic.says("quota", "history", other).returncode == 0, "the queues to be recorded")
    # The queues are made one after the other, and a busy machine may need seconds for that.
    made = max(datetime.fromisoformat(vic.history(queue)[-1]["at"]) for queue in tree)
    before = (made + timedelta(seconds=1)).isoformat()
    # Times have a grain of a second: the first change is to come after this one.
    sandbox.wait(
        lambda: vic.says("quota", "show", lab, "--at", before).returncode == 0, "a second after the creation"
    )

    told = quinn.does("quota", "move", one, other, "4", "--reason", "a deadline", "--yes")
    assert (deserved(sandbox.api, one), deserved(sandbox.api, other)) == ("4", "12")
    assert f"capability[{GPU}]" in told
    sandbox.wait(lambda: len(vic.history(other)) == 2, "the move to be recorded")
    last = vic.history(other)[0]
    assert (last["what"], last["by"], last["reason"]) == ("changed", quinn.name, "a deadline")
    assert [(each["field"], each["before"], each["after"]) for each in last["changes"]] == [
        (f"deserved[{GPU}]", "8", "12"),
        (f"capability[{GPU}]", "8", "12"),
    ]
    difference = vic.does("quota", "diff", lab, "--from", before, "--no-headers").splitlines()
    assert [line.split() for line in difference] == [
        [one, f"deserved[{GPU}]", "8", "4"],
        [other, f"deserved[{GPU}]", "8", "12"],
        [other, f"capability[{GPU}]", "8", "12"],
    ]

    sandbox.merge("Queue", other, {"spec": {"deserved": {GPU: 11}}})
    sandbox.wait(lambda: len(vic.history(other)) == 3, "the next change to be recorded")
    last = vic.history(other)[0]
    assert (last["by"], last["reason"]) == ("admin", "")
    assert [line.split()[-2:] for line in vic.does("quota", "show", lab).splitlines()][-1] == ["12", "0"]


def test_a_viewer_is_refused_in_one_line_and_a_stranger_sees_nothing(
    sandbox: Sandbox, tree: tuple[str, str, str], vic: Person
) -> None:
    _, one, other = tree
    stranger = sandbox.stack.cluster.kubeconfig_for("stranger")
    for words in (
        ("quota", "set", one, "--deserved", f"{GPU}=4", "--yes"),
        ("quota", "set", one, "--deserved", f"{GPU}=4", "--dry-run=server"),
        ("quota", "move", one, other, "1", "--yes"),
        ("queue", "pause", one),
        ("queue", "delete", one, "--yes"),
    ):
        done = vic.says(*words)
        assert (done.returncode, len(done.stderr.splitlines())) == (1, 1), done.stderr
        assert f"you ({vic.name}) may not" in done.stderr
    assert deserved(sandbox.api, one) == "8"
    sandbox.wait(lambda: vic.says("quota", "history", one).returncode == 0, "the queue to be recorded")

    ask = [sys.executable, "-m", "admission.cli.kubectl_muster", "quota", "history", one]
    done = sandbox.stack.run([*ask, "--kubeconfig", stranger], check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"Error: stranger may not get queue {one}.")


def test_quota_is_not_moved_by_someone_who_may_change_only_one_of_the_queues(
    sandbox: Sandbox, tree: tuple[str, str, str], hal: Person
) -> None:
    _, one, other = tree
    done = hal.says("quota", "move", one, other, "4", "--yes")

    assert done.returncode == 1
    assert f"Change of queue {other}: " in done.stderr
    assert (deserved(sandbox.api, one), deserved(sandbox.api, other)) == ("8", "8")
    assert f"queue {one} changed" in hal.does("quota", "set", one, "--deserved", f"{GPU}=7", "--yes")


def test_what_breaks_the_tree_is_refused_and_a_dry_run_changes_nothing(
    sandbox: Sandbox, tree: tuple[str, str, str], quinn: Person
) -> None:
    lab, one, _ = tree
    done = quinn.says("quota", "set", one, "--guarantee", f"{GPU}=4", "--yes")
    assert done.returncode == 1
    assert f"guarantees of 4 {GPU} of the queues below {lab} together" in done.stderr

    for dry_run in ("client", "server"):
        told = quinn.does("quota", "set", one, "--deserved", f"{GPU}=6", f"--dry-run={dry_run}")
        assert f"queues below {lab}: 16 → 14 deserved {GPU} of 16, 2 left" in told
    assert deserved(sandbox.api, one) == "8"


def test_a_pause_above_is_told_and_a_queue_with_work_is_not_deleted_unasked(
    sandbox: Sandbox, tree: tuple[str, str, str], quinn: Person
) -> None:
    lab, one, other = tree
    sandbox.add_nodes(1)
    sandbox.add(volcano_job(sandbox, "runs", 2, 1, queue=one))
    sandbox.wait_running("runs-", 2)
    assert f"queue {lab} is paused" in quinn.does("queue", "pause", lab, "--reason", "maintenance")
    sandbox.add(volcano_job(sandbox, "waits", 1, 1, queue=one))
    sandbox.wait_reason("waits", "QueuePaused")

    done = quinn.says("queue", "resume", one)
    assert done.stdout == f"queue {one} was not paused itself; nothing was changed\n"
    assert f"queue {lab} above it is paused" in done.stderr
    sandbox.wait(lambda: quinn.work(one) == (1, 1), "the queue to count what it has")
    done = quinn.says("queue", "delete", one, other)
    assert done.stderr.startswith(f"queue {one} has 1 running and 1 waiting workloads\n")
    assert "Say --yes to go on." in done.stderr
    assert sandbox.find("Queue", one) is not None
    assert sandbox.find("Queue", other) is not None
    assert quinn.does("queue", "resume", lab) == f"queue {lab} is not paused any more\n"
    sandbox.wait_running("waits-", 1)


def _without_effects(text: str) -> str:
    effects = ("Nothing would be different now.", "When waiting work should start is not known now.")
    kept = (line for line in text.splitlines() if line not in effects and not line.startswith("Starts were"))
    return "".join(f"{line}\n" for line in kept)


def test_limits_of_users_and_run_times_are_told_with_what_they_end_and_a_misspelt_queue_with_its_name(
    sandbox: Sandbox, quinn: Person, vic: Person
) -> None:
    sandbox.add_nodes(1)
    queue = sandbox.add_queue("a", deserved={GPU: 8})
    sandbox.add(volcano_job(sandbox, "long", 1, 8, queue=queue))
    sandbox.wait_running("long-", 1)

    misspelt = quinn.says("quota", "set", f"{queue}a", "--max-gang", "4", "--yes")
    assert (misspelt.returncode, misspelt.stdout) == (1, "")
    assert misspelt.stderr.startswith(f"Error: There is no queue {queue}a.\nDid you mean {queue}")
    refused = vic.says("quota", "set", queue, "--max-run-time", "1h", "--yes")
    assert (refused.returncode, len(refused.stderr.splitlines())) == (1, 1), refused.stderr

    limits = ("--max-run-time", "1s", "--max-per-user", "gpu=4", "--reason", "short runs only")
    # The role of administrators of queues shows nobody's work, so nothing of it is told.
    blind = quinn.does("quota", "set", queue, *limits, "--dry-run=server")
    assert f"access.maxPerUser[{GPU}]" in blind
    assert "Warning" not in blind
    viewer = f"viewer-{sandbox.name}"
    binding = {**quinn.binding("muster-viewer"), "metadata": {"name": viewer}}
    sandbox.api.create(BINDINGS, binding)
    try:
        warned = (
            "Warning: 1 running workload that you may see has run for longer, and would be ended at once and not "
            f"run again: {sandbox.name}/long"
        )
        sandbox.wait(
            lambda: warned in quinn.does("quota", "set", queue, *limits, "--dry-run=server"),
            "the right to see the work",
        )
    finally:
        sandbox.api.delete(f"{BINDINGS}/{viewer}")
    assert "access" not in sandbox.api.get(path("Queue", "", queue))["spec"]

    quinn.does("quota", "set", queue, *limits, "--yes")
    assert sandbox.api.get(path("Queue", "", queue))["spec"]["access"] == {
        "maxRunTime": "1s",
        "maxPerUser": {GPU: "4"},
    }
    sandbox.wait(lambda: "1s" in vic.does("quota", "show", queue), "the limits to be shown")
    assert vic.does("quota", "show", queue).splitlines()[-1].split()[1:] == ["1s", "-", "-", "4", "gpu"]
    sandbox.wait(lambda: len(vic.history(queue)) == 2, "the change to be recorded")
    last = vic.history(queue)[0]
    assert (last["by"], last["reason"]) == (quinn.name, "short runs only")
    assert ("access.maxRunTime", None, "1s") in {
        (each["field"], each["before"], each["after"]) for each in last["changes"]
    }
    sandbox.wait(lambda: not sandbox.running("long-"), "the work to be ended")


def test_the_commands_of_the_documentation_print_what_it_says(
    sandbox: Sandbox, tenants: None, ada: Person
) -> None:
    assert len(PAGE) == 7
    for exchange in PAGE:
        kubectl, muster, *words = shlex.split(exchange.command)
        assert (kubectl, muster) == ("kubectl", "muster")
        if words[:2] in (["quota", "set"], ["quota", "move"], ["quota", "lend"]):
            # Whether the leader has a forecast, and time to answer, is not what the page is about.
            printed = _without_effects(ada.does(*words))
            expected = Exchange(
                exchange.command, tuple(_without_effects("\n".join(exchange.expected)).splitlines())
            )
            assert expected.matches(printed), printed
        else:  # what was changed is recorded a moment later
            sandbox.wait(
                lambda words=words, exchange=exchange: exchange.matches(ada.says(*words).stdout),  # type: ignore[misc]
                f"{exchange.command} to print what the page says and not {ada.says(*words).stdout}",
            )
