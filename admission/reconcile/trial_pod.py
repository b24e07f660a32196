"""The pod that stands for all pods of a template in a dry run: as its controller would make it, tied to no node. Pure.

It carries the label of released pods, so that Muster's own policies neither gate nor change it.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from admission.decode.pod_templates import affinity_as_written
from admission.facts.volcano_jobs import JobSpec, TaskSpec
from admission.volcano_jobs.pods import PodRules, PodSettings, PodTemplateRenderer
from admission.wire import WireMetadata
from queues.api import names
from queues.api.flavor_tolerations import own_tolerations
from queues.workload import AdmissionId, NodeName

Document = dict[str, Any]

#: The pod is never made.
_NO_ADMISSION: Final = AdmissionId(0)


def pod_of_job(job: WireMetadata, template: bytes) -> Document:
    """A pod as the job controller makes it from the template of a batch/v1 Job.

    Nodes and tolerations that an earlier admission wrote there are taken out again.
    """
    read = msgspec.json.decode(template)
    spec = dict(read["spec"])
    if affinity := affinity_as_written(template, spec.pop("affinity", None)):
        spec["affinity"] = affinity
    said = read.get("metadata") or {}
    if spec.pop("tolerations", None) and (own := own_tolerations(read["spec"], said.get("annotations"))):
        spec["tolerations"] = own
    labels, annotations = (_without_own(said.get(each)) for each in ("labels", "annotations"))
    owner = {
        "apiVersion": names.BATCH,
        "kind": "Job",
        "name": job.name,
        "uid": job.uid,
        "controller": True,
    }
    return {
        "apiVersion": names.CORE,
        "kind": "Pod",
        "metadata": {
            "generateName": f"{job.name}-",
            "namespace": job.namespace,
            "labels": {**labels, names.RELEASED: "true"},
            "annotations": annotations,
            "ownerReferences": [owner],
        },
        "spec": spec,
    }


def pod_of_task(job: JobSpec, task: TaskSpec, rules: PodRules) -> Document:
    """A pod as Muster makes it for a task of a Volcano Job. Raises InvalidDocument."""
    settings = PodSettings(admission=_NO_ADMISSION, rules=rules)
    pod: Document = msgspec.json.decode(PodTemplateRenderer(job, task, settings).render(0, NodeName("")))
    # A pod of this name may be there still, of an earlier attempt.
    pod["metadata"]["generateName"] = f"{pod['metadata'].pop('name')}-"
    affinity = (msgspec.json.decode(task.template).get("spec") or {}).get("affinity")
    pod["spec"].pop("affinity")
    if affinity:
        pod["spec"]["affinity"] = affinity
    return pod


def _without_own(said: Mapping[str, str] | None) -> dict[str, str]:
    return {key: value for key, value in (said or {}).items() if key not in names.OWN_NAMES}
