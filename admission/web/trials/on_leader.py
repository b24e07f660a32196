"""A trial in the process that leads: read and decided in the thread of questions, with what the loop lends between."""

from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Final, Protocol, TypeVar

import msgspec

from admission.trials.submitted import Question, asked_of, submitted
from admission.trials.trial import tried
from admission.trials.world_view import WorldView
from admission.turn_report import Decided
from admission.web.http import encode
from admission.web.trials.answer import trial_list
from admission.web.trials.bodies import TrialFailureBody, TrialRequestBody

T = TypeVar("T")

#: Seconds after which no further workload is told what would let it in.
_ENOUGH: Final = 3.0
_BODY: Final = msgspec.json.Decoder(TrialRequestBody)


class InThread(Protocol):
    """Runs a function in the thread of questions."""

    def __call__(self, function: Callable[[], T], /) -> Awaitable[T]:
        """The result of the function."""
        ...


async def trial(content: bytes, last: Decided, view: WorldView, in_thread: InThread) -> bytes:
    """The answer as JSON. ``content``: a question that the process which serves users has checked."""
    body = _BODY.decode(content)
    question = Question(documents=body.documents, namespace=body.namespace, queue=body.queue, user=body.user)
    if question.queue and question.queue not in last.snapshot.queues:
        return encode(TrialFailureBody(status=404, failure=question.queue))
    asked, skipped = asked_of(question)
    cluster = view.cluster(last.snapshot)
    objects = await in_thread(lambda: submitted(question, asked, cluster))
    inputs = view.inputs(last.snapshot, objects)
    ground = view.ground(last.snapshot, last.plan, objects)

    def decided() -> bytes:
        began = monotonic()
        found = tried(ground, list(zip(objects, inputs, strict=True)))
        return encode(trial_list(found, skipped, lambda: monotonic() - began < _ENOUGH))

    return await in_thread(decided)
