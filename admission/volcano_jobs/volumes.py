"""Volumes of a Volcano Job: each is a claim, mounted in every container of every pod."""

from hashlib import blake2b
from typing import Any

from admission.facts.volcano_jobs import JobSpec, VolumeSpec
from admission.volcano_jobs.companions import Companion, owned_manifest
from admission.volcano_jobs.plugins.containers import add_volume
from queues.api.api_resources import VOLUME_CLAIMS


def mount_volumes(pod: dict[str, Any], job: JobSpec) -> None:
    """Add the Job's volumes to a pod. Two mounts of one claim share a volume."""
    volume_names: dict[str, str] = {}
    for position, volume in enumerate(job.volumes):
        claim = claim_name(job, position, volume)
        name = volume_names.get(claim) or f"{job.name}-{_token(job, position)}"
        mount = {"name": name, "mountPath": volume.mount_path}
        source = {"name": name, "persistentVolumeClaim": {"claimName": claim}}
        add_volume(pod, source, mount, present=claim in volume_names)
        volume_names[claim] = name


def volume_claims(job: JobSpec) -> tuple[Companion, ...]:
    """Claims that the Job describes itself. As in Volcano they stay when pods are removed."""
    return tuple(
        Companion(
            resource=VOLUME_CLAIMS,
            name=name,
            manifest=owned_manifest(VOLUME_CLAIMS, job, name, spec=volume.volume_claim),
            status_entry=(f"volume-pvc-{name}", name),
        )
        for position, volume in enumerate(job.volumes)
        if not volume.volume_claim_name
        for name in [claim_name(job, position, volume)]
    )


def claim_name(job: JobSpec, position: int, volume: VolumeSpec) -> str:
    """The claim of a volume. Volcano draws a random name; here the name follows from the Job's uid."""
    return volume.volume_claim_name or f"{job.name}-pvc-{_token(job, position)}"


def _token(job: JobSpec, position: int) -> str:
    return blake2b(f"{job.uid}/{position}".encode(), digest_size=6).hexdigest()
