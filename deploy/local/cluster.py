"""A whole control plane on this host: etcd, API server, scheduler, controllers, and nodes that KWOK simulates.

Everything in it is the real program except the kubelets. It starts in a few seconds, listens on 127.0.0.1
only, and goes with the process that started it. Methods block; call them from asyncio with
``asyncio.to_thread``.
"""

import re
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Final, Self

from deploy.local import kubernetes
from deploy.local.certificates import (
    Authority,
    pair_credentials,
    service_account_keys,
    write_kubeconfig,
    write_pair,
)
from deploy.local.client import LocalClient
from deploy.local.components import COMPONENTS, FRONT_PROXY, ClusterOptions, Places, command
from deploy.local.nodes import NodeShape, node
from deploy.local.processes import StateDirectory, free_port
from queues.errors import ApiError, MusterError
from queues.sql.embedded.supervised import Program, SupervisedProcess

#: Each component's user and groups. RBAC's own roles for scheduler and controllers come with these names.
IDENTITIES = {
    "kube-controller-manager": ("system:kube-controller-manager", ()),
    "kube-scheduler": ("system:kube-scheduler", ()),
    "kwok": ("kwok", ("system:masters",)),
}
#: Another process may take a port between the choice and its use.
PORT_ATTEMPTS = 3
#: Seconds for which the start of a part is waited for, also on a busy machine; one that ends is noticed at once.
PATIENCE: Final = 300.0


class ComponentFailed(MusterError):
    """{component} ended by itself with status {status}. The end of {log}: {reason}"""


class ClusterNotReady(MusterError):
    """The local cluster was not ready after {seconds:.0f} seconds. {reason}. Its logs are in {logs}."""


class LocalCluster:
    """One control plane. Use it as a context manager, or call ``start`` and ``stop``."""

    def __init__(
        self,
        directory: Path | None = None,
        *,
        options: ClusterOptions | None = None,
        patience: float = PATIENCE,
    ) -> None:
        #: A directory: the cluster continues from its content. If None, the cluster leaves nothing behind.
        self._wanted = directory
        self.options = options or ClusterOptions()
        self._patience = patience
        self._state: StateDirectory | None = None
        #: The components that were started, by name.
        self.running: dict[str, SupervisedProcess] = {}
        self._nodes = 0

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> Self:
        """Start everything and wait until pods can be created."""
        binaries = kubernetes.binaries()
        self._state = StateDirectory.fresh() if self._wanted is None else StateDirectory.named(self._wanted)
        try:
            self._prepare(binaries)
            self.start_component("etcd")
            self._start_api_server_somewhere()
            for name in COMPONENTS[2:]:
                self.start_component(name)
            self.wait_for("/api/v1/namespaces/default/serviceaccounts/default")
        except BaseException:
            self.stop(keep=True)
            raise
        return self

    def stop(self, *, keep: bool = False) -> None:
        """Stop everything and remove a directory made for this run; with ``keep`` the next run removes it."""
        for name in reversed(COMPONENTS):
            component = self.running.pop(name, None)
            if component is not None:
                component.stop()
        if self._state is not None:
            self._state.close(keep=keep)

    @property
    def directory(self) -> Path:
        """State, logs and kubeconfigs."""
        assert self._state is not None, "the cluster was not started"
        return self._state.path

    @property
    def url(self) -> str:
        """URL of the API server."""
        return f"https://127.0.0.1:{self._places.api_port}"

    @property
    def kubeconfig(self) -> Path:
        """Kubeconfig of an administrator (group system:masters)."""
        return self.directory / "kubeconfig"

    @property
    def kubectl(self) -> Path:
        """The kubectl of this version."""
        return self._places.binaries["kubectl"]

    def kubeconfig_for(self, user: str, groups: Sequence[str] = ()) -> Path:
        """A kubeconfig of another user. RBAC decides what the user may do: without bindings next to nothing."""
        return self._write_kubeconfig(self._kubeconfig_of(user), user, groups)

    def kubeconfig_by_token(self, name: str, token: str) -> Path:
        """A kubeconfig of the user that a token names."""
        return self._write_access(self._kubeconfig_of(name), name, {"token": token})

    def _kubeconfig_of(self, user: str) -> Path:
        name = re.sub(r"[^A-Za-z0-9_.-]", "-", user)
        return self.directory / "kubeconfigs" / f"{name}.kubeconfig"

    def client(self) -> LocalClient:
        """A client of the administrator, for one thread at a time. The caller closes it."""
        return LocalClient(self.kubeconfig)

    def add_nodes(self, count: int, shape: NodeShape | None = None, *, prefix: str = "node") -> list[str]:
        """Add ready nodes; numbers continue after the nodes added before."""
        first, self._nodes = self._nodes, self._nodes + count
        documents = [node(index, shape or NodeShape(), prefix) for index in range(first, first + count)]

        def create(share: int) -> None:
            with self.client() as api:
                for document in documents[share::threads]:
                    api.create("/api/v1/nodes", document)

        threads = min(8, count)
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(create, range(threads)))
        return [document["metadata"]["name"] for document in documents]

    def ensure_nodes(self, count: int, shape: NodeShape | None = None, *, prefix: str = "node") -> list[str]:
        """Add nodes until so many of a name exist; nodes of a kept directory count."""
        with self.client() as api:
            listed = api.get("/api/v1/nodes")["items"]
        numbers = [
            int(number)
            for name in (item["metadata"]["name"] for item in listed)
            for found, _, number in [name.rpartition("-")]
            if found == prefix
        ]
        self._nodes = max([self._nodes, *(number + 1 for number in numbers)])
        return self.add_nodes(count - len(numbers), shape, prefix=prefix) if count > len(numbers) else []

    def start_component(self, name: str) -> None:
        """Start a component that is down. For the API server: on its last port, and wait until it answers."""
        assert self._state is not None, "the cluster was not started"
        if name == "etcd":
            # Sockets of a killed etcd: it does not take them over.
            for socket in self.directory.glob("*.sock"):
                socket.unlink()
        if (before := self.running.pop(name, None)) is not None:
            before.stop()  # it has ended; its supervisor's input is still open
        self.running[name] = SupervisedProcess.start(
            Program(
                argv=command(name, self._places, self.options),
                log=self.log_file(name),
                cwd=self.directory,
                lock=self._state.lock,
                grace=3.0,
            )
        )
        if name == "kube-apiserver":
            self.wait_for("/readyz")

    def watch(self) -> None:
        """Wait until a component ends by itself, which is an error, or until an interrupt."""
        while True:
            self._check()
            time.sleep(1)

    def _prepare(self, binaries: dict[str, Path]) -> None:
        self._places = Places(root=self.directory, binaries=binaries, api_port=free_port())
        for folder in ("log", "pki", "pki/front-proxy", "etcd", "kubeconfigs"):
            (self.directory / folder).mkdir(mode=0o700, exist_ok=True)
        pki = self._places.pki
        self._authority = Authority.in_folder(pki)
        service_account_keys(pki)
        front_proxy = Authority.in_folder(pki / "front-proxy", "muster-local-front-proxy")
        write_pair(pki, "front-proxy", front_proxy.client(FRONT_PROXY))
        service_names = ("kubernetes", "kubernetes.default", "kubernetes.default.svc")
        write_pair(
            pki, "api-server", self._authority.server("127.0.0.1", "localhost", *service_names, "10.96.0.1")
        )

    def _write_kubeconfig(self, path: Path, user: str, groups: Sequence[str]) -> Path:
        return self._write_access(path, user, pair_credentials(self._authority.client(user, groups)))

    def _write_access(self, path: Path, user: str, credentials: Mapping[str, str]) -> Path:
        authority = self._authority.pem
        write_kubeconfig(path, server=self.url, authority=authority, user=user, credentials=credentials)
        return path

    def _start_api_server_somewhere(self) -> None:
        for attempt in range(PORT_ATTEMPTS):
            self._write_kubeconfig(self.kubeconfig, "admin", ("system:masters",))
            for name, (user, groups) in IDENTITIES.items():
                self._write_kubeconfig(self._places.kubeconfig(name), user, groups)
            try:
                self.start_component("kube-apiserver")
            except ComponentFailed as failed:
                if attempt + 1 == PORT_ATTEMPTS or "address already in use" not in str(failed):
                    raise
                self._places = replace(self._places, api_port=free_port())
            else:
                return

    def log_file(self, name: str) -> Path:
        """What a component has written."""
        return self.directory / "log" / f"{name}.log"

    def wait_for(self, path: str, *, if_known: bool = False) -> None:
        """Wait until the API server answers at a path. ``if_known``: not if it knows no such path.

        Raises ClusterNotReady, ComponentFailed.
        """
        deadline = time.monotonic() + self._patience
        with LocalClient(self.kubeconfig, timeout=5) as api:
            while True:
                try:
                    api.get(path)
                except ApiError as error:
                    if if_known and error.facts["status"] == 404:
                        return
                    self._check()
                    if time.monotonic() > deadline:
                        logs = self.directory / "log"
                        raise ClusterNotReady(seconds=self._patience, reason=error, logs=logs) from error
                    time.sleep(0.05)
                else:
                    return

    def _check(self) -> None:
        for name, component in self.running.items():
            if not component.running:
                log = self.log_file(name)
                end = log.read_text(errors="replace")[-2000:]
                raise ComponentFailed(component=name, status=component.returncode, log=log, reason=end)
