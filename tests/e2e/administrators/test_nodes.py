"""Nodes by rack, and workloads by labels, as users with different rights see them."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.local.client import LocalClient
from deploy.local.stack import Stack
from tests.e2e.support.api_paths import path
from tests.e2e.support.manifests import volcano_job
from tests.e2e.support.sandbox import GPU, SANDBOX, Sandbox

RBAC = "/apis/rbac.authorization.k8s.io/v1"


@pytest.fixture
def node_viewers(sandbox: Sandbox) -> Iterator[str]:
    """A user who may list nodes, and nothing else of the cluster."""
    user, name = "nora", f"{sandbox.name}-nodes"
    group = "rbac.authorization.k8s.io"
    rules = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]}]
    sandbox.api.create(
        f"{RBAC}/clusterroles",
        {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules},
    )
    sandbox.api.create(
        f"{RBAC}/clusterrolebindings",
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
        },
    )
    yield user
    for kind in ("clusterrolebindings", "clusterroles"):
        sandbox.api.delete(f"{RBAC}/{kind}/{name}")


def said(stack: Stack, kubeconfig: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    plugin = [sys.executable, "-m", "admission.cli.kubectl_muster", *words]
    return stack.run([*plugin, "--kubeconfig", kubeconfig], check=False)


def items(stack: Stack, kubeconfig: Path, *words: str) -> list[dict[str, Any]]:
    answer = said(stack, kubeconfig, *words, "-o", "json")
    assert answer.returncode == 0, answer
    found: list[dict[str, Any]] = json.loads(answer.stdout)["items"]
    return found


def test_nodes_are_told_by_rack_to_those_who_may_list_them(
    sandbox: Sandbox, whole_stack: Stack, node_viewers: str
) -> None:
    first, second, third = sandbox.add_nodes(3, nodes_per_rack=2)
    sandbox.add_queue(deserved={GPU: 24})
    alice = sandbox.somebody("alice")
    with LocalClient(alice) as user:
        user.create(path("Job", sandbox.name), volcano_job(sandbox, "runs", 1, 6))
    sandbox.wait_running("runs-", 1)
    [held] = set(sandbox.nodes_of("runs-").values())
    mine = ("-l", f"{SANDBOX}={sandbox.name}")
    nora = whole_stack.cluster.kubeconfig_for(node_viewers)

    # Who sees everything is told who sits where; who may list nodes only, how many.
    shown = {one["name"]: one for one in items(whole_stack, whole_stack.cluster.kubeconfig, "nodes", *mine)}
    assert shown.keys() == {first, second, third}
    assert {name: one["free"] for name, one in shown.items()} == {
        name: 2 if name == held else 8 for name in shown
    }
    assert [one["name"] for one in shown[held]["workloads"]["items"]] == ["runs"]
    hidden = {one["name"]: one["workloads"] for one in items(whole_stack, nora, "nodes", *mine)}
    assert hidden[held] == {"items": [], "total": 0, "hidden": 1}

    racks = items(whole_stack, nora, "nodes", "--racks", *mine)
    assert sorted((each["nodes"], each["gpus"]) for each in racks) == [(1, 8), (2, 16)]
    assert sum(each["free"] for each in racks) == 18
    assert sum(each["emptyNodes"] for each in racks) == 2
    table = said(whole_stack, nora, "nodes", *mine).stdout
    assert "Largest gang on " in table
    assert "1 hidden" in table

    # A member of a team may not list nodes at all.
    refused = said(whole_stack, alice, "nodes", *mine)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "may not list nodes; ask a cluster administrator" in refused.stderr


def test_a_user_is_told_which_nodes_the_waiting_gangs_would_need(
    sandbox: Sandbox, whole_stack: Stack
) -> None:
    sandbox.add_nodes(1)
    queue = sandbox.add_queue(deserved={GPU: 64}, capability={GPU: 64})
    alice, bob = sandbox.somebody("alice"), whole_stack.cluster.kubeconfig_for("bob")
    with LocalClient(alice) as user:
        for name, pods in (("two", 2), ("four", 4), ("far-too-many", 9)):
            user.create(path("Job", sandbox.name), volcano_job(sandbox, name, pods, 8))
    for name in ("two", "four", "far-too-many"):
        sandbox.wait_reason(name, "NeverFits")

    # The third has no quota, so nodes would not help it.
    [line] = [each for each in items(whole_stack, alice, "nodes", "--wanted") if each["queue"] == queue]
    assert (line["each"][GPU], line["pods"], line["largest"], line["gangs"]) == ("8", 6, 4, 2)
    assert line["inOne"] is None
    nothing = said(whole_stack, bob, "nodes", "--wanted")
    assert queue not in nothing.stdout
    # More nodes, and nothing is missing.
    sandbox.add_nodes(5)
    sandbox.wait_running("four-", 4)
