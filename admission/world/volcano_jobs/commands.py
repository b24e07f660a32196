"""Commands that wait to be carried out, or whose objects are not deleted yet. Pure."""

from collections.abc import Container, Mapping
from typing import Final

from admission.facts.changes import Change
from admission.facts.cluster import QueueFact
from admission.facts.workloads import WorkloadFact
from admission.volcano_jobs.state import JobState
from queues.api.api_resources import QUEUES, VOLCANO_JOBS
from queues.command import Command
from queues.quota.queue import ROOT
from queues.workload import QueueName, WorkloadKey, WorkloadKind

OPEN_QUEUE: Final = "OpenQueue"
CLOSE_QUEUE: Final = "CloseQueue"

#: Seconds after which a target that is not seen is not there: watches of two kinds may be this far apart.
TARGET_SEEN_WITHIN: Final = 60


class Commands:
    """Part of the world: Commands by their targets."""

    def __init__(self) -> None:
        self._commands: dict[str, Command] = {}
        #: By kind of the target and its uid, or its name if it is a Queue.
        self._by_target: dict[tuple[str, str], dict[str, Command]] = {}
        #: Uids of those for Queues that were carried out.
        self._done: set[str] = set()

    def observe(self, change: Change) -> set[WorkloadKey]:
        """A Command appeared, changed or is gone. Returns the Job that is to be looked at."""
        uid, command = change.key, change.fact
        assert isinstance(command, Command | None)
        before = self._commands.pop(uid, None)
        if before is not None:
            target = _target(before)
            self._by_target[target].pop(uid)
            if not self._by_target[target]:
                del self._by_target[target]
        if command is None:
            self._done.discard(uid)
            return set()
        self._commands[uid] = command
        self._by_target.setdefault(_target(command), {})[uid] = command
        return {job_of(command)} if command.target_kind == VOLCANO_JOBS.kind else set()

    def of_job(self, key: WorkloadKey) -> tuple[Command, ...]:
        """Commands for a Job, oldest first; those that were carried out among them, until their objects are gone."""
        return self._of(VOLCANO_JOBS.kind, key.uid)

    def _of(self, kind: str, target: str) -> tuple[Command, ...]:
        found = self._by_target.get((kind, target))
        return () if found is None else tuple(sorted(found.values(), key=lambda each: each.order))

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
        return [QueueName(name) for kind, name in self._by_target if kind == QUEUES.kind]

    def awaits_queues(self) -> bool:
        """Whether a Command for a Queue waits to be carried out."""
        return any(
            uid not in self._done
            for (kind, _), commands in self._by_target.items()
            if kind == QUEUES.kind
            for uid in commands
        )

    def finished(
        self,
        facts: Mapping[WorkloadKey, WorkloadFact],
        jobs: Mapping[str, JobState],
        queues: Mapping[QueueName, QueueFact],
        now: int,
        *,
        unreadable: Container[WorkloadKey] = (),
    ) -> list[Command]:
        """Commands whose objects are to be deleted: carried out, or long about nothing that they can be carried out on.

        ``unreadable``: Jobs with a document that cannot be used. Of the Commands for a Queue the oldest goes first, so
        that a leader that knows nothing of the others finds the last.
        """
        found = []
        for kind, name in self._by_target:
            for command in self._of(kind, name):
                if kind == QUEUES.kind:
                    queue = queues.get(QueueName(name))
                    done, there = self._is_obeyed(command, queue), queue is not None
                else:
                    fact, job = facts.get(job_of(command)), jobs.get(command.target_uid)
                    done = job is not None and command.uid in job.commands
                    there = fact is not None and is_about(command, fact) and fact.key not in unreadable
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
    return WorkloadKey(WorkloadKind.VOLCANO_JOB, command.target_uid)


def is_about(command: Command, fact: WorkloadFact) -> bool:
    """Whether a Command is about this Job: its author was asked for rights by the name, in the Command's namespace."""
    return (command.namespace, command.target_name) == (fact.namespace, fact.name)


def _is_for(command: Command, queue: QueueName, uid: str) -> bool:
    """Whether a Command has something to do with this queue, not with an earlier one of its name."""
    known = command.action in (OPEN_QUEUE, CLOSE_QUEUE) and queue != ROOT
    return known and command.target_uid in ("", uid)
