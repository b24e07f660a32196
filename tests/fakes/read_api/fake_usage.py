"""Use of a small cluster in a period, as the read API tells it."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from admission.web.reader import EVERYTHING, Sight, UnknownName
from admission.web.usage_report import UsageRequest, usage_list
from queues.read_api.bodies import WorkloadBody
from queues.read_api.usage import UsageBody, UsageList
from queues.sql.read.rows import KindIn
from queues.sql.read.usage import KnownSince, UsageColumn, UsagePage, key_length
from tests.fakes.read_api.fake_lists import GPU, NOW, FakeLists

#: tenant, queue, user, workload, flavor, resource; GPU-seconds (or those of CPUs), of them preempted, faulted, and of
#: evictions for maintenance.
USED = (
    ("team-a", "train", "ada@example.com", "bert", "h100", GPU, 8 * 100 * 3600, 8 * 3600, 0, 4 * 3600),
    ("team-a", "train", "ada@example.com", "tune-3", "l4", GPU, 2 * 3600 + 7, 0, 3600, 0),
    ("team-a", "train", "tim", "sweep", "l4", GPU, 300 * 3600, 0, 0, 0),
    ("team-a", "dev", "", "old", "", GPU, 1800, 0, 0, 0),
    ("team-b", "team-b", "bert", "llama-pretrain", "h100", GPU, 400 * 3600, 0, 0, 0),
    ("team-b", "team-b", "bert", "llama-pretrain", "", "cpu", 64 * 400 * 3600, 0, 0, 0),
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


#: What the numbers of a line are.
NUMBERS = ("amount_seconds", "preempted_seconds", "faulted_seconds", "maintenance_seconds")


class FakeUsage(FakeLists):
    """Use as above."""

    #: Names of queues.
    queue_names: frozenset[str] = frozenset()

    def __init__(self) -> None:
        super().__init__()
        #: Seconds since the epoch; 0: always.
        self.postings_begin = 0

    async def usage(self, request: UsageRequest, *, user: str, sight: Sight = EVERYTHING) -> UsageList:
        self._up()
        if request.queue is not None and request.queue not in self.queue_names:
            raise UnknownName(what="queue", name=request.queue, near=("train",))
        sums: dict[tuple[str, ...], tuple[dict[str, Any], Counter[str]]] = {}
        totals: dict[str, Counter[str]] = defaultdict(Counter)
        for line in USED:
            if request.queue not in (None, line[0], line[1]) or request.resource not in (None, line[5]):
                continue
            if not sight.shows_queue(line[1]) and line[2] != user:
                continue
            numbers = Counter(dict(zip(NUMBERS, line[6:], strict=True)))
            found = used([column for column in UsageColumn if column in request.by], line)
            key = (line[5], *found.values())
            key += ("",) * (key_length(request.by) - len(key))
            sums.setdefault(key, (found, Counter()))[1].update(numbers)
            totals[line[5]].update(numbers)
        rest = [key for key in sorted(sums) if request.after is None or key > request.after]
        shown = rest[: request.limit]
        page = UsagePage(
            totals=tuple(body(resource, {}, numbers) for resource, numbers in totals.items()),
            items=tuple(body(key[0], *sums[key]) for key in shown),
            end=shown[-1] if shown and len(shown) == request.limit else None,
        )
        now = int(datetime.fromisoformat(NOW).timestamp())
        history = KnownSince(postings=self.postings_begin, workloads=self.postings_begin)
        age = {"now": NOW, "as_of": self.as_of, "behind": self.behind}
        return usage_list(request, request.begun(now, history).ends, page, history, age)

    async def used_kinds_in_namespaces(self, since: int, limit: int) -> tuple[KindIn, ...]:
        return (KindIn("job", "ml"),)


def body(resource: str, found: dict[str, Any], numbers: Counter[str]) -> UsageBody:
    """A line: the columns that were asked for, and seconds of whole units."""
    workload = {name: found[name] for name in ("kind", "namespace", "name", "uid") if name in found}
    return UsageBody(
        resource=resource,
        **{name: found.get(name) for name in ("tenant", "queue", "user", "flavor")},
        workload=WorkloadBody(**workload) if workload else None,
        others=False,
        hours=round(numbers["amount_seconds"] / 3600, 6),
        **{name: str(numbers[name]) for name in NUMBERS},
    )
