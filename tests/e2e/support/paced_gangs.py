"""Small gangs of one tenant, begun at a steady pace whatever becomes of those before, and where the time of each went.

Their nodes are tainted, so that pods that select no nodes do not fill them.

Beside each gang begin two pods that Muster has nothing to do with. They take as long as API server and scheduler make
everybody wait, so what a gang takes beyond them is Muster's part.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from deploy.local.client import LocalClient
from tests.e2e.support.api_paths import Document, kind_of, path
from tests.e2e.support.manifests import batch_job, grouped, pod, pod_group, volcano_job
from tests.e2e.support.pod_history import Moment, PodHistory
from tests.e2e.support.sandbox import Sandbox
from tests.waiting import until

#: Pods of a gang, of one GPU each, and plain pods beside it.
PODS: Final = 2
#: Gangs that may be under way together; the sandbox's nodes have room for as many.
TOGETHER: Final = 16
_TAINT: Final = {"key": "paced-gangs", "effect": "NoSchedule"}
_DAY: Final = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainTimes:
    """When the plain pods beside a gang got how far: the last of them."""

    begun: float
    stored: float
    #: The first event arrived here.
    seen: float
    bound: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GangTimes:
    """When one gang got how far, in seconds by ``time.monotonic``; events of pods count when they arrive here."""

    name: str
    #: When it should have begun.
    planned: float
    #: The API server has answered that it has all of the gang.
    stored: float
    #: Muster's log says that it is admitted; read when all gangs were bound.
    admitted: float = 0.0
    #: The last pod was created without a gate, or lost it.
    released: float
    #: The last pod has a node.
    bound: float
    plain: PlainTimes

    def stages(self) -> dict[str, float]:
        """Seconds that each stage took."""
        plain = self.plain
        return {
            "gang: planned to bound": self.bound - self.planned,
            "gang: planned to stored": self.stored - self.planned,
            "gang: stored to admitted": self.admitted - self.stored,
            "gang: admitted to released": self.released - self.admitted,
            "gang: released to bound": self.bound - self.released,
            "plain pods: begun to bound": plain.bound - plain.begun,
            "plain pods: stored to seen": max(0.0, plain.seen - plain.stored),
        }


class PacedGangs:
    """Begins a gang every few seconds from another thread, until the block ends; then all of them were bound."""

    def __init__(self, sandbox: Sandbox, name: str, every: float) -> None:
        self.gangs: list[GangTimes] = []
        self._sandbox, self._name, self._every = sandbox, name, every
        self._history = PodHistory(sandbox.stack.cluster.kubeconfig, sandbox.name)
        self._played: list[Future[GangTimes]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._pace, name="paced gangs")

    def __enter__(self) -> Self:
        self._history.__enter__()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._history.__exit__()
        if error is None:
            played = [each.result() for each in self._played]
            admitted = admission_times(self._sandbox)
            self.gangs = [
                replace(each, admitted=admitted[f"{self._sandbox.name}/{each.name}"]) for each in played
            ]

    def wait(self, number: int) -> None:
        """Until so many gangs have ended."""

        def ended() -> bool:
            return sum(each.done() for each in list(self._played)) >= number

        until(ended, f"{number} gangs of {self._name}")

    def _pace(self) -> None:
        start = time.monotonic()
        with ThreadPoolExecutor(TOGETHER) as pool:
            for number in count():
                planned = start + number * self._every
                if self._stop.wait(max(0.0, planned - time.monotonic())):
                    break
                self._played.append(pool.submit(self._play, number, planned))

    def _play(self, number: int, planned: float) -> GangTimes:
        """One gang from its creation to its deletion."""
        namespace, name = self._sandbox.name, f"{self._name}-{number}"
        gang, plain = _gang(self._sandbox, name, number), _plain_pods(self._sandbox, name)
        first = len(self._history.moments)

        def first_times(beginning: str, test: Callable[[Moment], bool]) -> list[float]:
            """When this first was so, of each pod with a name that begins so."""
            found: dict[str, float] = {}
            for moment in self._history.moments[first:]:
                if moment.name.startswith(f"{namespace}/{beginning}-") and test(moment):
                    found.setdefault(moment.name, moment.at)
            return list(found.values())

        def all_bound() -> bool:
            return all(len(first_times(each, _is_bound)) == PODS for each in (name, f"plain-{name}"))

        with (
            self._sandbox.stack.cluster.client() as api,
            _deleted_afterwards(api, namespace, [*gang, *plain]),
        ):
            for each in gang:
                api.create(path(kind_of(each), namespace), each)
            stored = time.monotonic()
            for each in plain:
                api.create(path("Pod", namespace), each)
            plain_stored = time.monotonic()
            until(all_bound, f"{name} and the plain pods beside it to be bound")
        return GangTimes(
            name=name,
            planned=planned,
            stored=stored,
            released=max(first_times(name, _is_free)),
            bound=max(first_times(name, _is_bound)),
            plain=PlainTimes(
                begun=stored,
                stored=plain_stored,
                seen=max(first_times(f"plain-{name}", lambda _: True)),
                bound=max(first_times(f"plain-{name}", _is_bound)),
            ),
        )


def _is_bound(moment: Moment) -> bool:
    return moment.node is not None


def _is_free(moment: Moment) -> bool:
    return not moment.pod["spec"].get("schedulingGates")


@contextmanager
def _deleted_afterwards(api: LocalClient, namespace: str, documents: Sequence[Document]) -> Iterator[None]:
    try:
        yield
    finally:
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        for each in documents:
            kind = kind_of(each)
            now = {**options, "gracePeriodSeconds": 0} if kind == "Pod" else options
            api.request("DELETE", path(kind, namespace, each["metadata"]["name"]), now)


def add_nodes_for_gangs(sandbox: Sandbox, number: int) -> None:
    """Nodes that only paced gangs and the plain pods beside them may use."""
    for name in sandbox.add_nodes(number):
        sandbox.api.merge(path("Node", "", name), {"spec": {"taints": [_TAINT]}})


def _gang(sandbox: Sandbox, name: str, number: int) -> list[Document]:
    """A gang of each kind in turn."""
    match number % 3:
        case 0:
            job = volcano_job(sandbox, name, PODS)
            _tolerate(job["spec"]["tasks"][0]["template"])
            return [job]
        case 1:
            job = batch_job(sandbox, name, PODS)
            _tolerate(job["spec"]["template"])
            return [job]
    members = [grouped(sandbox, name, f"{name}-{member}") for member in range(PODS)]
    return [pod_group(sandbox, name, PODS), *map(_tolerate, members)]


def _plain_pods(sandbox: Sandbox, name: str) -> list[Document]:
    return [_tolerate(pod(sandbox, f"plain-{name}-{member}", 0)) for member in range(PODS)]


def _tolerate(of: Document) -> Document:
    """A pod or template that may use the nodes."""
    of["spec"]["tolerations"] = [{**_TAINT, "operator": "Exists"}]
    return of


def admission_times(sandbox: Sandbox) -> dict[str, float]:
    """``namespace/name`` → when it was first admitted, by ``time.monotonic``, as the log of Muster says."""
    log: Path = sandbox.stack.replicas[0].log
    midnight = time.monotonic() - time.time() % _DAY
    found: dict[str, float] = {}
    for line in log.read_text(errors="replace").splitlines():
        if " admission.turn_report: admitted " not in line:
            continue
        hours, minutes, seconds = line.split(" ", 1)[0].split(":")
        at = midnight + int(hours) * 3600 + int(minutes) * 60 + float(seconds)
        workload = line.rpartition(" workload=")[2].split(" ", 1)[0]
        found.setdefault(workload, at if at <= time.monotonic() else at - _DAY)
    return found


# ── figures ─────────────────────────────────────────────────────────────────────────────────────────────────


def comparison(quiet: Sequence[GangTimes], beside: Sequence[GangTimes]) -> str:
    """Median, 95th percentile and maximum of each stage, quiet and beside something, and which gangs were late by what.

    Late: more than a second above the quiet median. What Muster takes is from stored to released, without the time in
    which an event of the plain pods came here in that moment; writes of Muster to a slow API server are in it.
    """
    stages = list(quiet[0].stages())
    lines = [f"{'seconds':28} {'quiet ' + str(len(quiet)):>24} {'beside ' + str(len(beside)):>24}"]
    for stage in stages:
        cells = [_spread([each.stages()[stage] for each in gangs]) for gangs in (quiet, beside)]
        lines.append(f"{stage:28} " + " ".join(f"{cell:>24}" for cell in cells))
    for what, took in _LATENESS.items():
        limit = _percentile([took(each) for each in quiet], 50) + 1
        late = [each for each in beside if took(each) > limit]
        lines.append(f"late, {what}: {len(late)} of {len(beside)} ({len(late) / len(beside):.1%})")
        lines += [
            f"  {each.name} {took(each):.2f}: "
            + ", ".join(f"{stage} {seconds:.2f}" for stage, seconds in each.stages().items())
            for each in sorted(late, key=took, reverse=True)[:10]
        ]
    return "\n".join(lines)


def _whole(gang: GangTimes) -> float:
    return gang.bound - gang.planned


def _plain(gang: GangTimes) -> float:
    return gang.plain.bound - gang.plain.begun


def _by_muster(gang: GangTimes) -> float:
    """From stored to released, without the time in which an event of a pod reached a watch in that moment."""
    return gang.released - gang.stored - gang.stages()["plain pods: stored to seen"]


_LATENESS: Final[dict[str, Callable[[GangTimes], float]]] = {
    "gangs": _whole,
    "plain pods": _plain,
    "gangs, from stored to released": _by_muster,
}


def _spread(values: Sequence[float]) -> str:
    return " / ".join(f"{_percentile(values, part):.2f}" for part in (50, 95, 100))


def _percentile(values: Sequence[float], part: int) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * part // 100)]
