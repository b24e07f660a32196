"""Addresses of pods on this machine, and Services that they reach, as a network plugin and kube-proxy give them.

Each pod has a network namespace with an address of its own on a bridge: two replicas listen on the same ports, and the
API server reaches each. Needs root, as a kubelet does. What a killed run left behind goes with the next one.
"""

import contextlib
import ctypes
import itertools
import os
import secrets
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.waiting import alive

#: An address that pods connect to, and the address or the socket on this machine behind it.
Services = Mapping[tuple[str, int], "tuple[str, int] | Path"]
_CLONE_NEWNET = 0x40000000
_NAMESPACES = Path("/run/netns")
_PREFIX = "mst"


@dataclass(frozen=True, slots=True)
class PodInterface:
    """Where one pod is on the network."""

    namespace: Path
    address: str


class PodNetwork:
    """A bridge with the pods of one test."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._number = secrets.randbelow(200) + 20
        self._bridge = f"{_PREFIX}{os.getpid()}"
        self._pods = itertools.count(1)
        self._relays = Relays()

    @contextmanager
    def up(self) -> Iterator["PodNetwork"]:
        """While it is there."""
        _remove_what_was_left()
        _ip("link", "add", self._bridge, "type", "bridge")
        try:
            _ip("addr", "add", f"10.244.{self._number}.1/24", "dev", self._bridge)
            _ip("link", "set", self._bridge, "up")
            yield self
        finally:
            self._relays.close()
            _remove(str(os.getpid()))

    def add_pod(self) -> PodInterface:
        """A namespace with an address, from which the Services are reached."""
        number = next(self._pods)
        name, inside = f"{_PREFIX}{os.getpid()}-{number}", "eth0"
        address = f"10.244.{self._number}.{number + 1}"
        _ip("netns", "add", name)
        _ip("link", "add", f"{name}v"[-15:], "type", "veth", "peer", "name", inside, "netns", name)
        _ip("link", "set", f"{name}v"[-15:], "master", self._bridge, "up")
        _ip("-n", name, "addr", "add", f"{address}/24", "dev", inside)
        for device in ("lo", inside):
            _ip("-n", name, "link", "set", device, "up")
        for host in {host for host, _ in self._services}:
            _ip("-n", name, "addr", "add", f"{host}/32", "dev", "lo")
        namespace = _NAMESPACES / name
        for (host, port), behind in self._services.items():
            self._relays.serve(_listen_inside(namespace, host, port), behind)
        return PodInterface(namespace, address)


class Relays:
    """Passes connections on, each by two threads, until it is closed."""

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    def serve(self, listening: socket.socket, behind: "tuple[str, int] | Path") -> None:
        """Accept connections and pass each on."""
        self._sockets.append(listening)
        self._start(self._accept, listening, behind)

    def close(self) -> None:
        """End all connections."""
        for each in list(self._sockets):
            _end(each)
        for thread in list(self._threads):
            thread.join()
        for each in self._sockets:
            each.close()

    def _start(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, name="relay of pods")
        self._threads.append(thread)
        thread.start()

    def _accept(self, listening: socket.socket, behind: "tuple[str, int] | Path") -> None:
        while True:
            try:
                near, _ = listening.accept()
            except OSError:
                return
            try:
                far = _connected(behind)
            except OSError:
                near.close()
                continue
            self._sockets += [near, far]
            self._start(_pump, near, far)
            self._start(_pump, far, near)


def _connected(behind: "tuple[str, int] | Path") -> socket.socket:
    if isinstance(behind, tuple):
        return socket.create_connection(behind)
    made = socket.socket(socket.AF_UNIX)
    made.connect(str(behind))
    return made


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while part := source.recv(1 << 16):
            target.sendall(part)
    _end(source)
    _end(target)


def _end(ended: socket.socket) -> None:
    with contextlib.suppress(OSError):
        ended.shutdown(socket.SHUT_RDWR)


def _listen_inside(namespace: Path, host: str, port: int) -> socket.socket:
    """A socket stays in the namespace of the thread that made it."""
    made: list[socket.socket] = []

    def make() -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        with namespace.open() as file:
            if libc.setns(file.fileno(), _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), f"setns {namespace}")
        made.append(socket.create_server((host, port)))

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    return made[0]


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(arguments)}: {done.stderr}"


def _remove_what_was_left() -> None:
    for process in {_process(path.name) for path in _links()} - {""}:
        if not alive(int(process)):
            _remove(process)


def _links() -> Sequence[Path]:
    return [*Path("/sys/class/net").glob(f"{_PREFIX}*"), *_NAMESPACES.glob(f"{_PREFIX}*-*")]


def _process(name: str) -> str:
    digits = name.removeprefix(_PREFIX).partition("-")[0]
    return digits if digits.isdecimal() else ""


def _remove(process: str) -> None:
    for path in _links():
        if _process(path.name) == process:
            what = ("netns",) if path.parent == _NAMESPACES else ("link",)
            subprocess.run(["ip", *what, "del", path.name], capture_output=True, check=False)
