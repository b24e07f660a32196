"""The rights of the node agents, one by one: with all of them each purpose is served, without its own it is not."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from admission.agent.cluster.api_client import ApiClient
from admission.kube.install.rbac import AGENT, AGENT_ACCOUNT, AGENT_AT_HOME, PolicyRule
from deploy.local.client import LocalClient
from deploy.local.cluster import LocalCluster
from queues.api.api_resources import (
    CLUSTER_ROLES,
    DEVICES,
    LEASES,
    NODES,
    PODS,
    ROLES,
)
from queues.api.names import AGENT_NAMESPACE
from queues.errors import ApiRefused, Conflict, NotFound
from tests.kube.support.agent_account import agent_client, two_nodes
from tests.waiting import until

Ask = Callable[[ApiClient, dict[str, Any]], object]


def _name(node: dict[str, Any]) -> str:
    return str(node["metadata"]["name"])


def _selected(node: dict[str, Any]) -> str:
    return f"spec.nodeName={_name(node)}"


def _owned(node: dict[str, Any]) -> dict[str, Any]:
    owner = {"apiVersion": "v1", "kind": "Node", "controller": True, "blockOwnerDeletion": True}
    device = DEVICES.document(_name(node), spec={"devices": []})
    device["metadata"]["ownerReferences"] = [owner | {key: node["metadata"][key] for key in ("name", "uid")}]
    return device


#: What the agent asks the API server for, by purpose.
PURPOSES: dict[str, list[Ask]] = {
    "read-device": [lambda agent, node: agent.get(DEVICES.path(name=_name(node)))],
    "report-devices": [
        lambda agent, node: agent.create(DEVICES.path(), DEVICES.document(_name(node))),
        lambda agent, node: agent.replace(DEVICES.path(name=_name(node)), DEVICES.document(_name(node))),
    ],
    "watch-node": [
        lambda agent, node: agent.list(NODES.path(), fieldSelector=f"metadata.name={_name(node)}"),
        lambda agent, node: list(agent.watch(NODES.path(), version="0", seconds=1)),
    ],
    "label-node": [
        lambda agent, node: agent.merge(
            NODES.path(name=_name(node)), {"metadata": {"labels": {"muster.dev/gpu-count": "8"}}}
        )
    ],
    "own-by-node": [lambda agent, node: agent.create(DEVICES.path(), _owned(node))],
    "watch-pods": [
        lambda agent, node: agent.list(PODS.path(), fieldSelector=_selected(node)),
        lambda agent, node: list(agent.watch(PODS.path(), version="0", seconds=1)),
    ],
    "beat": [
        lambda agent, node: agent.merge(LEASES.path(AGENT_NAMESPACE, _name(node)), {"spec": {}}),
        lambda agent, node: agent.create(
            LEASES.path(AGENT_NAMESPACE), LEASES.document(_name(node), AGENT_NAMESPACE)
        ),
    ],
}


@dataclass(frozen=True)
class Trial:
    admin: LocalClient
    agent: ApiClient
    node: dict[str, Any]

    def allowed(self, ask: Ask) -> bool:
        try:
            ask(self.agent, self.node)
        except (NotFound, Conflict):
            return True
        except ApiRefused as refused:
            return refused.facts["status"] == 422
        finally:
            self._remove(DEVICES.path(name=_name(self.node)))
        return True

    def has(self, rules: list[PolicyRule]) -> None:
        """Give the agents these rights."""
        for role, known in (
            (CLUSTER_ROLES.path(name=AGENT_ACCOUNT), AGENT),
            (ROLES.path(AGENT_NAMESPACE, AGENT_ACCOUNT), AGENT_AT_HOME),
        ):
            self.admin.merge(role, {"rules": [rule.document() for rule in rules if rule in known]})

    def _remove(self, path: str) -> None:
        try:
            self.admin.delete(path)
        except Exception as error:
            if "404" not in str(error):
                raise


@pytest.fixture(scope="module")
def trial(agents_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    node, _ = two_nodes(agents_cluster)
    folder: Path = tmp_path_factory.mktemp("agent")
    with agents_cluster.client() as admin:
        agent = agent_client(agents_cluster, folder, node)
        one = Trial(admin, agent, node)
        yield one
        one.has([*AGENT, *AGENT_AT_HOME])
        agent.close()


def test_each_right_has_a_purpose_that_is_tried() -> None:
    assert PURPOSES.keys() == {rule.purpose for rule in (*AGENT, *AGENT_AT_HOME)}


@pytest.mark.parametrize("purpose", PURPOSES)
def test_a_purpose_is_served_with_its_right_and_not_without(trial: Trial, purpose: str) -> None:
    rules = [*AGENT, *AGENT_AT_HOME]
    trial.has(rules)
    for ask in PURPOSES[purpose]:
        until(lambda asked=ask: trial.allowed(asked), f"{purpose}, allowed")  # type: ignore[misc]
    trial.has([rule for rule in rules if rule.purpose != purpose])
    for ask in PURPOSES[purpose]:
        until(lambda asked=ask: not trial.allowed(asked), f"{purpose}, refused")  # type: ignore[misc]
