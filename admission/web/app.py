"""The read API, which the API server passes requests of users on to. Reads only; nothing changes through it.

``_QUESTIONS`` lists what may be asked. Besides: ``/changes``, server-sent events; ``/trials``, a question with a body;
``/snapshot``, the last turn of the leader as a file; ``/metrics``.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import quote

import msgspec
from aiohttp import web

from admission.kube.access_reviews import AccessRequest, Caller
from admission.web.access.answer_cache import Kept
from admission.web.access.limits import Gate, ProcessorShare, RequestLimits, counted_as
from admission.web.access.redaction import redacted
from admission.web.access.rights import MOST_ASKED, Forbidden, Rights, resources
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
    place_in,
    whole_number,
)
from admission.web.leader.asking import LeaderGates, asker_in
from admission.web.leader.forwarding import FORWARDED, LeaderQuestions
from admission.web.leader.nodes import ABOUT_NODES, NodeQuestion, as_seen
from admission.web.lists.expected_starts import ExpectedStarts, in_sight, with_expected
from admission.web.lists.queries import chosen_in, decisions_of, limit_of, listing_of
from admission.web.reader import Sight, UnknownName, together
from admission.web.replicas import no_others, other_replicas, this_replica
from admission.web.sql_reader import SqlReader
from admission.web.time_series import time_series_request
from admission.web.trials.handler import LARGEST_TRIAL
from admission.web.trials.handler import answer as trial_answer
from admission.web.usage_report import usage_request
from queues.api.api_resources import NODES, QUEUES
from queues.api.names import READ_API
from queues.api.reading.user_values import is_dns_name
from queues.api.validation.tenant_rules import Requester
from queues.errors import DatabaseTooSlow, DatabaseUnavailable, MusterError
from queues.read_api import bodies
from queues.read_api.nodes import NodeList
from queues.reason_codes import ReasonCode, advice_on
from queues.sql.read.listed import ListPlace
from queues.sql.read.rows import PendingPlace

#: Seconds for one answer.
_ANSWER_SECONDS: Final = 15.0
#: Seconds that an explanation waits for what only the leader knows.
_OUTLOOK_SECONDS: Final = 10.0
_OUTLOOKS: Final = msgspec.json.Decoder(tuple[bodies.OutlookBody, ...])
_NODES: Final = msgspec.json.Decoder(NodeList)
#: Clients that ask without a pause are refused only after a while.
_LIMITS: Final = RequestLimits(patience=5.0, held_back=10.0)
#: Seconds for which an answer is given again to the same user, and how many are kept.
_KEPT_SECONDS: Final = 1.0
_MOST_KEPT: Final = 512
#: Characters of a name that no queue can have.
_LONGEST_SHOWN: Final = 100
#: For who may not list nodes.
_LISTING_NODES: Final = (
    "Ask a cluster administrator for that right, which the ClusterRole muster-node-viewer has."
)
#: Versions of a queue in one answer.
MOST_VERSIONS: Final = 100
Place = TypeVar("Place")
PREFIX: Final = f"/apis/{READ_API}"
#: What the API server asks for to learn what there is: no objects, so nothing that others would list or delete.
_DISCOVERY: Final = encode(
    {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": READ_API, "resources": []}
)


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """A question of a user."""

    request: web.Request
    caller: Caller

    @property
    def query(self) -> Mapping[str, str]:
        """Its parameters."""
        return self.request.query

    @property
    def names(self) -> Mapping[str, str]:
        """The names in its path."""
        return self.request.match_info

    def stated(self, parameter: str) -> str | None:
        """A parameter; None if it is not given, or is empty."""
        return self.request.query.get(parameter) or None

    def place(self, form: type[Place]) -> Place | None:
        """Where the page before ended; None for the beginning. Raises BadQuery."""
        return place_in(self.request.query.get("continue"), form)


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
    #: URLs of the read APIs of the other replicas, by name. Raises ApiError.
    replicas: Callable[[], Awaitable[Mapping[str, str]]] = no_others
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
                *(web.get(PREFIX + question.path, self._answering(question)) for question in _QUESTIONS),
                web.get(f"{PREFIX}/changes", stream_changes),
                web.get(f"{PREFIX}/snapshot", self.show_snapshot),
                web.post(f"{PREFIX}/trials", self.try_out),
                web.get("/metrics", self.show_metrics),
            ]
        )
        return application

    def _answering(self, question: "_Question") -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            _only(request, *question.parameters.split())
            answer = json_answer(await self._content(request, lambda asked: question.answer(self, asked)))
            answer.headers["Cache-Control"] = "private, no-store"  # it is of this user, and of now
            return answer

        return handle

    async def discover(self, _: web.Request) -> web.Response:
        """What the API server needs to know. Every user may ask for it."""
        return json_answer(_DISCOVERY)

    async def queues(self, asked: ReadRequest) -> bytes:
        """The queues that the user may see."""
        return encode(await self.reader.queues(await self.rights.sight(asked.caller)))

    async def versions(self, asked: ReadRequest) -> bytes:
        """The recorded versions of a queue that the user may get, and of those below it that the user may see."""
        name = asked.names["name"]
        limit = whole_number("limit", asked.query.get("limit", str(MOST_VERSIONS)), MOST_VERSIONS)
        before = numbered_place(asked.query.get("continue"))
        is_below = flag("below", asked.query.get("below"))
        await self._require_queue(asked.caller, name)
        below = await self.rights.sight(asked.caller) if is_below else None
        return encode(await self.reader.queue_versions(name, limit=limit, before=before, below=below))

    async def pending(self, asked: ReadRequest) -> bytes:
        """Pending workloads that the user may see."""
        limit, after = limit_of(asked.query), asked.place(PendingPlace)
        namespace = asked.stated("namespace")
        sight = await self._sight(asked.caller, namespace)
        chosen = chosen_in(asked.query, asked.caller.name)
        found = await self.reader.pending(
            queue=asked.stated("queue"),
            namespace=namespace,
            chosen=chosen,
            limit=limit,
            after=after,
            sight=sight,
        )
        if found.items:
            items = with_expected(found.items, await self.expected_starts.lines(), found.now)
            found = msgspec.structs.replace(found, items=items)
        return _shown(found, sight)

    async def expected(self, asked: ReadRequest) -> bytes:
        """When the pending workloads that the user may see should start."""
        namespace = asked.stated("namespace")
        sight = await self._sight(asked.caller, namespace)
        return in_sight(await self._leader(asked, "/expected", {}), namespace, sight)

    async def workloads(self, asked: ReadRequest) -> bytes:
        """Workloads that wait, run or have ended, as far as the user may see them."""
        namespace, limit = asked.stated("namespace"), limit_of(asked.query)
        chosen, after = chosen_in(asked.query, asked.caller.name), asked.place(ListPlace)
        wanted = replace(listing_of(asked.query, namespace), chosen=chosen)
        sight = await self._sight(asked.caller, namespace)
        queue = asked.stated("queue")
        return _shown(
            await self.reader.workloads(wanted, queue=queue, after=after, limit=limit, sight=sight), sight
        )

    async def users(self, asked: ReadRequest) -> bytes:
        """Users with what they hold and wait for: the one who asks, and of others what that one may see."""
        limit, after = limit_of(asked.query), numbered_place(asked.query.get("continue")) or 0
        sight, user = await self.rights.sight(asked.caller), asked.caller.name
        queue = asked.stated("queue")
        return encode(await self.reader.users(queue=queue, user=user, after=after, limit=limit, sight=sight))

    async def decisions(self, asked: ReadRequest) -> bytes:
        """Decisions about workloads that the user may see, in the order in which they were made."""
        limit, wanted = limit_of(asked.query), decisions_of(asked.query, int(time.time()))
        sight = await self._sight(asked.caller, wanted.namespace)
        queue = asked.stated("queue")
        return _shown(await self.reader.decisions(wanted, queue=queue, limit=limit, sight=sight), sight)

    async def nodes(self, asked: ReadRequest) -> bytes:
        """The nodes as the leader knows them, and whose seats are there, for those who may list nodes."""
        question, with_workloads = (
            NodeQuestion.of(asked.query),
            flag("workloads", asked.query.get("workloads")),
        )
        access = AccessRequest(verb="list", resource=NODES)
        await self.rights.require(asked.caller, access, "list nodes", _LISTING_NODES)
        query = {name: asked.stated(name) for name in ("names", "labels", "level", "limit", "continue")}
        found = _NODES.decode(await self._leader(asked, "/nodes", query))
        if not question.after and not found.continue_ and FORWARDED not in asked.request.headers:
            for name in sorted(question.names - {node.name for node in found.items}):
                raise UnknownName(what="node", name=name[:_LONGEST_SHOWN])
        found = as_seen(found, await self.rights.unlisted(asked.caller, *ABOUT_NODES))
        if with_workloads:
            sight = await self.rights.sight(asked.caller)
            seated = await self.reader.node_workloads([node.name for node in found.items], sight)
            items = (msgspec.structs.replace(node, workloads=seated[node.name]) for node in found.items)
            found = msgspec.structs.replace(found, items=tuple(items))
        return encode(found)

    async def usage(self, asked: ReadRequest) -> bytes:
        """Use in a period: the user's own, and that of queues which the user may see."""
        wanted = usage_request(asked.query)
        sight = await self.rights.sight(asked.caller)
        if sight.workloads is not None and wanted.names_workloads():
            # Of the past too: nothing needs to wait in them now.
            used = await self.reader.used_kinds_in_namespaces(wanted.begins, MOST_ASKED)
            sight = await self.rights.sight_in(asked.caller, used)
        return encode(await self.reader.usage(wanted, user=asked.caller.name, sight=sight))

    async def time_series(self, asked: ReadRequest) -> bytes:
        """Use and waits over time of a queue that the user may get, and of those directly below it."""
        wanted = time_series_request(asked.query)
        await self._require_queue(asked.caller, wanted.queue)
        sight = await self.rights.sight(asked.caller)
        return encode(await self.reader.time_series(wanted, sight=sight))

    async def explain(self, asked: ReadRequest) -> bytes:
        """Everything about the workloads of a name."""
        kind, namespace, name = _kind(asked), asked.names["namespace"], asked.names["name"]
        sight = await self._sight(asked.caller, namespace)
        try:
            found = await self.reader.explain(namespace=namespace, name=name, kind=kind, sight=sight)
        except UnknownName:
            # It may be in another namespace: these are asked about only now.
            everywhere = together(sight, await self.rights.sight(asked.caller))
            found = await self.reader.explain(namespace=namespace, name=name, kind=kind, sight=everywhere)
        found = await self._for_administrators(asked.caller, found)
        return _shown(await self._with_outlooks(asked, kind, found), sight)

    async def _for_administrators(
        self, caller: Caller, found: tuple[bodies.ExplanationBody, ...]
    ) -> tuple[bodies.ExplanationBody, ...]:
        """The workloads of a name, with what administrators of their queues can do if the user is one."""
        shown = list(found)
        for index, one in enumerate(found):
            reason = one.reason
            advice = None if reason is None else advice_on(ReasonCode.of_row(reason.code), {})
            if reason is None or advice is None or not advice.administrator:
                continue
            if await (
                self.rights.administers_all(caller)
                if advice.of_platform
                else self._administers(caller, one.queue)
            ):
                reason = msgspec.structs.replace(reason, for_administrators=advice.administrator)
                shown[index] = msgspec.structs.replace(one, reason=reason)
        return tuple(shown)

    async def _administers(self, caller: Caller, queue: str) -> bool:
        by = Requester(caller.name, frozenset(caller.groups))
        return await self.rights.administers_all(caller) or await self.reader.administers(queue, by)

    async def _with_outlooks(
        self, asked: ReadRequest, kind: str | None, found: tuple[bodies.ExplanationBody, ...]
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
                public = _outlook_path(namespace, name, kind)
                answer = await self._leader(asked, "/outlook", query, public=public)
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

    async def outlook(self, asked: ReadRequest) -> bytes:
        """What would let the workloads of a name in."""
        kind, namespace, name = _kind(asked), asked.names["namespace"], asked.names["name"]
        sight = await self._sight(asked.caller, namespace)
        query = {"namespace": namespace, "name": name, "kind": kind}
        found = msgspec.json.decode(await self._leader(asked, "/outlook", query))
        seen = [one for one in found if sight.shows(one["kind"], one["namespace"])]
        return encode(redacted(seen, sight))

    async def version(self, asked: ReadRequest) -> bytes:
        """The versions and plug-ins of all replicas; of this one alone if another replica asks."""
        own, others = this_replica(self.leader.identity), tuple[bodies.ReplicaBody, ...]()
        if FORWARDED not in asked.request.headers:
            others = await other_replicas(self.replicas, self.leader.ask_replica, f"{PREFIX}/version")
        return encode(bodies.VersionBody(version=version("muster"), replicas=(own, *others)))

    async def show_snapshot(self, request: web.Request) -> web.Response:
        """The last turn; it has all objects of all users."""
        _only(request)

        async def answer(asked: ReadRequest) -> bytes:
            await self.rights.require_everything(asked.caller, "a snapshot has everything")
            return await self._leader(asked, "/snapshot", {})

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

    async def show_metrics(self, request: web.Request) -> web.Response:
        """The metrics, for those who may get the path."""

        async def answer(asked: ReadRequest) -> bytes:
            access = AccessRequest(verb="get", path="/metrics")
            await self.rights.require(asked.caller, access, "get the path /metrics")
            return await self.metrics()

        content = await self._content(request, answer)
        return web.Response(body=content, headers={"Content-Type": METRICS_TYPE})

    async def _content(
        self, request: web.Request, answer: Callable[[ReadRequest], Awaitable[bytes]]
    ) -> bytes:
        async with asyncio.timeout(_ANSWER_SECONDS):
            asked = ReadRequest(request, await self.authenticate(request))
            question = (asked.caller, request.path_qs, FORWARDED in request.headers)
            async with self.gate.entered(asked.caller.name):
                return await self.kept.get(question, lambda: _answer_to(asked, answer))

    async def _require_queue(self, caller: Caller, name: str) -> None:
        """Raises Forbidden unless the user may get that queue, whether it exists or not; UnknownName: none can."""
        if not is_dns_name(name):
            raise UnknownName(what="queue", name=name[:_LONGEST_SHOWN])
        access = AccessRequest(verb="get", resource=QUEUES, name=name)
        await self.rights.require(caller, access, f"get queue {name}")

    async def _sight(self, caller: Caller, namespace: str | None) -> Sight:
        """What the user may see. Raises Forbidden: nothing of that namespace."""
        sight = await self.rights.sight(caller, namespace)
        if namespace is not None and not sight.shows_namespace(namespace):
            what = f"list jobs, podgroups or pods in namespace {namespace}"
            raise Forbidden(user=caller.name, what=what, hint=OTHER_NAMESPACE)
        return sight

    async def _leader(
        self, asked: ReadRequest, path: str, query: dict[str, str | None], public: str | None = None
    ) -> bytes:
        asker = await asker_in(asked.request, asked.caller, self.rights)
        return await self.leader_gates.ask(self.leader, asked.request, asker, path, query, public)


class _Question(NamedTuple):
    """A path of the API whose answer is JSON, with what answers it."""

    path: str
    answer: Callable[[ReadApi, ReadRequest], Awaitable[bytes]]
    #: Names of its parameters, with blanks between them.
    parameters: str = ""


_QUESTIONS: Final = (
    _Question("/queues", ReadApi.queues),
    _Question("/queues/{name}/versions", ReadApi.versions, "below limit continue"),
    _Question("/pending", ReadApi.pending, "queue namespace user mine search limit continue"),
    _Question("/expected-starts", ReadApi.expected, "namespace"),
    _Question(
        "/workloads",
        ReadApi.workloads,
        "queue namespace user mine search state since limit continue",
    ),
    _Question("/users", ReadApi.users, "queue limit continue"),
    _Question("/decisions", ReadApi.decisions, "queue namespace since ends limit continue"),
    _Question("/nodes", ReadApi.nodes, "workloads names labels level limit continue"),
    _Question("/usage", ReadApi.usage, "from to by resource queue limit continue"),
    _Question("/timeseries", ReadApi.time_series, "from to step resource queue limit"),
    _Question("/namespaces/{namespace}/workloads/{name}", ReadApi.explain, "kind"),
    _Question("/namespaces/{namespace}/workloads/{name}/outlook", ReadApi.outlook, "kind"),
    _Question("/version", ReadApi.version),
)
#: For users who ask for something else.
_PATHS: Final = ", ".join(
    PREFIX + path for path in (*(each.path for each in _QUESTIONS), "/changes", "/snapshot", "/trials")
)


async def _answer_to(asked: ReadRequest, answer: Callable[[ReadRequest], Awaitable[bytes]]) -> bytes:
    """The answer. A question changes nothing, so it is asked once more when a connection to Postgres was lost."""
    try:
        return await answer(asked)
    except DatabaseTooSlow:
        raise
    except DatabaseUnavailable:
        return await answer(asked)


def _shown(body: Any, sight: Sight) -> bytes:
    """The answer as JSON, without names of workloads that are out of sight."""
    return encode(body if sight.workloads is None else redacted(msgspec.to_builtins(body), sight))


def _has_outlook(one: bodies.ExplanationBody) -> bool:
    """Whether the leader knows what would let a workload in, or keeps it from going on."""
    return one.state == "admitted" or (one.state == "pending" and one.reason is not None)


def _outlook_path(namespace: str, name: str, kind: str | None) -> str:
    asked = "" if kind is None else f"?kind={quote(kind, safe='')}"
    return f"{PREFIX}/namespaces/{quote(namespace, safe='')}/workloads/{quote(name, safe='')}/outlook{asked}"


def _kind(asked: ReadRequest) -> str | None:
    kind = asked.stated("kind")
    if kind is not None and kind not in (known := resources()):
        raise BadQuery(f"kind is {kind!r}", expected=f"one of {', '.join(known)}")
    return kind


def _only(request: web.Request, *known: str) -> None:
    for name in request.query:
        if name not in known:
            raise BadQuery(f"{name} is not a parameter of {request.path}", expected=", ".join(known))
