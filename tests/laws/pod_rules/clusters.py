"""Small random clusters with a gang whose pods have rules about other pods, as manifests; and where Muster puts it."""

from random import Random
from typing import Any

import msgspec

from admission.decode.nodes import node_fact
from admission.decode.pods import pod_fact
from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.facts.changes import Fact
from admission.facts.cluster import NamespaceFact
from admission.facts.workloads import WorkloadFact
from admission.wire import WireNode, WirePod
from admission.workloads.kinds.volcano_job import WireVolcanoJob, volcano_job_fact
from queues.plan import Reason
from tests.builders.facts import NOW, queue, world
from tests.laws.pod_rules.scheduler_filters import GPU, RULES, Cluster, Manifest

ZONE, RACK, HOST = "topology.kubernetes.io/zone", "topology.muster.dev/rack", "kubernetes.io/hostname"
NAMESPACES = {"ns": {"team": "a"}, "other": {"team": "b"}}
UID = "6b4de2f6-0d0a-4d8f-9d0a-3f1f6a6f1f10"


def a_node(name: str, labels: dict[str, str], gpus: int, taints: list[Manifest] | None = None) -> Manifest:
    return {
        "metadata": {"name": name, "labels": {HOST: name, **labels}},
        "spec": {"taints": taints or []},
        "status": {
            "allocatable": {GPU: str(gpus), "pods": "110", "cpu": "64"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def a_pod(
    name: str, labels: dict[str, str], *, namespace: str = "ns", gpus: int = 1, **spec: Any
) -> Manifest:
    container = {
        "name": "c",
        "image": "i",
        "resources": {"requests": {GPU: str(gpus)}, "limits": {GPU: str(gpus)}},
    }
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": name, "labels": labels},
        "spec": {"containers": [container], **spec},
    }


class Case:
    """A cluster, and a gang that comes to it."""

    def __init__(self, cluster: Cluster, tasks: list[tuple[str, int, Manifest]]) -> None:
        self.cluster, self.tasks = cluster, tasks

    @property
    def pods(self) -> list[Manifest]:
        """The gang's pods, task by task."""
        return [
            {**template, "metadata": {**template["metadata"], "name": f"{name}-{index}"}}
            for name, count, template in self.tasks
            for index in range(count)
        ]


class Drawn(Case):
    """One random case."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self.cluster = Cluster(self._nodes(), NAMESPACES)
        for number in range(self._random.randint(0, 4)):
            self._add_running(number)
        self.tasks = self._tasks()

    def _nodes(self) -> list[Manifest]:
        draw, nodes = self._random, []
        for number in range(draw.randint(2, 6)):
            labels = {ZONE: draw.choice("abc"), RACK: draw.choice("rs"), "pool": draw.choice(("x", "x", "y"))}
            for key in (ZONE, RACK):
                if draw.random() < 0.1:
                    del labels[key]
            taints = [{"key": "kept", "effect": "NoSchedule"}] if draw.random() < 0.1 else []
            nodes.append(a_node(f"n{number}", labels, draw.randint(1, 3), taints))
        return nodes

    def _add_running(self, number: int) -> None:
        draw = self._random
        namespace = draw.choice(("ns", "ns", "ns", "other"))
        labels = {"app": draw.choice(("web", "train", "cache"))}
        spec: dict[str, Any] = {}
        if draw.random() < 0.3:
            spec = {"affinity": {"podAntiAffinity": {RULES: [self._term(foreign=True)]}}}
        pod = a_pod(f"running-{number}", labels, namespace=namespace, gpus=draw.choice((0, 1)), **spec)
        node = draw.choice(self.cluster.nodes)
        used = sum(
            int(c["resources"]["requests"][GPU])
            for p in self.cluster.on(node)
            for c in p["spec"]["containers"]
        )
        if used + int(pod["spec"]["containers"][0]["resources"]["requests"][GPU]) <= int(
            node["status"]["allocatable"][GPU]
        ):
            self.cluster = self.cluster.with_pod(pod, node["metadata"]["name"])

    def _tasks(self) -> list[tuple[str, int, Manifest]]:
        draw = self._random
        tasks = []
        for number in range(draw.choice((1, 1, 2))):
            labels = {"app": draw.choice(("web", "train")), "role": f"t{number}"}
            spec: dict[str, Any] = {}
            for add in draw.sample((self._spread, self._near, self._apart), draw.choice((1, 1, 2))):
                add(spec)
            if draw.random() < 0.2:
                spec["nodeSelector"] = {"pool": "x"}
            if draw.random() < 0.1:
                spec["tolerations"] = [{"key": "kept", "operator": "Exists"}]
            tasks.append((f"t{number}", draw.randint(1, 4 if number == 0 else 2), a_pod("", labels, **spec)))
        return tasks

    def _key(self) -> str:
        return self._random.choice((ZONE, ZONE, RACK, HOST))

    def _selector(self) -> Manifest:
        draw = self._random
        return draw.choice(
            (
                {"matchLabels": {"app": draw.choice(("web", "train", "cache"))}},
                {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "train"]}]},
                {"matchExpressions": [{"key": "role", "operator": "Exists"}]},
                {"matchLabels": {"role": draw.choice(("t0", "t1"))}},
                {},
            )
        )

    def _term(self, *, foreign: bool = False) -> Manifest:
        draw = self._random
        term: Manifest = {"topologyKey": self._key(), "labelSelector": self._selector()}
        if foreign and draw.random() < 0.4:
            of_team = {"namespaceSelector": {"matchLabels": {"team": "a"}}}
            term.update(draw.choice(({"namespaces": ["ns"]}, {"namespaceSelector": {}}, of_team)))
        if draw.random() < 0.15:
            term["matchLabelKeys"] = _other_keys(term, "app")
        elif draw.random() < 0.15:
            term["mismatchLabelKeys"] = _other_keys(term, "role")
        return term

    def _spread(self, spec: dict[str, Any]) -> None:
        draw = self._random
        constraints = []
        for _ in range(draw.choice((1, 1, 2))):
            constraint: Manifest = {
                "topologyKey": self._key(),
                "maxSkew": draw.randint(1, 2),
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": self._selector(),
            }
            if draw.random() < 0.3:
                constraint["nodeAffinityPolicy"] = draw.choice(("Honor", "Ignore"))
            if draw.random() < 0.3:
                constraint["nodeTaintsPolicy"] = draw.choice(("Honor", "Ignore"))
            if draw.random() < 0.2:
                constraint["matchLabelKeys"] = _other_keys(constraint, "role")
            if draw.random() < 0.2:
                constraint["minDomains"] = draw.randint(1, 3)
            constraints.append(constraint)
        spec["topologySpreadConstraints"] = list({each["topologyKey"]: each for each in constraints}.values())

    def _near(self, spec: dict[str, Any]) -> None:
        terms = [self._term(foreign=True) for _ in range(self._random.choice((1, 1, 2)))]
        spec.setdefault("affinity", {})["podAffinity"] = {RULES: terms}

    def _apart(self, spec: dict[str, Any]) -> None:
        terms = [self._term() for _ in range(self._random.choice((1, 1, 2)))]
        spec.setdefault("affinity", {})["podAntiAffinity"] = {RULES: terms}


def _other_keys(term: Manifest, key: str) -> list[str]:
    """The key, unless the selector names it as well: the API server refuses that."""
    return [] if key in repr(term["labelSelector"]) else [key]


def job_of(drawn: Case) -> WorkloadFact:
    """The gang, as a Volcano Job."""
    job = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "v", "namespace": "ns", "uid": UID, "generation": 1},
        "spec": {
            "queue": "team",
            "minAvailable": len(drawn.pods),
            "tasks": [
                {
                    "name": name,
                    "replicas": count,
                    "template": {
                        "metadata": {"labels": template["metadata"]["labels"]},
                        "spec": template["spec"],
                    },
                }
                for name, count, template in drawn.tasks
            ],
        },
    }
    raw = msgspec.json.encode(job)
    return volcano_job_fact(msgspec.json.decode(raw, type=WireVolcanoJob), raw)


def facts_of(drawn: Case) -> list[Fact]:
    """What informers show of the cluster, without the gang."""
    pods = [
        pod_fact(
            msgspec.json.decode(msgspec.json.encode({**pod, "status": {"phase": "Running"}}), type=WirePod),
            None,
        )
        for pod in drawn.cluster.pods
    ]
    nodes = [
        node_fact(msgspec.json.decode(msgspec.json.encode(node), type=WireNode))
        for node in drawn.cluster.nodes
    ]
    namespaces = [NamespaceFact(name=name, labels=labels) for name, labels in NAMESPACES.items()]
    return [queue("team"), *namespaces, *nodes, *pods]


def placed_by_muster(drawn: Case) -> list[str] | Reason:
    """Nodes of the gang's pods, or why it waits."""
    fact = job_of(drawn)
    plan, _ = decide(world([*facts_of(drawn), fact], arrivals={fact.key: 1}).freeze(NOW), Memo())
    if not plan.admits:
        return plan.reasons[fact.key]
    seats = {(seat.pod_set, seat.ordinal): seat.node for seat in plan.admits[0].seats}
    return [seats[name, index] for name, count, _ in drawn.tasks for index in range(count)]
