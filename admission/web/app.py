"""The read API, which the API server passes requests of users on to. Reads only; nothing changes through it.

/apis/read.muster.dev/v1                                                  what there is
/apis/read.muster.dev/v1/queues
/apis/read.muster.dev/v1/pending?queue=&namespace=&limit=&continue=
/apis/read.muster.dev/v1/usage?from=&to=&by=&resource=&queue=&quotas=&limit=&continue=
/apis/read.muster.dev/v1/namespaces/{namespace}/workloads/{name}?kind=
/apis/read.muster.dev/v1/namespaces/{namespace}/workloads/{name}/outlook?kind=     from the leader
/apis/read.muster.dev/v1/snapshot                                          from the leader
/metrics
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import msgspec
from aiohttp import web

from admission.kube.access_reviews import AccessRequest, Caller
from admission.web import bodies
from admission.web.access.answer_cache import Kept
from admission.web.access.limits import Gate, ProcessorShare, RequestLimits
from admission.web.access.redaction import redacted
from admission.web.access.rights import MOST_ASKED, Forbidden
from admission.web.health import METRICS_TYPE
from admission.web.http import BadQuery, encode, errors_as_json, json_answer
from admission.web.leader.forwarding import FORWARDED
from admission.web.reader import EVERYTHING, Sight
from admission.web.usage.report import PARAMETERS, UsageRequest, usage_request
from queues.api.names import READ_API
from queues.workload import WorkloadKind

#: Seconds for one answer.
_ANSWER_SECONDS: Final = 15.0
#: Clients that ask without a pause are told so only after a while.
_LIMITS: Final = RequestLimits(patience=5.0, held_back=10.0)
#: Seconds for which an answer is given again to the same user, and how many are kept.
_KEPT_SECONDS: Final = 1.0
_MOST_KEPT: Final = 512
#: Waiting workloads in one answer.
LARGEST_PAGE: Final = 1000
PREFIX: Final = f"/apis/{READ_API}"
_WORKLOAD: Final = f"{PREFIX}/namespaces/{{namespace}}/workloads/{{name}}"
_PATHS: Final = (
    f"{PREFIX}/queues, {PREFIX}/pending, {PREFIX}/usage, {PREFIX}/namespaces/NAMESPACE/workloads/NAME and …/outlook, "
    f"{PREFIX}/snapshot"
)
#: What the API server asks for to learn what there is: no objects, so nothing that others would list or delete.
_DISCOVERY: Final = encode(
    {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": READ_API, "resources": []}
)


class Reader(Protocol):
    """Answers from Postgres; see ``SqlReader``."""

    async def queues(self, sight: Sight) -> bodies.QueueList:
        """The queues that the user may see."""
        ...

    async def pending(
        self,
        *,
        queue: str | None,
        namespace: str | None,
        limit: int,
        after: tuple[str, int] | None,
        sight: Sight,
    ) -> bodies.PendingList:
        """Pending workloads. Raises UnknownName."""
        ...

    async def explain(
        self, *, namespace: str, name: str, kind: str | None, sight: Sight
    ) -> tuple[bodies.ExplanationBody, ...]:
        """Everything about the workloads of a name. Raises UnknownName."""
        ...

    async def usage(self, request: UsageRequest, *, user: str, sight: Sight) -> bodies.UsageList:
        """Use in a period. Raises UnknownName, PeriodTooLarge and BadQuery."""
        ...

    async def used_namespaces(self, since: int, limit: int) -> tuple[str, ...]:
        """Namespaces of workloads that held something at a second (since the epoch) or after it."""
        ...


class Authorizer(Protocol):
    """What users may see; see ``Rights``."""

    async def sight(self, caller: Caller, namespace: str | None = None) -> Sight:
        """What the user may see, of one namespace or of all."""
        ...

    async def sight_in(self, caller: Caller, namespaces: Iterable[str]) -> Sight:
        """What the user may see, of these namespaces."""
        ...

    async def require(self, caller: Caller, access: AccessRequest, what: str) -> None:
        """Raises Forbidden unless the user may do it."""
        ...


class Leader(Protocol):
    """Answers from the leader's memory; see ``LeaderQuestions``."""

    async def ask(self, path: str, query: dict[str, str | None], *, public: str, forwarded: bool) -> bytes:
        """The leader's answer. Raises NotLeading."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadApi:
    """The handlers of the application."""

    #: The user who asks. Raises Unauthenticated and TooBusy.
    authenticate: Callable[[web.Request], Awaitable[Caller]]
    rights: Authorizer
    reader: Reader
    leader: Leader
    #: The Prometheus text.
    metrics: Callable[[], Awaitable[bytes]]
    gate: Gate = field(default_factory=lambda: Gate(_LIMITS, ProcessorShare.of_machine()))
    kept: Kept[tuple[Caller, str, bool], bytes] = field(
        default_factory=lambda: Kept(_KEPT_SECONDS, _MOST_KEPT)
    )

    def application(self) -> web.Application:
        """The application with all routes."""
        # Questions have no body.
        application = web.Application(middlewares=[errors_as_json(_PATHS)], client_max_size=1024)
        application.add_routes(
            [
                web.get(PREFIX, self.discover),
                web.get(f"{PREFIX}/queues", self.show_queues),
                web.get(f"{PREFIX}/pending", self.show_pending),
                web.get(f"{PREFIX}/usage", self.show_usage),
                web.get(_WORKLOAD, self.explain),
                web.get(f"{_WORKLOAD}/outlook", self.show_outlook),
                web.get(f"{PREFIX}/snapshot", self.show_snapshot),
                web.get("/metrics", self.show_metrics),
            ]
        )
        return application

    async def discover(self, _: web.Request) -> web.Response:
        """What the API server needs to know. Anybody may ask for it."""
        return json_answer(_DISCOVERY)

    async def show_queues(self, request: web.Request) -> web.Response:
        """The queues that the user may see."""
        _only(request)

        async def answer(caller: Caller) -> bytes:
            sight = await self.rights.sight(caller)
            return encode(await self.reader.queues(sight))

        return await self._answered(request, answer)

    async def show_pending(self, request: web.Request) -> web.Response:
        """Pending workloads that the user may see."""
        _only(request, "queue", "namespace", "limit", "continue")
        limit = request.query.get("limit", str(LARGEST_PAGE))
        if not limit.isdecimal() or int(limit) > LARGEST_PAGE:
            raise BadQuery(f"limit is {limit!r}", expected=f"a whole number from 0 to {LARGEST_PAGE}")
        namespace, after = request.query.get("namespace") or None, _place(request.query.get("continue"))

        async def answer(caller: Caller) -> bytes:
            sight = await self._sight(caller, namespace)
            found = await self.reader.pending(
                queue=request.query.get("queue") or None,
                namespace=namespace,
                limit=int(limit),
                after=after,
                sight=sight,
            )
            return _shown(found, sight)

        return await self._answered(request, answer)

    async def show_usage(self, request: web.Request) -> web.Response:
        """Use in a period: the user's own, and that of queues which the user may see."""
        _only(request, *PARAMETERS)
        asked = usage_request(request.query)

        async def answer(caller: Caller) -> bytes:
            sight = await self.rights.sight(caller)
            if sight.workloads is not None and asked.names_workloads():
                # Of the past too: nothing needs to wait in them now.
                namespaces = await self.reader.used_namespaces(asked.begins, MOST_ASKED)
                sight = await self.rights.sight_in(caller, namespaces)
            return encode(await self.reader.usage(asked, user=caller.name, sight=sight))

        return await self._answered(request, answer)

    async def explain(self, request: web.Request) -> web.Response:
        """Everything about the workloads of a name."""
        kind, namespace, name = _kind(request), request.match_info["namespace"], request.match_info["name"]

        async def answer(caller: Caller) -> bytes:
            sight = await self._sight(caller, namespace)
            found = await self.reader.explain(namespace=namespace, name=name, kind=kind, sight=sight)
            return _shown(found, sight)

        return await self._answered(request, answer)

    async def show_outlook(self, request: web.Request) -> web.Response:
        """What would let the workloads of a name in."""
        kind, namespace, name = _kind(request), request.match_info["namespace"], request.match_info["name"]

        async def answer(caller: Caller) -> bytes:
            sight = await self._sight(caller, namespace)
            query = {"namespace": namespace, "name": name, "kind": kind}
            found = msgspec.json.decode(await self._leader(request, "/outlook", query))
            seen = [one for one in found if sight.shows(one["kind"], one["namespace"])]
            return encode(redacted(seen, sight))

        return await self._answered(request, answer)

    async def show_snapshot(self, request: web.Request) -> web.Response:
        """The last turn; it has everything of everybody."""
        _only(request)

        async def answer(caller: Caller) -> bytes:
            if await self.rights.sight(caller) != EVERYTHING:
                what = (
                    "list the workloads of all kinds and namespaces, and all queues: a snapshot has them all"
                )
                raise Forbidden(user=caller.name, what=what)
            return await self._leader(request, "/snapshot", {})

        content = (await self._answered(request, answer)).body
        return web.Response(body=content, content_type="application/octet-stream")

    async def show_metrics(self, request: web.Request) -> web.Response:
        """The metrics, for those who may get the path."""

        async def answer(caller: Caller) -> bytes:
            access = AccessRequest(verb="get", path="/metrics")
            await self.rights.require(caller, access, "get the path /metrics")
            return await self.metrics()

        content = (await self._answered(request, answer)).body
        return web.Response(body=content, headers={"Content-Type": METRICS_TYPE})

    async def _answered(
        self, request: web.Request, answer: Callable[[Caller], Awaitable[bytes]]
    ) -> web.Response:
        async with asyncio.timeout(_ANSWER_SECONDS):
            caller = await self.authenticate(request)
            question = (caller, request.path_qs, FORWARDED in request.headers)
            async with self.gate.entered(caller.name):
                return json_answer(await self.kept.get(question, lambda: answer(caller)))

    async def _sight(self, caller: Caller, namespace: str | None) -> Sight:
        """What the user may see. Raises Forbidden: nothing of that namespace."""
        sight = await self.rights.sight(caller, namespace)
        if namespace is not None and not any(sight.shows(kind, namespace) for kind in WorkloadKind):
            what = f"list jobs, podgroups or pods in namespace {namespace}"
            raise Forbidden(user=caller.name, what=what)
        return sight

    async def _leader(self, request: web.Request, path: str, query: dict[str, str | None]) -> bytes:
        forwarded = FORWARDED in request.headers
        return await self.leader.ask(path, query, public=request.path_qs, forwarded=forwarded)


def _shown(body: Any, sight: Sight) -> bytes:
    """The answer as JSON, without names of workloads that are out of sight."""
    return encode(body if sight.workloads is None else redacted(msgspec.to_builtins(body), sight))


def _kind(request: web.Request) -> str | None:
    _only(request, "kind")
    kind = request.query.get("kind") or None
    if kind is not None and kind not in {str(known) for known in WorkloadKind}:
        raise BadQuery(f"kind is {kind!r}", expected=f"one of {', '.join(WorkloadKind)}")
    return kind


def _place(continue_: str | None) -> tuple[str, int] | None:
    """Queue and position of the last line of the page before."""
    if not continue_:
        return None
    position, dot, queue = continue_.partition(".")
    if not (dot and position.isdecimal() and len(position) < 19):
        raise BadQuery(f"continue is {continue_!r}", expected="what the page before gave")
    return queue, int(position)


def _only(request: web.Request, *known: str) -> None:
    for name in request.query:
        if name not in known:
            raise BadQuery(f"{name} is not a parameter of {request.path}", expected=", ".join(known))
