"""Checks of labels and annotations: names that only Muster may write, unknown names, and Kueue's name for the queue."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from queues.api import names
from queues.api.check.finding import Finding, Subject

_WRITTEN_BY_USERS: Final = {
    names.QUEUE_LABEL,
    names.GATED_NAMESPACE,
    names.ADOPT,
    names.ADOPT_UNTIL,
    names.REQUIRED_TOPOLOGY,
    names.PREFERRED_TOPOLOGY,
    names.PARTITIONS,
    names.TOGETHER,
    names.BALANCED,
    names.SHARES_DEVICES,
    names.RUN_TIME,
    names.CHECKPOINT_INTERVAL,
    names.MIN_RUN_TIME,
    names.RETRY,
}

#: Kueue's label for the queue of a Job or Pod.
_KUEUE_QUEUE: Final = "kueue.x-k8s.io/queue-name"


def own_names(subject: Subject) -> Iterator[Finding]:
    """Findings for such names on an object and on its pod templates."""
    for place, field, key in _keys_of_metadata(subject.value):
        where = f"{place}metadata.{field}[{key}]"
        if key in names.OWN_NAMES:
            yield subject.finding("error", where, key, "nothing: only Muster writes it")
        elif key == _KUEUE_QUEUE:
            yield subject.finding(
                "warning", where, key, f"{names.QUEUE_LABEL}: Muster does not read Kueue's name"
            )
        elif isinstance(key, str) and key.startswith("muster.dev/") and key not in _WRITTEN_BY_USERS:
            known = ", ".join(sorted(_WRITTEN_BY_USERS))
            yield subject.finding("warning", where, key, f"one of {known} (misspelt?)")


def pod_templates(value: Any) -> list[tuple[str, Any]]:
    """The pod templates of a Job or Volcano Job, with their paths (``spec.template.``)."""
    spec = _member(value, "spec")
    tasks = _member(spec, "tasks")
    return [("spec.template.", _member(spec, "template"))] + [
        (f"spec.tasks[{number}].template.", _member(task, "template"))
        for number, task in enumerate(tasks if isinstance(tasks, list) else ())
    ]


def _keys_of_metadata(value: Any) -> Iterator[tuple[str, str, Any]]:
    for place, holder in [("", value), *pod_templates(value)]:
        for field in ("labels", "annotations"):
            keys = _member(_member(holder, "metadata"), field)
            for key in keys if isinstance(keys, Mapping) else ():
                yield place, field, key


def _member(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else None
