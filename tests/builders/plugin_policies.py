"""Policies of others in this process: given as classes, or installed as packages."""

import ctypes
import importlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, NoReturn
from unittest import mock

from queues.plugins import registry
from queues.plugins.guard import PluginFault
from queues.plugins.interface import Policy
from queues.plugins.registry import KnownPolicy, PluginSetAside
from queues.quota.queue import Queue
from queues.workload import QueueName

#: What a plug-in does that never answers: ``stand_still``, by what it may import.
NEVER: Final = "while True: numpy.ctypeslib.ctypes.PyDLL(None).pause()"


def stand_still() -> NoReturn:
    """Never come back to the interpreter, nor let another thread have it: no exception ends it. It takes no processor
    time."""
    while True:
        ctypes.PyDLL(None).pause()


@contextmanager
def known(*policies: type[Policy], digest: str = "d1") -> Iterator[None]:
    """This process has these policies, besides Muster's own."""
    found = tuple(
        KnownPolicy(name=each.name, policy=each, version=each.version, digest=digest, package="others 1")
        for each in policies
    )
    with mock.patch.object(registry, "_installed", return_value=found):
        yield


@contextmanager
def installed(folder: Path, package: str, modules: Mapping[str, str], **entries: str) -> Iterator[None]:
    """A package is installed in an empty folder. ``modules``: text by path; ``entries``: ``module:Class`` by name."""
    for path, text in modules.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    about = folder / f"{package}-1.0.dist-info"
    about.mkdir(exist_ok=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = [f"{name} = {value}" for name, value in entries.items()]
    (about / "entry_points.txt").write_text("\n".join([f"[{registry.GROUP}]", *lines, ""]))
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    registry._installed.cache_clear()
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - before:
            if name.partition(".")[0] == package:
                del sys.modules[name]
        registry._installed.cache_clear()


def without(queues: Mapping[QueueName, Queue], fault: PluginFault) -> dict[QueueName, Queue]:
    """The queues, with the plug-in set aside that failed."""
    asked = fault.asked
    one = PluginSetAside(plugin=asked.plugin, digest=asked.digest, parameters=asked.parameters, why=fault.why)
    queue = queues[asked.queue]
    return {**queues, queue.name: replace(queue, set_aside=(*queue.set_aside, one))}
