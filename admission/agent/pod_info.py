"""What the agent knows of a pod: its name, its queue, its gang and its user. Pure.

Pods are written by tenants. Whatever is in a document, it gives a value or None, never an exception; what
cannot be used counts as missing.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from queues.api import names
from queues.json_values import list_at, mapping_at, text_at

#: Characters of a name; a longer value cannot be a name, and would blow up metrics and messages.
_LONGEST_NAME: Final = 253
#: Uid of a static pod: the kubelet makes it from the manifest.
_STATIC_UID: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)

#: The kubelet's annotations on the object that stands for a static pod, and the uid that it uses itself.
_MIRROR: Final = "kubernetes.io/config.mirror"
_STATIC_HASH: Final = "kubernetes.io/config.hash"
#: Label of the job controller on the pods of a batch/v1 Job.
_BATCH_JOB: Final = "batch.kubernetes.io/job-name"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodInfo:
    """A pod of the node. Names are "" where the pod does not have them."""

    uid: str
    namespace: str
    name: str
    queue: str = ""
    #: The gang: its PodGroup, else its Volcano Job, else its batch/v1 Job.
    group: str = ""
    #: Who created it.
    user: str = ""
    #: Uid that the kubelet, its checkpoint and the cgroups use: another one for static pods.
    kubelet_uid: str


def pod_info(document: object) -> PodInfo | None:
    """The pod of a JSON document, as ``json.loads`` gives it. None if it is no pod with a name and a uid."""
    metadata = mapping_at(document, "metadata")
    uid, namespace, name = (_name(metadata, key) for key in ("uid", "namespace", "name"))
    if not (uid and namespace and name):
        return None
    labels, annotations = mapping_at(metadata, "labels"), mapping_at(metadata, "annotations")
    return PodInfo(
        uid=uid,
        namespace=namespace,
        name=name,
        queue=(
            _name(labels, names.QUEUE_LABEL)
            or _name(annotations, names.QUEUE_ANNOTATION)
            or _name(labels, names.QUEUE_ANNOTATION)
            or _name(annotations, names.VOLCANO_QUEUE)
            or _name(labels, names.VOLCANO_QUEUE)
        ),
        group=(
            _name(annotations, names.GROUP_ANNOTATION)
            or _name(annotations, names.GROUP_ANNOTATION_VOLCANO)
            or _name(annotations, names.JOB_NAME)
            or _name(labels, names.JOB_NAME)
            or _name(labels, _BATCH_JOB)
        ),
        user=_name(annotations, names.USER),
        kubelet_uid=_kubelet_uid(metadata, annotations) or uid,
    )


def _kubelet_uid(metadata: Mapping[str, object], annotations: Mapping[str, object]) -> str:
    """Uid of a static pod; "": it is none.

    A tenant may write the annotations on any pod. Only the kubelet's pods are owned by a Node, and only uids of
    static pods have this form, so that no pod can take the place of another one that came from the API server.
    """
    of_node = any(text_at(owner, "kind") == "Node" for owner in list_at(metadata, "ownerReferences"))
    found = text_at(annotations, _STATIC_HASH)
    return found if of_node and _MIRROR in annotations and _STATIC_UID.fullmatch(found) else ""


def _name(values: Mapping[str, object], key: str) -> str:
    name = text_at(values, key)
    return name if len(name) <= _LONGEST_NAME else ""
