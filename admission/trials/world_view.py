"""What the world of a term tells trials: copies and values that never change, which another thread can use.

Only the controller's loop calls this.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from admission.engine.snapshot import Snapshot
from admission.facts.cluster import QueueFact
from admission.trials.submitted import Submitted
from admission.trials.trial import Ground, arrival_after
from admission.workloads.context import Context
from admission.workloads.inputs import DEFAULT_QUEUE, WorkloadInputs
from admission.workloads.pod_sets import NOTHING_ASKED
from admission.world.pod_relations import PodRelations
from admission.world.world import World
from queues.plan import Plan
from queues.workload import QueueName


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldView:
    """The world of a term, and what its informers know."""

    world: World
    context: Context
    #: Seconds since the epoch.
    now: int

    def queue_facts(self) -> dict[QueueName, QueueFact]:
        """Every Queue as its object says, by name."""
        return dict(self.world.queues)

    def ground(self, snapshot: Snapshot, plan: Plan, objects: Sequence[Submitted]) -> Ground:
        """What these objects are decided on, after the last turn."""
        world = self.world
        room_of = world.namespace_quotas.rooms(snapshot, world.states)
        return Ground(
            snapshot=snapshot,
            plan=plan,
            now=max(self.now, snapshot.now),
            timeouts=world.timeouts,
            demand=world.node_inventory.demand.copy(),
            rooms={name: room_of(name) for name in {each.item.namespace for each in objects}},
            relations=self._relations(snapshot, objects),
            budget_use=world.budgets.use,
        )

    def _relations(self, snapshot: Snapshot, objects: Sequence[Submitted]) -> PodRelations | None:
        """For the rules about other pods, of these objects or about them. None if there are none."""
        relations = self.world.snapshot_rows.pod_relations
        if not any(each.has_pod_rules or relations.may_be_about(each.item.namespace) for each in objects):
            return None
        facts = {each.key: each.fact for each in objects if each.fact is not None}
        return relations.copy(facts, snapshot.namespaces)

    def inputs(self, snapshot: Snapshot, objects: Sequence[Submitted]) -> list[WorkloadInputs | None]:
        """All that is known of each object, None if it does not wait."""
        arrival = arrival_after(snapshot)
        return [self._inputs(each, arrival + place) for place, each in enumerate(objects)]

    def _inputs(self, each: Submitted, arrival: int) -> WorkloadInputs | None:
        world = self.world
        if each.fact is None and not each.pods:
            return None
        claims = world.devices.claims
        fact = None if each.fact is None else claims.in_workload(each.fact)
        pods = tuple(map(claims.in_pod, each.pods))
        named = fact if fact is not None else pods[0]
        queue = named.queue or DEFAULT_QUEUE
        return WorkloadInputs(
            key=each.key,
            fact=fact,
            pods=pods,
            admissions=(),
            arrival=arrival,
            quotas=world.namespace_quotas.of(each.item.namespace),
            policy=world.queue_permissions.policy(queue),
            dependency=world.dependencies.obstacle_of_new(each.key, named),
            checks=world.admission_checks.of(each.key, world.queue_permissions.checks(queue), "", self.now),
            templates=NOTHING_ASKED if fact is None else world.templates.shapes_of(fact, None),
        )
