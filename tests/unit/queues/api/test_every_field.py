"""Every field of every kind that Muster or Volcano defines is used, or told as one without effect.

A new field of a model fails here until it is listed: with the module that acts on it, or with a value for which
``muster check`` tells that it has no effect. Fields of batch/v1 Jobs and pods are Kubernetes' to act on.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from keyword import iskeyword
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from pydantic import BaseModel

from queues.api.check.check import check_documents
from queues.api.types.admission_check import AdmissionCheck, CheckRequest
from queues.api.types.cron_job import VolcanoCronJob
from queues.api.types.flavor import ResourceFlavor
from queues.api.types.hypernode import HyperNode
from queues.api.types.job_flow import JobFlow
from queues.api.types.job_template import JobTemplate
from queues.api.types.node_closures import NodeDrain, Reservation
from queues.api.types.podgroup import PodGroup
from queues.api.types.queue import QueueDocument
from queues.api.types.topology import Topology
from queues.api.types.volcano_job import VolcanoJob
from queues.api.types.workload_kind import WorkloadKindDocument
from queues.api.validation.validation import KINDS
from tests.builders.valid_documents import of_kind

ROOT = Path(__file__).parents[4]
JOBS = "admission/volcano_jobs"

#: Paths below ``spec``, by the module that reads the attribute and acts on it or passes it on.
USED: dict[type[BaseModel], dict[str, str]] = {
    VolcanoJob: {
        "admission/decode/volcano_jobs.py": "schedulerName minAvailable volumes tasks tasks.name "
        "tasks.replicas tasks.minAvailable tasks.template tasks.policies tasks.maxRetry tasks.partitionPolicy "
        "tasks.partitionPolicy.minPartitions policies plugins runningEstimate queue maxRetry "
        "ttlSecondsAfterFinished minSuccess networkTopology tasks.partitionPolicy.networkTopology "
        "tasks.dependsOn tasks.dependsOn.name tasks.dependsOn.iteration",
        f"{JOBS}/volumes.py": "volumes.mountPath volumes.volumeClaimName volumes.volumeClaim",
        f"{JOBS}/policies.py": "tasks.policies.action tasks.policies.event tasks.policies.events "
        "tasks.policies.exitCode tasks.policies.timeout policies.action policies.event policies.events "
        "policies.exitCode policies.timeout",
        f"{JOBS}/companions.py": "tasks.partitionPolicy.partitionSize",
        # Only that it goes with the replicas: these and the size of a part say how many parts there are.
        "queues/api/validation/job_rules.py": "tasks.partitionPolicy.totalPartitions",
        "admission/workloads/kinds/volcano_job.py": "priorityClassName",
        "admission/decode/topology_requests.py": "networkTopology.mode networkTopology.highestTierAllowed "
        "networkTopology.highestTierName tasks.partitionPolicy.networkTopology.mode "
        "tasks.partitionPolicy.networkTopology.highestTierAllowed "
        "tasks.partitionPolicy.networkTopology.highestTierName",
    },
    Reservation: {
        "queues/api/types/node_closures.py": "queue resources flavor topology from for leadTime clearBefore",
    },
    NodeDrain: {
        "queues/api/types/node_closures.py": "nodes nodeSelector at for leadTime",
    },
    AdmissionCheck: {
        "admission/decode/admission_checks.py": "answeredBy answeredBy.namespace answeredBy.name silentAfter",
    },
    CheckRequest: {
        "admission/decode/admission_checks.py": "check answeredBy workload workload.kind workload.uid generation "
        "attempt askedAt",
        # For the check's controller and for people.
        "admission/kube/writers/repeated_writes.py": "queue workload.name",
    },
    PodGroup: {
        "admission/workloads/kinds/pod_group.py": "minMember minTaskMember queue priorityClassName networkTopology "
        "subGroupPolicy minResources",
        "admission/decode/topology_requests.py": "networkTopology.mode networkTopology.highestTierAllowed "
        "networkTopology.highestTierName subGroupPolicy.name subGroupPolicy.networkTopology "
        "subGroupPolicy.networkTopology.mode subGroupPolicy.networkTopology.highestTierAllowed "
        "subGroupPolicy.networkTopology.highestTierName subGroupPolicy.subGroupSize subGroupPolicy.minSubGroups "
        "subGroupPolicy.labelSelector subGroupPolicy.matchLabelKeys",
    },
    QueueDocument: {
        "queues/quota/effective_limits.py": "parent",
        "queues/quota/tree.py": "budget weight capability reclaimable guarantee deserved flavors flavors.guarantee "
        "flavors.deserved flavors.capability policy policy.ageingPerHour policy.usageHalfLife "
        "policy.paused policy.hold policy.maxPriority policy.preemption.borrowWhilePreempting.maxPriority "
        "access.maxGang "
        "access.maxPerUser access.namespaceSelector",
        # Parts that only hold others, and names of fields that the domain calls otherwise.
        "queues/api/types/queue.py": "policy.preemption.cost policy.flavorChoice.by policy.parameters "
        "guarantee.resource flavors.name policy.flavorChoice policy.preemption "
        "policy.preemption.borrowWhilePreempting policy.starvation policy.health policy.health.recovery access "
        "policy.provisioning policy.hold.reason admissionChecks budget.per budget.whenSpent",
        "queues/quota/budgets.py": "budget.hours",
        "queues/quota/loans.py": "loans.to loans.flavor loans.until",
        # It checks what ``queues/api/quota/loans.py`` reads by key.
        "queues/api/validation/loan_rules.py": "loans loans.resources",
        "queues/api/quota/loans.py": "loans.reason",
        "admission/workloads/rollback.py": "policy.health.onFault",
        "queues/api/validation/tenant_rules.py": "access.admins access.admins.user access.admins.group "
        "access.maxQueues",
        "admission/node_recovery/jobs.py": "policy.health.recovery.job policy.health.recovery.verifyJob",
        "admission/world/nodes.py": "policy.health.recovery.maxNodesOut",
        "queues/order/line.py": "priority",
        "queues/quota/queue_policies.py": "policy.order policy.placement policy.onPluginFailure",
        "admission/engine/placement/flavors.py": "policy.flavorChoice.beforeBorrowing "
        "policy.flavorChoice.beforePreempting",
        "admission/engine/preemption/rules.py": "policy.preemption.withinQueue policy.preemption.reclaim",
        "admission/engine/pending/waiting_time.py": "policy.starvation.clearAfter",
        "admission/engine/preemption/protection.py": "policy.minRunTime policy.maxEvictions policy.maxProtection",
        "queues/quota/queue.py": "access.maxRunTime policy.keepFromAutoscalers policy.jobsMayGrow",
        "admission/provisioning/wishes.py": "policy.provisioning.className policy.provisioning.parameters",
        "admission/provisioning/plan.py": "policy.provisioning.timeout policy.provisioning.maxOpen",
        "admission/workloads/state.py": "policy.jobs",
        "admission/workloads/gang_readiness.py": "policy.readyWithin policy.readyBackoffLimit",
        "admission/engine/pending/pending.py": "access.maxPending access.maxPendingPerUser",
    },
    HyperNode: {
        "admission/decode/admin_documents.py": "tier tierName members members.type members.selector "
        "members.selector.exactMatch members.selector.exactMatch.name members.selector.regexMatch "
        "members.selector.regexMatch.pattern members.selector.labelMatch",
    },
    ResourceFlavor: {
        "admission/decode/admin_documents.py": "nodeLabels deviceClasses mayGrow tolerations",
        "queues/api/types/flavor.py": "tolerations.key tolerations.operator tolerations.value tolerations.effect "
        "tolerations.tolerationSeconds",
    },
    Topology: {"queues/api/types/topology.py": "levels levels.nodeLabel"},
    WorkloadKindDocument: {
        "admission/workloads/kinds/operators/objects.py": "resource suspend templates templates.at templates.each "
        "templates.template templates.name templates.namedBy templates.counts templates.counts.at "
        "templates.counts.most templates.counts.least templates.counts.unless templates.counts.default "
        "templates.dependsOn templates.needed templates.madeIf templates.madeIf.at templates.madeIf.values "
        "templates.computed ended ended.conditions ended.fields ended.fields.at ended.fields.values progress "
        "progress.at progress.each progress.namedBy progress.succeeded progress.ready progress.staleWhileSuspended "
        "progress.ofJobs priorityClass nameLabels placesItself madeBy suspendedWith demands demands.at demands.must "
        "demands.found demands.expected managedBy queueFrom.madeBy fewerPods.counts",
        "admission/workloads/kinds/document_checks.py": "fewerPods fewerPods.at fewerPods.podSet otherQueue waitsAs",
        "admission/kube/policies/operator_templates.py": "passesOn passesOn.at passesOn.each passesOn.holder "
        "passesOn.labels passesOn.key passesOn.value passesOn.own defaults.value",
        # The policies, which are no modules, act on it.
        "queues/api/validation/kind_rules.py": "queueFrom queueFrom.template defaults defaults.at",
    },
}

#: Fields of a Job that something else makes.
_OF_A_JOB = {
    module: " ".join(f"jobTemplate.spec.{path}" for path in listed.split())
    for module, listed in USED[VolcanoJob].items()
}
USED[JobTemplate] = USED[VolcanoJob]
USED[VolcanoCronJob] = {
    **_OF_A_JOB,
    "admission/job_starts/cron_job_steps.py": "schedule timeZone startingDeadlineSeconds concurrencyPolicy suspend "
    "jobTemplate jobTemplate.metadata jobTemplate.metadata.labels jobTemplate.metadata.annotations jobTemplate.spec "
    "successfulJobsHistoryLimit failedJobsHistoryLimit",
}
USED[JobFlow] = {
    "admission/job_starts/job_flow_steps.py": "flows flows.name jobRetainPolicy",
    "queues/api/schedules/job_patch.py": "flows.patch",
    "admission/job_starts/job_flow.py": "flows.dependsOn flows.dependsOn.targets flows.dependsOn.probe "
    "flows.dependsOn.probe.httpGetList flows.dependsOn.probe.httpGetList.taskName "
    "flows.dependsOn.probe.httpGetList.path flows.dependsOn.probe.httpGetList.port "
    "flows.dependsOn.probe.httpGetList.httpHeader flows.dependsOn.probe.tcpSocketList "
    "flows.dependsOn.probe.tcpSocketList.taskName flows.dependsOn.probe.tcpSocketList.port "
    "flows.dependsOn.probe.taskStatusList flows.dependsOn.probe.taskStatusList.taskName "
    "flows.dependsOn.probe.taskStatusList.phase flows.dependsOn.strategy",
    "queues/api/types/job_flow.py": "flows.patch.jobSpec flows.patch.spec",
}

#: Paths below ``spec`` of fields without effect, the parts of such a field included, with a value that is told.
TOLD: dict[type[BaseModel], dict[str, Any]] = {
    VolcanoJob: {
        "tasks.topologyPolicy": {"tasks": [{"name": "a", "topologyPolicy": "restricted"}]},
    },
    JobTemplate: {"tasks.topologyPolicy": {"tasks": [{"name": "a", "topologyPolicy": "restricted"}]}},
    VolcanoCronJob: {
        "jobTemplate.spec.tasks.topologyPolicy": {
            "schedule": "@daily",
            "jobTemplate": {"spec": {"tasks": [{"name": "a", "topologyPolicy": "restricted"}]}},
        }
    },
    QueueDocument: {
        "extendClusters": {"extendClusters": [{"name": "a"}]},
        "affinity": {"affinity": {"nodeGroupAffinity": {}}},
        "type": {"type": "a"},
        "dequeueStrategy": {"dequeueStrategy": "fifo"},
    },
}


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from models_in(argument)


def paths(model: type[BaseModel], above: str = "") -> Iterator[str]:
    """Paths of all fields below ``spec``, those of lists' entries included."""
    for name, field in model.model_fields.items():
        path = f"{above}{field.alias or name}"
        if above or name == "spec":
            if path != "spec":
                yield path.removeprefix("spec.")
            for inner in models_in(field.annotation):
                yield from paths(inner, f"{path}.")


@cache
def attributes(module: str) -> frozenset[str]:
    """Attributes that a module reads."""
    tree = ast.parse((ROOT / module).read_text(encoding="utf-8"))
    return frozenset(node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute))


def snake(path: str) -> str:
    name = re.sub(r"([A-Z])", lambda upper: f"_{upper[0].lower()}", path.rpartition(".")[2])
    return f"{name}_" if iskeyword(name) else name


def used(model: type[BaseModel]) -> set[str]:
    return {path for listed in USED[model].values() for path in listed.split()}


def test_every_kind_of_muster_and_volcano_is_here() -> None:
    assert USED.keys() == {
        model for (version, _), model in KINDS.items() if "." in version and "spec" in model.model_fields
    }


@pytest.mark.parametrize("model", USED, ids=lambda model: model.__name__)
def test_every_field_is_used_or_told(model: type[BaseModel]) -> None:
    told = tuple(TOLD.get(model, {}))
    fields = {path for path in paths(model) if not path.startswith(told) or path in used(model)}
    assert fields == used(model)


@pytest.mark.parametrize("model", USED, ids=lambda model: model.__name__)
def test_the_modules_that_are_named_read_the_fields(model: type[BaseModel]) -> None:
    for module, listed in USED[model].items():
        assert set(map(snake, listed.split())) - set(attributes(module)) == set(), module


@pytest.mark.parametrize(
    ("model", "path"), [(model, path) for model, each in TOLD.items() for path in each], ids=str
)
def test_a_field_without_effect_is_told(model: type[BaseModel], path: str) -> None:
    document = of_kind(model.model_fields["kind"].default, TOLD[model][path])
    found = check_documents([("file.yaml", yaml.safe_dump(document))])
    told = {re.sub(r"\[\d+\]", "", each.path) for each in found if each.found == "a field without effect"}
    assert f"spec.{path}" in told
