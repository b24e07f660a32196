"""The whole product on this machine: control plane, Postgres, Muster with an identity of its own.

The demo, the end-to-end tests and the benchmarks run on it.
"""

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from deploy.local.cluster import PATIENCE, LocalCluster
from deploy.local.components import ClusterOptions
from deploy.local.processes import free_port
from queues.errors import MusterError
from queues.sql.embedded.server import EmbeddedPostgres
from queues.sql.embedded.supervised import Program, SupervisedProcess

#: Muster's user at the API server: the service account of its deployment, here with a client certificate.
USERNAME = "system:serviceaccount:muster-system:muster"
GROUPS = ("system:serviceaccounts", "system:serviceaccounts:muster-system", "system:authenticated")
#: What Python runs.
MUSTER = ("-m", "admission.cli.muster")


class MusterDidNotStart(MusterError):
    """Muster was not ready after {seconds:.0f} seconds. The end of {log}: {tail}"""


class ReplicaEnded(MusterError):
    """Muster ended with status {status} before it was ready. The end of {log}: {tail}"""


class LocalCommandFailed(MusterError):
    """{command} ended with status {status}: {output}"""


@dataclass(slots=True)
class Replica:
    """One running ``muster run``."""

    name: str
    process: SupervisedProcess
    #: Health and metrics.
    http: str
    #: The read API of this replica.
    read: str
    log: Path

    def ready(self) -> bool:
        """True if it answers that it is ready."""
        try:
            with urllib.request.urlopen(f"{self.http}/readyz", timeout=2) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False


@dataclass(slots=True)
class Stack:
    """Start with ``with Stack() as stack``; everything ends with the block, or with this process."""

    options: ClusterOptions | None = None
    durable: bool = True
    log_level: str = "info"
    environment: Mapping[str, str] = field(default_factory=dict)
    cluster: LocalCluster = field(init=False)
    postgres: EmbeddedPostgres = field(init=False)
    dsn: str = field(init=False)
    webhook_port: int = field(init=False)
    #: Where the API server passes requests of users on to.
    read_port: int = field(init=False)
    replicas: list[Replica] = field(init=False, default_factory=list)

    def __enter__(self) -> Self:
        self.cluster = LocalCluster(options=self.options).start()
        self.postgres = EmbeddedPostgres()
        self.webhook_port, self.read_port = free_port(), free_port()
        try:
            self.postgres.start(self.cluster.directory / "postgres", durable=self.durable, patience=PATIENCE)
            self.dsn = self.postgres.dsn()
        except BaseException:
            self.cluster.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for replica in self.replicas:
            replica.process.stop()
        self.postgres.stop()
        self.cluster.stop()

    def muster(self, *arguments: str | Path, check: bool = True) -> "subprocess.CompletedProcess[str]":
        """Run a muster command as the cluster's administrator."""
        return self.run([sys.executable, "-m", "admission.cli.muster", *arguments], check)

    def kubectl(
        self, *arguments: str | Path, check: bool = True, user: Path | None = None
    ) -> "subprocess.CompletedProcess[str]":
        """Run kubectl, as the administrator or as another user."""
        kubeconfig = user or self.cluster.kubeconfig
        return self.run([self.cluster.kubectl, "--kubeconfig", kubeconfig, *arguments], check)

    def apply(self, *paths: Path) -> None:
        """``kubectl apply -f`` for each of them."""
        for path in paths:
            self.kubectl("apply", "-f", path)

    def install(self, *arguments: str) -> None:
        """``muster install`` with a webhook and a read API on this machine."""
        webhook, read = (f"https://127.0.0.1:{port}" for port in (self.webhook_port, self.read_port))
        urls = ("--webhook-url", webhook, "--read-url", read)
        self.muster("install", "--kubeconfig", self.cluster.kubeconfig, *urls, *arguments)

    def pod_kubeconfig(self) -> Path:
        """Muster as it is known in its own pod: by a token of its service account, which is there once installed."""
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        with self.cluster.client() as api:
            answer = api.create("/api/v1/namespaces/muster-system/serviceaccounts/muster/token", asked)
        return self.cluster.kubeconfig_by_token("muster-by-token", answer["status"]["token"])

    def start_muster(
        self,
        name: str = "muster",
        *,
        environment: Mapping[str, str] | None = None,
        wait: bool = True,
        program: Sequence[str] = MUSTER,
        kubeconfig: Path | None = None,
        reached: bool | None = None,
        tree: Path | None = None,
    ) -> Replica:
        """Start one more ``muster run``, and wait until it is ready. ``program``: what Python runs instead.

        ``kubeconfig``: if None, it is known by a certificate. ``reached``: whether the API server asks this one; None
        for the first only. ``tree``: folder with the sources of the version that runs; None for these.
        """
        port = free_port()
        first = not self.replicas if reached is None else reached
        webhook, read = (self.webhook_port, self.read_port) if first else (free_port(), free_port())
        log = self.cluster.directory / f"{name}.log"
        flags = {
            "kubeconfig": kubeconfig or self.cluster.kubeconfig_for(USERNAME, GROUPS),
            "http-listen": f"127.0.0.1:{port}",
            "read-listen": f"127.0.0.1:{read}",
            "read-url": f"https://127.0.0.1:{read}",
            "webhook-listen": f"127.0.0.1:{webhook}",
            "webhook-url": f"https://127.0.0.1:{self.webhook_port}",
            "identity": f"{name}-{port}",
            "log-format": "console",
            "log-level": self.log_level,
        }
        process = SupervisedProcess.start(
            Program(
                argv=[
                    sys.executable,
                    *program,
                    "run",
                    *(f"--{flag}={value}" for flag, value in flags.items()),
                ],
                log=log,
                cwd=tree or Path.cwd(),
                env={**os.environ, **self.environment, "MUSTER_DSN": self.dsn, **(environment or {})},
            )
        )
        replica = Replica(name, process, f"http://127.0.0.1:{port}", f"https://127.0.0.1:{read}", log)
        self.replicas.append(replica)
        if wait:
            self.wait_ready(replica)
            if first:
                # If Muster is installed with one.
                self.cluster.wait_for("/apis/read.muster.dev/v1", if_known=True)
        return replica

    def wait_ready(self, replica: Replica) -> None:
        """Wait until a replica is ready. Raises MusterDidNotStart, ReplicaEnded."""
        deadline = time.monotonic() + PATIENCE
        while not replica.ready():
            tail = replica.log.read_text(errors="replace")[-2000:]
            if not replica.process.running:
                raise ReplicaEnded(status=replica.process.returncode, log=replica.log, tail=tail)
            if time.monotonic() > deadline:
                raise MusterDidNotStart(seconds=PATIENCE, log=replica.log, tail=tail)
            time.sleep(0.05)

    def run(self, argv: Sequence[str | Path], check: bool) -> "subprocess.CompletedProcess[str]":
        """Run a command with the address of the database in its environment."""
        done = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
            env={**os.environ, "MUSTER_DSN": self.dsn},
        )
        if check and done.returncode:
            shown = " ".join(str(part) for part in argv[-6:])
            raise LocalCommandFailed(
                command=shown, status=done.returncode, output=(done.stdout + done.stderr)[-2000:]
            )
        return done
