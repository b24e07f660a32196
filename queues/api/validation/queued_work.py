"""Rules for work that waits in queues, which are no rules of Kubernetes: one list for all who check. Pure.

Admission policies say them in CEL; the reader of the cluster's objects, the checks of Jobs that Muster makes itself and
``muster check`` apply them to documents. Each checker applies those that it can decide.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from queues.api import names
from queues.api.validation.violations import Violation
from queues.json_values import list_at, mapping_at, value_at
from queues.text_format import excerpt


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldRule:
    """What the spec of a pod in a queue, or of its template, may not say in one field."""

    #: As JSON has it.
    field: str
    #: Values that begin so are refused; "": all but an empty one.
    beginning: str = ""
    expected: str

    def is_broken_by(self, value: object) -> bool:
        """True if a value is refused. One of another type is not: Kubernetes refuses it."""
        return isinstance(value, str) and value != "" and value.startswith(self.beginning)


#: Such pods go past the scheduler: past cordons and taints, and past what others have of that node.
NO_NODE_NAME: Final = FieldRule(
    field="nodeName",
    expected="none: Muster chooses the node. Use nodeSelector or affinity, which it obeys",
)
#: Such pods have others evicted from their nodes, above all work of all queues.
NO_SYSTEM_CLASS: Final = FieldRule(
    field="priorityClassName",
    beginning="system-",
    expected="a class for workloads: classes of the system are not for work in queues. Name another, or none",
)
FIELD_RULES: Final = (NO_NODE_NAME, NO_SYSTEM_CLASS)
#: What stands where only Muster may write.
ONLY_MUSTER: Final = "nothing: only Muster writes it"


def pod_templates(document: Any) -> list[tuple[str, Any]]:
    """The pod templates of a Job or Volcano Job, with their paths."""
    tasks = enumerate(list_at(document, "spec", "tasks"))
    of_tasks = [(f"spec.tasks[{index}].template", value_at(task, "template")) for index, task in tasks]
    return [("spec.template", value_at(document, "spec", "template")), *of_tasks]


def job_violations_in_queue(document: Mapping[str, Any]) -> Iterator[Violation]:
    """Violations of a Job or Volcano Job in a queue."""
    yield from spec_violations(document.get("spec"), "spec", (NO_SYSTEM_CLASS,))
    for path, template in pod_templates(document):
        yield from template_violations_in_queue(template, path)


def template_violations_in_queue(template: Any, path: str) -> Iterator[Violation]:
    """Violations of a pod template whose pods are in a queue, or of a Pod there. ``path``: "" of a Pod."""
    if not isinstance(template, Mapping):
        return
    below = f"{path}." if path else ""
    yield from own_name_violations(template, below)
    yield from spec_violations(template.get("spec"), f"{below}spec", FIELD_RULES)


def spec_violations(spec: Any, path: str, rules: tuple[FieldRule, ...]) -> Iterator[Violation]:
    """Violations of these rules in a mapping."""
    for rule in rules if isinstance(spec, Mapping) else ():
        if rule.is_broken_by(value := spec.get(rule.field)):
            yield Violation(f"{path}.{rule.field}", excerpt(value), rule.expected)


def own_name_violations(holder: Mapping[str, Any], below: str) -> Iterator[Violation]:
    """Labels and annotations that only Muster writes, in the metadata of an object or a template."""
    for field in ("labels", "annotations"):
        pairs = mapping_at(holder, "metadata", field)
        for key in names.OWN_NAMES:
            if key in pairs:
                yield Violation(f"{below}metadata.{field}[{key}]", key, ONLY_MUSTER)
