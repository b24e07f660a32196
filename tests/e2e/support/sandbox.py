"""A test's own part of the shared cluster: namespace, nodes, queues, and questions about them.

Nodes carry the sandbox's label and every pod of the sandbox selects it, so that tests do not feel one another.
"""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from deploy.local.client import LocalClient
from deploy.local.nodes import HOST, RACK, NodeShape, node
from deploy.local.stack import Stack
from queues.errors import ApiError
from tests.cluster_faults import kubectl_muster
from tests.e2e.support.api_paths import Document, condition, kind_of, path
from tests.e2e.support.ledger_queries import LedgerQueries
from tests.e2e.support.pod_history import PodHistory
from tests.e2e.support.pod_history_laws import breaches
from tests.waiting import until

#: Label of nodes: the sandbox they belong to.
SANDBOX = "sandbox"

GPU = "nvidia.com/gpu"
RBAC = "rbac.authorization.k8s.io"


@dataclass(slots=True)
class Sandbox:
    """One test's part of the cluster."""

    name: str
    stack: Stack
    api: LocalClient
    ledger: LedgerQueries
    history: PodHistory
    nodes: list[str] = field(default_factory=list)
    gone_nodes: list[str] = field(default_factory=list)
    queues: list[str] = field(default_factory=list)
    priority_classes: list[str] = field(default_factory=list)
    #: Paths of ClusterRoleBindings.
    bindings: list[str] = field(default_factory=list)

    def open(self) -> None:
        self.api.create(
            path("Namespace", ""),
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.name}},
        )

    def _delete_all(self, kind: str) -> None:
        how = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        self.api.request("DELETE", path(kind, self.name), how)

    def _are_pods_gone(self) -> bool:
        pods = self.pods()
        if any("deletionTimestamp" not in each["metadata"] for each in pods):
            self._delete_all("Pod")  # one was being made again when all were deleted
        return not pods

    def close(self) -> None:
        """Take everything back; the ledger must say that nothing is held."""
        for kind in ("CronJob", "JobFlow", "JobTemplate", "Job", "batch/v1 Job", "PodGroup", "Pod"):
            self._delete_all(kind)
        self.wait(self._are_pods_gone, f"the last pods of {self.name} to go")
        self.wait_free()
        for name in reversed(self.queues):
            self.api.delete(path("Queue", "", name))
        for name in set(self.nodes) - set(self.gone_nodes):
            self.api.delete(path("Node", "", name))
        for name in self.priority_classes:
            self.api.delete(path("PriorityClass", "", name))
        for binding in self.bindings:
            self.api.delete(binding)
        self.api.delete(path("Namespace", "", self.name))
        broken = breaches(self.history.of(self.name))
        assert not broken, broken

    # ── what there is ───────────────────────────────────────────────────────────────────────────────────────

    def add_nodes(self, count: int, *, gpus: int = 8, nodes_per_rack: int = 2, **labels: str) -> list[str]:
        """More nodes; racks have names of the sandbox's own.

        The API server taints every node that is new, and the node controller lifts that from one after the other.
        All are without it when this returns: else the first decision sees some and not others.
        """
        shape = NodeShape(
            gpus=gpus,
            nodes_per_rack=nodes_per_rack,
            racks_per_block=2,
            labels=((SANDBOX, self.name), *labels.items()),
        )
        first = len(self.nodes)
        added = [node(index, shape, self.name) for index in range(first, first + count)]
        for document in added:
            self.api.create(path("Node", ""), document)
        names = [document["metadata"]["name"] for document in added]
        self.nodes += names
        self.wait(lambda: not any(map(self._is_new, names)), f"{names} to be taken in by Kubernetes")
        return names

    def _is_new(self, name: str) -> bool:
        taints = self.api.get(path("Node", "", name))["spec"].get("taints", ())
        return any(taint["key"] == "node.kubernetes.io/not-ready" for taint in taints)

    def add_queue(self, suffix: str = "", **spec: Any) -> str:
        """A queue named after the sandbox, and ready: Muster has taken it in."""
        name = f"{self.name}-{suffix}" if suffix else self.name
        self.api.create(
            path("Queue", ""),
            {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "Queue",
                "metadata": {"name": name},
                "spec": spec,
            },
        )
        self.queues.append(name)
        return name

    def add_priority_class(self, value: int, **fields: Any) -> str:
        """A PriorityClass that the API server lets pods name; its name."""
        name = f"{self.name}-{value}"
        meta = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
        self.api.create(path("PriorityClass", ""), {**meta, "value": value, **fields})
        self.priority_classes.append(name)
        self.wait(lambda: self._is_known_class(name), f"the API server to know the class {name}")
        return name

    def _is_known_class(self, name: str) -> bool:
        spec = {"priorityClassName": name, "containers": [{"name": "c", "image": "i"}]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "first"}, "spec": spec}
        try:
            self.api.create(path("Pod", self.name) + "?dryRun=All", pod)
        except ApiError as error:
            if error.facts["status"] == 403:
                return False
            raise
        return True

    def add(self, *documents: Document) -> list[Document]:
        """Create objects in the sandbox."""
        return [self.api.create(path(kind_of(each), self.name), each) for each in documents]

    def get(self, kind: str, name: str) -> Document:
        found: Document = self.api.get(path(kind, self.name, name))
        return found

    def phase(self, kind: str, name: str) -> str:
        """What an object's status says; empty: nothing yet."""
        status = self.get(kind, name).get("status", {})
        return str(status.get("state", status).get("phase", ""))

    def wait_phase(self, kind: str, name: str, phase: str) -> None:
        self.wait(lambda: self.phase(kind, name) == phase, f"{kind} {name} to be {phase}")

    def told(self, kind: str, name: str) -> str:
        """Everything that an object's status says, as text."""
        return json.dumps(self.get(kind, name).get("status", {}))

    def job_is(self, name: str, type_: str) -> bool:
        """Whether a batch/v1 Job has a condition."""
        return condition(self.get("batch/v1 Job", name), type_).get("status") == "True"

    def find(self, kind: str, name: str) -> Document | None:
        """An object, None if there is none."""
        try:
            return self.get(kind, name)
        except ApiError as error:
            if error.facts["status"] == 404:
                return None
            raise

    def merge(self, kind: str, name: str, change: Document) -> Document:
        changed: Document = self.api.merge(path(kind, self.name, name), change)
        return changed

    def delete(self, kind: str, name: str, *, now: bool = False) -> None:
        """Delete an object and what belongs to it."""
        options: Document = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
        }
        if now:
            options["gracePeriodSeconds"] = 0
        self.api.request("DELETE", path(kind, self.name, name), options)

    # ── what happens ────────────────────────────────────────────────────────────────────────────────────────

    def pods(self, prefix: str = "") -> list[Document]:
        """Pods whose name begins so, by name."""
        items: list[Document] = self.api.get(path("Pod", self.name))["items"]
        mine = [pod for pod in items if pod["metadata"]["name"].startswith(prefix)]
        return sorted(mine, key=lambda pod: str(pod["metadata"]["name"]))

    def running(self, prefix: str = "") -> list[Document]:
        """Pods that run now and are not on their way out."""
        return [
            pod
            for pod in self.pods(prefix)
            if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
        ]

    def wait_running(self, prefix: str, count: int) -> list[Document]:
        """Until exactly so many pods run; they are returned."""
        self.wait(lambda: len(self.running(prefix)) == count, f"{count} pods {prefix}* to run")
        return self.running(prefix)

    def nodes_of(self, prefix: str = "") -> dict[str, str]:
        """Pod → node, of pods that are bound now."""
        return {
            pod["metadata"]["name"]: pod["spec"]["nodeName"]
            for pod in self.pods(prefix)
            if pod["spec"].get("nodeName")
        }

    def remove_node(self, name: str) -> None:
        """The node's object goes, as when a machine is taken out of the cluster."""
        self.api.delete(path("Node", "", name))
        self.gone_nodes.append(name)

    def bind(self, user: str, role: str, namespace: str = "") -> None:
        """Give a user a ClusterRole: in a namespace, else everywhere, until the sandbox is closed."""
        where = f"namespaces/{namespace}/rolebindings" if namespace else "clusterrolebindings"
        binding = {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
            "metadata": {"name": f"{user}-{role}"},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
        }
        self.api.create(f"/apis/{RBAC}/v1/{where}", binding)
        if not namespace:
            self.bindings.append(f"/apis/{RBAC}/v1/{where}/{user}-{role}")

    def somebody(self, user: str) -> Path:
        """A kubeconfig of a user who may do what members of a team may: ``edit`` in this namespace."""
        self.bind(user, "edit", self.name)
        return self.stack.cluster.kubeconfig_for(user)

    def as_user(self, user: str) -> LocalClient:
        """A client of such a user."""
        return LocalClient(self.somebody(user))

    def racks(self, nodes: Iterable[str]) -> set[str]:
        """Racks of these nodes."""
        return {str(self.api.get(path("Node", "", name))["metadata"]["labels"][RACK]) for name in set(nodes)}

    def wait(self, holds: Callable[[], bool], what: str) -> None:
        """``until``, with the sandbox's state in the message."""

        def holds_or_ended() -> bool:
            ended = [replica.name for replica in self.stack.replicas if not replica.process.running]
            assert not ended, f"{what}: {ended[0]} has ended"
            return holds()

        try:
            until(holds_or_ended, what)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.state()}") from None

    def state(self) -> str:
        """The sandbox in words, for messages."""
        lines = [
            f"{pod['metadata']['name']} {pod['metadata']['uid'][:8]} {pod['status'].get('phase')}"
            f" on {pod['spec'].get('nodeName')}, deleted at {pod['metadata'].get('deletionTimestamp')}"
            for pod in self.pods()
        ]
        kwok = self.stack.cluster.log_file("kwok").read_text(errors="replace").splitlines()
        lines += [f"kwok: {line}" for line in kwok if self.name in line][-10:]
        reasons = [f"{name}: {code}: {message}" for name, code, message in self.ledger.reasons(self.name)]
        log = (
            self.stack.replicas[0].log.read_text(errors="replace").splitlines()[-15:]
            if self.stack.replicas
            else []
        )
        return "\n".join([*lines, *reasons, *log])

    # ── what the ledger say ──────────────────────────────────────────────────────────────────────────────────

    def held(self) -> dict[str, int]:
        """Everything that the sandbox's queues and nodes hold in the ledger; empty: exactly nothing."""
        return self.ledger.held(self.queues, self.nodes)

    def wait_free(self) -> None:
        """Until the ledger says that nothing is held."""
        self.wait(lambda: self.held() == {}, f"everything of {self.name} to come back")

    def reason(self, name: str) -> tuple[str, str]:
        """(code, message) of what waits; ("", "") if it does not."""
        for workload, code, message in self.ledger.reasons(self.name):
            if workload == name:
                return code, message
        return "", ""

    def wait_reason(self, name: str, code: str) -> str:
        """Until a workload waits for this reason; its message."""
        self.wait(lambda: self.reason(name)[0] == code, f"{name} to wait because of {code}")
        return self.reason(name)[1]

    def explain(self, name: str) -> str:
        """What ``kubectl muster explain`` tells."""
        return kubectl_muster(self.stack, "explain", name, "-n", self.name)


_numbers = count(1)


def name_from(test: str) -> str:
    """A sandbox's name from a test's: short enough for labels, telling, and never used twice."""
    words = re.sub(r"[^a-z0-9]+", "-", test.removeprefix("test_").lower())
    return f"{words[:30].strip('-')}-{next(_numbers)}"


__all__ = ["GPU", "HOST", "RACK", "SANDBOX", "Sandbox"]
