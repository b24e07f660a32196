"""LocalQueues of Kueue as Namespaces of Muster's: their queue, and what Kueue's names on jobs lead to there."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from queues.api.check.finding import Subject
from queues.api.convert.conversion import Conversion
from queues.api.convert.kueue_types import LocalQueue
from queues.api.kueue_names import LOCAL_QUEUE
from queues.api.names import CORE, GATED_NAMESPACE, KUEUE_NAMES, QUEUE_LABEL
from queues.text_format import listed

#: The name of the LocalQueue that jobs of a namespace have which name none.
_DEFAULT_LOCAL_QUEUE: Final = "default"
#: Characters of a label's value: no job names a LocalQueue with a longer name.
_LONGEST_LABEL: Final = 63

Members = list[tuple[Subject, LocalQueue]]


def by_namespace(local: Iterable[tuple[Subject, LocalQueue]]) -> dict[str, Members]:
    """LocalQueues by the name of their namespace, in the order of these names."""
    found: dict[str, Members] = {}
    for subject, queue in local:
        found.setdefault(queue.metadata.namespace or "default", []).append((subject, queue))
    return dict(sorted(found.items()))


def convert_namespaces(
    members_by_namespace: Mapping[str, Members],
    queues: Mapping[str, str],
    done: Conversion,
    *,
    kueue_names: bool,
) -> None:
    """Namespaces with their queue. ``queues``: ClusterQueue → Queue; ``kueue_names``: Kueue's names count in them."""
    for namespace, members in members_by_namespace.items():
        for subject, queue in members:
            _tell(subject, queue, queues, done, kueue_names=kueue_names)
        metadata: dict[str, Any] = {"name": namespace}
        labels: dict[str, str] = {}
        annotations = _leads_to(members, queues) if kueue_names else {}
        target, has_default = _target(members)
        if target is None:
            clusters = listed(sorted({queue.spec.cluster_queue for _, queue in members}))
            found = f"LocalQueues of {clusters} in namespace {namespace}, none of them called default"
            instead = "the namespace gets no queue: each job has to name its own"
            done.tell("note", members[0][0], "", found, instead)
        else:
            annotations = {QUEUE_LABEL: queues.get(target, target), **annotations}
            if not has_default:
                # As in Kueue without a default LocalQueue: only what names a queue waits.
                labels[GATED_NAMESPACE] = "false"
        if kueue_names:
            labels[KUEUE_NAMES] = "true"
        if labels:
            metadata["labels"] = labels
        if annotations:
            metadata["annotations"] = annotations
            done.documents.append({"apiVersion": CORE, "kind": "Namespace", "metadata": metadata})


def _target(members: Members) -> tuple[str | None, bool]:
    """The ClusterQueue of objects that name no queue, and whether these wait; None if there are several."""
    default = next((queue for _, queue in members if queue.metadata.name == _DEFAULT_LOCAL_QUEUE), None)
    targets = {queue.spec.cluster_queue for _, queue in members}
    if default is not None:
        return default.spec.cluster_queue, True
    return (next(iter(targets)) if len(targets) == 1 else None), False


def _leads_to(members: Members, queues: Mapping[str, str]) -> dict[str, str]:
    return {
        f"{LOCAL_QUEUE}{queue.metadata.name}": queues.get(queue.spec.cluster_queue, queue.spec.cluster_queue)
        for _, queue in members
        if len(queue.metadata.name) <= _LONGEST_LABEL
    }


def _tell(
    subject: Subject, queue: LocalQueue, queues: Mapping[str, str], done: Conversion, *, kueue_names: bool
) -> None:
    """What differs for the jobs of a LocalQueue."""
    target = queue.spec.cluster_queue
    if not target:
        done.tell("error", subject, "spec.clusterQueue", "nothing", "expected a ClusterQueue")
        return
    instead = (
        f"in jobs of this namespace write {QUEUE_LABEL}: {queues.get(target, target)} "
        f"in place of kueue.x-k8s.io/queue-name: {queue.metadata.name}"
    )
    if not kueue_names:
        done.tell("note", subject, "", "a name for a ClusterQueue", instead)
    if target not in queues:
        instead = "it has to be converted too, or to exist as a Queue"
        found = f"{target}, which is not among the documents"
        done.tell("warning", subject, "spec.clusterQueue", found, instead)
    if queue.metadata.name == _DEFAULT_LOCAL_QUEUE:
        instead = (
            "the namespace is gated: what names no queue waits in this one, also pods of Deployments; "
            f'the label {GATED_NAMESPACE}: "false" on the Namespace keeps it open'
        )
        done.tell("warning", subject, "metadata.name", "default", instead)
    if queue.spec.stop_policy != "None":
        instead = "left out: a LocalQueue has no counterpart; pause the whole queue with `kubectl muster queue pause`"
        done.tell("warning", subject, "spec.stopPolicy", queue.spec.stop_policy, instead)
    if queue.spec.fair_sharing is not None:
        instead = "left out: inside a queue past use counts by user, not by namespace"
        done.tell("warning", subject, "spec.fairSharing", "a weight", instead)
