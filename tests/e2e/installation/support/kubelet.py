"""Runs the pods of one namespace on this machine as a kubelet does: from the pod as the API server has it.

Environment, volumes, security context, probes and status follow from the pod alone, so a fault in a manifest shows as
it would in a cluster. What it does not know of (a kind of volume, a field of the environment) is an error of the test.
"""

import base64
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.local.client import LocalClient
from deploy.local.cluster import LocalCluster
from queues.errors import ApiError
from tests.e2e.installation.support.pod_container import IMAGE_ENVIRONMENT, Container, ContainerSpec, Mount
from tests.e2e.installation.support.pod_network import PodInterface, PodNetwork
from tests.e2e.support.api_paths import Document, path

#: Seconds between two looks at the pods.
_PERIOD = 0.1
#: Seconds between two looks at the Secrets of a pod.
_REFILL = 2.0
#: Where the API server is for pods, as in every cluster.
API_SERVER = ("10.96.0.1", 443)
_STRATEGIC = "application/strategic-merge-patch+json"
_UNITS = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}


@dataclass(slots=True)
class RunningPod:
    """A pod that was started here."""

    name: str
    container: Container
    interface: PodInterface
    ready: bool = False
    #: The deletion was seen, and the container was told to stop.
    stopping: threading.Thread | None = None
    exit_code: int | None = None
    #: When its Secrets were last compared with its volumes (monotonic seconds).
    filled: float = 0.0


class Kubelet:
    """Plays the kubelet of one node for the pods of one namespace, each with one container."""

    def __init__(self, cluster: LocalCluster, network: PodNetwork, folder: Path, namespace: str) -> None:
        self._cluster, self._network = cluster, network
        self._folder, self._namespace = folder, namespace
        self._stopped = threading.Event()
        #: By uid, all that were started.
        self.pods: dict[str, RunningPod] = {}
        self.failures: list[str] = []

    @contextmanager
    def playing(self) -> Iterator["Kubelet"]:
        """While the test goes on; its containers end afterwards."""
        thread = threading.Thread(target=self._play, name="kubelet")
        thread.start()
        try:
            yield self
        finally:
            self._stopped.set()
            thread.join()
            for pod in self.pods.values():
                pod.container.kill()
        assert not self.failures, self.failures

    def running(self, name: str) -> RunningPod:
        """The pod of a name."""
        return next(pod for pod in self.pods.values() if pod.name == name)

    def logs(self) -> str:
        """The ends of what all containers wrote, for messages of tests."""
        return "\n".join(
            f"--- {pod.name}\n{pod.container.log.read_text(errors='replace')[-3000:]}"
            for pod in self.pods.values()
        )

    def _play(self) -> None:
        with self._cluster.client() as api:
            while not self._stopped.wait(_PERIOD):
                try:
                    for pod in api.get(path("Pod", self._namespace))["items"]:
                        if pod["spec"].get("nodeName"):
                            self._sync(api, pod)
                except ApiError as error:
                    if error.facts["status"] not in (404, 409):
                        self.failures.append(str(error))
                except Exception as error:
                    self.failures.append(repr(error))
                    raise

    def _sync(self, api: LocalClient, pod: Document) -> None:
        uid, meta = pod["metadata"]["uid"], pod["metadata"]
        known = self.pods.get(uid)
        if known is None:
            if "deletionTimestamp" in meta:
                self._forget(api, meta["name"])
            else:
                self._start(api, pod)
        elif "deletionTimestamp" in meta:
            self._end(api, pod, known)
        elif not known.container.running:
            if known.exit_code is None:
                known.exit_code = known.container.exit_code
                end = known.container.log.read_text(errors="replace")[-2000:]
                self.failures.append(f"{meta['name']} ended by itself with {known.exit_code}: {end}")
                self._report(api, pod, known, ready=False)
        else:
            self._refill(api, pod, known)
            ready = self._probe(pod, known, "readinessProbe")
            if ready != known.ready:
                known.ready = ready
                self._report(api, pod, known, ready=ready)

    def _end(self, api: LocalClient, pod: Document, known: RunningPod) -> None:
        """As for a pod in deletion: SIGTERM, the grace period, SIGKILL, then the object goes."""
        if known.stopping is None:
            grace = float(pod["metadata"]["deletionGracePeriodSeconds"])

            def stop() -> None:
                known.exit_code = known.container.stop(grace)

            known.stopping = threading.Thread(target=stop)
            known.stopping.start()
        elif not known.stopping.is_alive():
            self._forget(api, pod["metadata"]["name"])

    def _forget(self, api: LocalClient, name: str) -> None:
        how = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
        api.request("DELETE", path("Pod", self._namespace, name), how)

    def _start(self, api: LocalClient, pod: Document) -> None:
        meta, spec = pod["metadata"], pod["spec"]
        (container,) = spec["containers"]
        folder = self._folder / meta["name"]
        # A Secret that is not there yet: the pod is tried again, and has no network till then.
        mounts = self._mounts(api, pod, container, folder / "volumes")
        interface = self._network.add_pod()
        security = {**spec.get("securityContext", {}), **container.get("securityContext", {})}
        asked = ContainerSpec(
            command=[*container.get("command", ()), *container.get("args", ())],
            environment=self._environment(api, pod, container, interface.address),
            network=interface.namespace,
            mounts=mounts,
            user=security.get("runAsUser", 0),
            group=security.get("runAsGroup", 0),
            read_only=security.get("readOnlyRootFilesystem", False),
        )
        known = RunningPod(meta["name"], Container.start(asked, folder / "container"), interface)
        self.pods[meta["uid"]] = known
        self._report(api, pod, known, ready=False)

    # -- environment and volumes ------------------------------------------------------------------------------

    def _environment(
        self, api: LocalClient, pod: Document, container: Document, address: str
    ) -> Mapping[str, str]:
        host, port = API_SERVER
        found = {
            **IMAGE_ENVIRONMENT,
            "HOSTNAME": pod["metadata"]["name"],
            "KUBERNETES_SERVICE_HOST": host,
            "KUBERNETES_SERVICE_PORT": str(port),
        }
        fields = {
            "metadata.name": pod["metadata"]["name"],
            "metadata.namespace": pod["metadata"]["namespace"],
            "spec.nodeName": pod["spec"]["nodeName"],
            "status.podIP": address,
        }
        for each in container.get("env", ()):
            if (source := each.get("valueFrom")) is None:
                value = re.sub(r"\$\((\w+)\)", lambda match: found[match[1]], each.get("value", ""))
            elif "fieldRef" in source:
                value = fields[source["fieldRef"]["fieldPath"]]
            else:
                secret = source["secretKeyRef"]
                held = api.get(path("Secret", self._namespace, secret["name"]))["data"]
                value = base64.b64decode(held[secret["key"]]).decode()
            found[each["name"]] = value
        return found

    def _mounts(self, api: LocalClient, pod: Document, container: Document, folder: Path) -> list[Mount]:
        volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes", ())}
        mounts = []
        for mount in container.get("volumeMounts", ()):
            volume, source = volumes[mount["name"]], folder / mount["name"]
            if "emptyDir" in volume:
                number, unit = re.findall(r"(\d+)(\w+)", volume["emptyDir"].get("sizeLimit", "64Mi"))[0]
                mounts.append(Mount(path=mount["mountPath"], size=int(number) * _UNITS[unit]))
                continue
            if "hostPath" in volume:
                # Of a node that has nothing there yet.
                source = folder / "host" / volume["hostPath"]["path"].lstrip("/")
                source.mkdir(parents=True, exist_ok=True)
            if not source.exists():
                self._fill(source, self._contents(api, pod, volume))
            mounts.append(Mount(path=mount["mountPath"], source=source))
        return mounts

    def _contents(self, api: LocalClient, pod: Document, volume: Document) -> dict[str, bytes]:
        sources = volume["projected"]["sources"] if "projected" in volume else [_as_source(volume)]
        return {
            name: content for source in sources for name, content in self._files(api, pod, source).items()
        }

    def _fill(self, folder: Path, files: Mapping[str, bytes]) -> None:
        """All files change at one moment: each is a link into a folder that a link points to."""
        version = f"..{time.monotonic_ns()}"
        (folder / version).mkdir(parents=True)
        for name, content in files.items():
            (folder / version / name).write_bytes(content)
            (folder / version / name).chmod(0o644)
            if not (folder / name).is_symlink():
                (folder / name).symlink_to(f"..data/{name}")
        (folder / "..next").symlink_to(version)
        (folder / "..next").replace(folder / "..data")

    def _refill(self, api: LocalClient, pod: Document, known: RunningPod) -> None:
        """Writes Secrets that have changed into their volumes, as a kubelet does within a minute."""
        if time.monotonic() < known.filled + _REFILL:
            return
        known.filled = time.monotonic()
        for volume in pod["spec"].get("volumes", ()):
            folder = self._folder / known.name / "volumes" / volume["name"]
            if "secret" in volume and folder.exists():
                wanted = self._contents(api, pod, volume)
                if wanted != {file.name: file.read_bytes() for file in (folder / "..data").iterdir()}:
                    self._fill(folder, wanted)

    def _files(self, api: LocalClient, pod: Document, source: Document) -> dict[str, bytes]:
        if token := source.get("serviceAccountToken"):
            return {token["path"]: self._token(api, pod, token["expirationSeconds"])}
        if fields := source.get("downwardAPI"):
            return {
                each["path"]: pod["metadata"][each["fieldRef"]["fieldPath"].split(".")[1]].encode()
                for each in fields["items"]
            }
        kind, held = (
            ("ConfigMap", source["configMap"]) if "configMap" in source else ("Secret", source["secret"])
        )
        data = api.get(path(kind, self._namespace, held["name"]))["data"]
        plain = {
            key: value.encode() if kind == "ConfigMap" else base64.b64decode(value)
            for key, value in data.items()
        }
        items = held.get("items") or [{"key": key, "path": key} for key in plain]
        return {each["path"]: plain[each["key"]] for each in items}

    def _token(self, api: LocalClient, pod: Document, seconds: int) -> bytes:
        meta = pod["metadata"]
        bound = {"kind": "Pod", "apiVersion": "v1", "name": meta["name"], "uid": meta["uid"]}
        asked = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": seconds, "boundObjectRef": bound},
        }
        account = pod["spec"]["serviceAccountName"]
        at = f"/api/v1/namespaces/{self._namespace}/serviceaccounts/{account}/token"
        return str(api.create(at, asked)["status"]["token"]).encode()

    # -- probes and status ------------------------------------------------------------------------------------

    def _probe(self, pod: Document, known: RunningPod, name: str) -> bool:
        (container,) = pod["spec"]["containers"]
        if name not in container:
            return True
        asked = container[name]["httpGet"]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        url = f"http://{known.interface.address}:{ports.get(asked['port'], asked['port'])}{asked['path']}"
        try:
            with urllib.request.urlopen(url, timeout=container[name]["timeoutSeconds"]) as answer:
                return bool(200 <= answer.status < 400)
        except (OSError, urllib.error.URLError):
            return False

    def _report(self, api: LocalClient, pod: Document, known: RunningPod, *, ready: bool) -> None:
        meta, (container,) = pod["metadata"], pod["spec"]["containers"]
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        running: dict[str, Any] = {"running": {"startedAt": now}}
        if known.exit_code is not None:
            running = {"terminated": {"exitCode": known.exit_code, "finishedAt": now}}
        status = {
            "phase": "Running" if known.exit_code is None else "Failed",
            "podIP": known.interface.address,
            "podIPs": [{"ip": known.interface.address}],
            "hostIP": "127.0.0.1",
            "startTime": now,
            "conditions": [
                {"type": kind, "status": "True" if ready or kind == "Initialized" else "False"}
                for kind in ("Initialized", "ContainersReady", "Ready")
            ],
            "containerStatuses": [
                {
                    "name": container["name"],
                    "image": container["image"],
                    "imageID": "",
                    "restartCount": 0,
                    "ready": ready,
                    "state": running,
                }
            ],
        }
        at = path("Pod", self._namespace, meta["name"]) + "/status"
        api.request("PATCH", at, {"status": status}, content_type=_STRATEGIC)


def _as_source(volume: Document) -> Document:
    """A volume of one Secret or ConfigMap in the form of a projected source."""
    if "configMap" in volume:
        return {"configMap": volume["configMap"]}
    secret = volume["secret"]
    return {"secret": {"name": secret["secretName"], "items": secret.get("items")}}
