"""What a member of a team sees of workloads and users, with that member's own rights."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.local.client import LocalClient
from deploy.local.stack import Stack
from tests.e2e.support.api_paths import Document, path
from tests.e2e.support.gang_kinds import finish_all
from tests.e2e.support.manifests import grouped, pod_group, volcano_job
from tests.e2e.support.sandbox import GPU, Sandbox

RBAC = "rbac.authorization.k8s.io"


class Asking:
    """``kubectl muster`` of one user."""

    def __init__(self, stack: Stack, kubeconfig: Path) -> None:
        self._stack = stack
        self._kubeconfig = kubeconfig

    def _said(self, words: tuple[str, ...]) -> "subprocess.CompletedProcess[str]":
        plugin = [sys.executable, "-m", "admission.cli.kubectl_muster", *words]
        return self._stack.run([*plugin, "--kubeconfig", self._kubeconfig], check=False)

    def text(self, *words: str) -> str:
        said = self._said(words)
        assert said.returncode == 0, said
        return said.stdout

    def complaint(self, *words: str) -> str:
        """What is said on standard error by a command that fails."""
        said = self._said(words)
        assert (said.returncode, said.stdout) == (1, ""), said
        return said.stderr

    def json(self, *words: str) -> Any:
        return json.loads(self.text(*words, "-o", "json"))

    def jobs(self, *words: str) -> dict[str, dict[str, Any]]:
        return {one["name"]: one for one in self.json("jobs", *words)["items"]}


@pytest.fixture
def elsewhere(sandbox: Sandbox) -> Iterator[str]:
    """Another namespace."""
    name = f"{sandbox.name}-2"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    sandbox.api.create(path("Namespace", ""), namespace)
    yield name
    sandbox.api.delete(path("Namespace", "", name))


def member(sandbox: Sandbox, user: str, *namespaces: str) -> Path:
    """The kubeconfig of a user with the rights of a team's member in these namespaces."""
    for namespace in namespaces:
        sandbox.api.create(
            f"/apis/{RBAC}/v1/namespaces/{namespace}/rolebindings",
            {
                "apiVersion": f"{RBAC}/v1",
                "kind": "RoleBinding",
                "metadata": {"name": user},
                "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "edit"},
                "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
            },
        )
    return sandbox.stack.cluster.kubeconfig_for(user)


def submit(sandbox: Sandbox, kubeconfig: Path, document: Document) -> None:
    """Create a Volcano Job as a user."""
    with LocalClient(kubeconfig) as user:
        user.create(path("Job", sandbox.name), document)


def test_a_user_lists_jobs_from_their_start_to_after_they_are_gone(
    sandbox: Sandbox, whole_stack: Stack, elsewhere: str
) -> None:
    sandbox.add_nodes(1)
    queue = sandbox.add_queue(deserved={GPU: 8})
    alice = Asking(whole_stack, member(sandbox, "alice", sandbox.name, elsewhere))
    submit(sandbox, member(sandbox, "ann", sandbox.name), volcano_job(sandbox, "runs", 2, 3))
    sandbox.wait_running("runs-", 2)
    sandbox.add(pod_group(sandbox, "ring", 1), grouped(sandbox, "ring", "ring-0"))
    sandbox.wait_running("ring-", 1)
    finish_all(sandbox, "ring-")
    sandbox.add(volcano_job(sandbox, "waits", 1, 4))
    sandbox.wait_reason("waits", "NoFit")
    # A group without a live pod waits for nothing.
    sandbox.wait(lambda: "ring" not in alice.jobs("-n", sandbox.name), "the group to have ended")
    ring = alice.jobs("-n", sandbox.name, "--state", "ended")["ring"]
    assert (ring["result"], ring["held"][GPU], ring["gone"]) == ("succeeded", "1", False)
    assert "ring" not in alice.text("pending", "-n", sandbox.name)

    found = alice.jobs("-n", sandbox.name)

    assert {name: one["state"] for name, one in found.items()} == {"runs": "admitted", "waits": "pending"}
    runs = found["runs"]
    assert (runs["user"], runs["held"][GPU], runs["nodes"]) == ("ann", "6", sandbox.nodes)
    assert alice.jobs("-n", sandbox.name, "--user", "ann").keys() == {"runs"}
    assert alice.jobs("-n", sandbox.name, "--mine") == {}
    table = alice.text("jobs", "-n", sandbox.name).splitlines()
    assert table[1].split()[:2] == ["runs", "vcjob"]
    assert "(NoFit)" in table[2]
    users = {one["user"]: one for one in alice.json("who", "-q", queue)["items"]}
    assert (users["ann"]["used"][GPU], users["alice"]["you"]) == ("6", True)

    # A name that is wrong, or in another namespace.
    assert "Did you mean runs?" in alice.complaint("explain", "run", "-n", sandbox.name)
    told = alice.complaint("explain", "runs", "-n", elsewhere)
    assert f"Did you mean runs in namespace {sandbox.name}?" in told

    sandbox.delete("Job", "waits")
    finish_all(sandbox, "runs-")
    sandbox.wait_phase("Job", "runs", "Completed")
    sandbox.wait(
        lambda: alice.jobs("-n", sandbox.name, "--state", "ended").keys() == {"ring", "runs", "waits"},
        "both to be listed",
    )
    sandbox.delete("Job", "runs")
    sandbox.wait(
        lambda: alice.jobs("-n", sandbox.name, "--state", "ended")["runs"]["gone"], "runs to be gone"
    )

    ended = alice.jobs("-n", sandbox.name, "--state", "ended", "--since", "1h")
    assert {name: one["result"] for name, one in ended.items()} == {
        "ring": "succeeded",
        "runs": "succeeded",
        "waits": "deleted",
    }
    assert ended["runs"]["held"][GPU] == "6"
    story = alice.text("explain", "runs", "-n", sandbox.name)
    assert "finished: succeeded; its object is gone" in story
    assert "User      ann" in story
    assert f"2 seats on {sandbox.nodes[0]}" in story
    assert "Ran " in story
    assert "admit" in story
