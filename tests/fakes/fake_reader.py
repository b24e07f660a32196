"""A small cluster as the read API shows it, and a server that answers with it."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from msgspec import structs

from admission.forecast.learned import Learned
from admission.kube.access_reviews import AccessRequest, Caller
from admission.settings import Address
from admission.turn_report import Decided
from admission.web.access.answer_cache import Kept
from admission.web.access.callers import Unauthenticated
from admission.web.access.limits import Gate, RequestLimits
from admission.web.access.rights import Forbidden
from admission.web.app import ReadApi
from admission.web.http import encode, serving, text_of_place
from admission.web.leader.nodes import NodeQuestion
from admission.web.overview import path_to_root
from admission.web.reader import EVERYTHING, NotLeading, Sight, UnknownName
from admission.web.trials.on_leader import trial
from admission.workloads.kinds import known_kinds
from queues.api.api_resources import ApiResource
from queues.api.validation.tenant_rules import Requester
from queues.quota.queue import Queue
from queues.read_api import bodies
from queues.read_api.nodes import AcceleratorBody, NodeBody, NodeList, NodeWorkloadsBody, SeatedBody
from queues.resources import amount
from queues.sql.read.decisions import DecisionQuestion
from queues.sql.read.rows import EVERY_ONE, AccountLine, Chosen, KindIn, PendingPlace, QueueLine
from queues.workload import QueueName
from tests.builders.trials.worlds_in_memory import WorldInMemory
from tests.fakes.read_api.fake_lists import ENDED, GPU, LIMIT, NO_FIT, NOW, is_chosen, stored
from tests.fakes.read_api.fake_outlooks import EXPECTED, OUTLOOK, RUNS
from tests.fakes.read_api.fake_time_series import FakeTimeSeries


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
    standing: str = "",
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
        standing=standing,
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
    limits: bodies.AccessLimitsBody | None = None,
    policy: bodies.QueuePolicyBody | None = None,
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
        access_limits=limits,
        policy=policy,
        share_with_past=max(
            (line.share_with_past for line in accounts if line.share_with_past is not None), default=None
        ),
    )


def path_bodies(*queues: bodies.QueueBody, asks: Mapping[str, str] = {}) -> tuple[bodies.PathQueueBody, ...]:
    """A queue and those above it, as on the path of a workload that waits for ``asks``."""
    lines = [
        QueueLine(
            name=QueueName(queue.name),
            parent=queue.parent and QueueName(queue.parent),
            served=Queue(name=QueueName(queue.name)),
            paused=queue.paused,
            closed=queue.state == "closed",
            broken=False,
            changed_by="",
            accounts=tuple(map(_account_line, queue.accounts)),
        )
        for queue in queues
    ]
    return path_to_root(lines, lines[0].name, asks, EVERYTHING)


def _account_line(line: bodies.AccountBody) -> AccountLine:
    texts = {name: getattr(line, name) for name in ("guarantee", "deserved", "capability", "used", "counted")}
    units = {name: amount(line.resource, text) for name, text in texts.items() if text is not None}
    return AccountLine(flavor=line.flavor, resource=line.resource, **units)


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
    account("32", "24", "32", standing="8 above its share, which others may take back; at its capability"),
    account("64", None, "128", resource="cpu"),
    pending=2,
    admitted=3,
    by="ada@example.com",
    policy=bodies.QueuePolicyBody(
        order="priority, then arrival",
        reclaim="any",
        within_queue="lower-priority",
        clear_after_seconds=1800,
        min_run_time_seconds=600,
        max_evictions=3,
        admins=("group team-a-leads", "user ada@example.com"),
    ),
    limits=bodies.AccessLimitsBody(
        max_run_time_seconds=72 * 3600, max_per_user={"nvidia.com/gpu": "16", "cpu": "256"}, max_pending=100
    ),
)
TRAIN = queue(
    "train",
    "team-a",
    account("24", "16", "32", standing="8 above its share, which others may take back"),
    account("8", "8", "16", flavor="h100", guarantee="4"),
    pending=2,
    admitted=2,
)
DEV = queue(
    "dev",
    "team-a",
    account("8", "8", None, standing="has its share"),
    state="closed",
    message="takes and admits nothing new",
    admitted=1,
)
TEAM_B = queue(
    "team-b",
    "root",
    account("16", "40", "64", standing="24 below its share; it takes nothing back (reclaim: never)"),
    pending=1,
    admitted=1,
)
LOST = queue(
    "lost", "nowhere", state="broken", message="its ancestors form a cycle, or one of them does not exist"
)

DECISIONS = tuple(
    bodies.DecisionBody(
        at=f"2026-11-21T09:5{minute}:00Z",
        what=what,
        code=code,
        message=message,
        admission=7,
        beneficiary=None,
        numbers={"seats": 4},
        kind="vcjob",
        namespace=namespace,
        name=name,
        uid=f"{name}-uid",
        queue=queue_name,
    )
    for minute, what, code, message, namespace, name, queue_name in (
        (1, "admit", "", "", "ml", "bert", "train"),
        (2, "evict", "Preempted", "for vcjob/ml/tune-3", "vision", "yolo", "team-b"),
    )
)


def gpu_node(name: str, rack: str = "", free: int = 8, *, usable: bool = True, **more: Any) -> NodeBody:
    """A node with 8 GPUs, as the leader tells of it."""
    accelerator = AcceleratorBody(name="gpu", resource=GPU, total=8, free=free if usable else 0)
    return NodeBody(
        **{
            "name": name,
            "flavor": "",
            "rack": rack,
            "usable": usable,
            "limits": {GPU: "8"},
            "used": {GPU: str(8 - free)} if free < 8 else {},
            "free_devices": {GPU: free},
            "accelerators": (accelerator,),
            "free": accelerator.free,
            "gpus": 8,
            "healthy": 8,
            **more,
        }
    )


NODES = (
    gpu_node("gpu-1", "b1/r1", 0),
    gpu_node("gpu-2", "b1/r1", 6, taints=("team=a:NoSchedule",)),
    gpu_node("gpu-3", "b1/r2"),
    gpu_node("gpu-4", "b1/r2", state="Ready,SchedulingDisabled", usable=False),
    gpu_node("gpu-5"),
)
SEATED = {
    node: SeatedBody(
        kind="vcjob",
        namespace=namespace,
        name=name,
        uid=f"uid-{name}",
        queue="dev",
        evicting=False,
        seats=1,
        held={GPU: held},
        gpus=float(held),
    )
    for node, namespace, name, held in (("gpu-1", "ml", "bert", "8"), ("gpu-2", "lab", "yolo", "2"))
}


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
    user: str = "ada@example.com",
    reason: bodies.ReasonBody | None = None,
) -> bodies.WaitingBody:
    return bodies.WaitingBody(
        kind=kind,
        namespace=namespace,
        name=name,
        uid=f"{name}-uid",
        queue=queue,
        position=position,
        user=user,
        priority=priority,
        created=created,
        pods=pods,
        minimum=minimum,
        asks={"cpu": "64", "memory": "512Gi", GPU: gpus, "pods": str(pods)},
        reason=reason,
    )


PENDING = (
    waiting("tune-3", 1, gpus="8", pods=1, minimum=1, kind="job", reason=LIMIT),
    waiting("llama-pretrain", 2, created="2026-11-21T06:40:00Z", priority=100, reason=NO_FIT),
    waiting(
        "sweep",
        1,
        queue="team-b",
        namespace="lab",
        kind="podgroup",
        user="ben",
        created="2026-11-17T10:00:00Z",
        gpus="4",
    ),
)

STORY = structs.replace(
    stored("pending", bodies.ExplanationBody),
    ahead=(waiting("llama-pretrain", 1, created="2026-11-21T06:40:00Z", priority=100, reason=NO_FIT),),
    path=path_bodies(TRAIN, TEAM_A, ROOT, asks=stored("pending", bodies.ExplanationBody).asks),
)

RUNNING = structs.replace(stored("running", bodies.ExplanationBody), path=path_bodies(DEV, TEAM_A, ROOT))


class FakeReader(FakeTimeSeries):
    """The cluster above; ``down`` makes Postgres unreachable."""

    def __init__(self) -> None:
        super().__init__()
        self.queue_names = frozenset(known.name for known in QUEUES)
        self.tree: tuple[bodies.QueueBody, ...] = QUEUES
        #: Users who are named in ``access.admins`` of a queue above every queue.
        self.administrators: tuple[str, ...] = ()

    async def queues(self, sight: Sight = EVERYTHING) -> bodies.QueueList:
        self._up()
        items = tuple(queue for queue in self.tree if sight.shows_queue(queue.name))
        return bodies.QueueList(now=NOW, as_of=self.as_of, behind=self.behind, items=items)

    async def decisions(
        self, wanted: DecisionQuestion, *, queue: str | None, limit: int, sight: Sight = EVERYTHING
    ) -> bodies.DecisionList:
        self._knows(queue)
        seen = [
            one
            for one in DECISIONS[wanted.after or 0 :]
            if sight.shows(one.kind, one.namespace)
            and wanted.namespace in (None, one.namespace)
            and (wanted.ends or one.what != "free")
        ]
        return bodies.DecisionList(
            now=NOW, as_of=self.as_of, items=tuple(seen[:limit]), continue_=str(len(DECISIONS))
        )

    async def node_workloads(
        self, names: Collection[str], sight: Sight = EVERYTHING
    ) -> dict[str, NodeWorkloadsBody]:
        self._up()
        found = {}
        for name in names:
            there = [SEATED[name]] if name in SEATED else []
            seen = tuple(one for one in there if sight.shows(one.kind, one.namespace))
            found[name] = NodeWorkloadsBody(items=seen, total=len(seen), hidden=len(there) - len(seen))
        return found

    async def pending(
        self,
        *,
        queue: str | None,
        namespace: str | None,
        chosen: Chosen = EVERY_ONE,
        limit: int,
        after: PendingPlace | None = None,
        sight: Sight = EVERYTHING,
    ) -> bodies.PendingList:
        self._knows(queue)
        in_queue = [
            one
            for one in PENDING
            if queue in (None, one.queue) and sight.shows(one.kind, one.namespace) and is_chosen(one, chosen)
        ]
        here = [one for one in in_queue if namespace in (None, one.namespace)]
        places = [PendingPlace(one.queue, one.position or 0) for one in here]
        rest = here if after is None else here[places.index(after) + 1 :]
        page = rest[:limit]
        return bodies.PendingList(
            now=NOW,
            as_of=self.as_of,
            behind=self.behind,
            total=len(here),
            total_everywhere=len(in_queue),
            items=tuple(page),
            continue_=text_of_place(
                PendingPlace(page[-1].queue, page[-1].position or 0)
                if page and len(page) < len(rest)
                else None
            ),
        )

    async def administers(self, queue: str, by: Requester) -> bool:
        return by.name in self.administrators

    async def explain(
        self, *, namespace: str, name: str, kind: str | None, sight: Sight = EVERYTHING
    ) -> tuple[bodies.ExplanationBody, ...]:
        self._up()
        found = tuple(
            structs.replace(one, as_of=self.as_of, behind=self.behind)
            for one in (STORY, RUNNING, structs.replace(ENDED, path=path_bodies(DEV, TEAM_A, ROOT)))
            if (one.namespace, one.name) == (namespace, name)
            and kind in (None, one.kind)
            and sight.shows(one.kind, namespace)
        )
        if not found:
            raise UnknownName(
                what=kind or "workload", name=name, place=f" in namespace {namespace}", near=("tune-3",)
            )
        return found


class FakeRights:
    """Users by name and what each may see; those who are not named see everything."""

    def __init__(self, sights: Mapping[str, Sight]) -> None:
        self._sights = sights
        #: Kinds that nobody may list, in the plural.
        self.forbidden: tuple[str, ...] = ()

    async def sight(self, caller: Caller, namespace: str | None = None) -> Sight:
        return self._sights.get(caller.name, EVERYTHING)

    async def sight_in(self, caller: Caller, kinds: Iterable[KindIn]) -> Sight:
        return await self.sight(caller)

    async def require(self, caller: Caller, access: AccessRequest, what: str, hint: str = "") -> None:
        sight = self._sights.get(caller.name, EVERYTHING)
        kinds = [str(each.kind) for each in known_kinds().supports if each.resource is access.resource]
        lists_workloads = access.verb == "list" and any(sight.shows(each, access.namespace) for each in kinds)
        if caller.name in self._sights and not lists_workloads:
            raise Forbidden(user=caller.name, what=what, hint=hint)

    async def administers_all(self, caller: Caller) -> bool:
        return caller.name not in self._sights

    async def unlisted(self, caller: Caller, *resources: ApiResource) -> tuple[str, ...]:
        return tuple(each.plural for each in resources if each.plural in self.forbidden)

    async def require_everything(self, caller: Caller, why: str) -> None:
        if caller.name in self._sights:
            raise Forbidden(user=caller.name, what=f"list queues in the whole cluster: {why}")


class FakeLeader:
    """A leader whose memory holds one outlook and a snapshot; and a world in which objects are tried."""

    identity = "a"

    def __init__(self, world: WorldInMemory | None = None) -> None:
        self.lost = False
        self._world = world
        #: What forecasts of trials go by.
        self.learned: Learned | None = None
        self.expected = EXPECTED
        self.nodes: Sequence[NodeBody] = NODES
        #: Of the last question.
        self.query: dict[str, str | None] = {}

    async def ask_replica(self, name: str, url: str) -> bytes | None:
        raise AssertionError("there is no other replica")

    async def ask(
        self,
        path: str,
        query: dict[str, str | None],
        *,
        public: str,
        forwarded: bool,
        body: bytes | None = None,
    ) -> bytes:
        if self.lost:
            raise NotLeading(identity="b", leader="a")
        if body is not None and self._world is not None:
            last = Decided(snapshot=self._world.snapshot, plan=self._world.plan)
            return await trial(body, last, self._world.view(), asyncio.to_thread, lambda: self.learned)
        self.query = query
        if path == "/nodes":
            return encode(self._node_list(NodeQuestion.of({k: v for k, v in query.items() if v is not None})))
        if path == "/expected":
            return encode(self.expected)
        if path == "/snapshot":
            return b"\x93NUMPY-like bytes"
        return encode(
            tuple(
                one
                for one in (OUTLOOK, RUNS)
                if (one.namespace, one.name) == (query["namespace"], query["name"])
                and query["kind"] in (None, one.kind)
            )
        )

    def _node_list(self, asked: NodeQuestion) -> NodeList:
        found = [
            node
            for node in self.nodes
            if node.name > asked.after and (not asked.names or node.name in asked.names)
        ]
        page = tuple(found[: asked.limit])
        more = page[-1].name if page and len(page) < len(found) else ""
        return NodeList(now=NOW, as_of=NOW, items=page, continue_=more)


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
