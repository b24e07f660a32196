"""The pod of a process, by the control groups that the kubelet has put it into.

The kubelet names the group of a pod in two ways (its setting ``cgroupDriver``), under any root:

- systemd: ``kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid>.slice``, dashes of the uid written as
  ``_``, and with a prefix where the kubelet has a root of its own: ``kubelet-kubepods-pod<uid>.slice``;
- cgroupfs: ``/kubepods/burstable/pod<uid>``; of a guaranteed pod ``/kubepods/pod<uid>``.

Below it come the groups of the container runtime (``cri-containerd-<id>.scope``, ``crio-<id>.scope``,
``docker-<id>.scope``, or the id alone) and whatever the container makes itself.
"""

import re
from pathlib import Path
from typing import Final

#: Folder in which the kernel shows the processes of the node: the agent needs ``hostPID``.
PROC: Final = Path("/proc")

_UID: Final = r"(?P<uid>[0-9A-Za-z][0-9A-Za-z_.-]{0,252})"
_SYSTEMD_POD: Final = re.compile(rf"(?:.*-)?kubepods(?:-burstable|-besteffort)?-pod{_UID}\.slice")
_CGROUPFS_POD: Final = re.compile(rf"pod{_UID}")
_QOS: Final = ("burstable", "besteffort")


def pod_uid(text: str) -> str | None:
    """Uid of the pod, from the text of ``/proc/<pid>/cgroup``. None for a process of the node itself.

    The text has a line per hierarchy, ``<number>:<controllers>:<path>``; with cgroup v2 it is one,
    ``0::<path>``. Of a path with several pods (Kubernetes in a pod) the outermost counts: that one is the
    node's. A process cannot leave the group of its pod, so it cannot pretend to be of another one.
    """
    for line in text.splitlines():
        _, separator, path = line.partition(":")
        if separator and (found := _pod_in(path.partition(":")[2].split("/"))):
            return found
    return None


def pod_of_process(pid: int, proc: Path = PROC) -> str | None:
    """Uid of the pod that a process runs in. None if it runs in none, or has ended."""
    try:
        return pod_uid((proc / str(pid) / "cgroup").read_text(errors="replace"))
    except OSError:
        return None


def _pod_in(groups: list[str]) -> str | None:
    for place, group in enumerate(groups):
        # Where runtime and kubelet use different drivers, the group is ``<slice>:<prefix>:<id>``.
        if found := _SYSTEMD_POD.fullmatch(group.partition(":")[0]):
            return found["uid"].replace("_", "-")
        if (found := _CGROUPFS_POD.fullmatch(group)) and _is_of_kubelet(groups[:place]):
            return found["uid"]
    return None


def _is_of_kubelet(parents: list[str]) -> bool:
    return parents[-1:] == ["kubepods"] or (parents[-2:-1] == ["kubepods"] and parents[-1] in _QOS)
