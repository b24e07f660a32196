"""The leader's end of the channel: questions that only its memory answers, of users that another process serves.

The leader works on one such question at a time, in a thread of their own, and rests in between: they never take more
than a quarter of a processor from its turns. That time is shared between the users who ask. While no question waits,
the thread forecasts when workloads start.
"""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Final, NamedTuple, TypeVar

from aiohttp import web

from admission.containment.child_process import contained
from admission.replay.fingerprint import fingerprint
from admission.replay.snapshot_file import save
from admission.trials.world_view import WorldView
from admission.turn_report import Decided
from admission.web.access.limits import counted_as
from admission.web.http import encode, errors_as_json, json_answer
from admission.web.leader.forecasts import Forecasts, Learn, StartsUnknown, Tell
from admission.web.leader.forwarding import ASKER, LeaderBusy, PluginFailed
from admission.web.leader.nodes import NodeQuestion, known_nodes, node_list
from admission.web.leader.outlook import KnownBesides, Problem, outlooks
from admission.web.leader.question_line import LineFull, QuestionLine
from admission.web.reader import NotLeading
from admission.web.trials.on_leader import ANSWER_WITHIN, InThread, trial
from queues.plugins.guard import PluginFault

T = TypeVar("T")
#: A question that is worked on; it is given what runs a function in the thread.
Work = Callable[[InThread], Awaitable[bytes]]

#: After each question the thread rests for so many times as long as it took, and at most so many seconds.
_REST: Final = 3.0
_LONGEST_REST: Final = 5.0


async def _nothing(_: int) -> tuple[()]:
    return ()


class _ClientLeft(Exception):
    """The client of a question has left."""


def _asker(request: web.Request) -> str:
    """In whose name a question counts; "": it is not stated."""
    return counted_as(request.query.get(ASKER, ""))


class _Question(NamedTuple):
    """Work that waits, and where its outcome goes."""

    work: Work
    answer: "asyncio.Future[bytes]"


class LeaderAnswers:
    """The end of the channel in the process that leads, or would."""

    def __init__(
        self,
        last: Callable[[], Decided | None],
        metrics: Callable[[], Awaitable[bytes]],
        *,
        identity: str,
        problems: Callable[[str, str], Sequence[Problem]] = lambda namespace, name: (),
        world_view: Callable[[], WorldView | None] = lambda: None,
        learn: Learn | None = None,
        tell: Tell = lambda starts: None,
        unknown: StartsUnknown = frozenset,
    ) -> None:
        """``last``: the last decision of this replica, None if it does not lead. ``problems``: those of workloads with
        seats, by namespace and name. ``world_view``: what trials know of the world, None if it does not lead.
        ``learn``: reads the run times of ended work; if None, no starts are forecast. ``tell``: has the starts written
        to the objects of workloads. ``unknown``: workloads for which no start can be expected."""
        self._last = last
        self._world_view = world_view
        self._problems = problems
        self._metrics = metrics
        self._identity = identity
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="questions")
        self._one = asyncio.Lock()
        self._line: QuestionLine[_Question] = QuestionLine()
        #: Works on questions until none waits.
        self._worker: asyncio.Task[None] | None = None
        self.forecasts = Forecasts(last, learn or _nothing, self._beside, tell, unknown)

    def application(self) -> web.Application:
        """The application with all routes."""
        application = web.Application(
            middlewares=[errors_as_json("/outlook, /nodes, /expected, /trials, /snapshot, /metrics")]
        )
        application.add_routes(
            [
                web.get("/outlook", self.outlook),
                web.get("/nodes", self.nodes),
                web.post("/trials", self.trials),
                web.get("/expected", self.expected),
                web.get("/snapshot", self.snapshot),
                web.get("/metrics", self.metrics),
            ]
        )
        return application

    async def outlook(self, request: web.Request) -> web.Response:
        """What would let the workloads of a name in, or keeps them from going on."""
        last, query = self._decided(), request.query
        namespace, name, kind = query["namespace"], query["name"], query.get("kind")

        async def outlook(in_thread: InThread) -> bytes:
            problems = self._problems(namespace, name)
            expected, view = self.forecasts.of, self._world_view()
            known = (
                None
                if view is None
                else KnownBesides(view.world.budgets.use, view.context.classes_for_users())
            )
            told_of = functools.partial(outlooks, expected=expected, known_besides=known)

            def told() -> bytes:
                return encode(told_of(last.snapshot, last.plan, namespace, name, kind, problems))

            return await in_thread(contained(told, ANSWER_WITHIN))

        return json_answer(await self._computed(_asker(request), outlook))

    async def nodes(self, request: web.Request) -> web.Response:
        """The nodes, their devices, and what is free there."""
        last, view = self._decided(), self._world_view()
        if view is None:
            raise self._not_leading()
        question = NodeQuestion.of(request.query)

        async def nodes(in_thread: InThread) -> bytes:
            known = known_nodes(view.world, last.snapshot.nodes, question, view.now)
            return await in_thread(lambda: encode(node_list(known)))

        return json_answer(await self._computed(_asker(request), nodes))

    async def trials(self, request: web.Request) -> web.Response:
        """What would become of objects if they were submitted now."""
        last, view = self._decided(), self._world_view()
        if view is None:
            raise self._not_leading()
        content = await request.read()

        def work(in_thread: InThread) -> Awaitable[bytes]:
            return trial(content, last, view, in_thread, lambda: self.forecasts.learned)

        return json_answer(await self._computed(_asker(request), work))

    async def expected(self, _: web.Request) -> web.Response:
        """When pending workloads should start, as it was worked out last."""
        self._decided()
        return json_answer(self.forecasts.encoded())

    async def snapshot(self, request: web.Request) -> web.Response:
        """The last turn, as a file."""
        last = self._decided()
        content = await self._computed(
            _asker(request),
            lambda in_thread: in_thread(functools.partial(save, last.snapshot, last.plan, fingerprint())),
        )
        return web.Response(body=content, content_type="application/octet-stream")

    async def metrics(self, _: web.Request) -> web.Response:
        """The metrics of this process."""
        return web.Response(body=await self._metrics())

    def _decided(self) -> Decided:
        last = self._last()
        if last is None:
            raise self._not_leading()
        return last

    def _not_leading(self) -> NotLeading:
        return NotLeading(identity=self._identity, leader="another replica")

    async def _beside(self, work: Callable[[], T]) -> T:
        """What the thread computes when no question waits for it."""
        while (worker := self._worker) is not None and not worker.done():
            await asyncio.wait((worker,))
        async with self._one:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def _computed(self, asker: str, work: Work) -> bytes:
        """The outcome of work that begins when it is its turn: on the loop, and in the thread where it says so.

        ``asker``: the user. Raises LeaderBusy.
        """
        question = _Question(work, asyncio.get_running_loop().create_future())
        try:
            lost = self._line.join(asker, question)
        except LineFull as error:
            raise LeaderBusy(why=str(error)) from error
        if lost is not None and not lost.question.answer.done():
            why = f"The leader took another user's question instead of the last one of {lost.user}, who has the most."
            lost.question.answer.set_exception(LeaderBusy(why=why))
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work_on_all(), name="questions")
        return await question.answer

    async def _work_on_all(self) -> None:
        while len(self._line):
            async with self._one:
                if (found := self._line.next()) is None:
                    return
                took = 0.0
                try:
                    if not found.question.answer.cancelled():  # else the client has left
                        took = await self._work_on(found.question)
                finally:
                    self._line.done(took)
                await asyncio.sleep(min(_LONGEST_REST, _REST * took))

    async def _work_on(self, question: _Question) -> float:
        """The seconds that it took."""
        work, answer = question
        started = monotonic()
        try:
            content = await work(functools.partial(self._in_thread, answer))
        except _ClientLeft:
            pass
        except PluginFault as fault:
            if not answer.cancelled():
                answer.set_exception(PluginFailed(why=str(fault)))
        except Exception as error:
            if not answer.cancelled():
                answer.set_exception(error)
        else:
            if not answer.cancelled():
                answer.set_result(content)
        return monotonic() - started

    async def _in_thread(self, answer: "asyncio.Future[bytes]", function: Callable[[], T]) -> T:
        """The result of one step of a question. Raises _ClientLeft: no client waits for its answer."""
        if answer.cancelled():
            raise _ClientLeft
        return await asyncio.get_running_loop().run_in_executor(self._thread, function)
