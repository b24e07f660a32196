"""``python -m tests.operator_examples [--kueue DIR] [--volcano DIR] [DIR…]``: other projects' examples as they are.

The first two are checkouts, the others folders with samples of any project. The examples of each file are created in a
namespace of their own; in one with Kueue's the label muster.dev/kueue-names is set, and of a project without queues
each object that asks for pods gets the label of one. Each has to wait while its queue is paused, with a reason and
without a pod that runs, then to have all its pods on nodes; what has a required topology is to be in one domain of it.
What the name of its file says is to be denied has to be refused. Operators are played (``played_operators``), pods
simulated. CronJobs get a schedule of every minute, and requests of devices the limits without which the API server
refuses them. What is not run is named with the reason of ``muster check``.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Any, Final

import yaml

from deploy.local.client import LocalClient
from deploy.local.nodes import NodeShape, node
from deploy.local.processes import die_with_parent
from deploy.local.stack import LocalCommandFailed, Stack
from queues.api.api_resources import (
    DEVICE_CLASSES,
    FLAVORS,
    JOB_FLOWS,
    JOB_TEMPLATES,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
    RESOURCE_SLICES,
    SERVICE_ACCOUNTS,
    TOPOLOGIES,
    VOLCANO_JOBS,
    VOLUME_CLAIMS,
    VOLUMES,
    ApiResource,
)
from queues.api.kueue_names import KUEUE_QUEUE
from queues.api.names import (
    DEFAULT_QUEUE,
    KUEUE_NAMES,
    LWS_GROUP_INDEX,
    QUEUE_ANNOTATION,
    QUEUE_LABEL,
    REQUIRED_TOPOLOGY,
)
from queues.errors import ApiError
from tests.builders import devices
from tests.cluster_faults import kubectl_muster
from tests.e2e.support.operators import definition
from tests.operator_examples.played_operators import (
    PLAYED,
    PlayedOperators,
    pods_expected,
    resource_of,
)
from tests.waiting import until

Document = dict[str, Any]

NODE_COUNT: Final = 8
_KUEUE: Final = "site/static/examples/**/*.yaml"
_VOLCANO: Final = "example/**/*.y*ml"
_OTHER: Final = "**/*.y*ml"
#: Level of the topology of Kueue's examples → how many nodes are in one domain of it.
_LEVELS: Final = {"cloud.provider.com/topology-block": 4, "cloud.provider.com/topology-rack": 2}
#: A vendor's device class in Kueue's examples, and the resource by which it may be asked for.
_DRIVER: Final = "gpu.example.com"
_EXTENDED: Final = "example.com/gpu"
#: What nodes offer beside what all simulated ones do.
_MORE: Final = {
    "nvidia.com/gpucores": "800",
    "nvidia.com/gpumem": "81920",
    "ephemeral-storage": "4Ti",
    "memory": "4Ti",
    _EXTENDED: "8",
}
#: How much nodes with labels of an example have of each device that it asks for, and how many there are at most.
_MANY: Final = "64"
_MOST_NODES: Final = 64
#: A volume that is there.
_ACCESS: Final = {"accessModes": ["ReadWriteMany"], "storageClassName": "none"}
_CLAIM: Final = {"spec": {"resources": {"requests": {"storage": "1Gi"}}, **_ACCESS}}
#: Part of the names of files that are to be refused.
_REFUSED: Final = "webhook-deny"
#: Kinds that are created beside what is queued.
_BESIDE: Final = frozenset({"ConfigMap", "ResourceClaimTemplate", "ServiceAccount", "Service", "Secret"})
_ENVIRONMENT: Final = {"MUSTER_REFUSAL_GRACE_SECONDS": "1", "MUSTER_BACKOFF_SECONDS": "1"}


def main() -> int:
    """Exit code 0 if every example that can be run waits and runs as it should."""
    die_with_parent()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kueue", type=Path, metavar="DIR")
    parser.add_argument("--volcano", type=Path, metavar="DIR")
    parser.add_argument("folders", type=Path, nargs="*", metavar="DIR")
    parser.add_argument("--only", default="", metavar="TEXT", help="files whose path has this text")
    given = parser.parse_args()
    files = [(each, Origin.KUEUE) for each in _files(given.kueue, _KUEUE)]
    files += [(each, Origin.VOLCANO) for each in _files(given.volcano, _VOLCANO)]
    files += [(each, Origin.OTHER) for folder in given.folders for each in _files(folder, _OTHER)]
    failed = ran = 0
    with Stack(durable=False, environment=_ENVIRONMENT) as stack, stack.cluster.client() as api:
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as definitions:
            # Before Muster, whose policies would be told of them a minute later.
            yaml.safe_dump_all(map(definition, PLAYED), definitions)
            definitions.flush()
            stack.kubectl("apply", "--server-side", "-f", definitions.name)
        stack.install()
        _furnish(api)
        stack.start_muster()
        for number, (file, origin) in enumerate(files):
            if given.only in str(file):
                example = Example(stack, api, file, f"example-{number}", origin)
                ran += bool(example.queued)
                failed += not example.runs()
    print(f"{ran} files: {ran - failed} pass, {failed} fail")
    return int(bool(failed))


def _files(checkout: Path | None, pattern: str) -> list[Path]:
    return [] if checkout is None else sorted(checkout.resolve().glob(pattern))


def _furnish(api: LocalClient) -> None:
    """Nodes in racks in blocks, with devices of a driver beside."""
    for index in range(NODE_COUNT):
        labels = tuple((level, f"{index // each}") for level, each in _LEVELS.items())
        labels = (*labels, ("cloud.provider.com/node-group", "tas-group"), ("gpu", "on"))
        document = node(index, NodeShape(gpus=8, nodes_per_rack=2, labels=labels), "machine")
        for field in ("capacity", "allocatable"):
            document["status"][field] |= _MORE
        api.create("/api/v1/nodes", document)
        slices = devices.gpus_of(document["metadata"]["name"], 8)
        slices["spec"]["driver"] = _DRIVER
        for each in slices["spec"]["devices"]:
            each["capacity"] = {f"{_DRIVER}/memory": {"value": "80Gi"}}
        api.create(RESOURCE_SLICES.path(), slices)
    levels = [{"nodeLabel": level} for level in (*_LEVELS, "kubernetes.io/hostname")]
    topology = {
        "apiVersion": TOPOLOGIES.api_version,
        "kind": TOPOLOGIES.kind,
        "metadata": {"name": "default"},
    }
    api.create(TOPOLOGIES.path(), {**topology, "spec": {"levels": levels}})
    api.create(DEVICE_CLASSES.path(), devices.device_class(_DRIVER, f"device.driver == '{_DRIVER}'"))
    api.create(FLAVORS.path(), devices.flavor("devices", **{_DRIVER: f"{_DRIVER}/device"}))


class Origin(Enum):
    """Whose an example is: how it names its queue."""

    KUEUE = "Kueue"
    VOLCANO = "Volcano"
    #: A project's that has no queues.
    OTHER = "other"


class Example:
    """The objects of one file."""

    def __init__(self, stack: Stack, api: LocalClient, file: Path, namespace: str, origin: Origin) -> None:
        self._stack, self._api, self._file, self._origin = stack, api, file, origin
        self._namespace = namespace
        self._documents = list(_documents(file))
        if origin is Origin.OTHER:
            for each in self._documents:
                _label(each, f"{namespace}-team")
        #: What waits in a queue.
        self.queued = [each for each in self._documents if resource_of(each) is not None and _queue_of(each)]

    def runs(self) -> bool:
        """Whether it waits and runs; tells it. What cannot be run counts as well."""
        name = "/".join(self._file.parts[-2:])
        refused = _REFUSED in name
        if not self.queued:
            print(f"-    {name}: {self._check()}", flush=True)
            return True
        kinds = ", ".join(each["kind"] for each in self.queued)
        self._prepare()
        operators = PlayedOperators(self._stack.cluster.client, self._namespace)
        try:
            with operators.playing():
                pods = self._play()
            assert not operators.failures, operators.failures[0]
        except (ApiError, AssertionError, LocalCommandFailed) as error:
            if refused and isinstance(error, ApiError):
                print(f"pass {name} ({kinds}): refused: {error.facts['reason']}", flush=True)
                return True
            told = "\n".join((str(error), *operators.failures[:3], self._state()))
            print(f"FAIL {name} ({kinds}): {told}", flush=True)
            return False
        finally:
            self._api.request("DELETE", NAMESPACES.path(name=self._namespace))
        told = "FAIL" if refused else "pass"
        print(f"{told} {name} ({kinds}): {pods} pods", flush=True)
        return not refused

    def _check(self) -> str:
        """What ``muster check`` says of the file as a whole."""
        said = self._stack.muster("check", self._file, check=False).stdout.splitlines()
        named = str(self._file)
        kinds = ", ".join(sorted({each["kind"] for each in self._documents}))
        of_file = (line.partition(": ")[2] for line in said if line.startswith(named))
        return next(of_file, f"{kinds}: nothing that is run here")

    def _prepare(self) -> None:
        """A namespace, paused queues, and a node for whatever node selectors ask."""
        queues = {_queue_of(each) for each in self._documents} - {""}
        annotations = {f"local-queue.muster.dev/{queue}": self._queue(queue) for queue in queues}
        metadata: Document = {"name": self._namespace}
        if self._origin is Origin.KUEUE:
            metadata |= {"labels": {KUEUE_NAMES: "true"}, "annotations": annotations}
        self._api.create(NAMESPACES.path(), {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        there = {each["metadata"]["name"] for each in self._api.get(QUEUES.path())["items"]}
        for queue in map(self._queue, queues):
            if queue in there:
                self._pause(queue, paused=True)
            else:
                self._api.create(QUEUES.path(), _queue(queue))
        for index, document in enumerate(self._documents):
            for number, labels in enumerate(_said("nodeSelector", document)):
                self._make_nodes(f"{self._namespace}-{index}-{number}", labels, document)
        self._make_what_pods_name()

    def _make_nodes(self, prefix: str, labels: Mapping[str, str], document: Document) -> None:
        """Nodes with these labels and all that the object asks for."""
        said = (*_said("requests", document), *_said("limits", document))
        amounts = [each for each in said if isinstance(each, dict)]
        more = _MORE | {name: _MANY for each in amounts for name in each if "/" in name}
        shape = NodeShape(gpus=8, labels=tuple(labels.items()))
        for index in range(max(1, min(pods_expected(document), _MOST_NODES))):
            made = node(index, shape, prefix)
            for field in ("capacity", "allocatable"):
                made["status"][field] |= more
            self._api.create(NODES.path(), made)

    def _make_what_pods_name(self) -> None:
        """Accounts and classes without which no pod is created, and volumes without which none is bound."""
        for resource, field, content in (
            (SERVICE_ACCOUNTS, "serviceAccountName", {}),
            (PRIORITY_CLASSES, "priorityClassName", {"value": 1}),
            (VOLUME_CLAIMS, "claimName", _CLAIM),
        ):
            own = {each["metadata"].get("name") for each in self._documents if each["kind"] == resource.kind}
            for name in set(_said(field, self._documents)) - own:
                self._make(resource, name, content)

    def _make(self, resource: ApiResource, name: str, content: Document) -> None:
        if resource is VOLUME_CLAIMS:
            volume = f"{self._namespace}-{name}"
            claim = {"namespace": self._namespace, "name": name}
            spec = {"capacity": {"storage": "1Gi"}, "hostPath": {"path": "/"}, "claimRef": claim, **_ACCESS}
            self._make(VOLUMES, volume, {"spec": spec})
            content = {"spec": {**content["spec"], "volumeName": volume}}
        head = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}}
        self._create(resource.path(self._namespace if resource.namespaced else None), {**head, **content})

    def _create(self, path: str, document: Document) -> None:
        """Create what may be there already, or be of the system."""
        try:
            self._api.create(path, document)
        except ApiError as error:
            if error.facts["status"] not in (403, 409):
                raise

    def _queue(self, named: str) -> str:
        """The Queue to which a name in this example leads."""
        return f"{self._namespace}-{named}" if self._origin is Origin.KUEUE else named

    def _pause(self, queue: str, *, paused: bool) -> None:
        self._api.merge(QUEUES.path(name=queue), {"spec": {"policy": {"paused": paused}}})

    def _play(self) -> int:
        probe = {
            "metadata": {"name": "probe", "labels": {KUEUE_QUEUE: _queue_of(self.queued[0])}},
            "spec": {"containers": [{"name": "a", "image": "a"}]},
        }

        def counts() -> bool:  # the API server notices the label of the namespace after a moment
            try:
                made = self._api.create(f"{PODS.path(self._namespace)}?dryRun=All", probe)
            except ApiError:
                return False
            return QUEUE_LABEL in made["metadata"]["labels"]

        if self._origin is Origin.KUEUE:
            until(counts, "Kueue's names to count")
        expected = sum(map(self._created, self._documents))
        until(self._waits, "it to wait with a reason")
        running = [each for each in self._pods() if each["spec"].get("nodeName")]
        assert not running, f"{len(running)} pods have a node while their queue is paused"
        for queue in {_queue_of(each) for each in self.queued}:
            self._pause(self._queue(queue), paused=False)
        until(lambda: len(self._running()) >= expected, f"{expected} pods to run")
        self._is_together()
        return expected

    def _created(self, document: Document) -> int:
        """Create an object as it is; the number of pods that there are once it runs."""
        resource = resource_of(document)
        if resource is None:
            if document["kind"] in _BESIDE:
                self._stack.kubectl("apply", "-n", self._namespace, "-f", self._written(document))
            return 0
        made = self._api.create(resource.path(self._namespace), document)
        if document["kind"] == "CronJob":
            path = resource.path(self._namespace, made["metadata"]["name"])
            self._api.merge(path, {"spec": {"schedule": "* * * * *"}})
        return pods_expected({**document, "metadata": made["metadata"]})

    def _state(self) -> str:
        """What a user would look at."""
        pods = (f"{each['metadata']['name']} {each['status'].get('phase')}" for each in self._pods())
        events = self._stack.kubectl("get", "events", "-n", self._namespace, "--no-headers")
        return "\n".join((self._pending(), *pods, str(events.stdout)))

    def _written(self, document: Document) -> Path:
        path = Path(tempfile.mkdtemp()) / "document.yaml"
        path.write_text(yaml.safe_dump(document))
        return path

    def _pods(self) -> list[Document]:
        return list(self._api.get(PODS.path(self._namespace))["items"])

    def _running(self) -> list[Document]:
        done = ("Running", "Succeeded")
        return [each for each in self._pods() if each["status"].get("phase") in done]

    def _waits(self) -> bool:
        """Whether all that is there waits, and says why."""
        told = self._pending().splitlines()
        return bool(told) and all("QueuePaused" in line for line in told)

    def _pending(self) -> str:
        return kubectl_muster(self._stack, "pending", "-n", self._namespace, "-o", "wide", "--no-headers")

    def _is_together(self) -> None:
        """What asks for a domain of a level has all its pods in one, per object that pods are made of."""
        nodes = {
            each["metadata"]["name"]: each["metadata"]["labels"]
            for each in self._api.get(NODES.path())["items"]
        }
        domains: dict[tuple[str, str], set[str]] = {}
        for pod in self._running():
            level = pod["metadata"].get("annotations", {}).get(REQUIRED_TOPOLOGY)
            if level is not None:
                labels = pod["metadata"]["labels"]
                group = labels.get(LWS_GROUP_INDEX, "")
                domain = nodes[pod["spec"]["nodeName"]].get(level, "none")
                domains.setdefault((level, group), set()).add(domain)
        for (level, group), found in domains.items():
            assert len(found) == 1, f"pods {group} are in domains {sorted(found)} of {level}"


def _documents(file: Path) -> Iterator[Document]:
    """The objects of a file; of one with a JobFlow also the templates of its Jobs, which are in another file beside."""
    own = list(_read(file))
    if any(each["kind"] == JOB_FLOWS.kind for each in own):
        others = (each for other in sorted(file.parent.glob("*.yaml")) for each in _read(other))
        yield from (each for each in others if each["kind"] == JOB_TEMPLATES.kind)
    yield from own


def _read(file: Path) -> Iterator[Document]:
    """The objects of a file, up to what is no YAML."""
    with suppress(yaml.YAMLError):
        yield from _objects(yaml.safe_load_all(file.read_text()))


def _objects(documents: Iterable[Any]) -> Iterator[Document]:
    for document in documents:
        if isinstance(document, dict) and "kind" in document:
            document.setdefault("metadata", {}).pop("namespace", None)
            _limit(document)
            yield document


def _limit(value: Any) -> None:
    """Limits of extended resources that a container only requests."""
    if isinstance(value, dict) and isinstance(resources := value.get("resources"), dict):
        asked = resources.get("requests") or {}
        extended = {name: amount for name, amount in asked.items() if "/" in name}
        if extended:
            resources["limits"] = {**extended, **(resources.get("limits") or {})}
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _limit(each)


def _label(document: Document, queue: str) -> None:
    """Name a queue on an object that asks for pods, as its user would."""
    if resource_of(document) is not None and pods_expected(document):
        metadata = document["metadata"]
        metadata["labels"] = {**(metadata.get("labels") or {}), QUEUE_LABEL: queue}


def _queue_of(document: Document) -> str:
    """The queue that an object waits in, as it or its template says in anybody's words; "": it does not wait."""
    meta, spec = document.get("metadata", {}), document.get("spec", {})
    template = spec.get("jobTemplate", spec.get("template", {}))
    if document.get("apiVersion") == VOLCANO_JOBS.api_version:
        return str(spec.get("queue", DEFAULT_QUEUE))
    if document["kind"] == JOB_FLOWS.kind:
        return DEFAULT_QUEUE  # as its templates have it
    of_template = template.get("metadata", {}) if isinstance(template, dict) else {}
    for each in (meta, of_template):
        for key in (KUEUE_QUEUE, QUEUE_LABEL):
            if named := (each.get("labels") or {}).get(key):
                return str(named)
        if named := (each.get("annotations") or {}).get(QUEUE_ANNOTATION):
            return str(named)
    is_volcano = isinstance(template, dict) and template.get("spec", {}).get("schedulerName") == "volcano"
    return DEFAULT_QUEUE if is_volcano else ""


def _said(field: str, value: Any) -> Iterator[Any]:
    """What is said in all fields of a name, wherever they are."""
    if isinstance(value, dict):
        yield from (found for key, found in value.items() if key == field and found)
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _said(field, each)


def _queue(name: str) -> Document:
    return {
        "apiVersion": QUEUES.api_version,
        "kind": QUEUES.kind,
        "metadata": {"name": name},
        "spec": {"policy": {"paused": True}},
    }


if __name__ == "__main__":
    sys.exit(main())
