"""Rules for PodGroups, those of Volcano among them."""

from collections.abc import Iterable, Iterator

from queues.api.names import HOLD_MIN_RESOURCES
from queues.api.reading.user_values import HOLD_EXPECTED, hold_seconds
from queues.api.resource_names import problem_of_limit
from queues.api.types.podgroup import PodGroup, PodGroupSpec
from queues.api.validation.job_rules import (
    network_topology_violations,
    queue_reference_violations,
    size_warnings,
)
from queues.api.validation.known import Known
from queues.api.validation.pod_rules import annotation_violations
from queues.api.validation.violations import Violation, entry_path, quantity_violations, selector_violations
from queues.text_format import excerpt


def podgroup_violations(group: PodGroup, known: Known) -> list[Violation]:
    """Violations of a PodGroup with its defaults filled in."""
    spec = group.spec
    found = list(queue_reference_violations(spec.queue, known, "spec.queue"))
    found += quantity_violations(spec.min_resources, "spec.minResources")
    found += size_warnings(spec.min_member, "spec.minMember")
    found += resource_name_violations(spec.min_resources)
    found += network_topology_violations(spec.network_topology, "spec.networkTopology")
    for index, policy in enumerate(spec.sub_group_policy):
        path = f"spec.subGroupPolicy[{index}]"
        found += network_topology_violations(policy.network_topology, f"{path}.networkTopology")
        found += selector_violations(policy.label_selector, f"{path}.labelSelector")
    found += annotation_violations(group.metadata.annotations, "metadata.annotations", None)
    text = group.metadata.annotations.get(HOLD_MIN_RESOURCES)
    if text is not None:
        found += _hold_violations(text, spec)
    members = sum(spec.min_task_member.values())
    if spec.min_member and members > spec.min_member:
        found.append(
            Violation(
                "spec.minTaskMember",
                f"{members} pods together",
                f"at most minMember, {spec.min_member}; the larger number counts",
                tolerable=True,
            )
        )
    return found


def resource_name_violations(min_resources: Iterable[str]) -> Iterator[Violation]:
    """Names in ``spec.minResources`` that no node can have. Volcano takes any, and itself writes those of a
    ResourceQuota."""
    for name in min_resources:
        plain = name.removeprefix("requests.").removeprefix("limits.")
        if not name.startswith("count/") and (problem := problem_of_limit(plain)):
            yield Violation(entry_path("spec.minResources", name), *problem, tolerable=True)


def _hold_violations(text: str, spec: PodGroupSpec) -> Iterator[Violation]:
    path = f"metadata.annotations[{HOLD_MIN_RESOURCES}]"
    if hold_seconds(text) is None:
        yield Violation(path, excerpt(text), HOLD_EXPECTED)
    elif not spec.min_resources:
        expected = "spec.minResources beside it: they are what is held"
        yield Violation(path, excerpt(text), expected, tolerable=True)
