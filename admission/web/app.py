"""The read API, which the API server passes requests of users on to. Reads only; nothing changes through it.

/apis/read.muster.dev/v1                                                  what there is
/apis/read.muster.dev/v1/queues
/apis/read.muster.dev/v1/queues/{name}/versions?limit=&continue=
/apis/read.muster.dev/v1/queues/{name}/quota?at=
/apis/read.muster.dev/v1/pending?queue=&namespace=&limit=&continue=
/apis/read.muster.dev/v1/expected-starts?namespace=                               from the leader
/apis/read.muster.dev/v1/workloads?queue=&namespace=&user=&mine=&state=&since=&limit=&continue=
/apis/read.muster.dev/v1/users?queue=&limit=&continue=
/apis/read.muster.dev/v1/decisions?queue=&namespace=&since=&limit=&continue=
/apis/read.muster.dev/v1/nodes?workloads=&limit=&continue=
/apis/read.muster.dev/v1/usage?from=&to=&by=&resource=&queue=&limit=&continue=
/apis/read.muster.dev/v1/timeseries?from=&to=&step=&resource=&queue=&limit=
/apis/read.muster.dev/v1/changes?watch=true                                server-sent events
/apis/read.muster.dev/v1/namespaces/{namespace}/workloads/{name}?kind=
/apis/read.muster.dev/v1/namespaces/{namespace}/workloads/{name}/outlook?kind=     from the leader
/apis/read.muster.dev/v1/version
/apis/read.muster.dev/v1/snapshot                                          from the leader
/apis/read.muster.dev/v1/trials                 POST: a question with a body  from the leader
/metrics
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from typing import Any, Final
from urllib.parse import quote

import msgspec
from aiohttp import web

from admission.kube.access_reviews import AccessRequest, Caller
from admission.read_api import bodies
from admission.web.access.answer_cache import Kept
from admission.web.access.limits import Gate, ProcessorShare, RequestLimits, counted_as
from admission.web.access.redaction import redacted
from admission.web.access.rights import MOST_ASKED, Forbidden, Rights
from admission.web.changes import Changes, require_watch
from admission.web.health import METRICS_TYPE
from admission.web.http import (
    OTHER_NAMESPACE,
    BadQuery,
    encode,
    errors_as_json,
    flag,
    json_answer,
    numbered_place,
    tagged,
    time_of,
    whole_number,
)
from admission.web.leader.asking import LeaderGates, asker_in
from admission.web.leader.forwarding import FORWARDED, LeaderQuestions
from admission.web.lists.expected_starts import ExpectedStarts, in_sight, with_expected
from admission.web.lists.queries import decisions_of, is_mine, limit_of, lines_before, listing_of, place_after
from admission.web.reader import Sight, UnknownName, together
from admission.web.sql_reader import SqlReader
from admission.web.time_series import PARAMETERS as OF_TIME_SERIES
from admission.web.time_series import time_series_request
from admission.web.trials.handler import LARGEST_TRIAL
from admission.web.trials.handler import answer as trial_answer
from admission.web.usage_report import PARAMETERS, usage_request
from queues.api.api_resources import NODES, QUEUES
from queues.api.names import READ_API
from queues.api.reading.user_values import is_dns_name
from queues.errors import DatabaseTooSlow, DatabaseUnavailable, MusterError
from queues.workload import WorkloadKind

#: Seconds for one answer.
_ANSWER_SECONDS: Final = 15.0
#: Seconds that an explanation waits for what only the leader knows.
_OUTLOOK_SECONDS: Final = 10.0
_OUTLOOKS: Final = msgspec.json.Decoder(tuple[bodies.OutlookBody, ...])
#: Clients that ask without a pause are refused only after a while.
_LIMITS: Final = RequestLimits(patience=5.0, held_back=10.0)
#: Seconds for which an answer is given again to the same user, and how many are kept.
_KEPT_SECONDS: Final = 1.0
_MOST_KEPT: Final = 512
#: Characters of a name that no queue can have.
_LONGEST_SHOWN: Final = 100
#: Versions of a queue in one answer.
MOST_VERSIONS: Final = 100
PREFIX: Final = f"/apis/{READ_API}"
_WORKLOAD: Final = f"{PREFIX}/namespaces/{{namespace}}/workloads/{{name}}"
_PATHS: Final = (
    f"{PREFIX}/queues, {PREFIX}/queues/QUEUE/versions and …/quota, {PREFIX}/pending, {PREFIX}/expected-starts, "
    f"{PREFIX}/workloads, "
    f"{PREFIX}/users, {PREFIX}/decisions, {PREFIX}/nodes, {PREFIX}/usage, "
    f"{PREFIX}/timeseries, {PREFIX}/changes, "
    f"{PREFIX}/namespaces/NAMESPACE/workloads/NAME and …/outlook, {PREFIX}/snapshot, {PREFIX}/trials"
)
#: What the API server asks for to learn what there is: no objects, so nothing that others would list or delete.
_DISCOVERY: Final = encode(
    {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": READ_API, "resources": []}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadApi:
    """The handlers of the application."""

    #: The user who asks. Raises Unauthenticated and TooBusy.
    authenticate: Callable[[web.Request], Awaitable[Caller]]
    rights: Rights
    reader: SqlReader
    leader: LeaderQuestions
    #: The Prometheus text.
    metrics: Callable[[], Awaitable[bytes]]
    gate: Gate = field(default_factory=lambda: Gate(_LIMITS, ProcessorShare.of_machine()))
    leader_gates: LeaderGates = field(default_factory=LeaderGates)
    kept: Kept[tuple[Caller, str, bool], bytes] = field(
        default_factory=lambda: Kept(_KEPT_SECONDS, _MOST_KEPT)
    )
    #: None for those of ``reader``, within the usual limits.
    changes: Changes | None = None

    #: What the leader expects, asked for all users together.
    expected_starts: ExpectedStarts = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "expected_starts", ExpectedStarts(self.leader, f"{PREFIX}/expected-starts"))

    def application(self) -> web.Application:
        """The application with all routes."""
        # Of all questions only trials have a body.
        application = web.Application(middlewares=[errors_as_json(_PATHS)], client_max_size=LARGEST_TRIAL)
        changes = self.changes or Changes(read=self.reader.change_mark)

        async def stream_changes(request: web.Request) -> web.StreamResponse:
            """Events that say that something has changed. All users who may ask anything may listen."""
            _only(request, "watch")
            require_watch(request)
            caller = await self.authenticate(request)
            return await changes.stream(request, caller.name)

        application.add_routes(
            [
                web.get(PREFIX, self.discover),
                web.get(f"{PREFIX}/queues", self.show_queues),
                web.get(f"{PREFIX}/queues/{{name}}/versions", self.show_versions),
                web.get(f"{PREFIX}/queues/{{name}}/quota", self.show_quota),
                web.get(f"{PREFIX}/pending", self.show_pending),
                web.get(f"{PREFIX}/expected-starts", self.show_expected_starts),
                web.get(f"{PREFIX}/workloads", self.show_workloads),
                web.get(f"{PREFIX}/users", self.show_users),
                web.get(f"{PREFIX}/decisions", self.show_decisions),
                web.get(f"{PREFIX}/nodes", self.show_nodes),
                web.get(f"{PREFIX}/usage", self.show_usage),
                web.get(f"{PREFIX}/timeseries", self.show_time_series),
                web.get(f"{PREFIX}/changes", stream_changes),
                web.get(_WORKLOAD, self.explain),
                web.get(f"{_WORKLOAD}/outlook", self.show_outlook),
                web.get(f"{PREFIX}/snapshot", self.show_snapshot),
                web.post(f"{PREFIX}/trials", self.try_out),
                web.get(f"{PREFIX}/version", self.show_version),
                web.get("/metrics", self.show_metrics),
            ]
        )
        return application

    async def discover(self, _: web.Request) -> web.Response:
        """What the API server needs to know. Every user may ask for it."""
        return json_answer(_DISCOVERY)

    async def show_queues(self, request: web.Request) -> web.Response:
        """The queues that the user may see."""
        _only(request)

        async def answer(caller: Caller) -> bytes:
            sight = await self.rights.sight(caller)
            return encode(await self.reader.queues(sight))

        return await self._answered(request, answer)

    async def show_versions(self, request: web.Request) -> web.Response:
        """The recorded versions of a queue that the user may get."""
        _only(request, "limit", "continue")
        name, limit = (
            request.match_info["name"],
            whole_number("limit", request.query.get("limit", str(MOST_VERSIONS)), MOST_VERSIONS),
        )
        before = numbered_place(request.query.get("continue"))

        async def answer(caller: Caller) -> bytes:
            await self._require_queue(caller, name)
            return encode(await self.reader.queue_versions(name, limit=limit, before=before))

        return await self._answered(request, answer)

    async def show_quota(self, request: web.Request) -> web.Response:
        """The limits of a queue that the user may get, and of its children, now or at an earlier time."""
        _only(request, "at")
        name, said = request.match_info["name"], request.query.get("at")
        at = time_of("at", said) if said else None

        async def answer(caller: Caller) -> bytes:
            await self._require_queue(caller, name)
            sight = await self.rights.sight(caller)
            return encode(await self.reader.quota_at(name, at, sight=sight))

        return await self._answered(request, answer)

    async def show_pending(self, request: web.Request) -> web.Response:
        """Pending workloads that the user may see."""
        _only(request, "queue", "namespace", "limit", "continue")
        limit = limit_of(request.query)
        namespace, after = request.query.get("namespace") or None, _place(request.query.get("continue"))

        async def answer(caller: Caller) -> bytes:
            sight = await self._sight(caller, namespace)
            found = await self.reader.pending(
                queue=request.query.get("queue") or None,
                namespace=namespace,
                limit=limit,
                after=after,
                sight=sight,
            )
            if found.items:
                items = with_expected(found.items, await self.expected_starts.lines(), found.now)
                found = msgspec.structs.replace(found, items=items)
            return _shown(found, sight)

        return await self._answered(request, answer)

    async def show_expected_starts(self, request: web.Request) -> web.Response:
        """When the pending workloads that the user may see should start."""
        _only(request, "namespace")
        namespace = request.query.get("namespace") or None

        async def answer(caller: Caller) -> bytes:
            sight = await self._sight(caller, namespace)
            return in_sight(await self._leader(request, caller, "/expected", {}), namespace, sight)

        return await self._answered(request, answer)

    async def show_workloads(self, request: web.Request) -> web.Response:
        """Workloads that wait, run or have ended, as far as the user may see them."""
        _only(request, "queue", "namespace", "user", "mine", "state", "since", "limit", "continue")
        namespace, limit = request.query.get("namespace") or None, limit_of(request.query)
        wanted, after = listing_of(request.query, namespace), place_after(request.query)
        mine = is_mine(request.query)

        async def answer(caller: Caller) -> bytes:
            sight = await self._sight(caller, namespace)
            queue = request.query.get("queue") or None
            chosen = replace(wanted, user=caller.name) if mine else wanted
            found = await self.reader.workloads(chosen, queue=queue, after=after, limit=limit, sight=sight)
            return _shown(found, sight)

        return await self._answered(request, answer)

    async def show_users(self, request: web.Request) -> web.Response:
        """Users with what they hold and wait for: the one who asks, and of others what that one may see."""
        _only(request, "queue", "limit", "continue")
        limit, after = limit_of(request.query), lines_before(request.query)

        async def answer(caller: Caller) -> bytes:
            sight = await self.rights.sight(caller)
            queue = request.query.get("queue") or None
            return encode(
                await self.reader.users(queue=queue, user=caller.name, after=after, limit=limit, sight=sight)
            )

        return await self._answered(request, answer)

    async def show_decisions(self, request: web.Request) -> web.Response:
        """Decisions about workloads that the user may see, in the order in which they were made."""
        _only(request, "queue", "namespace", "since", "limit", "continue")
        limit = limit_of(request.query)
        wanted = decisions_of(request.query, int(time.time()))

        async def answer(caller: Caller) -> bytes:
            sight = await self._sight(caller, wanted.namespace)
            queue = request.query.get("queue") or None
            return _shown(await self.reader.decisions(wanted, queue=queue, limit=limit, sight=sight), sight)

        return await self._answered(request, answer)

    async def show_nodes(self, request: web.Request) -> web.Response:
        """What seats hold on the nodes, and whose seats these are, for those who may list nodes."""
        _only(request, "workloads", "limit", "continue")
        limit, after = limit_of(request.query), request.query.get("continue", "")
        with_workloads = flag("workloads", request.query.get("workloads"))

        async def answer(caller: Caller) -> bytes:
            await self.rights.require(caller, AccessRequest(verb="list", resource=NODES), "list nodes")
            sight = await self.rights.sight(caller) if with_workloads else None
            return encode(await self.reader.nodes(after=after, limit=limit, sight=sight))

        return await self._answered(request, answer)

    async def show_usage(self, request: web.Request) -> web.Response:
        """Use in a period: the user's own, and that of queues which the user may see."""
        _only(request, *PARAMETERS)
        asked = usage_request(request.query)

        async def answer(caller: Caller) -> bytes:
            sight = await self.rights.sight(caller)
            if sight.workloads is not None and asked.names_workloads():
                # Of the past too: nothing needs to wait in them now.
                used = await self.reader.used_kinds_in_namespaces(asked.begins, MOST_ASKED)
                sight = await self.rights.sight_in(caller, used)
            return encode(await self.reader.usage(asked, user=caller.name, sight=sight))

        return await self._answered(request, answer)

    async def show_time_series(self, request: web.Request) -> web.Response:
        """Use and waits over time of a queue that the user may get, and of those directly below it."""
        _only(request, *OF_TIME_SERIES)
        asked = time_series_request(request.query)

        async def answer(caller: Caller) -> bytes:
            await self._require_queue(caller, asked.queue)
            sight = await self.rights.sight(caller)
            return encode(await self.reader.time_series(asked, sight=sight))

        return await self._answered(request, answer)

    async def explain(self, request: web.Request) -> web.Response:
        """Everything about the workloads of a name."""
        kind, namespace, name = _kind(request), request.match_info["namespace"], request.match_info["name"]

        async def answer(caller: Caller) -> bytes:
            sight = await self._sight(caller, namespace)
            try:
                found = await self.reader.explain(namespace=namespace, name=name, kind=kind, sight=sight)
            except UnknownName:
                # It may be in another namespace: these are asked about only now.
                everywhere = await self.rights.sight(caller)
                found = await self.reader.explain(
                    namespace=namespace, name=name, kind=kind, sight=together(sight, everywhere)
                )
            return _shown(await self._with_outlooks(request, caller, kind, found), sight)

        return await self._answered(request, answer)

    async def _with_outlooks(
        self,
        request: web.Request,
        caller: Caller,
        kind: str | None,
        found: tuple[bodies.ExplanationBody, ...],
    ) -> tuple[bodies.ExplanationBody, ...]:
        """The workloads of a name, those that wait or run with what only the leader knows of them."""
        if not any(map(_has_outlook, found)):
            return found
        namespace, name = found[0].namespace, found[0].name
        known: dict[str, bodies.OutlookBody] = {}
        unknown = ""
        try:
            async with asyncio.timeout(_OUTLOOK_SECONDS):
                query = {"namespace": namespace, "name": name, "kind": kind}
                answer = await self._leader(
                    request, caller, "/outlook", query, public=_outlook_path(namespace, name, kind)
                )
            known = {each.uid: each for each in reversed(_OUTLOOKS.decode(answer))}
        except TimeoutError:
            unknown = f"The leader did not answer within {_OUTLOOK_SECONDS:.0f} seconds."
        except (MusterError, msgspec.MsgspecError) as error:
            unknown = str(error)
        return tuple(
            msgspec.structs.replace(one, outlook=known.get(one.uid), outlook_unknown=unknown)
            if _has_outlook(one)
            else one
            for one in found
        )

    async def show_outlook(self, request: web.Request) -> web.Response:
        """What would let the workloads of a name in."""
        kind, namespace, name = _kind(request), request.match_info["namespace"], request.match_info["name"]

        async def answer(caller: Caller) -> bytes:
            sight = await self._sight(caller, namespace)
            query = {"namespace": namespace, "name": name, "kind": kind}
            found = msgspec.json.decode(await self._leader(request, caller, "/outlook", query))
            seen = [one for one in found if sight.shows(one["kind"], one["namespace"])]
            return encode(redacted(seen, sight))

        return await self._answered(request, answer)

    async def show_snapshot(self, request: web.Request) -> web.Response:
        """The last turn; it has all objects of all users."""
        _only(request)

        async def answer(caller: Caller) -> bytes:
            await self.rights.require_everything(caller, "a snapshot has everything")
            return await self._leader(request, caller, "/snapshot", {})

        content = await self._content(request, answer)
        return web.Response(body=content, content_type="application/octet-stream")

    async def try_out(self, request: web.Request) -> web.Response:
        """What would become of objects if they were submitted now."""
        async with asyncio.timeout(_ANSWER_SECONDS):
            caller = await self.authenticate(request)
            async with self.leader_gates.of_trials(request).entered(counted_as(caller.name)):
                async with self.gate.entered(caller.name):
                    pass  # no place of other questions is held while this one waits for the leader
                return json_answer(await trial_answer(request, caller, self.rights, self.leader))

    async def show_version(self, request: web.Request) -> web.Response:
        """The version of this replica."""
        _only(request)

        async def answer(_: Caller) -> bytes:
            return encode(bodies.VersionBody(version=version("muster")))

        return await self._answered(request, answer)

    async def show_metrics(self, request: web.Request) -> web.Response:
        """The metrics, for those who may get the path."""

        async def answer(caller: Caller) -> bytes:
            access = AccessRequest(verb="get", path="/metrics")
            await self.rights.require(caller, access, "get the path /metrics")
            return await self.metrics()

        content = await self._content(request, answer)
        return web.Response(body=content, headers={"Content-Type": METRICS_TYPE})

    async def _answered(
        self, request: web.Request, answer: Callable[[Caller], Awaitable[bytes]]
    ) -> web.Response:
        return tagged(request, await self._content(request, answer))

    async def _content(self, request: web.Request, answer: Callable[[Caller], Awaitable[bytes]]) -> bytes:
        async with asyncio.timeout(_ANSWER_SECONDS):
            caller = await self.authenticate(request)
            question = (caller, request.path_qs, FORWARDED in request.headers)
            async with self.gate.entered(caller.name):
                return await self.kept.get(question, lambda: _asked(answer, caller))

    async def _require_queue(self, caller: Caller, name: str) -> None:
        """Raises Forbidden unless the user may get that queue, whether it exists or not; UnknownName: none can."""
        if not is_dns_name(name):
            raise UnknownName(what="queue", name=name[:_LONGEST_SHOWN])
        access = AccessRequest(verb="get", resource=QUEUES, name=name)
        await self.rights.require(caller, access, f"get queue {name}")

    async def _sight(self, caller: Caller, namespace: str | None) -> Sight:
        """What the user may see. Raises Forbidden: nothing of that namespace."""
        sight = await self.rights.sight(caller, namespace)
        if namespace is not None and not any(sight.shows(kind, namespace) for kind in WorkloadKind):
            what = f"list jobs, podgroups or pods in namespace {namespace}"
            raise Forbidden(user=caller.name, what=what, hint=OTHER_NAMESPACE)
        return sight

    async def _leader(
        self,
        request: web.Request,
        caller: Caller,
        path: str,
        query: dict[str, str | None],
        public: str | None = None,
    ) -> bytes:
        asker = await asker_in(request, caller, self.rights)
        return await self.leader_gates.ask(self.leader, request, asker, path, query, public)


async def _asked(answer: Callable[[Caller], Awaitable[bytes]], caller: Caller) -> bytes:
    """The answer. A question changes nothing, so it is asked once more when a connection to Postgres was lost."""
    try:
        return await answer(caller)
    except DatabaseTooSlow:
        raise
    except DatabaseUnavailable:
        return await answer(caller)


def _shown(body: Any, sight: Sight) -> bytes:
    """The answer as JSON, without names of workloads that are out of sight."""
    return encode(body if sight.workloads is None else redacted(msgspec.to_builtins(body), sight))


def _has_outlook(one: bodies.ExplanationBody) -> bool:
    """Whether the leader knows what would let a workload in, or keeps it from going on."""
    return one.state == "admitted" or (one.state == "pending" and one.reason is not None)


def _outlook_path(namespace: str, name: str, kind: str | None) -> str:
    asked = "" if kind is None else f"?kind={quote(kind, safe='')}"
    return f"{PREFIX}/namespaces/{quote(namespace, safe='')}/workloads/{quote(name, safe='')}/outlook{asked}"


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
