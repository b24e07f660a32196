"""A trial in the process that leads: read and decided in the thread of questions, with what the loop lends between."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from time import monotonic, thread_time
from typing import Final, Protocol, TypeVar

import msgspec
from msgspec import structs

from admission.containment.child_process import contained
from admission.engine.snapshot import Snapshot
from admission.forecast.forward import SimulationBounds
from admission.forecast.learned import Learned
from admission.forecast.trust import as_shown
from admission.trials.comparison import compared
from admission.trials.quota_changes import (
    NoQueueToChange,
    NotAdministered,
    QueueFacts,
    RefusedChange,
    UnusableChange,
    with_quota,
)
from admission.trials.submitted import Submitted, TrialState, asked_of, submitted
from admission.trials.trial import DecidedTrial, Ground, tried, with_outlook
from admission.trials.world_view import WorldView
from admission.turn_report import Decided
from admission.web.http import encode
from admission.web.leader.forecasts import body_of
from admission.web.trials.hidden_queues import named_in
from admission.workloads.inputs import WorkloadInputs
from queues.plan import Plan
from queues.quota.queue import path_upwards
from queues.read_api.bodies import ExpectedStartBody
from queues.read_api.trials import (
    ToldTrialList,
    TrialFailureBody,
    TrialList,
    TrialRequestBody,
)
from queues.text_format import names_alike, rfc3339
from queues.workload import QueueName, WorkloadKey

T = TypeVar("T")

#: Seconds after which nothing more is worked out than what was asked: no starts are foreseen, and what would let
#: further workloads in is left out.
_ENOUGH: Final = 4.0
#: Seconds after which a child process that works out an answer is ended: then it is still waited for.
ANSWER_WITHIN: Final = 8.0
#: Simulations, and seconds for all of them: of processor time, and in all while others use the processor.
_DRAWS: Final = 4
_WORK: Final = 1.0
_LONGEST: Final = 1.5
_LIMITS: Final = SimulationBounds(horizon=14 * 86_400, decisions=1000, precision=10, grace=30)
_BODY: Final = msgspec.json.Decoder(TrialRequestBody)


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
    forecasts go by. None if there are none now."""
    body = _BODY.decode(content)
    if body.queue and body.queue not in last.snapshot.queues:
        return encode(_no_queue(body.queue, last.snapshot))
    facts = view.queue_facts()
    asked, skipped = asked_of(body) if body.documents else ([], [])
    now = max(view.now, last.snapshot.now)
    objects = await in_thread(lambda: submitted(body, asked, view.context, now))
    inputs = view.inputs(last.snapshot, objects)
    ground = view.ground(last.snapshot, last.plan, objects)

    known = learned()

    def told() -> bytes:
        began = monotonic()
        try:
            decided = _decided(ground, body, facts, list(zip(objects, inputs, strict=True)))
        except (UnusableChange, RefusedChange) as error:
            return encode(TrialFailureBody(status=400, failure=str(error)))
        except NotAdministered as error:
            return encode(TrialFailureBody(status=403, failure=str(error), queue=error.facts["queue"]))
        except NoQueueToChange as error:
            return encode(_no_queue(error.facts["queue"], last.snapshot))
        expected: Mapping[WorkloadKey, ExpectedStartBody] = {}
        if known is not None and monotonic() - began < _ENOUGH:
            expected = _expected_starts(known, decided)
        items = with_outlook(decided, lambda: monotonic() - began < _ENOUGH, expected)
        snapshot = decided.snapshot
        answer = TrialList(
            now=rfc3339(snapshot.now),
            items=tuple(
                structs.replace(item, nearest_queues=_nearest(item.queue, snapshot)) for item in items
            ),
            skipped=tuple(skipped),
            comparison=decided.comparison,
        )
        return encode(_told(answer, snapshot))

    return await in_thread(contained(told, ANSWER_WITHIN))


def _expected_starts(learned: Learned, trial: DecidedTrial) -> dict[WorkloadKey, ExpectedStartBody]:
    """Expected starts in the world of a trial, by simulations for a bounded time; empty: no object of it waits."""
    if all(each.state != TrialState.WAITS for each in trial.items.values()):
        return {}
    made = replace(learned.ensemble(trial.snapshot, trial.plan, _LIMITS), draws=_DRAWS)
    ends, used = monotonic() + _LONGEST, thread_time()
    for _ in made.steps():
        if thread_time() - used >= _WORK or monotonic() >= ends:
            break
    made.stop()
    now, pending, times = made.snapshot.now, made.snapshot.pending, made.run_times
    return {
        key: body_of(now, as_shown(interval, pending[key], times), pending[key], times, learned.runs)
        for key, interval in learned.supposed(made).items()
    }


def _decided(
    ground: Ground,
    asked: TrialRequestBody,
    facts: QueueFacts,
    objects: Sequence[tuple[Submitted, WorkloadInputs | None]],
) -> DecidedTrial:
    """Raises UnusableChange, RefusedChange, NotAdministered, NoQueueToChange."""
    next_turn = ground.next_turn()
    if not (asked.quota or asked.quota_patches):
        return tried(ground, next_turn, objects)
    with_changes = with_quota(next_turn, asked, facts, ground.budget_use)
    comparison = compared(
        next_turn, with_changes.snapshot, notes=with_changes.notes, warnings=with_changes.warnings
    )
    if objects:
        return replace(tried(ground, with_changes.snapshot, objects), comparison=comparison)
    nothing = Plan(now=next_turn.now, ledger_seq=next_turn.ledger_seq)
    return DecidedTrial(with_changes.snapshot, nothing, {}, comparison)


def _told(answer: TrialList, snapshot: Snapshot) -> ToldTrialList:
    """The answer with the queues that it names."""
    own = {each.queue for each in answer.items if each.queue is not None}
    return ToldTrialList(
        **structs.asdict(answer),
        named_queues=tuple(sorted(named_in(msgspec.to_builtins(answer), snapshot.queues))),
        above={
            name: tuple(each.name for each in path_upwards(QueueName(name), snapshot.queues.get))
            for name in own
        },
    )


def _nearest(queue: str | None, snapshot: Snapshot) -> tuple[str, ...]:
    """Names that look like that of a queue that there is not; empty: there is one, or none is named."""
    return () if queue is None or queue in snapshot.queues else names_alike(queue, snapshot.queues)


def _no_queue(name: str, snapshot: Snapshot) -> TrialFailureBody:
    """The name of a queue that there is not, and those that look alike."""
    near = names_alike(name, snapshot.queues)
    return TrialFailureBody(status=404, failure=name, queue=name, near=near)
