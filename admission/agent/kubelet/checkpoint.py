"""Which devices the kubelet gave to which containers, and as which resource each is registered, from the file in which
its device manager keeps that.

``/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint`` is JSON that the kubelet replaces as a whole
(``Data`` and ``DevicesPerNUMA`` in pkg/kubelet/cm/devicemanager/checkpoint of Kubernetes):

    {"Data": {"PodDeviceEntries": [{"PodUID": …, "ContainerName": …, "ResourceName": "nvidia.com/gpu",
                                    "DeviceIDs": {"0": ["GPU-…"]}, "AllocResp": …}],
              "RegisteredDevices": {"nvidia.com/gpu": ["GPU-…"]}},
     "Checksum": 1, "BootID": …}

``DeviceIDs`` is by NUMA node (-1: unknown); old kubelets wrote a list. The checksum is over Go's own form
of the values and cannot be computed here. Entries of pods that are gone stay until the kubelet gives devices
again: callers compare them with the pods that exist. ``RegisteredDevices`` has only those that their plugin
calls healthy, and none while the plugin has not registered yet.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from queues.errors import MusterError

CHECKPOINT: Final = Path("/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint")


class CheckpointUnreadable(MusterError):
    """The kubelet's file of given devices ({path}) cannot be used: found {found}, expected {expected}. Until it
    can, what the processes use is reported. Report this with the version of the kubelet if it lasts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenDevices:
    """Devices of one resource that the kubelet gave to one container."""

    pod_uid: str
    container: str
    #: ``nvidia.com/gpu``.
    resource: str
    #: As the device plugin names them, in order: a uuid, a bus id, ``card0-0``.
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletDevices:
    """What the kubelet knows of the devices of its node."""

    given: tuple[GivenDevices, ...] = ()
    #: Ids of devices by the resource that they are registered as, as their plugin names them.
    registered: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class KubeletCheckpoint:
    """The kubelet's file, read again only when it has changed."""

    def __init__(self, path: Path = CHECKPOINT) -> None:
        self._path = path
        self._version: tuple[int, int, int] | None = None
        self._known = KubeletDevices()

    def read(self) -> KubeletDevices:
        """What the kubelet knows. Empty: nothing, or there is no such file. Raises CheckpointUnreadable."""
        try:
            with self._path.open("rb") as file:
                status = os.fstat(file.fileno())
                version = (status.st_ino, status.st_mtime_ns, status.st_size)
                if version == self._version:
                    return self._known
                content = file.read()
        except FileNotFoundError:
            self._version, self._known = None, KubeletDevices()
            return self._known
        except OSError as error:
            raise CheckpointUnreadable(path=self._path, found=error, expected="a file to read") from error
        self._version = None
        self._known = kubelet_devices(content, str(self._path))
        self._version = version
        return self._known


def kubelet_devices(content: bytes, path: str = "checkpoint") -> KubeletDevices:
    """What the kubelet knows, from the file's content, in its order. Raises CheckpointUnreadable."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise CheckpointUnreadable(path=path, found=f"no JSON ({error})", expected="JSON") from error
    match document:
        case {"Data": {"PodDeviceEntries": (list() | None) as entries} as data}:
            return KubeletDevices(
                given=tuple(_given(entry, path) for entry in entries or ()),
                registered=_registered(data.get("RegisteredDevices"), path),
            )
        case _:
            expected = "Data.PodDeviceEntries, a list"
            raise CheckpointUnreadable(path=path, found=_form(document), expected=expected)


def _registered(value: object, path: str) -> dict[str, tuple[str, ...]]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        found, expected = f"RegisteredDevices that are {_form(value)}", "lists of ids by resource"
        raise CheckpointUnreadable(path=path, found=found, expected=expected)
    return {resource: _id_list(ids, "RegisteredDevices", path) for resource, ids in value.items()}


def _given(entry: object, path: str) -> GivenDevices:
    match entry:
        case {
            "PodUID": str(pod_uid),
            "ContainerName": str(container),
            "ResourceName": str(resource),
            "DeviceIDs": ids,
        }:
            return GivenDevices(pod_uid=pod_uid, container=container, resource=resource, ids=_ids(ids, path))
        case _:
            raise CheckpointUnreadable(
                path=path,
                found=f"an entry that is {_form(entry)}",
                expected="PodUID, ContainerName, ResourceName and DeviceIDs",
            )


def _ids(value: object, path: str) -> tuple[str, ...]:
    """Ids by NUMA node, or in one list."""
    lists: list[Any] = list(value.values()) if isinstance(value, Mapping) else [value]
    return tuple(sorted(each for ids in lists for each in _id_list(ids, "DeviceIDs", path)))


def _id_list(ids: object, field_name: str, path: str) -> tuple[str, ...]:
    if ids is None:
        return ()
    if not isinstance(ids, list) or not all(isinstance(one, str) for one in ids):
        raise CheckpointUnreadable(
            path=path, found=f"{field_name} that are {_form(ids)}", expected="lists of ids"
        )
    return tuple(ids)


def _form(value: object) -> str:
    """What a value is, without its content, which may be of any length and depth."""
    if isinstance(value, Mapping):
        return f"an object with {', '.join(repr(key)[:40] for key in sorted(value)[:8]) or 'nothing in it'}"
    return f"a {type(value).__name__}"
