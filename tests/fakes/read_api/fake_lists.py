"""Lists of workloads and users as the read API gives them for a small cluster."""

from typing import Any, Final

from admission.read_api import bodies
from admission.web.lists.lines import continued
from admission.web.reader import EVERYTHING, Sight
from queues.errors import DatabaseUnavailable
from queues.sql.read.listed import Listing, ListPlace

NOW: Final = "2026-11-21T10:00:00Z"
GPU: Final = "nvidia.com/gpu"

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

ENDED = bodies.ExplanationBody(
    now=NOW,
    kind="job",
    namespace="ml",
    name="old",
    uid="old-uid",
    queue="dev",
    state="finished",
    user="ada@example.com",
    result="failed",
    ended="2026-11-21T09:10:00Z",
    gone=True,
    device_hours={GPU: 8.0},
    outcomes=(
        bodies.OutcomeBody(phase="Succeeded", exit_code=0, pods=3),
        bodies.OutcomeBody(phase="Failed", exit_code=137, pods=1),
    ),
    priority=0,
    created="2026-11-21T08:00:00Z",
    pods=0,
    minimum=1,
    asks={},
    position=None,
    queue_length=None,
    position_by="",
    reason=None,
    not_before=None,
    rollbacks=0,
    ahead=(),
    path=(),
    stages=(
        bodies.StageBody(stage="created", at="2026-11-21T08:00:00.000Z", after_seconds=None, admission=None),
        bodies.StageBody(stage="seen", at="2026-11-21T08:00:00.412Z", after_seconds=0.412, admission=None),
        bodies.StageBody(stage="admitted", at="2026-11-21T08:10:00.030Z", after_seconds=600.03, admission=11),
        bodies.StageBody(stage="released", at="2026-11-21T08:10:00.091Z", after_seconds=0.061, admission=11),
        bodies.StageBody(stage="bound", at="2026-11-21T08:10:00.512Z", after_seconds=0.421, admission=11),
        bodies.StageBody(stage="running", at="2026-11-21T08:10:13.000Z", after_seconds=12.488, admission=11),
        bodies.StageBody(stage="closed", at="2026-11-21T09:10:00.000Z", after_seconds=3587.0, admission=11),
        bodies.StageBody(stage="ended", at="2026-11-21T09:10:00.000Z", after_seconds=None, admission=None),
    ),
    admissions=(
        bodies.AdmissionBody(
            id=11,
            queue="dev",
            state="closed",
            opened="2026-11-21T08:10:00Z",
            closed="2026-11-21T09:10:00Z",
            seat_count=1,
            nodes=("node-00002",),
            node_count=1,
            adopted=False,
            eviction=None,
            seats=(),
            ended=1,
        ),
    ),
    history=(),
)


def listed(
    name: str, state: str, *, queue: str = "dev", kind: str = "vcjob", namespace: str = "ml", **more: Any
) -> bodies.ListedBody:
    described: dict[str, Any] = {
        "user": "ada@example.com",
        "result": "",
        "gone": False,
        "priority": 0,
        "created": "2026-11-21T08:00:00Z",
        "admitted": None,
        "ended": None,
        "pods": 4,
        "minimum": 4,
        "asks": {GPU: "32", "cpu": "64", "pods": "4"},
        "held": {},
        "nodes": (),
        "node_count": 0,
    }
    names = {"kind": kind, "namespace": namespace, "name": name, "uid": f"{name}-uid"}
    return bodies.ListedBody(**names, queue=queue, state=state, **(described | more))


LISTED = (
    listed("sweep", "pending", queue="team-b", kind="podgroup", namespace="lab", user="ben", reason=None),
    listed(
        "bert",
        "admitted",
        admitted="2026-11-21T08:00:01Z",
        held={GPU: "33", "pods": "5"},
        pods=5,
        nodes=("node-00001", "node-00002", "node-00003"),
        node_count=3,
    ),
    listed("llama-pretrain", "pending", queue="train", reason=NO_FIT, created="2026-11-21T06:40:00Z"),
    listed(
        "old",
        "finished",
        result="failed",
        gone=True,
        admitted="2026-11-21T08:10:00Z",
        ended="2026-11-21T09:10:00Z",
        held={GPU: "8", "pods": "1"},
        asks={},
        pods=1,
        nodes=("node-00002",),
        node_count=1,
    ),
    listed("tune-3", "pending", queue="train", kind="job", user="", reason=LIMIT, pods=1, asks={GPU: "8"}),
)


def user_line(name: str, used: str, rank: int | None, *, you: bool = False) -> bodies.UserBody:
    return bodies.UserBody(
        user=name,
        you=you,
        used={GPU: used, "cpu": "8"} if used != "0" else {},
        pending=1,
        admitted=2 if used != "0" else 0,
        share=int(used) / 64,
        rank=rank,
        past_hours={GPU: 120.25},
    )


class FakeLists:
    """Lists of these; ``down`` makes Postgres unreachable."""

    def __init__(self) -> None:
        self.down = False
        self.as_of: str | None = NOW
        self.behind = ""
        #: What was asked for last.
        self.asked: Listing | None = None

    async def workloads(
        self,
        wanted: Listing,
        *,
        queue: str | None,
        after: ListPlace | None = None,
        limit: int,
        sight: Sight = EVERYTHING,
    ) -> bodies.WorkloadList:
        self._up()
        self.asked = wanted
        every = [
            one
            for one in LISTED
            if one.state in wanted.states
            and queue in (None, one.queue)
            and wanted.user in (None, one.user)
            and sight.shows(one.kind, one.namespace)
        ]
        here = [one for one in every if wanted.namespace in (None, one.namespace)]
        rest = [one for one in here if after is None or (one.namespace, one.name) > after[:2]]
        page = rest[:limit]
        end = page[-1] if page and len(page) < len(rest) else None
        return bodies.WorkloadList(
            now=NOW,
            as_of=self.as_of,
            behind=self.behind,
            total=len(here),
            total_everywhere=len(every),
            items=tuple(page),
            continue_=""
            if end is None
            else continued(ListPlace(end.namespace, end.name, end.kind, end.uid, 0)),
        )

    async def users(
        self, *, queue: str | None, user: str, after: int = 0, limit: int, sight: Sight = EVERYTHING
    ) -> bodies.UserList:
        self._up()
        whole = sight.workloads is None
        told = (
            user_line("ada@example.com", "33", 1 if whole else None),
            user_line(user, "8", 2 if whole else None, you=True),
            user_line("", "0", 3 if whole else None),
        )
        page = told[after : after + limit]
        return bodies.UserList(
            now=NOW,
            as_of=self.as_of,
            behind=self.behind,
            queue=queue or "root",
            share_of="deserved",
            past_days=7,
            complete=whole,
            total=len(told),
            items=page,
            continue_=str(after + limit) if after + limit < len(told) else "",
        )

    def _up(self) -> None:
        if self.down:
            raise DatabaseUnavailable(reason="connection refused")
