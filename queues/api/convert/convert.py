"""``muster convert``: Kueue's queues as Muster's, without a cluster. Volcano's are read as they are."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from typing import Any, Final

from pydantic import ValidationError

from queues.api.api_resources import FLAVORS, PRIORITY_CLASSES, TOPOLOGIES
from queues.api.check.check import read_subjects
from queues.api.check.finding import Finding, Subject
from queues.api.convert.cohorts import KueueQueues, convert_queues
from queues.api.convert.conversion import Conversion, document_of
from queues.api.convert.kueue_types import (
    KUEUE_GROUP,
    KUEUE_KINDS,
    ClusterQueue,
    Cohort,
    KueueFlavor,
    KueueTopology,
    LocalQueue,
    ResourceGroup,
    WorkloadPriorityClass,
)
from queues.api.kueue_names import LOCAL_QUEUE
from queues.api.names import CORE, GATED_NAMESPACE, KUEUE_NAMES, QUEUE_LABEL, SCHEDULING_VOLCANO
from queues.api.types.queue import QueueDocument
from queues.api.validation.known import NOTHING_KNOWN, Known
from queues.api.validation.validation import defaulted, unknown_parts, violations_of
from queues.api.validation.violations import of_model
from queues.quota.queue import HIGHEST_USER_PRIORITY, Queue
from queues.text_format import excerpt, listed

#: Kueue's kinds that Muster has nothing for, and what that means.
_NOT_SUPPORTED: Final = {
    "AdmissionCheck": "Muster has no admission checks",
    "ProvisioningRequestConfig": "say policy.provisioning on the Queue instead",
    "MultiKueueConfig": "Muster looks after one cluster",
    "MultiKueueCluster": "Muster looks after one cluster",
}


def convert_documents(files: Iterable[tuple[str, str]], *, kueue_names: bool = False) -> Conversion:
    """Muster's objects for those in files (name, text). Never raises, whatever the texts.

    ``kueue_names``: Kueue's names on jobs count in the namespaces of its LocalQueues.
    """
    findings, subjects = read_subjects(files)
    done = Conversion()
    done.differences += [
        replace(finding, severity="error", expected=f"expected {finding.expected}") for finding in findings
    ]
    read: dict[type, dict[str, tuple[Subject, Any]]] = {model: {} for model in KUEUE_KINDS.values()}
    others: list[Subject] = []
    for subject in subjects:
        group = str(subject.value.get("apiVersion")).partition("/")[0]
        kind = str(subject.value.get("kind"))
        if group != KUEUE_GROUP:
            others.append(subject)
        elif kind in KUEUE_KINDS:
            _read(subject, KUEUE_KINDS[kind], read, done)
        elif kind in _NOT_SUPPORTED:
            done.tell("warning", subject, "", kind, f"left out: {_NOT_SUPPORTED[kind]}")
        else:
            done.tell("note", subject, "", excerpt(kind), "left out: nothing that administrators write")
    _convert(read, done, kueue_names)
    _tell_others(others, done)
    for document in done.documents:
        done.differences += _wrong(document, NOTHING_KNOWN)
    if not done.has_errors():
        known = Known(queues=_tree(done.documents))
        for document in done.documents:
            done.differences += _wrong(document, known)
    order = {subject.file: index for index, subject in reversed(list(enumerate(subjects)))}
    done.differences.sort(key=lambda each: (order.get(each.file, -1), each.line))
    if done.has_errors():
        done.documents.clear()
    return done


def _read(
    subject: Subject, model: type[Any], read: dict[type, dict[str, tuple[Subject, Any]]], done: Conversion
) -> None:
    try:
        parsed = model.parse(subject.value)
    except ValidationError as error:
        for violation in of_model(error):
            done.tell("error", subject, violation.path, violation.found, f"expected {violation.expected}")
        return
    for path in unknown_parts(parsed, ()):
        instead = "left out: Muster does not know what it means"
        done.tell("warning", subject, path, "a field of Kueue's", instead)
    name = parsed.metadata.name
    key = f"{parsed.metadata.namespace or 'default'}/{name}" if model is LocalQueue else name
    if not name:
        done.tell("error", subject, "metadata.name", "nothing", "expected a name")
        return
    if key in read[model]:
        done.tell("error", subject, "metadata.name", excerpt(name), "give each object once")
    read[model][key] = (subject, parsed)


def _tree(documents: list[dict[str, Any]]) -> dict[str, Queue]:
    """The Queues among documents that have no error of their own, by name."""
    queues = [
        QueueDocument.read(defaulted(each)).to_domain() for each in documents if each["kind"] == "Queue"
    ]
    return {queue.name: queue for queue in queues}


def _wrong(document: dict[str, Any], known: Known) -> Iterator[Finding]:
    """Errors of a converted document: what Kueue takes and Muster does not, such as an amount that is too large.

    ``known``: the queues of all documents, to compare parents with children. A parent may be in the cluster.
    """
    found = [
        (violation.path, violation.found, f"expected {violation.expected}")
        for violation in violations_of(document, known)
        if not violation.tolerable and not violation.missing
    ]
    if not found and document["kind"] == "Queue":
        broken = QueueDocument.read(document).to_domain().broken
        found = [("", "a queue that cannot be used", broken)] if broken else []
    for path, what, instead in found:
        yield Finding(
            file="",
            document=0,
            line=0,
            severity="error",
            subject=f"{document['kind']} {document['metadata']['name']}",
            path=path,
            found=what,
            expected=instead,
        )


def _convert(read: dict[type, dict[str, tuple[Subject, Any]]], done: Conversion, kueue_names: bool) -> None:
    local: dict[str, tuple[Subject, LocalQueue]] = read[LocalQueue]
    by_queue: dict[str, list[LocalQueue]] = {}
    for _, queue in local.values():
        by_queue.setdefault(queue.spec.cluster_queue, []).append(queue)
    flavors: dict[str, tuple[Subject, KueueFlavor]] = read[KueueFlavor]
    cluster_queues: dict[str, tuple[Subject, ClusterQueue]] = read[ClusterQueue]
    as_flavors = convert_flavors(flavors, cluster_queues, done)
    done.documents += [convert_topology(topology) for _, topology in read[KueueTopology].values()]
    for each in read[WorkloadPriorityClass].values():
        done.documents.append(_priority_class(*each, done, kueue_names))
    kueue = KueueQueues(
        cluster_queues=cluster_queues, cohorts=read[Cohort], local_queues=by_queue, as_flavors=as_flavors
    )
    names = convert_queues(kueue, done)
    convert_namespaces(by_namespace(local.values()), names, done, kueue_names=kueue_names)


def _priority_class(
    subject: Subject, priority: WorkloadPriorityClass, done: Conversion, kueue_names: bool
) -> dict[str, Any]:
    name, value = priority.metadata.name, priority.value
    instead = (
        f"write spec.priorityClassName: {name} in pod templates in place of the label "
        "kueue.x-k8s.io/priority-class"
    )
    if not kueue_names:
        done.tell("note", subject, "", "a class for Kueue alone", instead)
    if name.startswith("system-"):
        instead = "rename it: Kubernetes keeps names that begin with system- for itself"
        done.tell("error", subject, "metadata.name", name, instead)
    if value > HIGHEST_USER_PRIORITY:
        instead = f"{HIGHEST_USER_PRIORITY}, the highest that Kubernetes allows"
        done.tell("warning", subject, "value", str(value), instead)
    described = {"description": priority.description} if priority.description else {}
    return document_of(PRIORITY_CLASSES, name, value=min(value, HIGHEST_USER_PRIORITY), **described)


def _tell_others(others: list[Subject], done: Conversion) -> None:
    for subject in others:
        found = f"{subject.value.get('apiVersion')} {subject.value.get('kind')}"
        is_queue = found == f"{SCHEDULING_VOLCANO} Queue"
        what = "Muster reads Volcano's Queues as they are" if is_queue else "not a queue"
        done.tell(
            "note", subject, "", found[:120], f"left out: {what}; `muster check` says what to change in it"
        )


# ── flavors ─────────────────────────────────────────────────────────────────────────────────────────────────


Flavors = Mapping[str, tuple[Subject, KueueFlavor]]


def convert_flavors(
    flavors: Flavors, queues: Mapping[str, tuple[Subject, ClusterQueue]], done: Conversion
) -> frozenset[str]:
    """Names of the flavors that node labels distinguish. Quota in others is a limit over all nodes.

    A node has one flavor in Muster. So of a ClusterQueue that has flavors in several resource groups, those of one
    group stay: of the group with devices, if there is one.
    """
    with_labels = {name for name, (_, flavor) in flavors.items() if flavor.spec.node_labels}
    for name in sorted(queues):
        subject, queue = queues[name]
        undefined = _names(queue.spec.resource_groups) - flavors.keys()
        with_labels |= undefined  # they may be in the cluster
        if undefined:
            instead = "give it node labels in a ResourceFlavor of Muster, or its quota counts on no node"
            found = f"flavors that are not among the documents: {listed(sorted(undefined))}"
            done.tell("warning", subject, "spec.resourceGroups", found, instead)
    left_out: set[str] = set()
    for name in sorted(queues):
        subject, queue = queues[name]
        groups = [group for group in queue.spec.resource_groups if _names([group]) & (with_labels - left_out)]
        if len(groups) < 2:
            continue
        with_devices = (group for group in groups if any("/" in name for name in group.covered_resources))
        kept = next(with_devices, groups[0])
        others = {each for group in groups if group is not kept for each in _names([group]) & with_labels}
        left_out |= others
        found = f"flavors with node labels for {listed(kept.covered_resources)} and for other resources"
        instead = (
            f"a node has one flavor: quota in {listed(sorted(others))} is a limit over all nodes, "
            "whose labels do not choose any"
        )
        done.tell("warning", subject, "spec.resourceGroups", found, instead)
    for _, (subject, flavor) in sorted(flavors.items()):
        done.differences += _flavor_differences(subject, flavor)
    kept_flavors = {name: flavors[name] for name in sorted(with_labels - left_out) if name in flavors}
    done.documents += [
        document_of(FLAVORS, name, spec=_spec(flavor)) for name, (_, flavor) in kept_flavors.items()
    ]
    done.differences += _overlaps(kept_flavors)
    return frozenset(with_labels - left_out)


def _spec(flavor: KueueFlavor) -> dict[str, Any]:
    tolerations = list(flavor.spec.tolerations)
    return {
        "nodeLabels": dict(flavor.spec.node_labels),
        **({"tolerations": tolerations} if tolerations else {}),
    }


def convert_topology(topology: KueueTopology) -> dict[str, Any]:
    """A Topology with the same levels."""
    levels = [{"nodeLabel": level.node_label} for level in topology.spec.levels]
    return document_of(TOPOLOGIES, topology.metadata.name, spec={"levels": levels})


def _names(groups: Iterable[ResourceGroup]) -> set[str]:
    return {flavor.name for group in groups for flavor in group.flavors}


def _flavor_differences(subject: Subject, flavor: KueueFlavor) -> Iterable[Finding]:
    spec = flavor.spec
    if not spec.node_labels:
        instead = "no ResourceFlavor is made of it: its quota is a limit over all nodes"
        yield subject.finding("note", "spec.nodeLabels", "nothing", instead)
    if spec.node_taints:
        instead = "left out: Muster looks at the taints of the nodes themselves"
        yield subject.finding("note", "spec.nodeTaints", "taints", instead)
    if spec.topology_name:
        instead = "left out: the levels of a Topology count for all nodes that have its labels"
        yield subject.finding("note", "spec.topologyName", spec.topology_name, instead)


def _overlaps(flavors: Flavors) -> Iterable[Finding]:
    """Flavors whose labels one node can have at a time: it counts as the first of them by name."""
    for first, second in combinations(sorted(flavors), 2):
        one, other = flavors[first][1].spec.node_labels, flavors[second][1].spec.node_labels
        if all(other.get(key, value) == value for key, value in one.items()):
            instead = (
                f"a node with the labels of both is of {first} only: give each labels that exclude the other"
            )
            found = f"labels that a node may have beside those of {first}"
            yield flavors[second][0].finding("warning", "spec.nodeLabels", found, instead)


# ── namespaces ──────────────────────────────────────────────────────────────────────────────────────────────


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
