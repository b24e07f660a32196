"""What one gang costs the API server from its creation to its deletion, beside the same Jobs without Muster.

Gangs of 8 are submitted at once to nodes that hold half of them: the first half starts at once, the other waits behind
it. All run for some seconds, end, and are deleted. Requests are counted, with their bytes, in the API server's audit
log; its processor time comes from its own profile.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from deploy.local.client import LocalClient
from deploy.local.stack import USERNAME
from tests.bench import processes
from tests.bench.documents import NAMESPACE, Form, documents, running
from tests.bench.processor_profile import Sample, samples
from tests.bench.rounds import Scene, scene
from tests.bench.turnover.recorded_round import play_recorded
from tests.cluster_faults import AuditedRequest, audited_requests
from tests.waiting import until

SIZE: Final = 8
#: Seconds that each pod runs: longer than a workload waits before its reason is told.
RUNS: Final = 4.0
#: Seconds of the profile: a round with its end, and some rest.
_PROFILED: Final = 45
_READS: Final = frozenset({"get", "list", "watch"})
#: What the API server does, told by a function on the stack; the first that fits.
_WORK: Final[Mapping[str, tuple[str, ...]]] = {
    "policies": ("admission/plugin/policy", "google/cel-go"),
    "webhooks": ("admission/plugin/webhook",),
    "other admission": ("k8s.io/apiserver/pkg/admission", "kubernetes/plugin/pkg/admission"),
    "serialisation": ("runtime/serializer", "encoding/json", "sigs.k8s.io/json", "Marshal", "Unmarshal"),
    "managed fields": ("managedfields", "structured-merge-diff"),
    "storage": ("storage/etcd3", "storage/cacher"),
    "garbage collection": ("runtime.gcBgMarkWorker", "runtime.gcAssist", "runtime.bgsweep"),
}

Sender = tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFigures:
    """What one round asked of the API server."""

    gangs: int
    #: Writes by (sender, verb, resource): how many, and their bytes.
    counts: Mapping[Sender, int]
    sizes: Mapping[Sender, int]
    #: Processor seconds of the API server by kind of work.
    seconds: Mapping[str, float]


def play(form: Form, gangs: int) -> RequestFigures:
    """Play one round of ``gangs`` gangs of 8 on a control plane of its own."""
    work = [
        document
        for number in range(gangs)
        for document in documents(form, number, SIZE, (), metadata=running(RUNS))
    ]
    with scene(gangs // 2, admitted=form.admitted, audit="Request") as on, ThreadPoolExecutor(1) as beside:
        before = len(audited_requests(on.cluster))
        profile = beside.submit(_profile, on)
        play_recorded(on, form.collection, work)
        _delete(on, form)
        processes.wait_until_idle(on.pids.values())
        asked = audited_requests(on.cluster)[before:]
        return RequestFigures(
            gangs=gangs,
            counts=_summed(asked, lambda _: 1),
            sizes=_summed(asked, lambda request: request.size),
            seconds=by_work(samples(profile.result())),
        )


def _profile(on: Scene) -> bytes:
    with LocalClient(on.cluster.kubeconfig, timeout=_PROFILED + 60) as api:
        return api.send("GET", f"/debug/pprof/profile?seconds={_PROFILED}").read()


def _delete(on: Scene, form: Form) -> None:
    """Delete all that was submitted, and wait until it and its pods are gone."""
    with on.cluster.client() as api:
        api.request("DELETE", form.collection, {"propagationPolicy": "Background"})
        for collection in (form.collection, f"/api/v1/namespaces/{NAMESPACE}/pods"):
            until(lambda path=collection: not api.get(path)["items"], f"{collection} to be empty")  # type: ignore[misc]


def _summed(asked: Iterable[AuditedRequest], amount: Callable[[AuditedRequest], int]) -> Mapping[Sender, int]:
    counts: Counter[Sender] = Counter()
    for request in asked:
        if request.verb not in _READS and request.resource != "leases":
            user = request.user.removeprefix("system:serviceaccount:kube-system:").removeprefix("system:")
            sender = "muster" if request.user == USERNAME else user
            counts[sender, request.verb, request.resource] += amount(request)
    return counts


def by_work(profile: Iterable[Sample]) -> Mapping[str, float]:
    """Processor seconds by kind of work; each sample counts once."""
    seconds: Counter[str] = Counter()
    for sample in profile:
        text = " ".join(sample.stack)
        work = next(
            (name for name, marks in _WORK.items() if any(each in text for each in marks)), "the rest"
        )
        seconds[work] += sample.seconds
    return seconds


def table(rounds: Mapping[str, RequestFigures]) -> str:
    """For each form its writes per gang, those of Muster first, and the API server's microseconds per gang."""
    lines = []
    for name, figures in rounds.items():
        lines.append(f"{name}: writes per gang, bytes of each")
        order = sorted(figures.counts.items(), key=lambda item: (item[0][0] != "muster", -item[1]))
        lines += [
            f"{count / figures.gangs:8.2f} {figures.sizes[key] / count:8.0f}  {' '.join(key)}"
            for key, count in order
            if count / figures.gangs >= 0.05
        ]
    works = [*_WORK, "the rest"]
    lines.append(f"{'API server, ms per gang':<26}" + "".join(f"{name:>14}" for name in rounds))
    for work in works:
        lines.append(f"{work:<26}" + "".join(f"{_ms(each, [work]):14.2f}" for each in rounds.values()))
    lines.append(f"{'all':<26}" + "".join(f"{_ms(each, works):14.2f}" for each in rounds.values()))
    return "\n".join(lines)


def _ms(figures: RequestFigures, works: Iterable[str]) -> float:
    return sum(figures.seconds.get(work, 0.0) for work in works) / figures.gangs * 1000
