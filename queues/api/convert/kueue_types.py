"""Kueue's objects of administrators, kueue.x-k8s.io: names and defaults of v1beta2, with what v1beta1 called otherwise.

Statuses are left out: ``muster convert`` reads what people wrote.
"""

from typing import Any, Final, Literal

from pydantic import Field

from queues.api.metadata import ObjectMeta
from queues.api.model import Int32, Labels, Model, Quantity, Text
from queues.api.types.topology import TopologySpec
from queues.api.types.volcano_job import Whole

KUEUE_GROUP: Final = "kueue.x-k8s.io"

StopPolicy = Literal["None", "Hold", "HoldAndDrain"]


class ResourceQuotaSpec(Model):
    """The quota of a ClusterQueue or Cohort for one resource in one flavor."""

    name: Text
    nominal_quota: Quantity = 0
    #: None if it may borrow as much as the cohort has.
    borrowing_limit: Quantity | None = None
    #: None if all of the nominal quota may be lent.
    lending_limit: Quantity | None = None


class FlavorQuotas(Model):
    """Quotas in one flavor."""

    name: Text
    resources: tuple[ResourceQuotaSpec, ...] = ()


class ResourceGroup(Model):
    """Resources that a workload gets in one flavor, and the flavors in the order to try."""

    covered_resources: tuple[Text, ...] = ()
    flavors: tuple[FlavorQuotas, ...] = ()


class FlavorFungibility(Model):
    """Whether the next flavor is tried before borrowing or preempting in one. ``Borrow``, ``Preempt``: v1beta1."""

    when_can_borrow: Literal["MayStopSearch", "Borrow", "TryNextFlavor"] = "MayStopSearch"
    when_can_preempt: Literal["MayStopSearch", "Preempt", "TryNextFlavor"] = "TryNextFlavor"
    preference: Text = ""


class BorrowWithinCohort(Model):
    """Preemption by workloads that borrow."""

    policy: Literal["Never", "LowerPriority"] = "Never"
    max_priority_threshold: Int32 | None = None


class ClusterQueuePreemption(Model):
    """Which workloads those of a ClusterQueue may preempt."""

    within_cluster_queue: Literal["Never", "LowerPriority", "LowerOrNewerEqualPriority"] = "Never"
    reclaim_within_cohort: Literal["Never", "LowerPriority", "Any"] = "Never"
    borrow_within_cohort: BorrowWithinCohort | None = None


class FairSharing(Model):
    """The weight in Kueue's fair sharing."""

    weight: Quantity = 1


class AdmissionScope(Model):
    """Whether LocalQueues are ordered by past use."""

    admission_mode: Text = ""


class ClusterQueueSpec(Model):
    """A pool of quota."""

    resource_groups: tuple[ResourceGroup, ...] = ()
    cohort_name: Text = ""
    #: v1beta1's name of the cohort.
    cohort: Text = ""
    queueing_strategy: Literal["BestEffortFIFO", "StrictFIFO"] = "BestEffortFIFO"
    #: A LabelSelector. None selects no namespace, an empty one all.
    namespace_selector: Whole | None = None
    flavor_fungibility: FlavorFungibility = FlavorFungibility()
    preemption: ClusterQueuePreemption = ClusterQueuePreemption()
    #: v1beta1's list of AdmissionChecks.
    admission_checks: tuple[Text, ...] = ()
    admission_checks_strategy: Whole | None = None
    stop_policy: StopPolicy = "None"
    fair_sharing: FairSharing | None = None
    admission_scope: AdmissionScope = AdmissionScope()
    concurrent_admission_policy: Whole | None = None


class KueueDocument(Model):
    """What all documents of Kueue have."""

    api_version: Text
    kind: Text
    metadata: ObjectMeta = ObjectMeta()
    status: Any = None


class ClusterQueue(KueueDocument):
    """A ClusterQueue."""

    spec: ClusterQueueSpec = ClusterQueueSpec()


class CohortSpec(Model):
    """A group of ClusterQueues and Cohorts that lend to one another, with quota of its own."""

    parent_name: Text = ""
    #: v1alpha1's name of the parent.
    parent: Text = ""
    resource_groups: tuple[ResourceGroup, ...] = ()
    fair_sharing: FairSharing | None = None


class Cohort(KueueDocument):
    """A Cohort."""

    spec: CohortSpec = CohortSpec()


class LocalQueueSpec(Model):
    """The ClusterQueue that jobs of a namespace use by this name."""

    cluster_queue: Text = ""
    stop_policy: StopPolicy = "None"
    fair_sharing: FairSharing | None = None


class LocalQueue(KueueDocument):
    """A LocalQueue."""

    spec: LocalQueueSpec = LocalQueueSpec()


class KueueFlavorSpec(Model):
    """Nodes, and what pods get that are placed on them."""

    node_labels: Labels = Field(default_factory=dict)
    node_taints: tuple[Whole, ...] = ()
    tolerations: tuple[Whole, ...] = ()
    topology_name: Text = ""


class KueueFlavor(KueueDocument):
    """A ResourceFlavor of Kueue."""

    spec: KueueFlavorSpec = KueueFlavorSpec()


class KueueTopology(KueueDocument):
    """A Topology of Kueue. Its levels are written as Muster's."""

    spec: TopologySpec


class WorkloadPriorityClass(KueueDocument):
    """A priority that counts for Kueue only."""

    value: Int32 = 0
    description: Text = ""


#: The kinds that are converted, in whatever version of the group.
KUEUE_KINDS: Final = {
    "ClusterQueue": ClusterQueue,
    "Cohort": Cohort,
    "LocalQueue": LocalQueue,
    "ResourceFlavor": KueueFlavor,
    "Topology": KueueTopology,
    "WorkloadPriorityClass": WorkloadPriorityClass,
}
