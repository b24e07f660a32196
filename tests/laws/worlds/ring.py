"""Muster's whole ring over a fake cluster: the real intake, world, engine, applier, orders and ledger.

What is left out is what talks: informers and HTTP. A crash forgets everything that is not in Postgres.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import text

from admission.containment.decider import Decider
from admission.containment.decision_thread import DecisionThread
from admission.cycle import Cycle, look_back, read_budgets, recall
from admission.facts.changes import Change
from admission.facts.pods import PodPhase
from admission.kube.writers.awaited_seats import AwaitedSeats, AwaitedWrite
from admission.kube.writers.work_queue import Step
from admission.reconcile.volcano_jobs import VolcanoJobController
from admission.volcano_jobs.pod_changes import JobWork
from admission.volcano_jobs.pods import PodRules, PodTemplateRenderer
from admission.workloads.inputs import SeatIndices, Timeouts, joined
from admission.workloads.seats import is_live
from admission.world.learned.inherited_seats import InheritedSeats
from admission.world.world import World
from queues import kind_names
from queues.errors import Conflict, DatabaseUnavailable, Fenced, NotFound, OutcomeUnknown
from queues.sql import leadership
from queues.sql.database import Database
from queues.sql.history.past_use import sum_up
from queues.sql.world import load_world
from queues.workload import AdmissionId, WorkloadKey
from tests.builders.empty_ledger import empty_ledger
from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.fake_pod_api import done
from tests.fakes.model_api_server import REQUEST_TIMEOUT
from tests.fakes.stepped_writers import SteppedRecreate, SteppedRelease

PATIENCE = Timeouts(refusal_grace=10, backoff=10, backoff_limit=40)
#: Seconds; a decision on these clusters that takes longer never ends.
DECISION_LIMIT = 60.0


class Killed(BaseException):
    """The process ends here."""


@dataclass(slots=True)
class Ring:
    """A leader, and the things it remembers only in memory."""

    database: Database
    cluster: FakeCluster
    job_controller: VolcanoJobController = field(default_factory=lambda: VolcanoJobController(PodRules()))
    world: World = field(init=False)
    cycle: Cycle = field(init=False)
    recreate: SteppedRecreate = field(init=False)
    release: SteppedRelease = field(init=False)
    terms: int = 0
    #: Leaders that were deposed and do not know.
    deposed: list[Cycle] = field(default_factory=list)
    works: dict[WorkloadKey, JobWork] = field(default_factory=dict)
    #: What deposed leaders had sent, or were about to send, may still arrive. With the time at which their term ended.
    late: list[tuple[int, tuple[str, Step] | JobWork]] = field(default_factory=list)
    #: Objects (uid) that such a write has touched when the API server had given it up.
    came_late: set[str] = field(default_factory=set)
    #: Pods of Volcano Jobs that succeeded, as far as Postgres knows: (Job's uid, name).
    succeeded: set[tuple[str, str]] = field(default_factory=set)
    #: Commands (uid) that were carried out.
    commands: set[str] = field(default_factory=set)
    #: Workloads to look at again with the next turn.
    _held_back: set[WorkloadKey] = field(default_factory=set)
    #: Pods of Volcano Jobs that are being made.
    _creations: AwaitedSeats = field(init=False)
    #: What writes of terms before this one may bring.
    inherited: InheritedSeats = field(init=False)
    _fault: tuple[str, type[BaseException] | None] = ("", None)

    @classmethod
    async def begin(cls, database: Database, cluster: FakeCluster) -> "Ring":
        async with database.transaction() as tx:
            await empty_ledger(tx)
        ring = cls(database, cluster)
        await ring.lead()
        return ring

    async def lead(self) -> None:
        """Another term, of a process that knows nothing yet."""
        if self.terms:
            self.deposed.append(self.cycle)
        self.terms += 1
        async with self.database.transaction() as tx:
            await tx.execute(text("UPDATE leases SET expires = clock_timestamp()"))
            term = await leadership.elect(tx, f"leader-{self.terms}", 600.0)
        assert term is not None
        if self.terms > 1:
            steps = self.release.queue.steps.items()
            self.late += [(self.cluster.now, (item[0], step)) for item, (_, step, _) in steps]
        self.late += [(self.cluster.now, work) for work in self.works.values()]
        self.works = {}
        self.job_controller = VolcanoJobController(PodRules())
        self.world = await self.loaded(self.cluster.watch.list_anew(self.cluster.objects))
        self._count_lost()
        self.recreate = SteppedRecreate(self.cluster, self.world)
        self.release = SteppedRelease(self.cluster, self.world)
        self._creations = AwaitedSeats(self._shown)
        self.inherited = InheritedSeats(self.world, self.cluster.now, REQUEST_TIMEOUT)
        self.cycle = Cycle(
            self.database,
            term,
            self.world,
            awaited=self.awaited,
            transitions=self.job_controller.transitions,
            clock=lambda: self.cluster.now,
            decider=Decider(DecisionThread(DECISION_LIMIT), keep=lambda snapshot: None),
            failpoint=self._pass,
        )

    def _count_lost(self) -> None:
        """Pods that were preempted, and were gone before a leader had stored how to make them again."""
        for uid, name in self.cluster.preempted.items():
            if uid not in self.cluster.objects["pods"] and uid not in self.world.recreations.stored:
                successor = self.cluster.pod_named(name)
                if successor is None:
                    self.cluster.wanted.discard(name)

    async def loaded(self, facts: list[Change]) -> World:
        """The world as a new leader would build it from Postgres and these facts."""
        async with self.database.snapshot() as tx:
            rows = await load_world(tx)
        world = World(rows, PATIENCE)
        world.observe(facts)
        world.drop_gone(rows.queues, rows.nodes)
        await recall(self.database, world)
        await look_back(self.database, world, self.cluster.now)
        await read_budgets(self.database, world, self.cluster.now)
        return world

    def refresh_world(self) -> None:
        """Bring the world up to date between two turns; the next turn carries out what follows."""
        self._held_back |= self.world.refresh(self.cluster.now, self.awaited)

    def awaited(self, key: WorkloadKey) -> SeatIndices:
        """Seats of a workload for which a pod may still come."""
        inherited = self.inherited.of(key, self.cluster.now)
        return joined(self.release.awaited.of(key), self._creations.of(key), inherited)

    def _shown(self, key: WorkloadKey, writes: Mapping[str, AwaitedWrite]) -> set[str]:
        pods = {pod.name: pod for pod in self.world.pod_index.of(key)}
        return {name for name in writes if name in pods and pods[name].admission in writes[name].seats}

    def _pass(self, point: str) -> None:
        where, error = self._fault
        if point == where and error is not None:
            self._fault = ("", None)
            raise error if error is Killed else error(reason="a test")

    async def turn(
        self,
        delivered: Mapping[str, int] | None = None,
        fault: tuple[str, type[BaseException] | None] = ("", None),
    ) -> bool:
        """Take in events, decide, apply; a fault at a point of the ring ends the term, or only the turn: then False."""
        seen = self.cluster.watch.deliver(None if delivered is None else dict(delivered))
        self.world.observe([*seen, *self.recreate.drain()])
        self.recreate.queue.ring()
        self.release.queue.ring()
        self._resolve_creations()
        for key in self.inherited.due(self.cluster.now):
            self.world.mark_dirty(key)
        open_before = set(self.world.admissions)
        commands_before = self._carried_out()
        self._fault = fault
        try:
            report = await self.cycle.turn()
            while await self.cycle.store_rest():
                pass
        except DatabaseUnavailable:
            return False
        except (Killed, OutcomeUnknown):
            await self.lead()
            return False
        finally:
            self._fault = ("", None)
        self._none_freed_too_early(open_before - self.world.admissions.keys())
        self._none_carried_out_twice(commands_before)
        held_back, self._held_back = self._held_back, set()
        self.reconcile(report.dirty_workloads | held_back)
        return True

    def _resolve_creations(self) -> None:
        """Pods that came and went unseen are asked for."""
        for key in self.world.states:
            for name, _, when in self._creations.unresolved(key):
                pod = self.cluster.pod_named(name)
                if when <= self.cluster.now and (pod is None or pod["metadata"]["uid"] in self.world.pods):
                    self._creations.drop(key, name)
                    self.world.mark_dirty(key)

    def _none_freed_too_early(self, closed: set[AdmissionId]) -> None:
        """An admission is closed when the last of its pods has ended, as far as Muster has seen."""
        for pod in self.world.pods.values():
            late = pod.uid in self.came_late or (pod.owner is not None and pod.owner.uid in self.came_late)
            late = late or not self.world.admission_index.uncovered(
                pod, self.world.pod_index.owner_of(pod.uid)
            )
            assert pod.admission not in closed or not is_live(pod) or late, (pod, "its admission was closed")

    def _carried_out(self) -> set[str]:
        """Uids of Commands that Jobs remember."""
        return {uid for job in self.world.volcano_jobs.stored.values() for uid in job.commands}

    def _none_carried_out_twice(self, before: set[str]) -> None:
        new = self._carried_out() - before
        assert not new & self.commands, "a Command is carried out once, whatever fails meanwhile"
        self.commands |= new

    def reconcile(self, keys: set[WorkloadKey]) -> None:
        """What has to be written for these workloads is under way from now on."""
        self.recreate.reconcile(keys)
        self.release.reconcile(keys)
        for work in self.job_controller.work(self.world, sorted(keys), self.cluster.now):
            if (work.creates or work.deletes) and work.key not in self.works:
                self.works[work.key] = work
                for wanted in work.creates:
                    seats = {wanted.admission: frozenset({wanted.seat})}
                    self._creations.put(work.key, work.spec.pod_name(wanted.task, wanted.index), "", seats)
                self.world.mark_dirty(work.key)

    def carry_out(self, most: int = 1_000_000) -> int:
        """Do up to so many writes; how many were done."""
        done = self.release.queue.carry_out(most)
        done += self.recreate.queue.carry_out(most - done)
        finished = self.world.commands.finished(
            self.world.facts, self.world.volcano_jobs.stored, self.world.queues, self.cluster.now
        )
        for command in finished[: most - done]:
            done += 1
            if command.uid in self.cluster.objects["commands"]:
                self.cluster.remove("commands", command.uid)
        for key, work in list(self.works.items()):
            steps = most - done
            done += self._do(work, steps)
            if steps >= len(work.creates) + len(work.deletes):
                del self.works[key]
                self._creations.drop_undone(key)
                self.world.mark_dirty(key)
            else:
                left = len(work.deletes)
                self.works[key] = replace(
                    work, deletes=work.deletes[steps:], creates=work.creates[max(0, steps - left) :]
                )
        return done

    def _do(self, work: JobWork, steps: int) -> int:
        """The first steps of a Job's work. What was done already is found so."""
        done = 0
        for unwanted in work.deletes[:steps]:
            done += 1
            try:
                self.cluster.delete_pod(unwanted.uid)
            except NotFound:
                continue
        for wanted in work.creates[: max(0, steps - done)]:
            done += 1
            task = next(task for task in work.spec.tasks if task.name == wanted.task)
            renderer = PodTemplateRenderer(work.spec, task, work.pod_settings[wanted.admission])
            name = work.spec.pod_name(wanted.task, wanted.index)
            again = (work.key.uid, name) in self.succeeded and work.key.uid not in self.came_late
            assert not again, f"{name} has succeeded and would run again"
            creation = self._creations.get(work.key, name)
            try:
                self.cluster.create_pod(renderer.render(wanted.index, wanted.node))
                if creation is not None:
                    creation.since = self.cluster.now
            except Conflict:
                pod = self.cluster.pod_named(name)
                assert pod is not None
                admission = int(pod["metadata"]["annotations"]["muster.dev/admission-id"])
                if admission not in work.pod_settings and "deletionTimestamp" not in pod["metadata"]:
                    self.cluster.delete_pod(pod["metadata"]["uid"])
        return done

    def clean_up(self, number: int) -> None:
        """Somebody deletes a pod of a Volcano Job that has succeeded, once Postgres knows."""
        ended = [
            (key, pod)
            for key, outcomes in self.world.volcano_jobs.outcomes.items()
            for pod in self.world.pod_index.of(key)
            if outcomes.get(pod.seat or ("", -1)) is PodPhase.SUCCEEDED
            and pod.uid in self.cluster.objects["pods"]
            and pod.uid not in self.world.unsaved.outcomes
        ]
        if ended:
            key, pod = ended[number % len(ended)]
            self.succeeded.add((key.uid, pod.name))
            self.cluster.remove("pods", pod.uid)

    def delete_as_user(self, uid: str) -> None:
        """Somebody deletes a pod. If it was about to be taken back, it may come again, or not."""
        name = self.cluster.objects["pods"][uid]["metadata"]["name"]
        recreations = self.world.recreations
        intents = (
            recreations.stored,
            recreations.unsaved,
            self.recreate.handed_in,
            self.recreate.queue.steps,
        )
        going = uid in self.cluster.preempted or any(uid in known for known in intents)
        if name in self.cluster.wanted and not going:
            self.cluster.unwanted.add(name)
        self.cluster.wanted.discard(name)
        self.cluster.delete_pod(uid)

    def give_up_group(self, uid: str) -> None:
        """Members of a group that goes may be lost, if they are just being taken back."""
        self.cluster.wanted -= {
            pod.name for pod in self.world.pod_index.of(WorkloadKey(kind_names.POD_GROUP, uid))
        }
        self.cluster.wanted -= {intent.name for intent in self.world.recreations.stored.values()}

    def write_late(self, number: int) -> None:
        """A write of a deposed leader arrives after all."""
        if self.late:
            ended, late = self.late.pop(number % len(self.late))
            in_time = self.cluster.now < ended + REQUEST_TIMEOUT
            if isinstance(late, JobWork):
                if not in_time:
                    self.came_late.add(late.key.uid)
                self._do(late, 2)
                return
            uid, step = late
            if not in_time:
                self.came_late.add(uid)
            done(step())

    async def sum_up(self, rows: int) -> None:
        """The leader takes some postings into the sums of past use, beside its turns."""
        for half_life in sorted(self.world.usage_history.half_lives() or ()):
            async with self.database.transaction() as tx:
                await sum_up(tx, self.cycle._term, half_life, self.cluster.now, rows=rows)

    async def crash(self) -> None:
        """Everything in memory is lost; somebody else leads."""
        await self.lead()

    async def wake_deposed(self) -> None:
        """An old leader goes on where it stood; it must not write."""
        before = await self.fingerprint()
        for cycle in self.deposed[-2:]:
            cycle.world.snapshot_is_stale = True
            cycle.world.unsaved.arrivals.update(dict.fromkeys(cycle.world.states))
            with suppress(Fenced):
                await cycle.turn()
        assert before == await self.fingerprint()

    async def fingerprint(self) -> tuple[Any, ...]:
        """Changes with every write to the ledger or to what was observed."""
        async with self.database.transaction() as tx:
            row = (
                await tx.execute(
                    text(
                        "SELECT (SELECT ledger_seq FROM fences), (SELECT count(*) FROM postings),"
                        " (SELECT count(*) FROM decisions), (SELECT count(*) FROM workloads),"
                        " (SELECT sum(ctid::text::point <-> point(0,0)) FROM admissions)"
                    )
                )
            ).one()
        return tuple(row)
