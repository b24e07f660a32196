"""What is told of objects, where one of them brings a defect to light."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from admission.facts.cluster import QueueFact
from admission.facts.workloads import GroupRequest
from admission.kube.writers import status, status_loop
from admission.kube.writers.events import EventWriter
from admission.kube.writers.status import StatusWriter
from admission.kube.writers.status_loop import StatusLoop
from admission.reconcile.expected_starts import ExpectedStart
from admission.reconcile.status import StatusWanted
from admission.reconcile.world_status import WorldStatuses
from admission.turn_report import TurnReport
from queues import kind_names
from queues.plan import Reason
from queues.reason_codes import ReasonCode
from queues.resources import GPU, Resources
from queues.workload import WorkloadKey
from tests.builders.facts import GROUP, NOW, TEAM, group, job, node, queue, seen, world
from tests.waiting import eventually, in_background

BAD, GOOD = (WorkloadKey(kind_names.JOB, name) for name in ("bad", "good"))


class OfOneADefect(WorldStatuses):
    def _why_waiting(self, state: Any) -> Reason | None:
        if state.key == BAD:
            raise ZeroDivisionError("of a test")
        return super()._why_waiting(state)


async def test_the_status_of_an_object_that_was_a_workload_before_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As that of a PodGroup that stands for a Volcano Job now: it is told with the Job."""
    gone = WorkloadKey(kind_names.POD_GROUP, "g")
    known = world([queue(TEAM), replace(job(1), key=GOOD, name="good")], arrivals={GOOD: 1})
    steps: list[str] = []
    monkeypatch.setattr(
        StatusWriter, "submit", lambda _, wanted: steps.append("submit") if list(wanted) else None
    )
    monkeypatch.setattr(StatusWriter, "forget", lambda _, uids: steps.extend(f"forget {uid}" for uid in uids))
    client: Any = None
    statuses: Any = WorldStatuses(known, None, {})  # type: ignore[arg-type]
    loop = StatusLoop(client, lambda: None, statuses, busy=lambda: False, instance="me")
    await loop._work_out([GOOD, gone])
    assert steps[:2] == ["forget g", "submit"]


async def test_a_defect_that_one_workload_brings_to_light_keeps_no_other_in_the_dark(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    jobs = [replace(job(1), key=key, name=key.uid) for key in (BAD, GOOD)]
    known = world([queue(TEAM), *jobs], arrivals={BAD: 1, GOOD: 2})
    known.ledger.put_reasons(
        dict.fromkeys((BAD, GOOD), Reason(code=ReasonCode.NO_FIT, message="no room")), ()
    )
    written: list[str] = []
    told: list[str] = []

    def submit(_: StatusWriter, wanted: Any) -> None:
        found: list[StatusWanted] = list(wanted)
        written.extend(each.ref.uid for each in found)

    monkeypatch.setattr(StatusWriter, "submit", submit)
    monkeypatch.setattr(EventWriter, "tell", lambda _, note, **__: told.append(note.ref.uid))
    client: Any = None
    statuses: Any = OfOneADefect(known, None, {})  # type: ignore[arg-type]
    loop = StatusLoop(client, lambda: None, statuses, busy=lambda: False, instance="me")
    await loop._work_out([BAD, GOOD])
    assert (written[0], told) == ("good", ["good"])
    assert [each.message for each in caplog.records] == ["status not worked out", "event not worked out"]


class Api:
    """The API server, with objects that have no status; takes every write."""

    def __init__(self) -> None:
        #: Messages of conditions of the PodGroup, and of events of the Job, as they were written.
        self.told: list[str] = []
        self.events: list[str] = []

    async def get(self, path: str) -> bytes:
        return b'{"metadata": {"uid": "%s"}, "status": {}}' % (
            b"good" if "jobs" in path else GROUP.uid.encode()
        )

    async def patch(self, path: str, body: dict[str, Any], **_: Any) -> bytes:
        if "podgroups" in path:
            self.told += [each["message"] for each in body["status"].get("conditions", ())]
        return msgspec.json.encode(body)

    async def create(self, path: str, body: dict[str, Any], **_: Any) -> bytes:
        if body["involvedObject"]["uid"] == GOOD.uid:
            self.events.append(body["message"])
        return b"{}"


async def test_each_object_is_told_its_expected_start_in_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the real writers, and two forecasts of which the second brings no news: a PodGroup in its status, a Job by
    an event. Both end with the admission."""
    for module, name in (
        (status_loop, "STARTS_EVERY"),
        (status_loop, "LOOK_AFTER"),
        (status, "COALESCE"),
        (status, "PASSING"),
        (status, "BETWEEN_WRITES"),
    ):
        monkeypatch.setattr(module, name, 0.001)
    waiting = [replace(job(1), key=GOOD, name="good"), group(2)]
    known = world([queue(TEAM), *waiting], arrivals={GOOD: 1, GROUP: 2})
    known.ledger.put_reasons(
        dict.fromkeys((GOOD, GROUP), Reason(code=ReasonCode.NO_FIT, message="no room")), ()
    )
    api = Api()
    client: Any = api
    statuses: Any = WorldStatuses(known, None, {})  # type: ignore[arg-type]
    loop = StatusLoop(client, lambda: None, statuses, busy=lambda: False, instance="me")
    async with in_background(loop.run()):
        loop.reconcile([GOOD, GROUP], TurnReport(now=NOW))
        await eventually(lambda: (len(api.told), len(api.events)) == (1, 1), "why they wait")
        statuses.starts.forecast(dict.fromkeys((GOOD, GROUP), ExpectedStart(NOW, NOW + 3600, NOW + 7200)))
        await eventually(lambda: (len(api.told), len(api.events)) == (2, 2), "their expected start")
        again = ExpectedStart(NOW + 1200, NOW + 3700, NOW + 7300)
        statuses.starts.forecast(dict.fromkeys((GOOD, GROUP), again))
        loop.reconcile([GOOD, GROUP], TurnReport(now=NOW))
        await eventually(lambda: not loop._dirty_workloads, "the second look")
        assert (len(api.told), len(api.events)) == (2, 2)
        assert "; expected to start between " in api.told[1]
        assert api.events[0].startswith("no room. ")
        assert api.events[1].startswith("expected to start between ")
        admitted = [(1, SimpleNamespace(workload=each, seats=(), queue=TEAM)) for each in (GOOD, GROUP)]
        applied: Any = SimpleNamespace(admitted=admitted, evicted=(), jobs=())
        loop.reconcile((), TurnReport(now=NOW, applied=applied))
        assert [statuses.starts.of(each) for each in (GOOD, GROUP)] == [None, None]


async def test_who_waits_no_longer_is_not_told_a_start() -> None:
    known = world([queue(TEAM), replace(job(1), key=GOOD, name="good")], arrivals={GOOD: 1})
    statuses: Any = WorldStatuses(known, None, {})  # type: ignore[arg-type]
    statuses.starts.forecast({GOOD: ExpectedStart(NOW, NOW + 3600, NOW + 7200)})
    assert statuses.starts.next(0.0) == GOOD
    assert statuses.start_note(GOOD) is None, "it has no reason"
    known.ledger.put_reasons({GOOD: Reason(code=ReasonCode.NO_FIT, message="no room")}, ())
    assert statuses.start_note(GOOD) is not None


async def test_a_podgroup_without_pods_is_inqueue_when_a_node_comes_though_nothing_else_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = GroupRequest(min_resources=Resources({GPU: 16_000}))
    known = world([queue(TEAM), node("n1"), group(2, group=asked)], arrivals={GROUP: 1})
    phases: list[str] = []
    monkeypatch.setattr(
        StatusWriter,
        "submit",
        lambda _, wanted: phases.extend(each.fields["phase"] for each in wanted if each.ref.uid == GROUP.uid),
    )
    monkeypatch.setattr(status_loop, "QUEUES_EVERY", 0.0)
    client: Any = None
    statuses: Any = WorldStatuses(known, None, {})  # type: ignore[arg-type]
    loop = StatusLoop(client, lambda: None, statuses, busy=lambda: False, instance="me")

    async def look() -> None:
        while loop._dirty.is_set():
            loop._dirty.clear()
            dirty, loop._dirty_workloads = list(loop._dirty_workloads), set()
            await loop._work_out(dirty)

    loop.reconcile([GROUP], TurnReport(now=NOW))
    await look()
    assert phases == ["Pending"]

    known.observe([seen(node("n2"))])
    assert not known.refresh(NOW), "no workload is concerned"
    loop.reconcile((), TurnReport(now=NOW))
    await look()
    assert phases == ["Pending", "Inqueue"]


async def test_a_queue_in_which_nothing_waits_gets_a_status_when_it_comes_and_when_it_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = world([queue(TEAM)])
    told: list[str] = []
    monkeypatch.setattr(
        StatusWriter, "submit", lambda _, wanted: told.extend(each.ref.name for each in wanted)
    )
    monkeypatch.setattr(status_loop, "QUEUES_EVERY", 0.0)
    client: Any = None
    statuses: Any = WorldStatuses(known, None, {})  # type: ignore[arg-type]
    loop = StatusLoop(client, lambda: None, statuses, busy=lambda: False, instance="me")

    async def told_after(*changed: QueueFact) -> list[str]:
        known.put([seen(each) for each in changed])
        loop.reconcile((), TurnReport(now=0))
        told.clear()
        await loop._work_out(())
        return sorted(told)

    assert await told_after() == [TEAM]
    assert await told_after() == [], "nothing changed"
    assert await told_after(queue("new")) == ["new"], "the other is what it was"
    assert await told_after(queue("new", closed=True)) == ["new"]
    assert await told_after(queue("new", closed=True)) == [], "the same again"
