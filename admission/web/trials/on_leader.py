"""A trial in the process that leads: read and decided in the thread of questions, with what the loop lends between."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Final, Protocol, TypeVar

import msgspec
from msgspec import structs

from admission.engine.snapshot import Snapshot
from admission.forecast.learned import Learned
from admission.trials.changes import UnusableChange, Wanted, changed, quota_wanted
from admission.trials.comparison import compared
from admission.trials.shifts import start_shifts
from admission.trials.submitted import Question, Submitted, asked_of, submitted
from admission.trials.trial import DecidedTrial, Ground, TrialState, tried
from admission.trials.world_view import WorldView
from admission.turn_report import Decided
from admission.web.http import encode
from admission.web.lists.expected import ExpectedStartBody
from admission.web.trials.answer import trial_list
from admission.web.trials.bodies import (
    ComparisonBody,
    StartShiftsBody,
    TrialFailureBody,
    TrialRequestBody,
)
from admission.web.trials.comparison import comparison_body, shifts_body
from admission.web.trials.foreseen import Foreseen
from admission.workloads.inputs import WorkloadInputs
from queues.api.validation.tenant_rules import Requester, TenantTree
from queues.errors import MusterError
from queues.quota.queue import Queue
from queues.workload import QueueName, WorkloadKey

T = TypeVar("T")

#: Seconds after which nothing more is worked out than what was asked: no starts are foreseen, and no further workload
#: is told what would let it in.
_ENOUGH: Final = 4.0
_BODY: Final = msgspec.json.Decoder(TrialRequestBody)


class NotAdministered(MusterError):
    """{user} does not administer queue {queue}. Its administrators are named in access.admins of {above}; platform
    administrators (role muster-queue-admin) administer all queues. Ask one of them to try it, or try a queue of yours.
    """


class InThread(Protocol):
    """Runs a function in the thread of questions."""

    def __call__(self, function: Callable[[], T], /) -> Awaitable[T]:
        """The result of the function."""
        ...


async def trial(
    content: bytes,
    last: Decided,
    view: WorldView,
    in_thread: InThread,
    learned: Callable[[], Learned | None] = lambda: None,
) -> bytes:
    """The answer as JSON. ``content``: a question that the process which serves users has checked. ``learned``: what
    forecasts go by; None: there are none now."""
    body = _BODY.decode(content)
    if body.queue and body.queue not in last.snapshot.queues:
        return encode(TrialFailureBody(status=404, failure=body.queue))
    if body.quota and not body.sees_everything:
        by, tree = Requester(body.user, frozenset(body.groups)), TenantTree(view.queue_documents())
        try:
            await in_thread(lambda: _check_administrator(body.quota, last.snapshot.queues, tree, by))
        except (UnusableChange, NotAdministered) as error:
            return encode(TrialFailureBody(status=403, failure=str(error)))
    question = Question(documents=body.documents, namespace=body.namespace, queue=body.queue, user=body.user)
    asked, skipped = asked_of(question) if body.documents else ([], [])
    cluster = view.cluster(last.snapshot)
    objects = await in_thread(lambda: submitted(question, asked, cluster))
    inputs = view.inputs(last.snapshot, objects)
    ground = view.ground(last.snapshot, last.plan, objects)
    wanted = Wanted(
        quota=body.quota,
        flavor=body.flavor,
        drain=body.drain,
        add=tuple((each.count, each.like) for each in body.add_nodes),
    )

    began = monotonic()
    try:
        decided = await in_thread(lambda: _decided(ground, wanted, list(zip(objects, inputs, strict=True))))
    except UnusableChange as error:
        return encode(TrialFailureBody(status=400, failure=str(error)))
    expected: Mapping[WorkloadKey, ExpectedStartBody] = {}
    shifts: StartShiftsBody | None = None
    known = learned()
    if known is not None and decided.awaits_starts() and monotonic() - began < _ENOUGH:
        foreseen = Foreseen.begin(known, decided.trial)
        await in_thread(foreseen.work)
        expected = foreseen.expected(known)
    if known is not None and decided.changed is not None and monotonic() - began < _ENOUGH:
        without = Foreseen.begin_at(known, ground.next_turn())
        with_changes = Foreseen.begin_at(known, decided.changed)
        await in_thread(without.work)
        await in_thread(with_changes.work)
        shifts = await in_thread(
            lambda: shifts_body(start_shifts(without.snapshot, without.made, with_changes.made))
        )

    def told() -> bytes:
        answer = trial_list(decided.trial, skipped, lambda: monotonic() - began < _ENOUGH, expected)
        comparison = decided.comparison
        if comparison is not None:
            comparison = structs.replace(comparison, starts=shifts)
        return encode(structs.replace(answer, comparison=comparison))

    return await in_thread(told)


@dataclass(frozen=True, slots=True)
class _Decided:
    """What the engine says of a question."""

    trial: DecidedTrial
    #: The next turn with the changes; None: none were asked for.
    changed: Snapshot | None
    comparison: ComparisonBody | None

    def awaits_starts(self) -> bool:
        """Whether an object of the question waits."""
        return any(each.state is TrialState.WAITS for each in self.trial.outcomes)


def _decided(
    ground: Ground, wanted: Wanted, objects: Sequence[tuple[Submitted, WorkloadInputs | None]]
) -> _Decided:
    """Raises UnusableChange."""
    next_turn = ground.next_turn()
    if wanted.is_empty():
        return _Decided(tried(ground, next_turn, objects), None, None)
    with_changes = changed(next_turn, wanted)
    comparison = comparison_body(compared(next_turn, with_changes), with_changes.notes)
    found = tried(ground, with_changes.snapshot, objects)
    return _Decided(found, with_changes.snapshot, comparison)


def _check_administrator(
    quota: tuple[str, ...], queues: Mapping[QueueName, Queue], tree: TenantTree, by: Requester
) -> None:
    """Raises NotAdministered: a limit is of a queue that the user does not administer; UnusableChange."""
    for text in quota:
        queue = queues[quota_wanted(text, "", queues).queue]
        if tree.administered(queue.parent or "", by) is None:
            above = f"queue {queue.parent} or one above it" if queue.parent else "no queue"
            raise NotAdministered(user=by.name, queue=queue.name, above=above)
