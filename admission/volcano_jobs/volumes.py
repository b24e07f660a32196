"""Volumes of a Volcano Job: one claim each, mounted in every container of every pod."""

from hashlib import blake2b
from typing import Any

from admission.volcano_jobs.companions import CORE, Companion, metadata
from admission.volcano_jobs.job import JobSpec, VolumeSpec
from admission.volcano_jobs.plugins.containers import add_volume


def mount_volumes(pod: dict[str, Any], job: JobSpec) -> None:
    """Add the Job's volumes to a pod. Two mounts of one claim share a volume."""
    known: dict[str, str] = {}
    for position, volume in enumerate(job.volumes):
        claim = claim_name(job, position, volume)
        name = known.get(claim) or f"{job.name}-{_token(job, position)}"
        mount = {"name": name, "mountPath": volume.mount_path}
        source = {"name": name, "persistentVolumeClaim": {"claimName": claim}}
        add_volume(pod, source, mount, present=claim in known)
        known[claim] = name


def volume_claims(job: JobSpec) -> tuple[Companion, ...]:
    """Claims that the Job describes itself. As in Volcano they stay when pods are removed."""
    return tuple(
        Companion(
            api=CORE,
            plural="persistentvolumeclaims",
            name=claim_name(job, position, volume),
            manifest={
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": metadata(job, claim_name(job, position, volume)),
                "spec": volume.claim,
            },
            entry=(f"volume-pvc-{claim_name(job, position, volume)}", claim_name(job, position, volume)),
        )
        for position, volume in enumerate(job.volumes)
        if not volume.claim_name
    )


def claim_name(job: JobSpec, position: int, volume: VolumeSpec) -> str:
    """The claim a volume uses. Volcano draws a random name; here it follows from the Job's uid."""
    return volume.claim_name or f"{job.name}-pvc-{_token(job, position)}"


def _token(job: JobSpec, position: int) -> str:
    return blake2b(f"{job.uid}/{position}".encode(), digest_size=6).hexdigest()
