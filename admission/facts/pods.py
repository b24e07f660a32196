"""Facts about pods, and about the templates that they are made from."""

from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Final, NamedTuple

from admission.facts.devices import PodResourceClaim
from admission.facts.volumes import PodVolume
from queues.api.reading.dependencies import NO_DEPENDENCIES, WrittenDependencies
from queues.api.reading.device_shares import with_share
from queues.resources import Resources
from queues.workload import (
    EVERYWHERE,
    NO_RULES,
    AdmissionId,
    DeviceShare,
    HostPort,
    NodeFilter,
    NodeName,
    Obstacle,
    Partition,
    PlacementRules,
    PodSet,
    Preference,
    QueueName,
    WorkloadKey,
)


class Hold(StrEnum):
    """What the owner of a workload says with the annotation ``muster.dev/hold``."""

    NONE = ""
    #: It is not admitted. What runs keeps its seats; once it has lost them, it is not admitted again.
    ADMISSION = "true"
    #: The same, and what runs gives its seats back: its owner has suspended it.
    SUSPENDED = "suspended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conduct:
    """What the owner of a workload says about its run time and its eviction, and by what it is known from earlier work.
    Durations in seconds."""

    #: The user who created the object; "": unknown.
    user: str = ""
    run_time: int | None = None
    checkpoint_interval: int | None = None
    min_run_time: int = 0
    #: None if not given.
    preemptable: bool | None = None
    cooldown: int = 0
    #: Image of the first container, by which run times are learned; "": unknown.
    image: str = ""
    #: Another value than before has the workload tried again that was held back because its pods did not get ready.
    retry: str = ""
    #: What is said to the policies of the queue (``policy.muster.dev/KEY``), sorted by key.
    hints: tuple[tuple[str, str], ...] = ()
    hold: Hold = Hold.NONE
    #: What it is to come after.
    after: WrittenDependencies = NO_DEPENDENCIES
    #: Values that cannot be read, as sentences (``admission.decode.ignored_values``).
    ignored: tuple[str, ...] = ()


NOTHING_SAID: Final = Conduct()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodShape:
    """What one pod asks for, and where it may go. Pods of equal shapes are interchangeable.

    Fields mean what they mean in ``PodSet``. A new field belongs here, in ``PodSet``, and in what reads it
    (``admission.decode.topology_requests``); digests and pod sets follow.
    """

    #: Requests as written, ``pods: 1`` included; without the share of devices.
    takes: Resources
    nodes: NodeFilter = EVERYWHERE
    required_topology: str | None = None
    preferred_topology: str | None = None
    prefers: tuple[Preference, ...] = ()
    ports: tuple[HostPort, ...] = ()
    partitions: tuple[Partition, ...] = ()
    together: str | None = None
    balanced: bool = False
    share: DeviceShare | None = None
    in_one_island: bool = False
    rules: PlacementRules = NO_RULES

    def with_rules(self, rules: PlacementRules, ports: tuple[HostPort, ...]) -> "PodShape":
        """The same pod with rules about other pods, and what keeps pods like it off its node next to its host ports."""
        return replace(self, rules=rules, ports=(*self.ports, *ports)) if rules or ports else self

    def details(self) -> dict[str, object]:
        """The fields beyond resources, nodes and levels, which most pods leave out. Empty: all are left out."""
        found = {name: getattr(self, name) for name in SHAPE_DETAILS}
        return found if any(found.values()) else {}

    def pod_set(self, name: str, count: int = 0) -> PodSet:
        """So many pods of this shape."""
        return PodSet(
            name=name,
            count=count,
            takes=with_share(self.takes, self.share),
            nodes=self.nodes,
            required_topology=self.required_topology,
            preferred_topology=self.preferred_topology,
            **self.details(),  # type: ignore[arg-type]
        )


#: Fields of a shape, and of a pod set, that most pods leave out; in the order of digests that are stored.
SHAPE_DETAILS: Final = tuple(
    each.name
    for each in fields(PodShape)
    if each.name not in ("takes", "nodes", "required_topology", "preferred_topology")
)


class PodPhase(StrEnum):
    """How far a pod is."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class PodController:
    """What a pod says about the workload that controls it."""

    key: WorkloadKey
    name: str
    #: The pod carries what the controller of such workloads writes on each of its pods.
    marked: bool
    #: The pod set that it says it is in; "": it does not say.
    pod_set: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFact:
    """A pod, of a workload or not."""

    uid: str
    namespace: str
    name: str
    phase: PodPhase
    #: Since when (seconds) its containers are ready, or have completed; None if they are not.
    ready_since: int | None = None
    #: What a container that is not ready waits for, in a few words; "": it only starts, or all are ready.
    waits_for: str = ""
    #: Bound to this node.
    node: NodeName | None = None
    #: When (seconds) it was bound; 0: it is not, or does not say.
    bound_at: int = 0
    #: Still carries the gate ``muster.dev/admission``.
    gated: bool = False
    #: Scheduling gates of other controllers that it carries, by name, the first few.
    other_gates: tuple[str, ...] = ()
    deleting: bool = False
    #: When the grace period of its deletion is over, and how long it is in all, in seconds; 0: it is not being deleted.
    ends_by: int = 0
    grace: int = 0
    #: Being deleted without a grace period, or the grace period is over.
    forced: bool = False
    #: The pod had ended before its deletion was requested; None if its object no longer shows that.
    ended_first: bool | None = True
    #: Carries Muster's finalizer: the pod does not disappear before Muster removes it.
    kept: bool = False
    #: Carries the job controller's finalizer: that has not counted yet how the pod ended.
    uncounted: bool = False
    shape: PodShape
    priority: int = 0
    #: The class by which it ranks; "": it has none.
    priority_class: str = ""
    #: False: that class says ``preemptionPolicy: Never``. The pod's own field says so of every pod in a queue.
    preempts: bool = True
    created: int = 0
    #: Queue named on the pod itself (label or Volcano's annotation); None if not ours unless its owner is.
    #: ``UNUSABLE_QUEUE``: it names one that cannot exist.
    queue: QueueName | None = None
    #: The workload it belongs to, as it says itself (``admission.world.pods`` compares that); None if foreign.
    owner: WorkloadKey | None = None
    #: Name of the controlling Job in that reference.
    owner_name: str = ""
    #: Carries what the controller of that Job writes on each of its pods.
    marked: bool = True
    #: Kind and name of what makes a successor when it is deleted, such as ``deployment/web``; "": nothing does.
    controller: str = ""
    #: Name of the PodGroup in the same namespace, if the pod names one.
    group: str | None = None
    #: Members that start together in the PodGroup that Muster makes for the pod's owner; 0: others make its PodGroup.
    group_minimum: int = 0
    #: Task or template of a Volcano Job, else "".
    task: str = ""
    #: Task index of a Volcano Job's pod or completion index of an Indexed Job's.
    index: int | None = None
    admission: AdmissionId | None = None
    seat: tuple[str, int] | None = None
    #: Its namespace lets Muster adopt pods that run until then (seconds); 0: it does not.
    adopt_until: int = 0
    #: Of a released pod without a controller that kube-scheduler preempts: its successor as JSON; "": of no such pod.
    successor: str = ""
    #: Which of ``/spec/affinity``, ``/spec/affinity/nodeAffinity`` and the annotations of ``KEPT_FROM_AUTOSCALERS`` its
    #: document has, as JSON pointers: a JSON patch has to know.
    existing: frozenset[str] = frozenset()
    #: Made again by Muster: uid of the pod that was taken back.
    recreated_from: str | None = None
    #: volcano.sh/job-version; a pod of an older version is stale.
    version: int = 0
    #: Since when (seconds) the stock scheduler says Unschedulable, with its message; None if it does not.
    refused: tuple[int, str] | None = None
    #: Exit code of the first container that terminated with one, once the pod failed.
    exit_code: int | None = None
    restarts: int = 0
    conduct: Conduct = NOTHING_SAID
    #: Those that all pods of one template share: what PodDisruptionBudgets select by.
    labels: tuple[tuple[str, str], ...] = ()
    #: With a shell that somebody is at: another text each minute (``muster.dev/heartbeat``). "": it has none.
    heartbeat: str = ""
    #: What it claims of devices, not counted yet; (): nothing, or ``shape`` has it (``admission.world.devices``).
    claims: tuple[PodResourceClaim, ...] = ()
    #: It may have claimed devices that ``shape`` does not have: of a class that nothing counts, or shared with a pod.
    claims_uncounted: bool = False
    #: Volumes that say something about nodes.
    volumes: tuple[PodVolume, ...] = ()
    #: Why the pod cannot be considered as it is written; None if it can. What it uses is counted all the same.
    obstacle: Obstacle | None = None


class TemplateKey(NamedTuple):
    """A pod template in a namespace. Pods of templates with equal keys turn out equal."""

    namespace: str
    #: ``admission.decode.template_trials.template_digest``.
    digest: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.digest}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateFact:
    """What the API server makes of a pod template. With neither a shape nor a refusal it could not answer so far."""

    key: TemplateKey
    #: What the pods ask, with all that the cluster's defaults and webhooks add.
    shape: PodShape | None = None
    #: Why the pods would be refused; "": they would not.
    refusal: str = ""

    @property
    def is_known(self) -> bool:
        """Whether the API server has answered."""
        return self.shape is not None or bool(self.refusal)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDefaultsFact:
    """Something that decides what templates become: a LimitRange, a RuntimeClass, a configuration of webhooks."""

    #: "": of all namespaces.
    namespace: str = ""
    digest: str
