"""Plugin ``ssh``: the pods of a Job log in to one another without a password."""

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self

from admission.volcano_jobs.companions import Companion, owned_manifest
from admission.volcano_jobs.job import JobSpec, TaskSpec
from admission.volcano_jobs.plugins.containers import add_volume
from admission.volcano_jobs.plugins.flags import port
from admission.volcano_jobs.plugins.svc import hosts_of
from admission.volcano_jobs.task_index import IndexPlaceholder, TaskIndex
from queues.api.api_resources import SECRETS
from queues.api.validation.unsupported import ACTING_FLAGS
from queues.errors import InvalidDocument

ROOT_PATH: Final = "/root/.ssh"
_FILES: Final = ("id_rsa", "id_rsa.pub", "authorized_keys", "config")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ssh:
    """A Secret with a key pair of the Job's own, mounted in every container.

    In Volcano the Secret is named ``<job>-ssh``. Here the Job's uid is part of the name: a Secret of that name is the
    Job's. That is known without reading it, and Muster needs no right to read Secrets.
    """

    name: ClassVar[str] = "ssh"
    flags: ClassVar[frozenset[str]] = ACTING_FLAGS["ssh"]
    boolean_flags: ClassVar[frozenset[str]] = frozenset()

    path: str = ROOT_PATH
    private_key: str = ""
    public_key: str = ""
    port: int = 22

    @classmethod
    def from_flags(cls, flags: Mapping[str, str]) -> Self:
        """The plugin with the written values, else the defaults of Volcano. Raises InvalidDocument."""
        private, public = flags.get("ssh-private-key", ""), flags.get("ssh-public-key", "")
        if bool(private) != bool(public):
            raise InvalidDocument(
                where="spec.plugins.ssh",
                found="one of --ssh-private-key and --ssh-public-key",
                expected="both, or neither to have a key pair made",
            )
        return cls(
            path=flags.get("ssh-key-file-path") or ROOT_PATH,
            private_key=private,
            public_key=public,
            port=port(cls.name, "ssh-port", flags, 22),
        )

    def configure_pod(
        self, pod: dict[str, Any], job: JobSpec, _task: TaskSpec, _index: TaskIndex | IndexPlaceholder
    ) -> None:
        """Mount the Secret's files below one directory."""
        name = f"{job.name}-ssh"
        volume = {
            "name": name,
            "secret": {
                "secretName": secret_name(job),
                "items": [{"key": file, "path": f".ssh/{file}"} for file in _FILES],
                # Other users than root must be able to read what root owns.
                "defaultMode": 0o600 if self.path == ROOT_PATH else 0o644,
            },
        }
        add_volume(pod, volume, {"name": name, "mountPath": self.path, "subPath": ".ssh"})

    def companions(self, job: JobSpec) -> tuple[Companion, ...]:
        """The Secret. Its key pair is generated later if the flags bring none."""
        name = secret_name(job)
        manifest = owned_manifest(
            SECRETS, job, name, data={"config": _encoded(self.client_configuration(job))}
        )
        if self.private_key:
            manifest = with_keys(manifest, private=self.private_key, public=self.public_key)
        return (
            Companion(
                resource=SECRETS,
                name=name,
                manifest=manifest,
                status_entry=("plugin-ssh", "ssh"),
                needs_key_pair=not self.private_key,
                named_by_uid=True,
            ),
        )

    def client_configuration(self, job: JobSpec) -> str:
        """The text of ``~/.ssh/config``, with every pod of the Job under its short name."""
        lines = ["StrictHostKeyChecking no", "UserKnownHostsFile /dev/null"]
        for task in job.tasks:
            for host in hosts_of(job, task):
                lines += [f"Host {host.name}", f"  HostName {host}", f"  Port {self.port}"]
        return "\n".join(lines) + "\n"


def secret_name(job: JobSpec) -> str:
    """Name of the Secret with the key pair."""
    return f"{job.name}-ssh-{job.uid}"


def with_keys(manifest: Mapping[str, Any], *, private: str, public: str) -> dict[str, Any]:
    """The Secret with a key pair: the private key as PKCS#1 PEM, the public key as an authorized_keys line."""
    keys = {"id_rsa": private, "id_rsa.pub": public, "authorized_keys": public}
    return {**manifest, "data": {**manifest["data"], **{name: _encoded(key) for name, key in keys.items()}}}


def _encoded(text: str) -> str:
    return b64encode(text.encode()).decode()
