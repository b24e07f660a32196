"""Documents with Kueue's names as Muster's policies write them, in namespaces where these count. Pure."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any, Final

from queues.api import kueue_names, names
from queues.api.check.finding import Subject
from queues.api.check.own_names import metadata_of
from queues.api.metadata_keys import JOB, KNOWN_KEYS

#: Kueue's annotation → Muster's with the same value.
_SAME_VALUE: Final = {
    kueue_names.KUEUE_REQUIRED: names.REQUIRED_TOPOLOGY,
    kueue_names.KUEUE_PREFERRED: names.PREFERRED_TOPOLOGY,
    kueue_names.KUEUE_TOGETHER: names.TOGETHER,
}
#: The same of Jobs.
_OF_JOBS: Final = {
    kueue_names.KUEUE_MIN_PARALLELISM: names.GROUP_MIN_MEMBER,
    kueue_names.KUEUE_ELASTIC: names.MAY_GROW,
}

#: Places of metadata whose label for a queue a policy translates.
_WITH_QUEUE: Final = KNOWN_KEYS[kueue_names.KUEUE_QUEUE].all_places()


def translated(subject: Subject, local_queues: Mapping[str, Mapping[str, str]]) -> Subject:
    """The subject as it is created; itself where Kueue's names do not count. ``local_queues``: by namespace."""
    leads_to = local_queues.get(subject.namespace)
    if leads_to is None:
        return subject
    value = deepcopy(subject.value)
    for place in metadata_of(value):
        if not isinstance(place.metadata, dict):
            continue
        labels, annotations = place.metadata.get("labels"), place.metadata.get("annotations")
        if isinstance(labels, dict) and place.name in _WITH_QUEUE:
            local = labels.get(kueue_names.KUEUE_QUEUE)
            if isinstance(local, str) and local:
                labels.setdefault(names.QUEUE_LABEL, leads_to.get(local, local))
        if isinstance(annotations, dict):
            _write_topology(annotations)
            if place.name == JOB:
                _write_same(annotations, _OF_JOBS)
    return replace(subject, value=value)


def _write_same(annotations: dict[Any, Any], keys: Mapping[str, str]) -> None:
    for kueue, key in keys.items():
        if kueue in annotations:
            annotations.setdefault(key, annotations[kueue])


def _write_topology(annotations: dict[Any, Any]) -> None:
    _write_same(annotations, _SAME_VALUE)
    size = annotations.get(kueue_names.KUEUE_SLICE_SIZE)
    level = annotations.get(kueue_names.KUEUE_SLICE_LEVEL)
    if size and level:
        annotations.setdefault(names.PARTITIONS, f"{size}={level}")
