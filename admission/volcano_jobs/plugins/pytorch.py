"""Plugin ``pytorch``: the environment by which ``torch.distributed`` finds the other processes (``env://``)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self

from admission.volcano_jobs.companions import Companion
from admission.volcano_jobs.job import JobSpec, TaskSpec
from admission.volcano_jobs.plugins.containers import add_environment, open_port
from admission.volcano_jobs.plugins.flags import boolean, port, seconds
from admission.volcano_jobs.plugins.svc import hosts_of
from admission.volcano_jobs.task_index import IndexPlaceholder, TaskIndex
from queues.api.validation.unsupported import ACTING_FLAGS

_WAITING: Final = "wait-for-master"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pytorch:
    """``MASTER_ADDR``, ``MASTER_PORT``, ``WORLD_SIZE`` and ``RANK``. The plugin ``svc`` comes with it."""

    name: ClassVar[str] = "pytorch"
    flags: ClassVar[frozenset[str]] = ACTING_FLAGS["pytorch"]
    boolean_flags: ClassVar[frozenset[str]] = frozenset({"wait-master-enabled"})

    master: str = "master"
    worker: str = "worker"
    port: int = 23456
    wait_for_master: bool = False
    wait_seconds: int = 300
    wait_image: str = "busybox:1.36.1"

    @classmethod
    def from_flags(cls, flags: Mapping[str, str]) -> Self:
        """The plugin with the written values, else the defaults of Volcano. Raises InvalidDocument."""
        waits, timeout = flags.get("wait-master-enabled"), flags.get("wait-master-timeout")
        return cls(
            master=flags.get("master") or "master",
            worker=flags.get("worker") or "worker",
            port=port(cls.name, "port", flags, 23456),
            wait_for_master=waits is not None and boolean(cls.name, "wait-master-enabled", waits),
            wait_seconds=300 if timeout is None else seconds(cls.name, "wait-master-timeout", timeout),
            wait_image=flags.get("wait-master-image") or "busybox:1.36.1",
        )

    def configure_pod(
        self, pod: dict[str, Any], job: JobSpec, task: TaskSpec, index: TaskIndex | IndexPlaceholder
    ) -> None:
        """Add the variables to every container. Without a master task there is nothing that they could name."""
        masters, workers = job.task(self.master), job.task(self.worker)
        if masters is None or not masters.replicas:
            return
        address = str(hosts_of(job, masters)[0])
        if self.wait_for_master and task.name == self.worker:
            others = pod["spec"].get("initContainers") or ()
            if all(each.get("name") != _WAITING for each in others):
                pod["spec"]["initContainers"] = [self._waiting_container(address), *others]
        variables = {
            "MASTER_ADDR": address,
            "MASTER_PORT": str(self.port),
            "WORLD_SIZE": str(masters.replicas + (0 if workers is None else workers.replicas)),
        }
        if task.name == self.master:
            variables["RANK"] = "0"
        elif task.name == self.worker:
            variables["RANK"] = index.plus(1)
        open_port(pod, "pytorchjob-port", self.port)
        add_environment(pod, [{"name": name, "value": value} for name, value in variables.items()])

    def companions(self, _job: JobSpec) -> tuple[Companion, ...]:
        """The plugin needs no objects of its own."""
        return ()

    def _waiting_container(self, address: str) -> dict[str, Any]:
        """It ends well once the master listens, and fails when that takes too long."""
        script = (
            f"waited=0; until nc -z -w 1 {address} {self.port}; do "
            f"waited=$((waited + 1)); "
            f'if [ "$waited" -ge {self.wait_seconds} ]; then echo "{address}:{self.port} does not answer"; exit 1; fi; '
            f"sleep 1; done"
        )
        return {"name": _WAITING, "image": self.wait_image, "command": ["sh", "-c", script]}
