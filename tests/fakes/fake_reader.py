"""A small cluster as the read API shows it, and a server that answers with it."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any

from aiohttp import web
from msgspec import structs

from admission.kube.access_reviews import AccessRequest, Caller
from admission.settings import Address
from admission.web import bodies
from admission.web.access.answer_cache import Kept
from admission.web.access.callers import Unauthenticated
from admission.web.access.limits import Gate, RequestLimits
from admission.web.access.rights import Forbidden
from admission.web.app import ReadApi
from admission.web.http import encode, serving
from admission.web.reader import EVERYTHING, NotLeading, Sight, UnknownName
from admission.web.usage.report import UsageRequest, usage_list
from queues.errors import DatabaseUnavailable
from queues.sql.read.usage import KnownSince, UsageColumn, UsageLine, UsagePage, key_length

NOW = "2026-11-21T10:00:00Z"
GPU = "nvidia.com/gpu"


def account(
    used: str,
    deserved: str | None,
    capability: str | None,
    *,
    flavor: str = "",
    resource: str = GPU,
    guarantee: str = "0",
    counted: str | None = None,
    past_use: str | None = None,
    share_with_past: float | None = None,
) -> bodies.AccountBody:
    share = round(int(used) / int(deserved), 4) if deserved and resource == GPU else None
    return bodies.AccountBody(
        flavor=flavor,
        resource=resource,
        used=used,
        counted=counted or used,
        guarantee=guarantee,
        deserved=deserved,
        capability=capability,
        share=share,
        past_use=past_use,
        share_with_past=share_with_past,
    )


def queue(
    name: str,
    parent: str | None,
    *accounts: bodies.AccountBody,
    state: str = "open",
    message: str = "",
    pending: int = 0,
    admitted: int = 0,
    by: str = "",
    half_life: int | None = None,
) -> bodies.QueueBody:
    shares = [line.share for line in accounts if line.share is not None]
    return bodies.QueueBody(
        name=name,
        parent=parent,
        state=state,
        message=message,
        changed_by=by,
        share=max(shares, default=None),
        pending=pending,
        admitted=admitted,
        accounts=accounts,
        usage_half_life_seconds=half_life,
        share_with_past=max(
            (line.share_with_past for line in accounts if line.share_with_past is not None), default=None
        ),
    )


ROOT = queue(
    "root",
    None,
    account("48", "64", "64", counted="60"),
    account("96", None, None, resource="cpu"),
    pending=3,
    admitted=4,
)
TEAM_A = queue(
    "team-a",
    "root",
    account("32", "24", "32"),
    account("64", None, "128", resource="cpu"),
    pending=2,
    admitted=3,
    by="ada@example.com",
)
TRAIN = queue(
    "train",
    "team-a",
    account("24", "16", "32"),
    account("8", "8", "16", flavor="h100", guarantee="4"),
    pending=2,
    admitted=2,
)
DEV = queue(
    "dev",
    "team-a",
    account("8", "8", None),
    state="closed",
    message="takes and admits nothing new",
    admitted=1,
)
TEAM_B = queue("team-b", "root", account("16", "40", "64"), pending=1, admitted=1)
LOST = queue(
    "lost", "nowhere", state="broken", message="its ancestors form a cycle, or one of them does not exist"
)

QUEUES = (ROOT, TEAM_A, DEV, TRAIN, TEAM_B, LOST)


#: The same with a past that counts in two queues, one of which was not read yet.
FADING = (
    ROOT,
    queue(
        "team-a",
        "root",
        account("32", "24", "32", past_use="21873m", share_with_past=1.1224),
        account("64", None, "128", resource="cpu", past_use="1240"),
        account("12Gi", None, None, resource="memory", past_use="12345678901"),
        half_life=604_800,
        admitted=3,
    ),
    queue("train", "team-a", account("0", "16", "32"), half_life=129_600),
    TEAM_B,
)


def waiting(
    name: str,
    position: int | None,
    *,
    queue: str = "train",
    namespace: str = "ml",
    kind: str = "vcjob",
    created: str = "2026-11-21T09:48:00Z",
    pods: int = 4,
    minimum: int = 4,
    gpus: str = "32",
    priority: int = 0,
    reason: bodies.ReasonBody | None = None,
) -> bodies.WaitingBody:
    return bodies.WaitingBody(
        kind=kind,
        namespace=namespace,
        name=name,
        uid=f"{name}-uid",
        queue=queue,
        position=position,
        priority=priority,
        created=created,
        pods=pods,
        minimum=minimum,
        asks={"cpu": "64", "memory": "512Gi", GPU: gpus, "pods": str(pods)},
        reason=reason,
    )


LIMIT = bodies.ReasonBody(
    code="QueueLimit",
    message="queue team-a may use 32 nvidia.com/gpu and uses 32; 8 more are asked, 8 too many",
    facts={"by": "team-a", "resource": GPU, "asked": "8", "used": "32", "limit": "32"},
    since="2026-11-21T09:50:00Z",
)
NO_FIT = bodies.ReasonBody(
    code="NoFit",
    message="no rack has 4 nodes with 8 free nvidia.com/gpu; the best one has 3",
    facts={},
    since="2026-11-21T09:59:15Z",
)

PENDING = (
    waiting("tune-3", 1, gpus="8", pods=1, minimum=1, kind="job", reason=LIMIT),
    waiting("llama-pretrain", 2, created="2026-11-21T06:40:00Z", priority=100, reason=NO_FIT),
    waiting(
        "sweep", 1, queue="team-b", namespace="lab", kind="podgroup", created="2026-11-17T10:00:00Z", gpus="4"
    ),
)

STORY = bodies.ExplanationBody(
    now=NOW,
    kind="job",
    namespace="ml",
    name="tune-3",
    uid="tune-3-uid",
    queue="train",
    state="pending",
    priority=0,
    created="2026-11-21T09:48:00Z",
    pods=1,
    minimum=1,
    asks={"cpu": "64", GPU: "8", "pods": "1"},
    position=2,
    queue_length=2,
    position_by="arrival",
    reason=LIMIT,
    not_before="2026-11-21T10:00:30Z",
    rollbacks=2,
    ahead=(waiting("llama-pretrain", 1, created="2026-11-21T06:40:00Z", priority=100, reason=NO_FIT),),
    path=(TRAIN, TEAM_A, ROOT),
    admissions=(),
    history=(
        bodies.EventBody(
            at="2026-11-21T09:48:01Z",
            what="admit",
            code="gang",
            message="",
            admission=7,
            beneficiary=None,
            numbers={"seats": 8},
        ),
        bodies.EventBody(
            at="2026-11-21T09:50:00Z",
            what="evict",
            code="Refused",
            message="the scheduler refuses pod tune-3-0: 1 Insufficient cpu",
            admission=7,
            beneficiary=None,
            numbers={},
        ),
        bodies.EventBody(
            at="2026-11-21T09:52:00Z",
            what="evict",
            code="Cleared",
            message="its place is cleared for vcjob/ml/bert, which waited too long",
            admission=8,
            beneficiary="vcjob/bert-uid",
            numbers={"used": 8},
        ),
    ),
)

RUNNING = bodies.ExplanationBody(
    now=NOW,
    kind="vcjob",
    namespace="ml",
    name="bert",
    uid="bert-uid",
    queue="dev",
    state="admitted",
    priority=10,
    created="2026-11-21T08:00:00Z",
    pods=5,
    minimum=4,
    asks={GPU: "33", "pods": "5"},
    position=None,
    queue_length=None,
    position_by="",
    reason=None,
    not_before=None,
    rollbacks=0,
    ahead=(),
    path=(DEV, TEAM_A, ROOT),
    admissions=(
        bodies.AdmissionBody(
            id=12,
            queue="dev",
            state="open",
            opened="2026-11-21T08:00:01Z",
            adopted=False,
            eviction=None,
            seats=(
                bodies.SeatsBody(
                    pod_set="master",
                    node="node-00003",
                    flavor="",
                    ordinals="0",
                    count=1,
                    takes={GPU: "1", "pods": "1"},
                ),
                bodies.SeatsBody(
                    pod_set="worker",
                    node="node-00001",
                    flavor="h100",
                    ordinals="0-2",
                    count=3,
                    takes={GPU: "24", "pods": "3"},
                ),
                bodies.SeatsBody(
                    pod_set="worker",
                    node="node-00002",
                    flavor="h100",
                    ordinals="3",
                    count=1,
                    takes={GPU: "8", "pods": "1"},
                ),
            ),
            ended=2,
        ),
        bodies.AdmissionBody(
            id=9,
            queue="dev",
            state="closed",
            opened="2026-11-21T07:00:00Z",
            adopted=False,
            eviction=bodies.ReasonBody(code="Cleared", message="its place was wanted", facts={}, since=NOW),
            seats=(),
            ended=4,
        ),
    ),
    history=(),
)


OUTLOOK = bodies.OutlookBody(
    now=NOW,
    kind="job",
    namespace="ml",
    name="tune-3",
    uid="tune-3-uid",
    position=2,
    queue_length=2,
    ahead=("vcjob/llama-uid",),
    behind="1 before it in queue train, right before it vcjob/ml/llama-pretrain",
    changes=(
        bodies.ChangeBody(
            kind="end",
            message="rack r12 when job/ml/bert ends, at most 40 min",
            facts={"admissions": [7], "domain": "rack r12", "seconds": 2400},
        ),
        bodies.ChangeBody(
            kind="capability",
            message=f"8 {GPU} more capability in team-a",
            facts={"more": [{"queue": "team-a", "resource": GPU, "units": "8"}]},
        ),
    ),
)


#: tenant, queue, user, workload, flavor, resource; GPU-seconds (or those of CPUs), of them preempted and faulted.
USED = (
    ("team-a", "train", "ada@example.com", "bert", "h100", GPU, 8 * 100 * 3600, 8 * 3600, 0),
    ("team-a", "train", "ada@example.com", "tune-3", "l4", GPU, 2 * 3600 + 7, 0, 3600),
    ("team-a", "train", "tim", "sweep", "l4", GPU, 300 * 3600, 0, 0),
    ("team-a", "dev", "", "old", "", GPU, 1800, 0, 0),
    ("team-b", "team-b", "bert", "llama-pretrain", "h100", GPU, 400 * 3600, 0, 0),
    ("team-b", "team-b", "bert", "llama-pretrain", "", "cpu", 64 * 400 * 3600, 0, 0),
)


def quota(name: str, hours: str, borrowed: str | None, idle: str) -> bodies.UsageQuotaBody:
    """In half hours, to have whole numbers."""
    used, kept = (int(each) * 1800 for each in (hours, idle))
    over = None if borrowed is None else int(borrowed) * 1800
    return bodies.UsageQuotaBody(
        queue=name,
        amount_seconds=str(used + (7 if name == "train" else 0)),
        owned_seconds=None if over is None else str(used - over),
        borrowed_seconds=None if over is None else str(over),
        idle_guarantee_seconds=str(kept),
    )


#: What queues owned beside that; spare used nothing.
QUOTAS = (
    quota("dev", "1", None, "0"),
    quota("spare", "0", "0", "300"),
    quota("team-b", "800", "50", "12"),
    quota("train", "2204", "0", "0"),
)


def used(columns: Iterable[str], line: tuple[Any, ...]) -> dict[str, Any]:
    """The columns of a line that were asked for."""
    tenant, queue, user, name, flavor, *_ = line
    workload = {"kind": "vcjob", "namespace": "ml", "name": name, "uid": f"{name}-uid"}
    every: dict[str, dict[str, str]] = {
        "tenant": {"tenant": tenant},
        "queue": {"queue": queue},
        "user": {"user": user},
        "workload": workload,
        "flavor": {"flavor": flavor},
    }
    return {key: value for column in columns for key, value in every[column].items()}


class FakeReader:
    """The cluster above; ``down`` makes Postgres unreachable."""

    def __init__(self) -> None:
        self.down = False
        self.tree: tuple[bodies.QueueBody, ...] = QUEUES
        self.as_of: str | None = NOW
        self.behind = ""
        #: Seconds since the epoch; 0: always.
        self.postings_begin = 0

    async def queues(self, sight: Sight = EVERYTHING) -> bodies.QueueList:
        self._up()
        items = tuple(queue for queue in self.tree if sight.shows_queue(queue.name))
        return bodies.QueueList(now=NOW, as_of=self.as_of, behind=self.behind, items=items)

    async def pending(
        self,
        *,
        queue: str | None,
        namespace: str | None,
        limit: int,
        after: tuple[str, int] | None = None,
        sight: Sight = EVERYTHING,
    ) -> bodies.PendingList:
        self._up()
        if queue is not None and queue not in {known.name for known in QUEUES}:
            raise UnknownName(what="queue", name=queue, near=("train",))
        in_queue = [
            one for one in PENDING if queue in (None, one.queue) and sight.shows(one.kind, one.namespace)
        ]
        here = [one for one in in_queue if namespace in (None, one.namespace)]
        places = [(one.queue, one.position) for one in here]
        rest = here if after is None else here[places.index(after) + 1 :]
        page = rest[:limit]
        return bodies.PendingList(
            now=NOW,
            as_of=self.as_of,
            behind=self.behind,
            total=len(here),
            total_everywhere=len(in_queue),
            items=tuple(page),
            continue_=f"{page[-1].position}.{page[-1].queue}" if page and len(page) < len(rest) else "",
        )

    async def explain(
        self, *, namespace: str, name: str, kind: str | None, sight: Sight = EVERYTHING
    ) -> tuple[bodies.ExplanationBody, ...]:
        self._up()
        found = tuple(
            structs.replace(one, as_of=self.as_of, behind=self.behind)
            for one in (STORY, RUNNING)
            if (one.namespace, one.name) == (namespace, name)
            and kind in (None, one.kind)
            and sight.shows(one.kind, namespace)
        )
        if not found:
            raise UnknownName(
                what=kind or "workload", name=name, place=f" in namespace {namespace}", near=("tune-3",)
            )
        return found

    async def usage(self, request: UsageRequest, *, user: str, sight: Sight = EVERYTHING) -> bodies.UsageList:
        self._up()
        if request.queue is not None and request.queue not in {known.name for known in QUEUES}:
            raise UnknownName(what="queue", name=request.queue, near=("train",))
        sums: dict[tuple[str, ...], UsageLine] = {}
        totals: dict[str, UsageLine] = {}
        for line in USED:
            if request.queue not in (None, line[0], line[1]) or request.resource not in (None, line[5]):
                continue
            if not sight.shows_queue(line[1]) and line[2] != user:
                continue
            numbers = dict(
                zip(("units", "preempted", "faulted"), (each * 1000 for each in line[6:]), strict=True)
            )
            found = used([column for column in UsageColumn if column in request.by], line)
            key = (line[5], *found.values())
            key += ("",) * (key_length(request.by) - len(key))
            one = UsageLine(resource=line[5], key=key, **found, **numbers)
            sums[key] = added(sums[key], one) if key in sums else one
            whole = UsageLine(resource=line[5], **numbers)
            totals[line[5]] = added(totals[line[5]], whole) if line[5] in totals else whole
        rest = [each for key, each in sorted(sums.items()) if request.after is None or key > request.after]
        page = UsagePage(totals=tuple(totals.values()), lines=tuple(rest[: request.limit]))
        now = int(datetime.fromisoformat(NOW).timestamp())
        history = KnownSince(postings=self.postings_begin, workloads=self.postings_begin)
        age = {"now": NOW, "as_of": self.as_of, "behind": self.behind}
        found = usage_list(request, request.question(now, history), page, history, age)
        told = request.quotas and request.by == {UsageColumn.QUEUE} and request.resource == GPU
        return structs.replace(found, quotas=QUOTAS if told else None)

    async def used_namespaces(self, since: int, limit: int) -> tuple[str, ...]:
        return ("ml",)

    def _up(self) -> None:
        if self.down:
            raise DatabaseUnavailable(reason="connection refused")


def added(one: UsageLine, other: UsageLine) -> UsageLine:
    """Both lines as one."""
    return replace(
        one,
        units=one.units + other.units,
        preempted=one.preempted + other.preempted,
        faulted=one.faulted + other.faulted,
    )


class FakeRights:
    """Users by name and what each may see; those who are not named see everything."""

    def __init__(self, sights: Mapping[str, Sight]) -> None:
        self._sights = sights

    async def sight(self, caller: Caller, namespace: str | None = None) -> Sight:
        return self._sights.get(caller.name, EVERYTHING)

    async def sight_in(self, caller: Caller, namespaces: Iterable[str]) -> Sight:
        return await self.sight(caller)

    async def require(self, caller: Caller, access: AccessRequest, what: str) -> None:
        if caller.name in self._sights:
            raise Forbidden(user=caller.name, what=what)


class FakeLeader:
    """A leader whose memory holds one outlook and a snapshot."""

    def __init__(self) -> None:
        self.lost = False

    async def ask(self, path: str, query: dict[str, str | None], *, public: str, forwarded: bool) -> bytes:
        if self.lost:
            raise NotLeading(identity="b", leader="a")
        if path == "/snapshot":
            return b"\x93NUMPY-like bytes"
        return encode(
            tuple(
                one
                for one in (OUTLOOK,)
                if (one.namespace, one.name) == (query["namespace"], query["name"])
                and query["kind"] in (None, one.kind)
            )
        )


async def by_token(request: web.Request) -> Caller:
    """The name of the user is the token; without one an administrator asks."""
    name = request.headers.get("Authorization", "Bearer admin").removeprefix("Bearer ")
    if name == "nobody":
        raise Unauthenticated(reason="the API server does not know the bearer token")
    return Caller(name)


def fake_api(
    reader: FakeReader,
    *,
    leader: FakeLeader | None = None,
    sights: Mapping[str, Sight] | None = None,
    limits: RequestLimits | None = None,
) -> ReadApi:
    """The read API over the fake cluster."""

    async def metrics() -> bytes:
        return b"muster_leader 1.0\n"

    return ReadApi(
        authenticate=by_token,
        rights=FakeRights(sights or {}),
        reader=reader,
        leader=leader or FakeLeader(),
        metrics=metrics,
        gate=Gate(limits or RequestLimits()),
        kept=Kept(0.0, 9),
    )


@asynccontextmanager
async def served(reader: FakeReader, **more: Any) -> AsyncIterator[str]:
    """The server's URL."""
    application = fake_api(reader, **more).application()
    async with serving(application, Address("127.0.0.1", 0)) as port:
        yield f"http://127.0.0.1:{port}"
