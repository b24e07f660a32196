"""Lists of workloads and users as the read API gives them for a small cluster."""

from pathlib import Path
from typing import Final, TypeVar

import msgspec
import yaml

from admission.web.http import text_of_place
from admission.web.reader import EVERYTHING, Sight, UnknownName
from queues.errors import DatabaseUnavailable
from queues.read_api import bodies
from queues.sql.read.listed import Listing, ListPlace
from queues.sql.read.rows import Chosen

NOW: Final = "2026-11-21T10:00:00Z"
GPU: Final = "nvidia.com/gpu"

_Body = TypeVar("_Body")
_STORED: Final = yaml.load(
    Path(__file__).with_name("small_cluster.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader
)


def stored(name: str, form: type[_Body]) -> _Body:
    """An answer, or a part of one, from ``small_cluster.yaml``; it is held to the form that the server sends."""
    return msgspec.convert(_STORED[name], form)


LIMIT = stored("queue_limit", bodies.ReasonBody)
NO_FIT = stored("no_fit", bodies.ReasonBody)

ENDED = stored("ended", bodies.ExplanationBody)


LISTED = stored("listed", tuple[bodies.ListedBody, ...])


def user_line(name: str, used: str, rank: int | None, *, you: bool = False) -> bodies.UserBody:
    return bodies.UserBody(
        user=name,
        you=you,
        used={GPU: used, "cpu": "8"} if used != "0" else {},
        pending=1,
        admitted=2 if used != "0" else 0,
        share=int(used) / 64,
        rank=rank,
    )


def is_chosen(one: bodies.LineBody, chosen: Chosen) -> bool:
    """Whether a workload is one of those that are asked for."""
    names = (one.name, one.namespace, one.queue, one.user)
    return chosen.user in (None, one.user) and (
        chosen.search is None or any(chosen.search.lower() in name.lower() for name in names)
    )


class FakeLists:
    """Lists of these; ``down`` makes Postgres unreachable."""

    def __init__(self) -> None:
        self.down = False
        self.queue_names: frozenset[str] = frozenset()
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
        self._knows(queue)
        self.asked = wanted
        every = [
            one
            for one in LISTED
            if one.state in wanted.states
            and self._is_below(one.queue, queue)
            and is_chosen(one, wanted.chosen)
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
            continue_=text_of_place(end and ListPlace(end.namespace, end.name, end.kind, end.uid, 0)),
        )

    async def users(
        self, *, queue: str | None, user: str, after: int = 0, limit: int, sight: Sight = EVERYTHING
    ) -> bodies.UserList:
        self._knows(queue)
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
            complete=whole,
            total=len(told),
            items=page,
            continue_=str(after + limit) if after + limit < len(told) else "",
        )

    def _is_below(self, name: str | None, queue: str | None) -> bool:
        """Whether a queue is the one that is asked for. None for all."""
        return queue in (None, name)

    def _knows(self, queue: str | None) -> None:
        self._up()
        if queue is not None and queue not in self.queue_names:
            raise UnknownName(what="queue", name=queue, near=("train",))

    def _up(self) -> None:
        if self.down:
            raise DatabaseUnavailable(reason="connection refused")
