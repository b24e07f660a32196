"""Volcano Jobs between the world and the rules of ``admission.volcano_jobs``: views, transitions and work."""

from collections.abc import Iterable
from dataclasses import replace
from heapq import heappop, heappush

from admission.volcano_jobs.job import JobSpec, read_job
from admission.volcano_jobs.lifecycle import act, advance
from admission.volcano_jobs.pod_changes import JobWork, work_for
from admission.volcano_jobs.pods import PodRules
from admission.volcano_jobs.policies import action_asked
from admission.volcano_jobs.state import JobState, JobTransition
from admission.volcano_jobs.view import JobView
from admission.world.world import World
from queues.errors import InvalidDocument
from queues.workload import WorkloadKey, WorkloadKind


class VolcanoJobController:
    """Reads each Job's document once and keeps the result while the document stays the same."""

    def __init__(self, rules: PodRules) -> None:
        self._rules = rules
        self._specs: dict[WorkloadKey, tuple[bytes, JobSpec | None]] = {}
        #: Jobs with a document that cannot be used, and its errors.
        self.problems: dict[WorkloadKey, str] = {}
        #: When (seconds since the epoch) Jobs that ended are to be deleted, soonest first; each is there once.
        self._expiring: list[tuple[int, WorkloadKey]] = []
        self._awaited: set[WorkloadKey] = set()

    def spec(self, world: World, key: WorkloadKey) -> JobSpec | None:
        """A Job's document; None: the Job is gone or its document cannot be used."""
        fact = world.facts.get(key)
        if fact is None or not fact.document:
            self._specs.pop(key, None)
            self.problems.pop(key, None)
            return None
        known = self._specs.get(key)
        if known is not None and known[0] is fact.document:
            return known[1]
        self.problems.pop(key, None)
        try:
            spec: JobSpec | None = read_job(fact.document)
        except InvalidDocument as error:
            self.problems[key] = str(error)
            spec = None
        self._specs[key] = (fact.document, spec)
        return spec

    def view(self, world: World, key: WorkloadKey) -> JobView | None:
        """What is seen of a Job now."""
        spec = self.spec(world, key)
        if spec is None:
            return None
        state = world.states.get(key)
        return JobView(
            spec=spec,
            pods=tuple(world.pod_index.of(key)),
            admissions=tuple(world.admission_index.of(key)),
            ended=state.ended if state is not None else {},
            outcomes=world.outcomes.get(key, {}),
            deleting=world.facts[key].deleting,
            outgrown=state.outgrown if (state := world.states.get(key)) is not None else {},
        )

    def transitions(self, world: World, keys: Iterable[WorkloadKey], now: int) -> tuple[JobTransition, ...]:
        """State changes of these Jobs; other workloads among them have none."""
        found = []
        for key in sorted(key for key in keys if key.kind is WorkloadKind.VOLCANO_JOB):
            try:
                view = self.view(world, key)
                if view is None:
                    continue
                old = world.jobs.get(key.uid)
                new = _stepped(old or JobState(uid=key.uid), view, now)
            except Exception as error:
                world.note_defect(key, error)
                continue
            if new != old:
                found.append(JobTransition(key=key, old=old, new=new))
        return tuple(found)

    def work(self, world: World, keys: Iterable[WorkloadKey], now: int) -> list[JobWork]:
        """What these Jobs need done in the cluster; empty work says that nothing is left to do."""
        found = []
        for key in keys:
            if key.kind is not WorkloadKind.VOLCANO_JOB:
                continue
            try:
                view = self.view(world, key)
                if view is None:
                    continue
                state = world.jobs.get(key.uid) or JobState(uid=key.uid)
                has_group = (view.spec.namespace, view.spec.group_name) in world.pod_index.job_groups
                work = work_for(key, state, view, now, rules=self._rules, has_group=has_group)
            except InvalidDocument as error:
                self.problems[key] = str(error)
                continue
            except Exception as error:
                # A defect that one Job brings to light must not keep the others waiting.
                world.note_defect(key, error)
                continue
            found.append(work)
            if state.is_over() and view.spec.ttl is not None and not work.remove and key not in self._awaited:
                self._awaited.add(key)
                heappush(self._expiring, (state.finished_at + view.spec.ttl, key))
        return found

    def due(self, now: int) -> list[WorkloadKey]:
        """Jobs that have ended and are due for deletion now, each named once."""
        found = []
        while self._expiring and self._expiring[0][0] <= now:
            found.append(heappop(self._expiring)[1])
        self._awaited.difference_update(found)
        return found


def _stepped(state: JobState, view: JobView, now: int) -> JobState:
    """The state after the action that a policy asks for, if one does, and after what is observed then."""
    asked = action_asked(state, view)
    if asked is not None:
        state = act(state, asked.action, now, asked.message)
        # How pods ended says nothing of the version that begins.
        view = replace(view, outcomes={})
    return advance(state, view, now)
