"""``python -m tests.real_operators [--jobset DIR] [--mpi DIR] [FILE…]``: runs other projects' operators beside Muster.

Each DIR is a checkout of the operator with what was built in it: ``go build -o manager .`` in JobSet's,
``go build -o manager ./cmd/mpi-operator`` in the MPI operator's. Of these examples, or of the FILEs, each has to wait
without a pod while its queue is paused, then to have all its pods at once on nodes, and then to end as its operator
tells. Pods are simulated: each succeeds after two seconds, but for those of MPI workers, which stay.
"""

import argparse
import base64
import os
import socket
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from admission.facts.workloads import ADMITTED
from deploy.local.certificates import Authority, write_pair
from deploy.local.client import LocalClient
from deploy.local.nodes import NodeShape, node
from deploy.local.processes import die_with_parent, free_port
from deploy.local.stack import Stack
from queues.api.api_resources import QUEUES, ApiResource
from queues.api.names import QUEUE_LABEL
from queues.errors import ApiError
from queues.reason_codes import ReasonCode
from queues.resources import GPU
from queues.sql.embedded.supervised import Program, SupervisedProcess
from tests.builders.operator_resources import JOB_SETS, MPI_JOBS
from tests.waiting import until

Document = dict[str, Any]

#: Four GPUs a pod: two pods on each node.
NODES = 16
QUEUE = "operators"
NAMESPACE = "default"
_ENVIRONMENT = {"MUSTER_REFUSAL_GRACE_SECONDS": "1", "MUSTER_BACKOFF_SECONDS": "1"}
#: Workers of MPI wait for their launcher to call them, until the operator deletes them.
_STAYS = frozenset({"Worker"})


class Operator(NamedTuple):
    """One operator, and how its objects tell that they have ended."""

    resource: ApiResource
    #: Below its checkout.
    definitions: str
    examples: str
    suspend: tuple[str, ...]
    succeeded: Callable[[Document], bool]


def _has(type_: str) -> Callable[[Document], bool]:
    def holds(document: Document) -> bool:
        conditions = document.get("status", {}).get("conditions") or ()
        return any(each["type"] == type_ and each["status"] == "True" for each in conditions)

    return holds


JOB_SET = Operator(
    JOB_SETS,
    "config/components/crd/bases/*.yaml",
    "examples/*/*.yaml",
    ("spec", "suspend"),
    _has("Completed"),
)
MPI = Operator(
    MPI_JOBS,
    "manifests/base/kubeflow.org_mpijobs.yaml",
    "examples/v2beta1/*/*.yaml",
    ("spec", "runPolicy", "suspend"),
    _has("Succeeded"),
)


class Refused(Exception):
    """An example that cannot be run, as its operator or Muster says."""


def main() -> int:
    """Exit code 0 if every example waits, runs and ends as it should."""
    die_with_parent()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobset", type=Path, metavar="DIR")
    parser.add_argument("--mpi", type=Path, metavar="DIR")
    parser.add_argument("files", type=Path, nargs="*", metavar="FILE")
    given = parser.parse_args()
    known = ((JOB_SET, given.jobset, _start_jobset), (MPI, given.mpi, _start_mpi))
    checkouts = [(operator, path, start) for operator, path, start in known if path is not None]
    failed = 0
    with (
        Stack(durable=False, environment=_ENVIRONMENT) as stack,
        stack.cluster.client() as api,
        ExitStack() as ends,
    ):
        for operator, checkout, _ in checkouts:
            # Before Muster, whose policies would be told of them a minute later.
            stack.kubectl("apply", "--server-side", *_files(checkout, operator.definitions))
        stack.install()
        _furnish(api)
        stack.start_muster()
        for operator, checkout, start in checkouts:
            ends.enter_context(start(stack, checkout.resolve()))
            for file in given.files or sorted(checkout.glob(operator.examples)):
                for document in _documents(file, operator):
                    failed += not _plays(api, operator, file, document)
    return int(bool(failed))


def _files(checkout: Path, pattern: str) -> Iterator[str]:
    for file in sorted(checkout.glob(pattern)):
        yield from ("-f", str(file))


def _furnish(api: LocalClient) -> None:
    for index in range(NODES):
        api.create("/api/v1/nodes", node(index, NodeShape(gpus=8, nodes_per_rack=4), "machine"))
    queue = {"apiVersion": QUEUES.api_version, "kind": QUEUES.kind, "metadata": {"name": QUEUE}}
    api.create(QUEUES.path(), {**queue, "spec": {"paused": True}})


@contextmanager
def _start_jobset(stack: Stack, checkout: Path) -> Iterator[None]:
    """With its webhooks, which fill in what Jobs of a JobSet need."""
    folder = stack.cluster.directory / "jobset"
    certificates = folder / "k8s-webhook-server" / "serving-certs"
    certificates.mkdir(parents=True)
    authority, port = Authority.in_folder(folder), free_port()
    pair = authority.server("127.0.0.1")
    write_pair(certificates, "tls", pair)
    configuration = {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "webhook": {"port": port},
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": "0"},
    }
    (folder / "configuration.yaml").write_text(yaml.safe_dump(configuration))
    arguments = ["--config", str(folder / "configuration.yaml")]
    with _running(stack, checkout, folder, arguments, {"TMPDIR": str(folder)}), stack.cluster.client() as api:
        manifests = yaml.safe_load_all((checkout / "config/components/webhook/manifests.yaml").read_text())
        for document in manifests:
            for webhook in document["webhooks"]:
                url = f"https://127.0.0.1:{port}{webhook['clientConfig']['service']['path']}"
                webhook["clientConfig"] = {"url": url, "caBundle": base64.b64encode(authority.pem).decode()}
                # As its own installation has it: other pods are not looked at.
                if "pods" in webhook["rules"][0]["resources"]:
                    key = {"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"}
                    webhook["objectSelector"] = {"matchExpressions": [key]}
            kind = f"{document['kind']}s".lower()
            document["metadata"]["name"] = f"jobset-{document['metadata']['name']}"
            api.create(f"/apis/admissionregistration.k8s.io/v1/{kind}", document)
        until(lambda: _listens(port), "the webhooks of JobSet to be served")
        yield


def _listens(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def _start_mpi(stack: Stack, checkout: Path) -> Iterator[None]:
    folder = stack.cluster.directory / "mpi-operator"
    folder.mkdir()
    with stack.cluster.client() as api:
        own = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mpi-operator"}}
        api.create("/api/v1/namespaces", own)
    arguments = ["-kubeConfig", str(stack.cluster.kubeconfig)]
    with _running(stack, checkout, folder, arguments, {}):
        yield


@contextmanager
def _running(
    stack: Stack, checkout: Path, folder: Path, arguments: list[str], environment: Mapping[str, str]
) -> Iterator[None]:
    process = SupervisedProcess.start(
        Program(
            argv=[checkout / "manager", *arguments],
            log=folder / "log",
            cwd=folder,
            env={**os.environ, "KUBECONFIG": str(stack.cluster.kubeconfig), **environment},
        )
    )
    try:
        yield
    finally:
        process.stop()


def _documents(file: Path, operator: Operator) -> Iterator[Document]:
    """The objects of the operator's kind in a file, in the queue, with pods that ask for GPUs and end."""
    for document in yaml.safe_load_all(file.read_text()):
        if not isinstance(document, dict) or document.get("kind") != operator.resource.kind:
            continue
        document["metadata"]["namespace"] = NAMESPACE
        document["metadata"].setdefault("labels", {})[QUEUE_LABEL] = QUEUE
        for role, template in _templates("", document["spec"]):
            if role not in _STAYS:
                annotations = template.setdefault("metadata", {}).setdefault("annotations", {})
                annotations["kwok.muster.dev/complete-after"] = "2s"
            for key in ("nodeSelector", "tolerations", "affinity", "volumes"):
                template["spec"].pop(key, None)
            for container in template["spec"]["containers"]:
                container["resources"] = {"limits": {GPU: "4"}}
                container.pop("volumeMounts", None)
        yield document


def _templates(role: str, value: Any) -> Iterator[tuple[str, Document]]:
    """The pod templates in a value, each with the key that stands above it."""
    if isinstance(value, list):
        for each in value:
            yield from _templates(role, each)
    elif isinstance(value, dict):
        for key, each in value.items():
            if key == "template" and "containers" in each.get("spec", {}):
                yield role, each
            else:
                yield from _templates(key, each)


def _plays(api: LocalClient, operator: Operator, file: Path, document: Document) -> bool:
    """Whether one example waits, runs and ends; tells it."""
    name = f"{file.parent.name}/{file.name} {document['metadata'].get('name', '')}"
    try:
        pods = _play(api, operator, document)
    except Refused as error:
        print(f"skip {name}: {error}", flush=True)
        return True
    except (ApiError, AssertionError) as error:
        print(f"FAIL {name}: {error}", flush=True)
        if not isinstance(error, ApiError):
            traceback.print_exc()
        return False
    print(f"pass {name}: {pods} pods", flush=True)
    return True


def _play(api: LocalClient, operator: Operator, document: Document) -> int:
    queue = QUEUES.path(name=QUEUE)
    api.merge(queue, {"spec": {"policy": {"paused": True}}})
    try:
        created = api.create(operator.resource.path(NAMESPACE), document)
    except ApiError as error:
        if '.kb.io" denied the request' in str(error):
            raise Refused(f"its own operator refuses it: {error.facts['reason'][:200]}") from error
        raise
    at = operator.resource.path(NAMESPACE, created["metadata"]["name"])

    def pods() -> list[Document]:
        return list(api.get(f"/api/v1/namespaces/{NAMESPACE}/pods")["items"])

    try:
        value: Any = created
        for field in operator.suspend:
            value = value.get(field, {})
        assert value is True, "it was not suspended when it was created"
        until(lambda: bool(_admitted(api.get(at))), "it to say why it waits")
        if (told := _admitted(api.get(at)))["reason"] == ReasonCode.INVALID_SPEC:
            raise Refused(told["message"])
        assert not pods(), "it has pods though it waits"
        api.merge(queue, {"spec": {"policy": {"paused": False}}})
        seen: dict[str, str] = {}

        def ended() -> bool:
            for pod in pods():
                seen[pod["metadata"]["name"]] = pod["spec"].get("nodeName", "")
            return operator.succeeded(api.get(at))

        until(ended, "it to succeed")
        assert seen, "it had no pod"
        assert all(seen.values()), f"pods without a node: {seen}"
        return len(seen)
    finally:
        api.request("DELETE", at, {"propagationPolicy": "Background"})
        until(lambda: not pods(), "its pods to be gone")


def _admitted(document: Document) -> Document:
    """Muster's condition; {}: it has none."""
    conditions = document.get("status", {}).get("conditions") or ()
    return next((each for each in conditions if each["type"] == ADMITTED), {})


if __name__ == "__main__":
    sys.exit(main())
