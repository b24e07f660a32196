"""A leader whose writes travel slowly: the real writers, world and engine over a model API server, and no Postgres.

The ledger is a dictionary: each plan is applied to it as it is. ``Leader.turn`` can be interrupted between the decision
and its application, as the loop of the controller is.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, fields
from typing import cast

from admission.engine.decide import Memo, decide
from admission.facts.changes import Change
from admission.kube.client.client import Client
from admission.kube.watch.unseen_pods import UnseenPods
from admission.kube.writers.recreate import RecreationWriter
from admission.kube.writers.release import ReleaseWriter
from admission.kube.writers.volcano_jobs import VolcanoJobWriter
from admission.reconcile.volcano_jobs import VolcanoJobController
from admission.volcano_jobs.pods import PodRules
from admission.workloads.inputs import SeatIndices, Timeouts, joined
from admission.world.persistence import UnsavedRow
from admission.world.world import World
from queues.admissions import Admission, AdmissionState, ClosedAdmission
from queues.plan import setbacks_of
from queues.workload import AdmissionId, WorkloadKey
from queues.world_rows import WorldRows
from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.model_api_server import ModelApiServer

TIMEOUTS = Timeouts(refusal_grace=5, backoff=2, backoff_limit=8)


@dataclass(slots=True)
class Leader:
    """One term without end."""

    cluster: FakeCluster
    api: ModelApiServer
    world: World = field(init=False)
    release: ReleaseWriter = field(init=False)
    recreate: RecreationWriter = field(init=False)
    jobs: VolcanoJobWriter = field(init=False)
    unseen: UnseenPods = field(init=False)
    job_controller: VolcanoJobController = field(default_factory=lambda: VolcanoJobController(PodRules()))
    #: Every admission there ever was.
    ledger: dict[AdmissionId, Admission] = field(default_factory=dict)
    memo: Memo = field(default_factory=Memo)
    _handed_in: list[Change] = field(default_factory=list)
    _arrivals: int = 0
    _asking: "asyncio.Task[None] | None" = None

    def __post_init__(self) -> None:
        client = cast(Client, self.api)
        self.world = World(WorldRows(), TIMEOUTS)
        self.world.observe(self.cluster.watch.list_anew(self.cluster.objects))

        def requeue(key: WorkloadKey) -> None:
            self.world.mark_dirty(key)

        def passes(point: str) -> None:
            return None

        self.release = ReleaseWriter(client, self.world, _leads, requeue=requeue, failpoint=passes)
        self.recreate = RecreationWriter(
            client, self.world, _leads, hand_in=self._handed_in.append, requeue=requeue, failpoint=passes
        )
        self.jobs = VolcanoJobWriter(
            client,
            self.world,
            _leads,
            requeue=requeue,
            failpoint=passes,
        )
        self.unseen = UnseenPods(client, self.world, requeue=requeue)

    def awaited(self, key: WorkloadKey) -> SeatIndices:
        """Seats of a workload for which a pod may still come."""
        return joined(self.release.awaited.of(key), self.jobs.awaited.of(key), self.unseen.of(key))

    def turn(self, delivered: dict[str, int] | None, meanwhile: Callable[[], None]) -> None:
        """See, decide, apply, write; ``meanwhile``: what happens while the decision is made and stored."""
        world, now = self.world, self.cluster.now
        if self._asking is None:
            self._asking = asyncio.get_running_loop().create_task(self.unseen.run())
        world.observe([*self.cluster.watch.deliver(delivered), *self._handed_in])
        self._handed_in.clear()
        unknown = frozenset(world.admission_index.unknown)
        closed = {id_ for id_ in unknown & self.ledger.keys() if self._is_closed(id_)}
        world.learn_closed(
            unknown,
            {
                id_: ClosedAdmission(
                    self.ledger[id_].workload, self.ledger[id_].queue, self.ledger[id_].opened_at
                )
                for id_ in closed
            },
        )
        dirty = set(world.refresh(now, self.awaited))
        self._save()
        dirty |= world.refresh(now, self.awaited)
        for job in self.job_controller.transitions(world, dirty, now):
            world.put_job(job.key, job.new)
        snapshot = world.freeze(now)
        plan, self.memo = decide(snapshot, self.memo)
        meanwhile()
        last = max(self.ledger, default=AdmissionId(0))
        ids = [AdmissionId(last + 1 + index) for index in range(len(plan.adopts) + len(plan.admits))]
        changed = plan.changed_admissions(snapshot.admissions, ids)
        for key, setback in setbacks_of(
            (snapshot.admissions[evict.admission].workload, evict) for evict in plan.evicts
        ).items():
            world.put_setback(key, setback, now)
        world.put_ready({snapshot.admissions[id_].workload for id_ in plan.ready})
        self.ledger.update(changed)
        world.put_admissions(changed.values())
        world.ledger.put_claims(plan.claims, dropped=plan.dropped)
        world.ledger.put_reasons(plan.reasons, ())
        dirty |= world.refresh(now, self.awaited)
        self._write(dirty)

    def _is_closed(self, id_: AdmissionId) -> bool:
        return self.ledger[id_].state is AdmissionState.CLOSED

    def _save(self) -> None:
        """What intake does, without Postgres."""
        world = self.world
        unsaved = world.unsaved
        kinds = [each.name for each in fields(unsaved)]
        batch = unsaved.only(UnsavedRow(kind, key) for kind in kinds for key in getattr(unsaved, kind))
        arrivals = {}
        for key in sorted(batch.arrivals):
            before = world.recreations.successions.get(key)
            self._arrivals += 1
            arrivals[key] = world.ledger.arrivals.get(before, self._arrivals) if before else self._arrivals
        left = [key for key in batch.departed if not world.admission_index.holds(key)]
        world.saved(batch, arrivals, left)

    def _write(self, dirty: set[WorkloadKey]) -> None:
        world = self.world
        for key in sorted(dirty):
            if key not in world.states:
                self.jobs.forget(key)
            elif key not in world.facts:
                self.jobs.abandon(key)
        self.recreate.reconcile(sorted(dirty))
        self.release.reconcile(sorted(dirty))
        self.unseen.reconcile(sorted(dirty))
        self.jobs.reconcile(self.job_controller.work(world, sorted(dirty), self.cluster.now))

    @property
    def is_quiet(self) -> bool:
        """Nothing is under way."""
        queues = (self.release.queue, self.recreate.queue, self.jobs.queue)
        asks = self.unseen.is_busy
        return self.api.is_quiet and not asks and not any(queue.is_busy() for queue in queues)

    async def stop(self) -> None:
        """End all steps."""
        if self._asking is not None:
            self._asking.cancel()
            with suppress(asyncio.CancelledError):
                await self._asking
        await self.release.queue.stop()
        await self.recreate.queue.stop()
        await self.jobs.stop()


def _leads() -> None:
    return None
