"""What pods of a template will ask, as the API server itself tells by dry runs that store nothing."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from aiohttp import web

from admission.decode.template_trials import DryRunOutcome
from admission.facts.changes import Change, FactKind
from admission.facts.pods import PodDefaultsFact, TemplateFact, TemplateKey
from admission.facts.workloads import WorkloadFact
from admission.kube.client.client import Client
from admission.kube.writers import dry_runs, work_queue
from admission.kube.writers.dry_runs import DryRunWriter
from admission.volcano_jobs.pods import PodRules
from admission.wire import WirePod
from admission.workloads.inputs import Timeouts
from admission.workloads.kinds import read_pod
from admission.workloads.kinds.batch_job import WireJob, job_fact
from admission.workloads.kinds.volcano_job import WireVolcanoJob, volcano_job_fact
from admission.world.learned.templates import keys_of
from admission.world.world import World
from queues.api.api_resources import JOBS, LIMIT_RANGES, PODS, RUNTIME_CLASSES, SERVICE_ACCOUNTS
from queues.resources import Resources
from queues.world_rows import WorldRows
from tests.builders.facts import NOW, gone, seen
from tests.builders.volcano_jobs import document
from tests.fakes.fake_api_server import FakeApiServer, answers, hangs, says
from tests.kube.support.cluster_objects import becomes, exists
from tests.waiting import eventually

QUEUE = {"muster.dev/queue-name": "team"}


class Asking:
    """The writer of dry runs with a world that it asks for."""

    def __init__(self, api: Client) -> None:
        self.api = api
        self.told: list[TemplateFact] = []
        self.world = World(WorldRows(), Timeouts(dry_run=2))
        self.outcomes: list[DryRunOutcome] = []
        self.writer = DryRunWriter(
            api, self.world, lambda: None, rules=PodRules(), hand_in=self._hand_in, observe=self._observe
        )

    def _observe(self, outcome: DryRunOutcome, seconds: float) -> None:
        assert seconds > 0
        self.outcomes.append(outcome)

    def _hand_in(self, change: Change) -> None:
        assert isinstance(change.fact, TemplateFact)
        self.told.append(change.fact)
        self.world.observe([change])
        self.world.refresh(NOW)

    def about(self, *facts: WorkloadFact) -> None:
        self.world.observe(map(seen, facts))
        self.world.number({fact.key: number for number, fact in enumerate(facts)})
        self.writer.reconcile(self.world.refresh(NOW))

    async def answer(self, *facts: WorkloadFact) -> TemplateFact:
        self.about(*facts)
        await eventually(lambda: bool(self.told), "an answer")
        return self.told[-1]

    def dry_runs(self) -> int:
        """Pods that the API server was asked to make."""
        return sum(
            count for (verb, kind, _), count in self.api.counts.items() if (verb, kind) == ("POST", "pods")
        )


@pytest_asyncio.fixture
async def asking(api: Client) -> AsyncIterator[Asking]:
    known = Asking(api)
    yield known
    await known.writer.stop()


@pytest_asyncio.fixture
async def misled(client: Client) -> AsyncIterator[Asking]:
    """The same, of a server that does not answer as it should."""
    known = Asking(client)
    yield known
    await known.writer.stop()


async def made(api: Client, namespace: str, name: str = "train", **spec: Any) -> WorkloadFact:
    container = {"name": "main", "image": "train", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never", **spec}}
    job = {"metadata": {"name": name, "labels": QUEUE}, "spec": {"suspend": True, "template": template}}
    await becomes(lambda: exists(api, SERVICE_ACCOUNTS.path(namespace, "default")))
    raw = await api.create(JOBS.path(namespace), job)
    return job_fact(msgspec.json.decode(raw, type=WireJob))


async def posted(api: Client, path: str, name: str, **content: Any) -> None:
    await api.create(path, {"metadata": {"name": name}, **content})


async def test_jobs_of_one_template_share_a_dry_run_that_shows_what_a_namespace_adds(
    asking: Asking, namespace: str
) -> None:
    limits = [{"type": "Container", "defaultRequest": {"memory": "1Gi"}, "max": {"cpu": "4"}}]
    await posted(asking.api, LIMIT_RANGES.path(namespace), "defaults", spec={"limits": limits})
    facts = [await made(asking.api, namespace, f"train-{number}") for number in range(5)]
    told = await asking.answer(*facts)
    assert told.shape is not None
    assert told.shape.takes == Resources({"cpu": 1000, "memory": 2**30, "pods": 1})
    assert asking.dry_runs() == 1
    assert asking.outcomes == [DryRunOutcome.ACCEPTED]
    assert all(asking.world.states[fact.key].needs_seats for fact in facts)
    pods = msgspec.json.decode(await asking.api.get(PODS.path(namespace)))
    assert pods["items"] == [], "nothing is stored"
    asking.about(await made(asking.api, namespace, "train-6"))
    assert asking.dry_runs() == 1, "what was told once holds for the next Job"

    large = {"name": "main", "image": "train", "resources": {"requests": {"cpu": "8"}}}
    refused = await made(asking.api, namespace, "large", containers=[large])
    asking.told.clear()
    assert "must be less than or equal to cpu limit of 4" in (await asking.answer(refused)).refusal


async def test_a_runtime_class_adds_its_overhead_and_chooses_nodes(asking: Asking, namespace: str) -> None:
    await posted(
        asking.api,
        RUNTIME_CLASSES.path(),
        f"kata-{namespace}",
        handler="kata",
        overhead={"podFixed": {"cpu": "250m"}},
        scheduling={"nodeSelector": {"runtime": "kata"}},
    )
    fact = await made(asking.api, namespace, runtimeClassName=f"kata-{namespace}")
    asking.about(fact)
    # The API server may refuse first: a class is known to its check a moment later.
    await eventually(lambda: any(each.shape for each in asking.told), "the class to be known")
    shape = next(each.shape for each in asking.told if each.shape is not None)
    assert shape.takes == Resources({"cpu": 1250, "pods": 1})
    assert shape.nodes.selector == (("runtime", "kata"),)
    pods = asking.world.states[fact.key].workload.pod_sets
    assert [(each.takes, each.nodes.selector) for each in pods] == [(shape.takes, shape.nodes.selector)]


async def test_a_task_of_a_volcano_job_is_tried_as_muster_would_make_it(
    asking: Asking, namespace: str
) -> None:
    await becomes(lambda: exists(asking.api, SERVICE_ACCOUNTS.path(namespace, "default")))
    fact = volcano(namespace)
    told = await asking.answer(fact)
    assert told.shape is not None, told.refusal
    assert told.shape.takes.fits(fact.pod_sets[0].takes)
    assert told.shape.nodes.affinity == fact.pod_sets[0].nodes.affinity, "the dry run is tied to no node"


def volcano(namespace: str, name: str = "train", **spec: Any) -> WorkloadFact:
    metadata = {"namespace": namespace, "name": name, "uid": f"uid-of-{name}"}
    raw = msgspec.json.encode({**document(**{"plugins": {}, **spec}), "metadata": metadata})
    return volcano_job_fact(msgspec.json.decode(raw, type=WireVolcanoJob), raw)


# ── answers that do not come ────────────────────────────────────────────────────────────────────────────────────


async def test_nobody_waits_long_for_an_answer_that_does_not_come(
    misled: Asking, server: FakeApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dry_runs, "PATIENCE", 0.1)
    server.once("POST", hangs)
    fact = volcano("ns")
    told = await misled.answer(fact)
    assert not told.is_known
    assert misled.world.states[fact.key].needs_seats


async def test_failures_are_no_refusals_and_are_tried_again(
    misled: Asking, server: FakeApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_queue, "FIRST_PAUSE", 0.01)
    fact = volcano("ns")
    server.once("POST", answers(500, "failed calling webhook"))
    server.once("POST", answers(403, 'pods "train-1" is forbidden: exceeded quota: team'))
    assert not (await misled.answer(fact)).is_known
    assert misled.world.states[fact.key].needs_seats
    await eventually(lambda: misled.told[-1].refusal == "exceeded quota: team", "the second attempt")
    assert misled.world.states[fact.key].workload.obstacle is not None
    await eventually(lambda: len(misled.outcomes) > 2, "the third attempt")
    assert misled.outcomes[:2] == [DryRunOutcome.UNANSWERED, DryRunOutcome.REFUSED]


async def test_templates_beyond_what_can_be_tried_at_once_are_decided_on_as_they_are_written(
    misled: Asking, server: FakeApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dry_runs, "PATIENCE", 3600.0)
    monkeypatch.setattr(dry_runs, "PER_SECOND", 10 / 3600)
    server.once("POST", hangs, times=dry_runs.AT_A_TIME)
    facts = [volcano("ns", f"train-{number}", minAvailable=1, tasks=[task(number)]) for number in range(50)]
    misled.about(*facts)
    await eventually(lambda: len(misled.told) > 40, "most of them to be let through")
    assert not any(told.is_known for told in misled.told)


# ── what one tenant may cost the API server ─────────────────────────────────────────────────────────────────────


async def test_a_large_pod_is_not_tried_and_its_workload_is_decided_on_as_it_is_written(
    misled: Asking, server: FakeApiServer
) -> None:
    fact = volcano("ns", minAvailable=1, tasks=[task(1, "x" * dry_runs.LARGEST)])
    assert not (await misled.answer(fact)).is_known
    assert misled.world.states[fact.key].needs_seats
    assert server.seen("POST") == []
    assert pause(misled, fact) == dry_runs.LONGEST_PAUSE, "nor is its pod made for nothing again and again"


@pytest.mark.parametrize(
    ("status", "why", "longest"),
    [
        (403, 'pods "a" is forbidden: exceeded quota: team, requested: pods=1', work_queue.LONGEST_PAUSE),
        (422, 'Pod "a" is invalid: spec.containers[0].image: Required value', dry_runs.LONGEST_PAUSE),
    ],
    ids=["until other pods end", "until the template changes"],
)
async def test_a_template_that_stays_refused_is_asked_about_every_ten_minutes_in_the_end(
    misled: Asking,
    server: FakeApiServer,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    why: str,
    longest: float,
) -> None:
    monkeypatch.setattr(work_queue, "FIRST_PAUSE", 3600.0)
    server.once("POST", answers(status, why))
    fact = volcano("ns")
    assert (await misled.answer(fact)).refusal
    assert pause(misled, fact) == longest
    server.once("POST", says(answered("7")))
    misled.world.observe([Change(FactKind.POD_DEFAULTS, "uid", PodDefaultsFact(namespace="ns", digest="2"))])
    misled.writer.ask_anew()
    await eventually(lambda: misled.told[-1].shape is not None, "it to be asked at once after a change")


async def test_what_changes_while_a_template_is_refused_has_it_asked_about_at_once(
    misled: Asking, server: FakeApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_queue, "FIRST_PAUSE", 3600.0)
    server.once("POST", answers(422, 'Pod "a" is invalid: spec.containers[0].image: Required value'))
    server.once("POST", says(answered("7")))

    def hand_in(change: Change) -> None:
        misled._hand_in(change)
        if len(misled.told) == 1:
            other = PodDefaultsFact(namespace="ns", digest="2")
            misled.world.observe([Change(FactKind.POD_DEFAULTS, "uid", other)])
            misled.writer.ask_anew()

    misled.writer._hand_in = hand_in
    misled.about(volcano("ns"))
    await eventually(lambda: bool(misled.told) and misled.told[-1].shape is not None, "it to be asked")


async def test_a_slow_dry_run_that_fails_is_not_tried_again_soon(
    misled: Asking, server: FakeApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dry_runs, "SLOW", 0.0)
    monkeypatch.setattr(dry_runs, "_AFTER_SLOW", 1e9)
    server.once("POST", answers(500, "failed calling webhook"))
    fact = volcano("ns")
    assert not (await misled.answer(fact)).is_known
    assert pause(misled, fact) == dry_runs.LONGEST_PAUSE


def pause(asking: Asking, fact: WorkloadFact) -> int:
    """Seconds until the template of a workload is asked about again."""
    backoff = asking.writer.queue._backoffs[next(keys_of(fact))]
    return round(backoff.until - asking.writer.queue.now())


async def test_the_dry_runs_of_one_namespace_keep_none_of_others_waiting(
    misled: Asking, server: FakeApiServer
) -> None:
    async def hangs_for_one(server: FakeApiServer, request: web.Request) -> web.StreamResponse:
        misbehave = hangs if "/namespaces/busy/" in request.path else says(answered("7"))
        return await misbehave(server, request)

    server.once("POST", hangs_for_one, times=100)
    busy = [volcano("busy", f"train-{number}", minAvailable=1, tasks=[task(number)]) for number in range(8)]
    misled.about(*busy, volcano("quiet"))

    def asked() -> int:
        return len([each for each in server.seen("POST") if "/busy/" in each.path])

    await eventually(lambda: any(told.shape for told in misled.told), "an answer for the other namespace")
    await eventually(lambda: asked() == dry_runs.OF_ONE_NAMESPACE, "the first namespace to be asked about")


def task(cpu: int, notes: str = "") -> dict[str, Any]:
    container = {"name": "main", "image": "train", "resources": {"requests": {"cpu": str(cpu + 1)}}}
    template = {"metadata": {"annotations": {"notes": notes}}, "spec": {"containers": [container]}}
    return {"name": "worker", "replicas": 1, "template": template}


async def test_a_term_begins_with_what_is_known_of_the_templates_that_are_there(
    misled: Asking, server: FakeApiServer
) -> None:
    facts = [volcano("ns", f"train-{number}") for number in range(3)]
    server.once("POST", says(answered("7")))
    misled.world.observe(map(seen, facts))
    await misled.writer.ask_first()
    assert [told.shape.takes["cpu"] for told in misled.told if told.shape is not None] == [7000]
    assert len(server.seen("POST")) == 1


async def test_a_term_begins_soon_though_there_is_no_answer(
    misled: Asking, server: FakeApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dry_runs, "PATIENCE", 0.05)
    server.once("POST", hangs)
    misled.world.observe([seen(volcano("ns"))])
    await misled.writer.ask_first()
    assert misled.writer.queue.is_busy()


async def test_it_is_asked_anew_when_something_has_changed_and_the_old_answer_holds_until_then(
    misled: Asking, server: FakeApiServer
) -> None:
    fact = volcano("ns")
    server.once("POST", says(answered("7")))
    await misled.answer(fact)
    server.once("POST", answers(500, "failed calling webhook"))
    server.once("POST", says(answered("9")))
    misled.world.observe([Change(FactKind.POD_DEFAULTS, "uid", PodDefaultsFact(namespace="ns", digest="2"))])
    misled.writer.ask_anew()
    await eventually(lambda: len(server.seen("POST")) == 3, "the failure to be followed by another attempt")
    await eventually(lambda: len(misled.told) > 1, "the new answer")
    assert [told.shape.takes["cpu"] for told in misled.told if told.shape] == [7000, 9000]
    await eventually(lambda: not misled.writer.queue.is_busy(), "the attempt to be over")
    misled.writer.ask_anew()
    assert not misled.writer.queue.is_busy()


async def test_an_old_answer_is_asked_for_again_when_a_workload_of_its_template_comes(
    misled: Asking, server: FakeApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dry_runs, "ANEW_AFTER", 0.01)
    fact = volcano("ns")
    key = next(keys_of(fact))
    server.once("POST", says(answered("7")), times=100)
    await misled.answer(fact)
    await eventually(lambda: len(server.seen("POST")) > 2, "it to be asked again while the workload waits")
    misled.about(replace(fact, finished=True))
    await eventually(lambda: not misled.world.templates.is_current(key), "the answer to become old")
    assert len(misled.told) == 1, "the same answer is no news"
    misled.about(fact)
    await eventually(lambda: misled.world.templates.is_current(key), "it to be asked again")


async def test_a_workload_that_comes_as_its_template_is_given_up_is_asked_about(
    misled: Asking, server: FakeApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dry_runs, "ANEW_AFTER", 0.01)
    fact = volcano("ns")
    key = next(keys_of(fact))
    server.once("POST", says(answered("7")), times=100)
    await misled.answer(fact)
    expire = misled.world.templates.expire

    def expire_and_come(given_up: TemplateKey) -> None:
        expire(given_up)
        asyncio.get_running_loop().call_soon(misled.about, fact)

    monkeypatch.setattr(misled.world.templates, "expire", expire_and_come)
    await eventually(lambda: misled.writer.queue.is_under_way(key), "it to be asked again")
    misled.about(replace(fact, finished=True))
    before = len(server.seen("POST"))
    await eventually(lambda: len(server.seen("POST")) > before + 1, "it to be asked for the new workload")


def answered(cpu: str) -> bytes:
    """A pod with this request, as the API server answers."""
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    return msgspec.json.encode({"metadata": {"name": "a"}, "spec": {"containers": [container]}})


async def test_nothing_is_asked_about_what_does_not_wait(misled: Asking, server: FakeApiServer) -> None:
    gone_at_once = volcano("ns")
    misled.world.observe([seen(gone_at_once)])
    dirty = misled.world.refresh(NOW)
    misled.world.observe([gone(gone_at_once)])
    misled.world.refresh(NOW)
    misled.writer.reconcile(dirty)
    misled.about(replace(volcano("ns", "b"), finished=True), replace(volcano("ns", "c"), templates=()))
    assert not misled.writer.queue.is_busy()
    assert server.seen("POST") == []


# ── the amounts themselves ──────────────────────────────────────────────────────────────────────────────────────


def amounts(**requests: str) -> dict[str, Any]:
    return {"requests": {"cpu": "0", "memory": "0", **requests}}


#: Specs of pods whose sums are not obvious.
SPECS: dict[str, dict[str, Any]] = {
    "containers": {"containers": [amounts(cpu="1"), amounts(cpu="250m", memory="1Gi")]},
    "init": {"containers": [amounts(cpu="1")], "initContainers": [amounts(cpu="3"), amounts(memory="2Gi")]},
    "sidecar": {
        "containers": [amounts(cpu="1", memory="1Gi")],
        "initContainers": [{**amounts(cpu="2"), "restartPolicy": "Always"}, amounts(cpu="2", memory="3Gi")],
    },
    "late-sidecar": {
        "containers": [amounts(cpu="1")],
        "initContainers": [amounts(cpu="4"), {**amounts(cpu="1500m"), "restartPolicy": "Always"}],
    },
    "pod-level": {
        "containers": [amounts(cpu="1"), amounts(memory="1Gi")],
        "resources": {"requests": {"cpu": "5"}},
    },
    "limits": {
        "containers": [{"limits": {"cpu": "2", "memory": "1Gi"}}],
        "resources": {"limits": {"memory": "4Gi"}},
    },
}


def pod(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    made = dict(spec)
    for field in ("containers", "initContainers"):
        if field in spec:
            made[field] = [
                {
                    "name": f"{field.lower()}-{index}",
                    "image": "x",
                    "resources": {key: value for key, value in each.items() if key in ("requests", "limits")},
                    **{key: value for key, value in each.items() if key == "restartPolicy"},
                }
                for index, each in enumerate(spec[field])
            ]
    return {"metadata": {"name": name}, "spec": {**made, "schedulingGates": [{"name": "test"}]}}


async def test_pods_ask_what_kubernetes_counts_in_its_own_quotas(api: Client, namespace: str) -> None:
    """A ResourceQuota is charged by the same function by which kube-scheduler charges nodes."""
    quotas = f"/api/v1/namespaces/{namespace}/resourcequotas"
    hard = {"requests.cpu": "100", "requests.memory": "100Gi", "pods": "100"}
    await posted(api, quotas, "all", spec={"hard": hard})

    async def used() -> dict[str, str]:
        found: dict[str, str] = (
            msgspec.json.decode(await api.get(f"{quotas}/all")).get("status", {}).get("used", {})
        )
        return found

    await becomes(used)
    ours = Resources({})
    for name, spec in SPECS.items():
        await api.create(PODS.path(namespace), pod(name, spec))
        raw = await api.get(PODS.path(namespace, name))
        ours = ours + read_pod(msgspec.json.decode(raw, type=WirePod)).shape.takes
        theirs = await used()
        found = Resources(
            {
                "cpu": int(1000 * _number(theirs["requests.cpu"])),
                "memory": int(_number(theirs["requests.memory"])),
                "pods": int(theirs["pods"]),
            }
        )
        assert ours == found, name


def _number(quantity: str) -> float:
    for suffix, factor in (("Gi", 2.0**30), ("Mi", 2.0**20), ("m", 0.001)):
        if quantity.endswith(suffix):
            return float(quantity.removesuffix(suffix)) * factor
    return float(quantity)
