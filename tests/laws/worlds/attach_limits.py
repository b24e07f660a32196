"""Small random clusters whose nodes attach few volumes, as manifests, with gangs that have claims; and an evaluator.

The evaluator says what kube-scheduler's plugins NodeVolumeLimits and VolumeBinding say, from the manifests alone. Of
local volumes a node has some, each for one claim.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from random import Random
from typing import Any, Final

import msgspec

from admission.decode.pods import pod_fact
from admission.decode.volumes import (
    WireCsiNode,
    WireStorageClass,
    WireVolume,
    WireVolumeClaim,
    csi_node_fact,
    storage_class_fact,
    volume_claim_fact,
    volume_fact,
)
from admission.engine.nodes.levels import HOST
from admission.facts.changes import Change, Fact, FactKind
from admission.facts.cluster import NodeFact
from admission.facts.workloads import WorkloadFact
from admission.wire import WirePod
from admission.workloads.kinds.volcano_job import WireVolcanoJob, volcano_job_fact
from admission.world.volumes import KNOWN
from queues import kind_names
from queues.admissions import Admission
from queues.text_format import rfc3339
from queues.workload import WorkloadKey
from tests.builders.facts import NOW, admission, node, queue, released

Manifest = dict[str, Any]
#: Driver and handle.
Volume = tuple[str, str]

DRIVERS: Final = ("block.example", "file.example")
#: A class of volumes that administrators made on nodes.
LOCAL: Final = "local"
NAMESPACE: Final = "ns"


def claimed(*claims: str) -> list[Manifest]:
    """Volumes of a pod: these claims."""
    return [{"name": f"v-{name}", "persistentVolumeClaim": {"claimName": name}} for name in claims]


def made(*classes: str) -> list[Manifest]:
    """Volumes of a pod: one of each of these classes is made for it."""
    return [
        {
            "name": f"e{number}",
            "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": name}}},
        }
        for number, name in enumerate(classes)
    ]


@dataclass
class Case:
    """A cluster and the gangs that come to it. Each pod asks for one GPU."""

    #: GPUs of each node.
    nodes: Mapping[str, int]
    #: Volumes that a node attaches, by driver; a driver may be left out.
    limits: Mapping[str, Mapping[str, int]]
    #: Local volumes of each node: whether a claim may still get it.
    local: Mapping[str, Sequence[bool]] = field(default_factory=dict)
    #: Bound claims: their volumes (driver "" for one of another kind).
    bound: Mapping[str, Volume] = field(default_factory=dict)
    #: Claims that wait for their first pod, with their class. Classes are named after their driver.
    unbound: Mapping[str, str] = field(default_factory=dict)
    #: Volumes of pods that run without a seat, and their nodes. They ask for no GPU.
    running: Sequence[tuple[list[Manifest], str]] = ()
    #: Nodes of a gang's pods that have seats and run, and the volumes of each.
    seated: tuple[Sequence[str], list[Manifest]] = ((), [])
    #: Gangs start with one pod, and grow; else all their pods start together.
    grows: bool = False
    #: Gangs that wait, in the order of their arrival: by task, pods and the volumes of each.
    gangs: Sequence[Sequence[tuple[int, list[Manifest]]]] = ()

    # ── as the cluster shows it ─────────────────────────────────────────────────────────────────────────────

    def facts(self) -> list[Fact]:
        found: list[Fact] = [queue("team"), *(self.node(name) for name in self.nodes)]
        for number, (volumes, at) in enumerate(self.running):
            pod = {
                "metadata": {"name": f"r{number}", "namespace": NAMESPACE, "uid": f"r{number}"},
                "spec": {"containers": [{"name": "c"}], "volumes": volumes, "nodeName": at},
                "status": {"phase": "Running"},
            }
            found.append(pod_fact(msgspec.convert(pod, WirePod), None))
        for ordinal, at in enumerate(self.seated[0]):
            found.append(released(f"s{ordinal}", f"t0/{ordinal}", at, owner=self.key(-1), owner_name="g-1"))
        return [*found, *(self.job(number) for number in range(-1, len(self.gangs)) if self.tasks(number))]

    def node(self, name: str) -> NodeFact:
        return node(name, count=self.nodes[name], labels={HOST: f"{name}.example"})

    def admissions(self) -> list[Admission]:
        nodes = " ".join(self.seated[0])
        return [admission(self.key(-1), nodes, pod_set="t0", started=True)] if nodes else []

    def volumes(self) -> list[Change]:
        """Claims, volumes, classes and CSINodes."""
        changes = []
        for name, (driver, handle) in self.bound.items():
            source = {"csi": {"driver": driver, "volumeHandle": handle}} if driver else {"nfs": {}}
            claim = {"name": name, "namespace": NAMESPACE}
            volume = {"metadata": {"name": f"pv-{name}"}, "spec": {"claimRef": claim, **source}}
            fact = volume_fact(msgspec.convert(volume, WireVolume))
            changes.append(Change(FactKind.VOLUME, fact.name, fact))
        for name in (*self.bound, *self.unbound):
            meta: Manifest = {"name": name, "namespace": NAMESPACE, "uid": name}
            spec: Manifest = {"storageClassName": self.unbound.get(name, "")}
            if name in self.bound:
                meta["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
                spec["volumeName"] = f"pv-{name}"
            found = volume_claim_fact(msgspec.convert({"metadata": meta, "spec": spec}, WireVolumeClaim))
            changes.append(Change(FactKind.VOLUME_CLAIM, name, found))
        for at, volumes in self.local.items():
            changes += (self.local_volume(at, number, is_free) for number, is_free in enumerate(volumes))
        for driver in (*DRIVERS, LOCAL):
            document = {
                "metadata": {"name": driver},
                "provisioner": driver if driver != LOCAL else "kubernetes.io/no-provisioner",
                "volumeBindingMode": "WaitForFirstConsumer",
            }
            class_ = storage_class_fact(msgspec.convert(document, WireStorageClass))
            changes.append(Change(FactKind.STORAGE_CLASS, driver, class_))
        return [*changes, *(self.csi_node(name) for name in self.nodes)]

    def local_volume(self, at: str, number: int, is_free: bool) -> Change:
        expression = {"key": HOST, "operator": "In", "values": [f"{at}.example"]}
        spec = {
            "storageClassName": LOCAL,
            "accessModes": ["ReadWriteOnce"],
            "local": {"path": "/mnt"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
        }
        if not is_free:
            spec["claimRef"] = {"name": f"of-{at}-{number}", "namespace": NAMESPACE}
        status = {"phase": "Available" if is_free else "Bound"}
        document = {"metadata": {"name": f"local-{at}-{number}"}, "spec": spec, "status": status}
        fact = volume_fact(msgspec.convert(document, WireVolume))
        return Change(FactKind.VOLUME, fact.name, fact)

    def csi_node(self, name: str) -> Change:
        drivers = [{"name": "unlimited.example", "nodeID": name}]
        drivers += [
            {"name": driver, "nodeID": name, "allocatable": {"count": most}}
            for driver, most in self.limits.get(name, {}).items()
        ]
        document = {"metadata": {"name": name}, "spec": {"drivers": drivers}}
        return Change(FactKind.CSI_NODE, name, csi_node_fact(msgspec.convert(document, WireCsiNode)))

    def changes(self) -> list[Change]:
        return [*self.volumes(), KNOWN]

    def key(self, number: int) -> WorkloadKey:
        return WorkloadKey(kind_names.VOLCANO_JOB, f"6b4de2f6-0d0a-4d8f-9d0a-3f1f6a6f1f{number + 2:02}")

    def tasks(self, number: int) -> Sequence[tuple[int, list[Manifest]]]:
        """Of the gang with that number; -1: the one that has seats."""
        if number < 0:
            return [(len(self.seated[0]), self.seated[1])] if self.seated[0] else []
        return self.gangs[number]

    def job(self, number: int) -> WorkloadFact:
        container = {"name": "c", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
        tasks = [
            {
                "name": f"t{index}",
                "replicas": count,
                "minAvailable": 0 if self.grows else count,
                "template": {"spec": {"containers": [container], "volumes": volumes}},
            }
            for index, (count, volumes) in enumerate(self.tasks(number))
        ]
        meta = {
            "name": f"g{number}",
            "namespace": NAMESPACE,
            "uid": self.key(number).uid,
            "generation": 1,
            "creationTimestamp": rfc3339(NOW),
        }
        least = 1 if self.grows else sum(count for count, _ in self.tasks(number))
        raw = msgspec.json.encode(
            {"metadata": meta, "spec": {"queue": "team", "minAvailable": least, "tasks": tasks}}
        )
        return volcano_job_fact(msgspec.json.decode(raw, type=WireVolcanoJob), raw)

    # ── as the scheduler counts ─────────────────────────────────────────────────────────────────────────────

    def pods(self, number: int) -> list[frozenset[Volume]]:
        """The volumes of each pod of a gang."""
        return [
            frozenset(self._attached(volumes, f"g{number}-t{index}-{ordinal}"))
            for index, (count, volumes) in enumerate(self.tasks(number))
            for ordinal in range(count)
        ]

    def _attached(self, volumes: Iterable[Manifest], pod: str) -> Iterator[Volume]:
        for volume in volumes:
            if "ephemeral" in volume:
                template = volume["ephemeral"]["volumeClaimTemplate"]
                yield template["spec"]["storageClassName"], f"claim {pod}-{volume['name']}"
                continue
            name = volume["persistentVolumeClaim"]["claimName"]
            if name in self.unbound:
                yield self.unbound[name], f"claim {name}"
            elif self.bound[name][0]:
                yield self.bound[name]

    def there(self) -> list[tuple[str, frozenset[Volume], int]]:
        """Node, volumes and GPUs of each pod that is there, or whose seat is."""
        found = [
            (at, frozenset(self._attached(volumes, f"r{number}")), 0)
            for number, (volumes, at) in enumerate(self.running)
        ]
        return found + [(at, pod, 1) for at, pod in zip(self.seated[0], self.pods(-1), strict=True)]

    def is_allowed(self, placed: Sequence[tuple[str, frozenset[Volume]]], gpus: int = 1) -> bool:
        """Whether the scheduler binds these pods one after the other, in any order. ``gpus``: what each asks for."""
        there = self.there()
        for name, offered in self.nodes.items():
            new = [pod for at, pod in placed if at == name]
            if gpus * len(new) + sum(asked for at, _, asked in there if at == name) > offered:
                return False
            before = frozenset[Volume]().union(*(pod for at, pod, _ in there if at == name))
            more = frozenset[Volume]().union(*new) - before
            numbers = Counter(driver for driver, _ in before)
            for driver, count in Counter(driver for driver, _ in more).items():
                limit = self.limits.get(name, {}).get(driver)
                if driver == LOCAL:
                    limit = sum(self.local.get(name, ()))
                if limit is not None and numbers[driver] + count > limit:
                    return False
        return True

    def keeps_limits(self) -> bool:
        """Whether the scheduler would have bound what is there."""
        there = [(at, pod) for at, pod, _ in self.there()]
        return replace(self, running=(), seated=((), [])).is_allowed(there, gpus=0)

    def has_place(self, pods: Sequence[frozenset[Volume]]) -> bool:
        """Whether there are nodes for all of these pods."""
        return any(
            self.is_allowed(list(zip(places, pods, strict=True)))
            for places in product(self.nodes, repeat=len(pods))
        )


def drawn(seed: int) -> Case:
    """One random case."""
    draw = Random(seed)
    nodes = {f"n{number}": draw.randint(1, 4) for number in range(draw.randint(1, 4))}
    limits = {
        name: {driver: draw.randint(0, 3) for driver in DRIVERS if draw.random() < 0.8} for name in nodes
    }
    bound, unbound = dict[str, Volume](), dict[str, str]()
    for number in range(6):
        if draw.random() < 0.6:
            driver = draw.choice((*DRIVERS, *DRIVERS, ""))
            bound[f"c{number}"] = (driver, f"h{draw.randint(0, 1)}")
        else:
            unbound[f"c{number}"] = draw.choice(DRIVERS)
    local = {name: [draw.random() < 0.7 for _ in range(draw.randint(0, 3))] for name in nodes}
    local["n0"].append(True)  # with none that is free, all of a gang waits for one
    claims = sorted({*bound, *unbound})

    def volumes() -> list[Manifest]:
        return [
            *claimed(*draw.sample(claims, draw.choice((0, 1, 1, 2)))),
            *made(*(draw.choice((*DRIVERS, LOCAL)) for _ in range(draw.choice((0, 0, 1, 1, 2))))),
        ]

    case = Case(nodes, limits, local, bound, unbound)
    for _ in range(draw.choice((0, 1, 2, 3))):
        pod = (claimed(*draw.sample(claims, draw.choice((1, 1, 2)))), draw.choice(sorted(nodes)))
        more = replace(case, running=(*case.running, pod))
        case = more if more.keeps_limits() else case
    at = [name for name in nodes if draw.random() < 0.3]
    more = replace(case, seated=(at, volumes() if at else []))
    case = more if more.keeps_limits() else case
    gangs = [
        [(draw.randint(1, 3 if index == 0 else 2), volumes()) for index in range(draw.choice((1, 1, 2)))]
        for _ in range(draw.choice((1, 1, 2)))
    ]
    return replace(case, gangs=gangs)
