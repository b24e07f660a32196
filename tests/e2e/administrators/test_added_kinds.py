"""A kind that no project has is added to a running cluster, and its objects wait, run, lose a node, are evicted and end
as any other's; then it goes again."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from deploy.local.client import LocalClient
from deploy.local.stack import Stack
from queues.api.api_resources import CRDS
from tests.builders.added_kinds import WIDGET, definition
from tests.cluster_faults import plugin
from tests.e2e.support.api_paths import Document, condition, path
from tests.e2e.support.gang_kinds import finish_all
from tests.e2e.support.manifests import bare_pod, template
from tests.e2e.support.operators import Operator, Template
from tests.e2e.support.sandbox import Sandbox
from tests.waiting import until


def widget(sandbox: Sandbox, name: str, queue: str) -> Document:
    """A lead, and two workers of a whole node each."""
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name, "labels": {"muster.dev/queue-name": queue}},
        "spec": {
            "lead": {"template": template(sandbox.name, 0)},
            "groups": [{"name": "worker", "replicas": 2, "template": template(sandbox.name, 8)}],
        },
    }


def pods_of(document: Document) -> list[Template]:
    spec = document["spec"]
    groups = [Template(each["name"], each["replicas"], each["template"]) for each in spec["groups"]]
    return [Template("lead", 1, spec["lead"]["template"]), *groups]


@pytest.fixture
def added(whole_stack: Stack, tmp_path: Path) -> Iterator[list[str | Path]]:
    """The kind is added; the arguments by which it was."""
    with whole_stack.cluster.client() as api:
        api.create(CRDS.path(), definition())
    file = tmp_path / "widget.yaml"
    file.write_text(yaml.safe_dump(WIDGET))
    arguments: list[str | Path] = [file, "--kubeconfig", whole_stack.cluster.kubeconfig]
    told = whole_stack.muster("kinds", "add", *arguments).stdout
    assert told.endswith("workloadkind/widget in use\n")
    yield arguments
    with whole_stack.cluster.client() as api:
        api.delete(CRDS.path(name="widgets.example.com"))
        until(lambda: "widgets.example.com" not in _definitions(api), "the definition to go")


def _definitions(api: LocalClient) -> set[str]:
    return {each["metadata"]["name"] for each in api.get(CRDS.path())["items"]}


def test_a_kind_is_added_waits_runs_loses_a_node_is_evicted_ends_and_is_removed(
    sandbox: Sandbox, added: list[str | Path], tmp_path: Path
) -> None:
    stack, kubeconfig = sandbox.stack, added[1:]
    nodes = sandbox.add_nodes(1)
    queue = sandbox.add_queue()
    urgent = sandbox.add_priority_class(1000)
    tried = tmp_path / "tried.yaml"
    tried.write_text(yaml.safe_dump(widget(sandbox, "train", queue)))

    def is_tried() -> bool:
        told = plugin(stack.cluster.kubeconfig, "try", "-f", tried, "-n", sandbox.name).stdout
        return "widget/train" in told

    sandbox.wait(is_tried, "the leader to say what would become of a widget")
    with Operator(sandbox, "Widget", pods_of).playing():
        [made] = sandbox.add(widget(sandbox, "train", queue))
        assert made["spec"]["suspend"] is True
        sandbox.wait(
            lambda: condition(sandbox.get("Widget", "train"), "muster.dev/Admitted").get("status") == "False",
            "the widget to say that it waits",
        )
        assert not sandbox.pods("train-")

        # Whole or not at all: with the second node all of its pods come.
        nodes += sandbox.add_nodes(1)
        before = {pod["metadata"]["uid"] for pod in sandbox.wait_running("train-", 3)}
        assert "widget/" in sandbox.explain("train")

        # A node is lost: what was there runs on another one.
        lost = sandbox.nodes_of("train-worker-0")["train-worker-0"]
        sandbox.remove_node(lost)
        nodes += sandbox.add_nodes(1)
        sandbox.wait(
            lambda: (
                len(sandbox.running("train-")) == 3
                and lost not in sandbox.nodes_of("train-").values()
                and not before >= {pod["metadata"]["uid"] for pod in sandbox.running("train-")}
            ),
            "the widget to run whole without the lost node",
        )

        # It is evicted whole for one that is urgent, and runs again after it.
        sandbox.add(bare_pod(sandbox, "urgent", 8, priorityClassName=urgent))
        sandbox.wait_running("urgent", 1)
        sandbox.wait(lambda: not sandbox.pods("train-"), "all pods of the widget to go")
        assert sandbox.get("Widget", "train")["spec"]["suspend"] is True
        finish_all(sandbox, "urgent")
        sandbox.wait_running("train-", 3)

        finish_all(sandbox, "train-")
        sandbox.api.merge(path("Widget", sandbox.name, "train") + "/status", {"status": {"phase": "Done"}})
        sandbox.wait_free()
    told = stack.muster("kinds", "remove", "widget", *kubeconfig).stdout
    assert "workloadkind/widget deleted" in told
    assert sandbox.find("WorkloadKind", "widget") is None


def test_a_kind_that_is_taken_away_by_force_leaves_seats_to_its_pods_and_stops_nobody(
    sandbox: Sandbox, added: list[str | Path]
) -> None:
    stack, kubeconfig, kind = sandbox.stack, added[1:], path("WorkloadKind", "", "widget")
    sandbox.add_nodes(3)
    queue = sandbox.add_queue()

    def gpus() -> int:
        return sandbox.held().get(f"queue {queue} nvidia.com/gpu", 0) // 1000

    with Operator(sandbox, "Widget", pods_of).playing():
        sandbox.add(widget(sandbox, "train", queue))
        sandbox.wait_running("train-", 3)
        sandbox.api.delete(kind)
        sandbox.wait(
            lambda: condition(sandbox.api.get(kind), "Ready").get("reason") == "Leaving",
            "the kind to say that it is in use still",
        )
        assert "1 workload of it holds seats" in condition(sandbox.api.get(kind), "Ready")["message"]
        # Nothing more of it is admitted.
        sandbox.add(widget(sandbox, "second", queue))
        sandbox.wait_reason("second", "KindLeaving")

        sandbox.api.merge(kind, {"metadata": {"finalizers": None}})
        sandbox.wait(lambda: sandbox.reason("second")[0] == "", "the kind to be out of use")
        sandbox.add(bare_pod(sandbox, "other", 8))
        sandbox.wait_running("other", 1)
        assert gpus() == 24
        assert len(sandbox.running("train-")) == 3
        finish_all(sandbox, "train-")
        sandbox.wait(lambda: gpus() == 8, "the seats of pods that have ended to be given back")

        done = {"status": {"phase": "Done"}}
        sandbox.api.merge(path("Widget", sandbox.name, "train") + "/status", done)

        # Added again, it goes on with what is there.
        assert stack.muster("kinds", "add", *added).stdout.endswith("workloadkind/widget in use\n")
        finish_all(sandbox, "other")
        pods = sandbox.wait_running("second-", 3)
        assert {pod["metadata"]["labels"]["muster.dev/queue-name"] for pod in pods} == {queue}
        finish_all(sandbox, "second-")
        sandbox.api.merge(path("Widget", sandbox.name, "second") + "/status", done)
        sandbox.wait_free()
    stack.muster("kinds", "remove", "widget", *kubeconfig)
