"""Plugin ``ssh``: the pods of a Job log in to one another without a password.

A Secret with a key pair of the Job's own is mounted in every container. In Volcano it is named ``<job>-ssh``. Here the
Job's uid is part of the name: a Secret of that name is the Job's. That is known without reading it, and Muster needs no
right to read Secrets.
"""

from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Final

from admission.facts.volcano_jobs import JobSpec, TaskSpec
from admission.volcano_jobs.companions import Companion, owned_manifest
from admission.volcano_jobs.plugins.containers import add_volume
from admission.volcano_jobs.plugins.svc import hosts_of
from admission.volcano_jobs.task_index import IndexPlaceholder
from queues.api.api_resources import SECRETS
from queues.api.validation.plugin_flags import PluginFlags

_ROOT_PATH: Final = "/root/.ssh"
_FILES: Final = ("id_rsa", "id_rsa.pub", "authorized_keys", "config")


def configure_pod(
    pod: dict[str, Any],
    job: JobSpec,
    _task: TaskSpec,
    _index: IndexPlaceholder,
    flags: PluginFlags,
) -> None:
    """Mount the Secret's files below one directory."""
    name, path = f"{job.name}-ssh", flags.texts["ssh-key-file-path"]
    volume = {
        "name": name,
        "secret": {
            "secretName": secret_name(job),
            "items": [{"key": file, "path": f".ssh/{file}"} for file in _FILES],
            # Other users than root must be able to read what root owns.
            "defaultMode": 0o600 if path == _ROOT_PATH else 0o644,
        },
    }
    add_volume(pod, volume, {"name": name, "mountPath": path, "subPath": ".ssh"})


def companions(job: JobSpec, flags: PluginFlags) -> tuple[Companion, ...]:
    """The Secret. Its key pair is generated later if the flags bring none."""
    name, private = secret_name(job), flags.texts["ssh-private-key"]
    manifest = owned_manifest(
        SECRETS, job, name, data={"config": _encoded(_client_configuration(job, flags))}
    )
    if private:
        manifest = with_keys(manifest, private=private, public=flags.texts["ssh-public-key"])
    return (
        Companion(
            resource=SECRETS,
            name=name,
            manifest=manifest,
            status_entry=("plugin-ssh", "ssh"),
            needs_key_pair=not private,
            named_by_uid=True,
        ),
    )


def secret_name(job: JobSpec) -> str:
    """Name of the Secret with the key pair."""
    return f"{job.name}-ssh-{job.uid}"


def with_keys(manifest: Mapping[str, Any], *, private: str, public: str) -> dict[str, Any]:
    """The Secret with a key pair: the private key as PKCS#1 PEM, the public key as an authorized_keys line."""
    keys = {"id_rsa": private, "id_rsa.pub": public, "authorized_keys": public}
    return {**manifest, "data": {**manifest["data"], **{name: _encoded(key) for name, key in keys.items()}}}


def _client_configuration(job: JobSpec, flags: PluginFlags) -> str:
    """The text of ``~/.ssh/config``, with every pod of the Job under its short name."""
    lines = ["StrictHostKeyChecking no", "UserKnownHostsFile /dev/null"]
    for task in job.tasks:
        for host in hosts_of(job, task):
            lines += [f"Host {host.name}", f"  HostName {host}", f"  Port {flags.numbers['ssh-port']}"]
    return "\n".join(lines) + "\n"


def _encoded(text: str) -> str:
    return b64encode(text.encode()).decode()
