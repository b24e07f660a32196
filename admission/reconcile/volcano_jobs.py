"""Volcano Jobs between the world and the rules of ``admission.volcano_jobs``: views, transitions and work."""

from collections.abc import Iterable
from dataclasses import replace

from admission.volcano_jobs.lifecycle import act, advance, carry_out, end
from admission.volcano_jobs.pod_changes import JobWork, work_for
from admission.volcano_jobs.pods import PodRules
from admission.volcano_jobs.policies import findings, has_timeouts
from admission.volcano_jobs.state import Action, JobState, JobTransition
from admission.volcano_jobs.view import JobView, at_version_of_pods
from admission.workloads.rollback import Deadlines
from admission.world.volcano_jobs import is_about
from admission.world.world import World
from queues import kind_names
from queues.errors import InvalidDocument
from queues.reason_codes import ReasonCode
from queues.workload import QueueName, WorkloadKey


class VolcanoJobController:
    """What is known of Jobs, and when they are to be looked at."""

    def __init__(self, rules: PodRules) -> None:
        self._rules = rules
        self._looks = Deadlines()

    def view(self, world: World, key: WorkloadKey) -> JobView | None:
        """What is seen of a Job now; None if it is gone, or if its document cannot be used."""
        fact, state = world.facts.get(key), world.states.get(key)
        if fact is None or fact.job is None:
            return None
        return JobView(
            spec=fact.job,
            priority=fact.priority,
            pods=tuple(world.pod_index.of(key)),
            admissions=tuple(world.admission_index.of(key)),
            ended=state.ended if state is not None else {},
            outcomes=world.volcano_jobs.outcomes.get(key, {}),
            deleting=fact.deleting,
            outgrown=state.outgrown if state is not None else {},
            commands=tuple(each for each in world.commands.of_job(key) if is_about(each, fact)),
            beyond_budgets=state.beyond_budgets if state is not None else frozenset(),
            run_out=_run_out(world, key) if state is not None and state.is_run_out else "",
        )

    def transitions(self, world: World, keys: Iterable[WorkloadKey], now: int) -> tuple[JobTransition, ...]:
        """State changes of these Jobs; other workloads among them have none."""
        found = []
        for key in sorted(key for key in keys if key.kind == kind_names.VOLCANO_JOB):
            try:
                view = self.view(world, key)
                if view is None:
                    continue
                old = world.volcano_jobs.stored.get(key.uid)
                before = at_version_of_pods(world.volcano_jobs.of(key), view)
                new, acted = next_state(before, view, now)
            except Exception as error:
                world.note_defect(key, error)
                continue
            if new != old:
                found.append(JobTransition(key=key, old=old, new=new, acted=acted))
        return tuple(found)

    def work(self, world: World, keys: Iterable[WorkloadKey], now: int) -> list[JobWork]:
        """What these Jobs need done in the cluster; empty work says that nothing is left to do."""
        found = []
        for key in keys:
            if key.kind != kind_names.VOLCANO_JOB:
                continue
            try:
                view = self.view(world, key)
                if view is None:
                    continue
                state = world.volcano_jobs.of(key)
                group = world.pod_index.job_groups.get((view.spec.namespace, view.spec.group_name))
                has_group = group is not None and group.minimum == view.spec.minimum
                release = world.queue_facts.release_rules(
                    QueueName(view.spec.queue), world.node_inventory.tolerations
                )
                work = work_for(
                    key, state, view, now, rules=self._rules, has_group=has_group, release=release
                )
                self._look_again(key, state, view, now)
            except InvalidDocument:
                continue  # no pod is made with flags of a plugin that cannot be used
            except Exception as error:
                # A defect that one Job brings to light must not keep the others waiting.
                world.note_defect(key, error)
                continue
            found.append(work)
        return found

    def _look_again(self, key: WorkloadKey, state: JobState, view: JobView, now: int) -> None:
        """Note when the Job is to be deleted, or a policy has waited long enough."""
        if state.is_over():
            at = None if view.spec.ttl is None else state.finished_at + view.spec.ttl
        else:
            at = findings(state, view, now).next_timeout if has_timeouts(view.spec) else None
        self._looks.put(key, at if at is not None and at > now else None)

    def due(self, now: int) -> set[WorkloadKey]:
        """Jobs that are to be looked at now: those that ended and are to be deleted, and that waited long enough."""
        return self._looks.expire(now)


def _run_out(world: World, key: WorkloadKey) -> str:
    """What a Job shows that has run for as long as its queue allows."""
    last = world.ledger.last_evictions.get(key)
    # The log of decisions does not keep the words for ever.
    return last.cause if last is not None and last.cause else "it has run for as long as its queue allows"


def next_state(state: JobState, view: JobView, now: int) -> tuple[JobState, tuple[JobState, ...]]:
    """The state after what was asked for and what is observed then, and the states to which actions led on the way.

    The end of a Job that may run no longer; else what Commands ask for, then what the policies ask for. ``now``:
    seconds since the epoch.
    """
    if view.run_out and (ended := end(state, now, ReasonCode.MAX_RUN_TIME, view.run_out)) is not state:
        return advance(ended, replace(view, outcomes={}), now), ()
    before, state = state, carry_out(state, view, now)
    steps = (state,) if state.history != before.history and isinstance(state.reason, Action) else ()
    if state.version != before.version:
        view = replace(view, outcomes={})
    found = findings(state, view, now)
    state = replace(state, seen_since=found.seen_since, replicas=found.replicas)
    if (asked := found.asked) is None:
        view = replace(view, policy_waits=found.next_timeout is not None)
    else:
        state = act(state, asked.action, now, asked.message, [pod.uid for pod in asked.pods])
        state = replace(state, seen_since=asked.seen_since_left(found.seen_since))
        view = replace(view, outcomes=asked.outcomes_left(view.outcomes))
        steps = (*steps, state)
    return advance(state, view, now), steps
