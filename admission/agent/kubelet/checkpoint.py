"""Which devices the kubelet gave to which containers, and as which resource each is registered, from the file in which
its device manager keeps that.

``/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint`` is JSON that the kubelet replaces as a whole
(``Data`` and ``DevicesPerNUMA`` in pkg/kubelet/cm/devicemanager/checkpoint of Kubernetes):

    {"Data": {"PodDeviceEntries": [{"PodUID": …, "ContainerName": …, "ResourceName": "nvidia.com/gpu",
                                    "DeviceIDs": {"0": ["GPU-…"]}, "AllocResp": …}],
              "RegisteredDevices": {"nvidia.com/gpu": ["GPU-…"]}},
     "Checksum": 1, "BootID": …}

``DeviceIDs`` is by NUMA node (-1: unknown). The checksum is over Go's own form of the values and cannot be computed
here. Entries of pods that are gone stay until the kubelet gives devices again: callers compare them with the pods that
exist. ``RegisteredDevices`` has only those that their plugin calls healthy, and none while the plugin has not
registered yet.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from queues.errors import MusterError

#: Characters of an error that are reported.
_LONGEST: Final = 200
#: In the kubelet's folder.
CHECKPOINT: Final = "device-plugins/kubelet_internal_checkpoint"


class CheckpointUnreadable(MusterError):
    """The kubelet's file of given devices ({path}) cannot be used: {found}. Until it can, what the processes use is
    reported. Report this with the version of the kubelet if it lasts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenDevices:
    """Devices of one resource that the kubelet gave to one container."""

    pod_uid: str
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


class _Entry(msgspec.Struct):
    pod_uid: str = msgspec.field(name="PodUID")
    resource: str = msgspec.field(name="ResourceName")
    ids: dict[str, tuple[str, ...] | None] | None = msgspec.field(name="DeviceIDs")


class _Data(msgspec.Struct):
    entries: list[_Entry] | None = msgspec.field(name="PodDeviceEntries")
    registered: dict[str, tuple[str, ...] | None] | None = msgspec.field(
        name="RegisteredDevices", default=None
    )


class _Checkpoint(msgspec.Struct):
    data: _Data = msgspec.field(name="Data")


def kubelet_devices(path: Path) -> KubeletDevices:
    """What the kubelet knows. Empty: nothing, or there is no such file. Raises CheckpointUnreadable."""
    try:
        data = msgspec.json.decode(path.read_bytes(), type=_Checkpoint).data
    except FileNotFoundError:
        return KubeletDevices()
    except (OSError, msgspec.MsgspecError, RecursionError) as error:
        raise CheckpointUnreadable(path=path, found=str(error)[:_LONGEST]) from error
    return KubeletDevices(
        given=tuple(
            GivenDevices(
                pod_uid=entry.pod_uid,
                resource=entry.resource,
                ids=tuple(sorted(each for ids in (entry.ids or {}).values() for each in ids or ())),
            )
            for entry in data.entries or ()
        ),
        registered={resource: ids or () for resource, ids in (data.registered or {}).items()},
    )
