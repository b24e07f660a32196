"""Volcano Jobs: their states as the ledger has them, how their pods ended, and Commands that are not done yet. Pure."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from admission.facts.changes import Change
from admission.facts.cluster import QueueFact
from admission.facts.pods import PodFact, PodPhase
from admission.facts.workloads import WorkloadFact
from admission.volcano_jobs.state import STOPPED, JobState, Phase
from admission.volcano_jobs.view import is_stale
from admission.workloads.kinds import Holding, support_of
from admission.workloads.seats import is_live
from admission.world.admissions import KeyIndex
from admission.world.persistence import current_outcomes
from admission.world.pods import PodIndex
from queues import kind_names
from queues.api.api_resources import QUEUES, VOLCANO_JOBS
from queues.command import Command
from queues.quota.queue import ROOT
from queues.workload import QueueName, WorkloadKey
from queues.world_rows import WorldRows


class VolcanoJobs:
    """Part of the world: states of Jobs as the ledger has them, how their pods ended, and pods that carry our finalizer
    and are to go."""

    def __init__(
        self, rows: WorldRows, pod_index: PodIndex, unsaved: dict[str, tuple[WorkloadKey, PodFact]]
    ) -> None:
        self._pod_index = pod_index
        #: By uid of the Job.
        self.stored = {key.uid: JobState.from_json(row) for key, row in rows.job_states.items()}
        #: Ends of pods by workload, and there by pod set and ordinal.
        self.outcomes = current_outcomes(rows.outcomes, self.stored)
        self._unsaved = unsaved
        self._ending: dict[str, None] = {}

    def of(self, key: WorkloadKey) -> JobState:
        """The state of a Job; of one that none is stored of, where it begins."""
        state = self.stored.get(key.uid)
        return first_state(key, self._pod_index.facts.get(key)) if state is None else state

    def put(self, key: WorkloadKey, state: JobState) -> bool:
        """A Job's state changed in the ledger: ends of pods that were restarted do not count any more. Whether what
        follows for its seats may be something else by it."""
        stored = self.stored.get(key.uid, JobState(uid=key.uid))
        self._drop_outcomes(key, state)
        self.stored[key.uid] = state
        return _about_seats(stored) != _about_seats(state)

    def _drop_outcomes(self, key: WorkloadKey, state: JobState) -> None:
        before = self.of(key)
        outcomes = self.outcomes.get(key)
        if outcomes is None:
            return
        if before.version != state.version:
            del self.outcomes[key]
            return
        for uid in state.restarted - before.restarted:
            pod = self._pod_index.pods.get(uid)
            if pod is not None and pod.index is not None:
                outcomes.pop((pod.task, pod.index), None)

    def put_pod(self, uid: str, pod: PodFact | None) -> None:
        """A pod appeared, changed, or (None) is gone."""
        self._ending.pop(uid, None)
        if pod is not None and is_ending(pod):
            self._ending[uid] = None

    def note_outcome(self, owner: WorkloadKey, pod: PodFact) -> None:
        """A pod has ended. Of each seat of a version the first one counts."""
        # A pod that was being deleted did not end by itself, whatever its last phase says.
        if not _is_run_by_muster(owner) or pod.index is None or not pod.ended_first:
            return
        if is_stale(pod, self.of(owner)):
            return
        outcomes = self.outcomes.setdefault(owner, {})
        if (pod.task, pod.index) not in outcomes:
            outcomes[pod.task, pod.index] = pod.phase
            self._unsaved[pod.uid] = (owner, pod)

    def forget(self, key: WorkloadKey) -> None:
        """The workload is gone and holds nothing."""
        self.stored.pop(key.uid, None)
        self.outcomes.pop(key, None)

    def forget_outcomes(self, owner: WorkloadKey) -> None:
        """The workload is gone before it was stored: how its pods ended no longer matters."""
        if self.outcomes.pop(owner, None) is not None:
            for pod in self._pod_index.of(owner):
                self._unsaved.pop(pod.uid, None)

    def may_disappear(self) -> list[PodFact]:
        """Pods that may disappear: how they ended is stored, or does not matter. Pods being deleted come first."""
        found = [pod for uid in self._ending if self._is_dismissible(pod := self._pod_index.pods[uid])]
        return sorted(found, key=lambda pod: not pod.deleting)

    def _is_dismissible(self, pod: PodFact) -> bool:
        owner = self._pod_index.owner_of(pod.uid)
        if owner is None or not _is_run_by_muster(owner):
            return True
        stored = pod.uid not in self._unsaved
        return may_go(pod, self._pod_index.facts.get(owner), self.of(owner), stored=stored)


def _about_seats(job: JobState) -> tuple[object, ...]:
    return job.result(), job.phase is Phase.RESTARTING, job.version, job.restarted


def first_state(key: WorkloadKey, fact: WorkloadFact | None) -> JobState:
    """Where a Job begins that the ledger has no state of: as its status says, if it ended or was stopped."""
    if fact is None or not fact.phase:
        return JobState(uid=key.uid)
    shown = fact.shown
    state = JobState(uid=key.uid, version=shown.version, retry_count=shown.retry_count)
    return state.entered(Phase(fact.phase), shown.since) if fact.phase in STOPPED else state


def _is_run_by_muster(key: WorkloadKey) -> bool:
    return support_of(key).holding is Holding.NO_PODS


def following(before: PodFact | None, pod: PodFact) -> PodFact:
    """The pod, with what its earlier fact says of its end where its object no longer shows it."""
    if pod.ended_first is not None:
        return pod
    if before is not None and not is_live(before):
        return replace(pod, ended_first=before.ended_first)
    # Seen alive after its deletion, it had not ended before. Else success counts: it must not run twice.
    unseen = before is None or before.ended_first is not False
    return replace(pod, ended_first=unseen and pod.phase is PodPhase.SUCCEEDED)


def is_ending(pod: PodFact) -> bool:
    """Whether it carries our finalizer, and has ended or is being deleted."""
    return pod.kept and (pod.deleting or not is_live(pod))


def may_go(pod: PodFact, fact: WorkloadFact | None, job: JobState, *, stored: bool) -> bool:
    """Whether it no longer matters how a pod ended. ``fact`` and ``job``: of its Volcano Job; None if it is gone."""
    if not is_live(pod):
        return stored
    if pod.forced or fact is None or fact.deleting:
        return True
    return is_stale(pod, job) or job.is_over()


OPEN_QUEUE: Final = "OpenQueue"
CLOSE_QUEUE: Final = "CloseQueue"

#: Seconds after which a target that is not seen is not there: watches of two kinds may be this far apart.
TARGET_SEEN_WITHIN: Final = 60


class Commands:
    """Part of the world: Commands by their targets."""

    def __init__(self) -> None:
        self._commands: dict[str, Command] = {}
        #: Uids by kind of the target and its uid, or its name if it is a Queue.
        self._by_target: KeyIndex[tuple[str, str], str] = KeyIndex()
        #: Uids of those for Queues that were carried out.
        self._done: set[str] = set()

    def observe(self, change: Change) -> set[WorkloadKey]:
        """A Command appeared, changed or is gone. Returns the Job that is to be looked at."""
        uid, command = change.key, change.fact
        assert isinstance(command, Command | None)
        before = self._commands.pop(uid, None)
        if before is not None:
            self._by_target.discard(_target(before), uid)
        if command is None:
            self._done.discard(uid)
            return set()
        self._commands[uid] = command
        self._by_target.add(_target(command), uid)
        return {job_of(command)} if command.target_kind == VOLCANO_JOBS.kind else set()

    def of_job(self, key: WorkloadKey) -> tuple[Command, ...]:
        """Commands for a Job, oldest first; those that were carried out among them, until their objects are gone."""
        return self._of(VOLCANO_JOBS.kind, key.uid)

    def _of(self, kind: str, target: str) -> tuple[Command, ...]:
        found = [self._commands[uid] for uid in self._by_target.of((kind, target))]
        return tuple(sorted(found, key=lambda each: each.order))

    def wants_closed(self, queue: QueueName, uid: str) -> bool | None:
        """Whether the queue is to be closed, as the last Command says that was not carried out; None without one."""
        said = [
            each.action == CLOSE_QUEUE
            for each in self._of(QUEUES.kind, queue)
            if each.uid not in self._done and _is_for(each, queue, uid)
        ]
        return said[-1] if said else None

    def queues(self) -> list[QueueName]:
        """Queues that Commands are for."""
        targets = self._by_target.keys()
        return [QueueName(name) for kind, name in targets if kind == QUEUES.kind]

    def awaits_queues(self) -> bool:
        """Whether a Command for a Queue waits to be carried out."""
        of_queues = (uid for uid, each in self._commands.items() if each.target_kind == QUEUES.kind)
        return any(uid not in self._done for uid in of_queues)

    def finished(
        self,
        facts: Mapping[WorkloadKey, WorkloadFact],
        jobs: Mapping[str, JobState],
        queues: Mapping[QueueName, QueueFact],
        now: int,
    ) -> list[Command]:
        """Commands whose objects are to be deleted: carried out, or long about nothing that they can be carried out on.

        Of the Commands for a Queue the oldest goes first, so that a leader that knows nothing of the others finds the
        last.
        """
        found = []
        targets = self._by_target.keys()
        for kind, name in targets:
            for command in self._of(kind, name):
                if kind == QUEUES.kind:
                    queue = queues.get(QueueName(name))
                    done, there = self._is_obeyed(command, queue), queue is not None
                else:
                    fact, job = facts.get(job_of(command)), jobs.get(command.target_uid)
                    done = job is not None and command.uid in job.commands
                    there = fact is not None and is_about(command, fact) and fact.job is not None
                if done or (not there and now >= command.created + TARGET_SEEN_WITHIN):
                    found.append(command)
                if kind == QUEUES.kind:
                    break
        return found

    def _is_obeyed(self, command: Command, queue: QueueFact | None) -> bool:
        """Whether a Queue has shown what this Command or a later one asks; from then on others may change it."""
        if queue is None or command.uid in self._done:
            return queue is not None
        if self.wants_closed(queue.queue.name, queue.uid) not in (None, queue.queue.closed):
            return False
        self._done.add(command.uid)
        return True


def _target(command: Command) -> tuple[str, str]:
    is_queue = command.target_kind == QUEUES.kind
    return command.target_kind, command.target_name if is_queue else command.target_uid


def job_of(command: Command) -> WorkloadKey:
    """The Job that a Command is about."""
    return WorkloadKey(kind_names.VOLCANO_JOB, command.target_uid)


def is_about(command: Command, fact: WorkloadFact) -> bool:
    """Whether a Command is about this Job: its author was asked for rights by the name, in the Command's namespace."""
    return (command.namespace, command.target_name) == (fact.namespace, fact.name)


def _is_for(command: Command, queue: QueueName, uid: str) -> bool:
    """Whether a Command has something to do with this queue, not with an earlier one of its name."""
    known = command.action in (OPEN_QUEUE, CLOSE_QUEUE) and queue != ROOT
    return known and command.target_uid in ("", uid)
