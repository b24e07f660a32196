"""Everything that ever happened to pods since it began to watch: the proof that something never did."""

import json
import ssl
import threading
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml


@dataclass(frozen=True, slots=True)
class Moment:
    """One watch event of one pod."""

    kind: str
    pod: dict[str, Any]

    @property
    def name(self) -> str:
        return f"{self.pod['metadata']['namespace']}/{self.pod['metadata']['name']}"

    @property
    def node(self) -> str | None:
        return self.pod["spec"].get("nodeName")

    @property
    def phase(self) -> str:
        return self.pod.get("status", {}).get("phase", "")


@dataclass(slots=True)
class PodHistory:
    """A watch of all pods in a thread of its own. It misses nothing: it goes on where it was cut off."""

    kubeconfig: Path
    moments: list[Moment] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _version: str = ""

    def __enter__(self) -> "PodHistory":
        server, context = _access(self.kubeconfig)
        with urllib.request.urlopen(f"{server}/api/v1/pods?limit=1", context=context, timeout=30) as answer:
            self._version = json.load(answer)["metadata"]["resourceVersion"]
        self._thread = threading.Thread(target=self._follow, daemon=True, name="pod history")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()

    def of(self, namespace: str, prefix: str = "") -> list[Moment]:
        """Moments of the pods of a namespace whose name begins so, in order."""
        return [m for m in list(self.moments) if m.name.startswith(f"{namespace}/{prefix}")]

    def bound(self, namespace: str, prefix: str = "") -> dict[str, str]:
        """Pods that were ever bound, with the node."""
        return {m.name: m.node for m in self.of(namespace, prefix) if m.node}

    def ever(self, namespace: str, prefix: str, test: Callable[[Moment], bool]) -> bool:
        return any(test(moment) for moment in self.of(namespace, prefix))

    def _follow(self) -> None:
        version = self._version
        while not self._stop.is_set():
            try:
                for event in self._events(version):
                    if event["type"] == "ERROR":
                        break
                    version = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        self.moments.append(Moment(event["type"], event["object"]))
            except (OSError, ValueError):
                self._stop.wait(0.2)

    def _events(self, version: str) -> Iterator[dict[str, Any]]:
        server, context = _access(self.kubeconfig)
        url = f"{server}/api/v1/pods?watch=true&resourceVersion={version}&allowWatchBookmarks=true"
        with urllib.request.urlopen(url, context=context, timeout=3600) as answer:
            for line in answer:
                yield json.loads(line)


def _access(kubeconfig: Path) -> tuple[str, ssl.SSLContext]:
    import base64
    import tempfile

    config = yaml.safe_load(kubeconfig.read_text())
    cluster = config["clusters"][0]["cluster"]
    user = config["users"][0]["user"]

    def file_of(section: dict[str, Any], key: str) -> str:
        if key in section:
            return str(section[key])
        with tempfile.NamedTemporaryFile(delete=False) as file:
            file.write(base64.b64decode(section[f"{key}-data"]))
        return file.name

    context = ssl.create_default_context(cafile=file_of(cluster, "certificate-authority"))
    context.load_cert_chain(file_of(user, "client-certificate"), file_of(user, "client-key"))
    return cluster["server"], context
