"""Rules for PodGroups, with Volcano's wording where it has one."""

from collections.abc import Mapping

from queues.api.types.podgroup import PodGroup
from queues.api.validation.job_rules import network_topology_violations, queue_reference_violations
from queues.api.validation.violations import Violation, quantity_violations, selector_violations
from queues.quota.queue import Queue


def podgroup_violations(group: PodGroup, queues: Mapping[str, Queue] | None) -> list[Violation]:
    """Violations of a PodGroup with its defaults filled in. ``queues``: the queues that exist; None: not known."""
    spec = group.spec
    found = list(queue_reference_violations(spec.queue, queues, "spec.queue", what="workload"))
    found += quantity_violations(spec.min_resources, "spec.minResources")
    found += network_topology_violations(spec.network_topology, "spec.networkTopology")
    for index, policy in enumerate(spec.sub_group_policy):
        path = f"spec.subGroupPolicy[{index}]"
        lead = f"in subGroupPolicy '{policy.name}': "
        found += network_topology_violations(policy.network_topology, f"{path}.networkTopology", lead)
        found += selector_violations(policy.label_selector, f"{path}.labelSelector")
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
