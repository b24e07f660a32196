"""One container, run as a container runtime runs it: Linux namespaces, mounts, user.

Its programs are those of this machine and of the environment that runs the tests, where an image would have its own.

What is not there of a real runtime: seccomp, cgroups (so no memory limit) and a bounding set of capabilities. A user
other than root who may gain no privileges has no capability anyway.
"""

import os
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from queues.sql.embedded.supervised import Program, SupervisedProcess

#: User, environment and working folder of the image (``Containerfile``); the first folder of programs is another.
IMAGE_USER = 65532
IMAGE_ENVIRONMENT = {
    "PATH": f"{sys.prefix}/bin:/usr/bin",
    "LANG": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
}
IMAGE_FOLDER = "/home/nonroot"
_REPOSITORY = Path(__file__).parents[4]
#: Of this machine, read-only in the container: libraries and the programs that pods name, with root certificates.
_PROGRAMS = ("/usr", "/bin", "/lib", "/lib64", "/etc/ssl", sys.base_prefix, sys.prefix, str(_REPOSITORY))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A folder in the container; with ``source`` None one in memory, of so many bytes."""

    path: str
    source: Path | None = None
    size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSpec:
    """What a kubelet asks of a container runtime."""

    command: Sequence[str]
    environment: Mapping[str, str]
    network: Path
    mounts: Sequence[Mount]
    user: int
    group: int
    read_only: bool


class Container:
    """A container that was started."""

    def __init__(self, spec: ContainerSpec, process: SupervisedProcess, log: Path) -> None:
        self._spec, self._process, self.log = spec, process, log

    @classmethod
    def start(cls, spec: ContainerSpec, folder: Path) -> "Container":
        """Start it; its output goes to ``log`` in the folder."""
        folder.mkdir(parents=True)
        script = _script(spec, folder)
        process = SupervisedProcess.start(
            Program(
                argv=[
                    *("/usr/bin/nsenter", f"--net={spec.network}"),
                    # When the first process of the outer namespace is killed, the kernel kills all that is in it.
                    # By itself a container outlives its parent: a process forgets that wish when it changes its user.
                    *("/usr/bin/unshare", "--pid", "--fork", "--kill-child"),
                    *("/usr/bin/unshare", "--mount", "--pid", "--fork"),
                    *("/bin/sh", "-euc", script),
                ],
                log=folder / "log",
                cwd=folder,
                env={"PATH": os.environ["PATH"]},
                stop_signal=signal.SIGKILL,
            )
        )
        return cls(spec, process, folder / "log")

    @property
    def running(self) -> bool:
        """Whether its first process is there."""
        return self._process.running

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.returncode

    @property
    def pid(self) -> int:
        """Of the process that ends the container when it ends."""
        return self._process.pid

    @property
    def first_process(self) -> int | None:
        """The container's own first process; None: it has not begun, or is gone."""
        found = [first for outer in _children(self.pid) for first in _children(outer)]
        return found[0] if found else None

    @property
    def entered(self) -> bool:
        """Whether its first process has the container's file system: then a command finds the programs of the image."""
        try:
            return os.readlink(f"/proc/{self.first_process}/cwd").endswith(IMAGE_FOLDER)
        except OSError:
            return False

    def inside(self, *command: str) -> list[str]:
        """Arguments that run a command beside its first process, as its user."""
        assert self.first_process is not None
        who = (f"--setgid={self._spec.group}", f"--setuid={self._spec.user}")
        at = (f"--target={self.first_process}", "--mount", "--net", "--pid", "--root", "--wd")
        return ["/usr/bin/nsenter", *at, *who, "--", *command]

    def environment(self) -> dict[str, str]:
        """Of the container, which further commands in it have too."""
        return dict(self._spec.environment)

    def stop(self, grace: float) -> int:
        """SIGTERM to its first process, SIGKILL after the grace period in seconds; its exit code."""
        if (first := self.first_process) is not None:
            os.kill(first, signal.SIGTERM)
        if not self._process.wait(grace):
            self._process.stop()
        code = self._process.returncode
        return 137 if code is None else code

    def kill(self) -> None:
        """End it without a grace period."""
        self._process.stop()


def _children(process: int) -> list[int]:
    """Child processes; empty: it has none, or is gone."""
    try:
        return [int(each) for each in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def _script(spec: ContainerSpec, folder: Path) -> str:
    """Mounts, then the command in place of the shell: it is the first process of its namespace."""
    root = folder / "root"
    made = [f"mkdir {root}", f"mount -t tmpfs -o mode=755 root {root}"]
    made += [f"mkdir -p {root}/{name}" for name in ("dev", "etc", "proc", "run", "var", IMAGE_FOLDER)]
    made += [f"mkdir -m 1777 {root}/tmp", f"mount -t proc proc {root}/proc"]
    made.append(f"echo nonroot:x:{IMAGE_USER}:{IMAGE_USER}::{IMAGE_FOLDER}:/nonexistent > {root}/etc/passwd")
    for program in map(Path, dict.fromkeys(_PROGRAMS)):
        if program.is_symlink():
            made.append(f"ln -s {program.readlink()} {root}{program}")
        elif program.is_dir():
            made += [f"mkdir -p {root}{program}", f"mount --bind -o ro {program} {root}{program}"]
    made += [f"mount -t tmpfs -o mode=755 dev {root}/dev", f"mkdir {root}/dev/shm"]
    made += [f"mount -t tmpfs -o mode=1777,size=64m shm {root}/dev/shm"]
    for device in ("null", "zero", "full", "random", "urandom"):
        made += [f": > {root}/dev/{device}", f"mount --bind /dev/{device} {root}/dev/{device}"]
    for mount in spec.mounts:
        at = shlex.quote(f"{root}{mount.path}")
        made.append(f"mkdir -p {at}")
        if mount.source is None:
            made.append(f"mount -t tmpfs -o mode=777,size={mount.size} memory {at}")
        else:
            made.append(f"mount --bind -o ro {shlex.quote(str(mount.source))} {at}")
    if spec.read_only:
        made.append(f"mount -o remount,ro {root}")
    environment = [shlex.quote(f"{name}={value}") for name, value in spec.environment.items()]
    user = f"--root={root} --wd={IMAGE_FOLDER} --setgid={spec.group} --setuid={spec.user}"
    run = [
        "exec /usr/bin/setpriv --no-new-privs /usr/bin/env -i",
        *environment,
        "/usr/bin/unshare",
        user,
        "--",
    ]
    return "\n".join([*made, " ".join([*run, *map(shlex.quote, spec.command)])])
