"""A trial in the process that leads: read and decided in the thread of questions, with what the loop lends between."""

from collections.abc import Awaitable, Callable, Mapping
from time import monotonic
from typing import Final, Protocol, TypeVar

import msgspec
from msgspec import structs

from admission.trials.changes import UnusableChange, Wanted, changed, quota_wanted
from admission.trials.comparison import compared
from admission.trials.submitted import Question, asked_of, submitted
from admission.trials.trial import tried
from admission.trials.world_view import WorldView
from admission.turn_report import Decided
from admission.web.http import encode
from admission.web.trials.answer import trial_list
from admission.web.trials.bodies import TrialFailureBody, TrialRequestBody
from admission.web.trials.comparison import comparison_body
from queues.api.validation.tenant_rules import Requester, TenantTree
from queues.errors import MusterError
from queues.quota.queue import Queue
from queues.workload import QueueName

T = TypeVar("T")

#: Seconds after which no further workload is told what would let it in.
_ENOUGH: Final = 3.0
_BODY: Final = msgspec.json.Decoder(TrialRequestBody)


class NotAdministered(MusterError):
    """{user} does not administer queue {queue}: what other limits would make of it is told to its administrators."""


class InThread(Protocol):
    """Runs a function in the thread of questions."""

    def __call__(self, function: Callable[[], T], /) -> Awaitable[T]:
        """The result of the function."""
        ...


async def trial(content: bytes, last: Decided, view: WorldView, in_thread: InThread) -> bytes:
    """The answer as JSON. ``content``: a question that the process which serves users has checked."""
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

    def decided() -> bytes:
        began = monotonic()
        next_turn, comparison = ground.next_turn(), None
        if not wanted.is_empty():
            try:
                with_changes = changed(next_turn, wanted)
            except UnusableChange as error:
                return encode(TrialFailureBody(status=400, failure=str(error)))
            comparison = comparison_body(compared(next_turn, with_changes), with_changes.notes)
            next_turn = with_changes.snapshot
        found = tried(ground, next_turn, list(zip(objects, inputs, strict=True)))
        answer = trial_list(found, skipped, lambda: monotonic() - began < _ENOUGH)
        return encode(structs.replace(answer, comparison=comparison))

    return await in_thread(decided)


def _check_administrator(
    quota: tuple[str, ...], queues: Mapping[QueueName, Queue], tree: TenantTree, by: Requester
) -> None:
    """Raises NotAdministered: a limit is of a queue that the user does not administer; UnusableChange."""
    for text in quota:
        queue = queues[quota_wanted(text, "", queues).queue]
        if tree.administered(queue.parent or "", by) is None:
            raise NotAdministered(user=by.name, queue=queue.name)
