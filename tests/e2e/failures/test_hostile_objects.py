"""Objects that are written to harm, beside live work of another tenant, through a real API server."""

import json
import random
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pytest

from deploy.local.nodes import NodeShape, node
from queues.api.api_resources import CLAIM_TEMPLATES, RESOURCE_CLAIMS
from tests.builders.hostile_objects import Document, Hostile, hostile_object
from tests.e2e.support.api_paths import path
from tests.e2e.support.gang_kinds import EACH_KIND
from tests.e2e.support.manifests import template_of
from tests.e2e.support.sandbox import Sandbox
from tests.laws.worlds.hostile import json_of
from tests.waiting import LIMIT

OBJECTS: Final = 100
#: Characters of a document: the API server takes half a minute to refuse a pod with many errors in 3,000 containers.
LARGEST: Final = 250_000
#: Characters of most documents, and the share of the others.
SMALL: Final = 5_000
LARGE: Final = 0.1
#: Shares of an object's values that are harmless: the more, the likelier the API server takes it.
HARMLESS: Final = (0.5, 0.8, 0.95)
#: After so many of them the other tenant begins a gang of two pods; its nodes have room for all gangs.
EVERY: Final = 10
#: Of these nodes, so that hostile pods do not fill them.
TAINT: Final = {"key": "gangs-beside", "effect": "NoSchedule"}
BUDGETS: Final = "/apis/policy/v1/namespaces/{}/poddisruptionbudgets"
#: apiVersion, kind and collection of what each informer reads.
KINDS: Final = {
    "pods": ("v1", "Pod", path("Pod", "{}")),
    "jobs": ("batch/v1", "Job", path("batch/v1 Job", "{}")),
    "podgroups": ("scheduling.volcano.sh/v1beta1", "PodGroup", path("PodGroup", "{}")),
    "volcano-jobs": ("batch.volcano.sh/v1alpha1", "Job", path("Job", "{}")),
    "poddisruptionbudgets": ("policy/v1", "PodDisruptionBudget", BUDGETS),
    **{
        each.plural: (each.api_version, each.kind, each.path("{}"))
        for each in (CLAIM_TEMPLATES, RESOURCE_CLAIMS)
    },
}


class Attacker:
    """Writes hostile objects into a namespace of its own, with a node and a queue that its work may fill."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.api, self.namespace = sandbox.api, f"{sandbox.name}-attack"
        sandbox.add_queue()
        self.queue = sandbox.add_queue("attack", capability={"pods": "20"})
        #: Answers of the API server, by status.
        self.answers: Counter[int] = Counter()
        #: The last answer about objects that are still there.
        self.left = b""
        self._chance = random.Random(7)
        self._harmless = HARMLESS[0]
        self._numbers = iter(range(10**6))
        self.node = node(0, NodeShape(gpus=0), self.namespace)
        self.api.create(path("Node", ""), self.node)
        head = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
        self.api.create(path("Namespace", ""), head)

    def send(self, count: int) -> None:
        """So many objects, few of them large; what the API server refuses does no harm."""
        for number in (next(self._numbers) for _ in range(count)):
            self._harmless = self._chance.choice(HARMLESS)
            largest = LARGEST if self._chance.random() < LARGE else SMALL
            while not self.post(hostile_object(self._pick, f"h{number}", by_users=True), largest):
                pass

    def post(self, each: Hostile, largest: int = LARGEST) -> bool:
        """Create an object, unless it has more characters; false: it has."""
        body = self._body(each)
        if len(body) > largest:
            return False
        try:
            # The client sends text as Latin-1.
            answer = self.api.send(
                "POST", KINDS[each.informer][2].format(self.namespace), body.encode().decode("latin-1")
            )
            answer.read()
            self.answers[answer.status] += 1
        except OSError:  # it is busy with that object for longer than the client waits
            self.api.close()
            self.answers[0] += 1
        return True

    def _body(self, each: Hostile) -> str:
        version, kind, _ = KINDS[each.informer]
        document = {"apiVersion": version, "kind": kind, **each.document}
        metadata = dict(document.pop("metadata"))
        for field in ("uid", "resourceVersion", "creationTimestamp", "generation"):
            metadata.pop(field)
        document["metadata"] = {**metadata, "namespace": self.namespace}
        document.pop("status", None)
        if each.informer == "jobs":
            document["spec"] = {**document["spec"], "suspend": True}
        body = json_of(document).decode()
        words = {"nvidia.com/gpu": "example.org/gpu", '"o0"': json.dumps(self.node["metadata"]["name"])}
        for word, other in {**words, '"hostile"': json.dumps(self.queue)}.items():
            body = body.replace(word, other)
        return body

    def _pick(self, options: Sequence[Any]) -> Any:
        """The harmless first one some of the time: an object with an error in every field is refused as a whole."""
        return options[0] if self._chance.random() < self._harmless else self._chance.choice(options)

    def leave(self, sandbox: Sandbox) -> None:
        """Delete everything; pods at once: Kubernetes takes a minute for those on nodes that do not exist."""
        for kind in ("volcano-jobs", "jobs", "pods"):
            sandbox.wait(lambda kind=kind: self._delete(kind), f"{kind} to be deleted")  # type: ignore[misc]
        self.api.delete(path("Namespace", "", self.namespace))
        for kind in ("pods", "jobs", "volcano-jobs"):
            try:
                sandbox.wait(
                    lambda kind=kind: self._is_empty(kind),  # type: ignore[misc]
                    f"the last {kind} of the attacker to go",
                )
            finally:
                print(f"last {kind}: {self.left[:2000]!r}")
        self.api.delete(path("Node", "", self.node["metadata"]["name"]))

    def _delete(self, kind: str) -> bool:
        """Delete all of a kind; false: the API server refuses one, or is busy for longer than the client waits."""
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        now = {**options, "gracePeriodSeconds": 0} if kind == "pods" else options
        try:
            answer = self.api.send("DELETE", KINDS[kind][2].format(self.namespace), json.dumps(now))
            said = answer.read()
        except OSError:
            self.api.close()
            return False
        if answer.status != 200:
            print(f"{kind} are not deleted ({answer.status}): {said[:4000]!r}")
        return answer.status == 200

    def _is_empty(self, kind: str) -> bool:
        # As text: what is nested too deeply for Muster's decoder is so for this one too.
        answer = self.api.send("GET", KINDS[kind][2].format(self.namespace) + "?limit=1")
        self.left = answer.read()
        return b'"items":[]' in self.left


@pytest.fixture
def attacker(sandbox: Sandbox) -> Iterator[Attacker]:
    attacker = Attacker(sandbox)
    yield attacker
    attacker.leave(sandbox)


def test_hostile_objects_stop_nobody_and_end_no_term(sandbox: Sandbox, attacker: Attacker) -> None:
    for name in sandbox.add_nodes(4):
        sandbox.api.merge(path("Node", "", name), {"spec": {"taints": [TAINT]}})
    before = term(sandbox)
    for known in worst():
        attacker.post(known)
    for number in range(OBJECTS // EVERY):
        attacker.send(EVERY)
        sandbox.add(*gang(sandbox, f"gang-{number}", number))
    sandbox.wait_running("gang-", 2 * (OBJECTS // EVERY))
    assert term(sandbox) == before
    assert attacker.answers[201] > OBJECTS // 6, attacker.answers


def gang(sandbox: Sandbox, name: str, number: int) -> list[Document]:
    """Two pods that may use the nodes, as each kind in turn."""
    documents = EACH_KIND[number % len(EACH_KIND)](sandbox, name, 2, 1)
    for each in documents:
        if each["kind"] != "PodGroup":
            template_of(each)["spec"]["tolerations"] = [{**TAINT, "operator": "Exists"}]
    return documents


def worst() -> list[Hostile]:
    """Objects that once stopped all admission, or led Muster astray."""
    running: Document = {"containers": [{"name": "c", "image": "i"}], "nodeName": "o0"}
    deep = b'{"a":' * 5000 + b"1" + b"}" * 5000
    template = {"spec": {"containers": running["containers"]}, "deep": deep}
    task = {"name": "w", "replicas": 1, "template": template}
    said = (
        {"volcano.sh/queue-name": "".join(f"{number:x}." for number in range(3000))},
        {"volcano.sh/task-index": "3000000000"},
        {"volcano.sh/task-index": "2000000000", "scheduling.k8s.io/group-name": "worst-group"},
        {"muster.dev/run-time": "9" * 400 + "h"},
        {"muster.dev/run-time": "9" * 100_000},
    )
    return [
        Hostile(
            "podgroups", {"metadata": _named("worst-group"), "spec": {"minMember": 1, "queue": "hostile"}}
        ),
        *(
            Hostile("pods", {"metadata": {**_named(f"worst-{number}"), "annotations": each}, "spec": running})
            for number, each in enumerate(said)
        ),
        Hostile(
            "podgroups",
            {"metadata": _named("worst-way"), "spec": {"minMember": 1, "queue": "worker/2000000000"}},
        ),
        Hostile(
            "volcano-jobs", {"metadata": _named("worst-job"), "spec": {"queue": "hostile", "tasks": [task]}}
        ),
    ]


def _named(name: str) -> Document:
    return {"name": name, "uid": "", "resourceVersion": "", "creationTimestamp": "", "generation": 1}


def term(sandbox: Sandbox) -> str:
    """The term in which Muster leads, as its metrics say."""
    with urllib.request.urlopen(f"{sandbox.stack.replicas[0].http}/metrics", timeout=LIMIT) as answer:
        lines = answer.read().decode().splitlines()
    return next(line for line in lines if line.startswith("muster_term "))
