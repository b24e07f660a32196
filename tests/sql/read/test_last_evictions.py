"""Who gave a place up to somebody is told so as long as it waits for another, by any replica."""

import pytest
from sqlalchemy import text

from admission.web.sql_reader import SqlReader
from queues.admissions import NEVER_AGAIN, LastEviction
from queues.quota.queue import ROOT
from queues.sql import ledger, world
from queues.sql.database import Database
from queues.sql.observed.rows import Description
from queues.sql.observed.workloads import describe
from queues.sql.world import last_evictions
from queues.workload import AdmissionId, QueueName, WorkloadKey
from tests.builders.explained_statements import LOOKED, explained
from tests.sql.ledger_harness import NOW, LedgerHarness, documented, eviction, gang, key, queue, reason
from tests.tables import with_rows

WHEN = "2027-01-15T08:00:00Z"


async def decided(
    harness: LedgerHarness,
    kind: str,
    name: str,
    code: str = "",
    by: str | None = None,
    message: str = "",
    **facts: str,
) -> None:
    """A line of the decision log, as ``admission.apply`` writes it."""
    line = ledger.Decision(
        kind=kind,
        workload=key(name),
        namespace="ns",
        name=name,
        queue=QueueName("a"),
        code=code,
        message=message,
        beneficiary=None if by is None else key("other"),
        numbers={"seats": 2, **facts} if by is None else {"seats": 2, "for": by, **facts},
    )
    async with harness.entered() as (tx, entry):
        await ledger.record_decisions(tx, entry, [line])
        await ledger.record_reasons(tx, entry, {key(name): reason("NoFit", "0 of 2 pods fit")})


async def admitted(harness: LedgerHarness, name: str) -> AdmissionId:
    verdict = await harness.admit(gang(name, "a", "n1 n1"))
    await decided(harness, "admit", name, "gang")
    return verdict.accepted[0]


async def evicted(harness: LedgerHarness, name: str, admission: AdmissionId, **away: object) -> None:
    row = eviction(admission, **away)  # type: ignore[arg-type]
    await harness.evict(row)
    await decided(
        harness, "evict", name, row.code, "vcjob/ns/other" if row.beneficiary else None, row.message
    )
    await harness.free(admission, 0, 1)


async def staged(muster: Database) -> LedgerHarness:
    return await LedgerHarness.begin(
        muster, [queue(ROOT, None), queue("a")], {"n1": 16000}, ["train", "calm"]
    )


async def known(muster: Database) -> dict[WorkloadKey, LastEviction]:
    """What a new leader starts from."""
    async with muster.snapshot() as tx:
        return dict((await world.load_world(tx)).last_evictions)


async def test_who_took_the_place_is_told_until_it_has_another(muster: Database) -> None:
    harness = await staged(muster)
    first = await admitted(harness, "train")
    assert await known(muster) == {}
    await evicted(harness, "train", first, code="Reclaimed", beneficiary=key("other"))

    assert await known(muster) == {
        key("train"): LastEviction(at=NOW, code="Reclaimed", by="vcjob/ns/other"),
    }
    await admitted(harness, "train")
    assert await known(muster) == {}


async def test_the_list_and_the_story_say_it_alike(muster: Database) -> None:
    harness = await staged(muster)
    await evicted(harness, "train", await admitted(harness, "train"), beneficiary=key("other"))
    await decided(harness, "reject", "train", "NodeFull")
    reader = SqlReader(muster, clock=lambda: NOW)

    waiting = {
        one.name: one.reason for one in (await reader.pending(queue="a", namespace=None, limit=9)).items
    }
    everybody = {
        one.name: one.reason for one in (await reader.pending(queue=None, namespace=None, limit=9)).items
    }
    (story,) = await reader.explain(namespace="ns", name="train", kind=None)

    assert story.reason is not None
    assert waiting["train"] == everybody["train"] == story.reason
    assert story.reason.message == f"0 of 2 pods fit; evicted at {WHEN} (Preempted) for vcjob/ns/other"
    assert story.reason.facts["evicted"] == {"at": WHEN, "code": "Preempted", "for": "vcjob/ns/other"}
    assert waiting["calm"] is None, "it is not considered yet"


async def test_how_much_of_a_place_was_needed_is_told(muster: Database) -> None:
    harness = await staged(muster)
    admission = await admitted(harness, "train")
    row = eviction(admission, beneficiary=key("other"))
    await harness.evict(row)
    await decided(harness, "evict", "train", row.code, "vcjob/ns/other", takes="1 of 2 nvidia.com/gpu")
    await harness.free(admission, 0, 1)
    (story,) = await SqlReader(muster, clock=lambda: NOW).explain(namespace="ns", name="train", kind=None)

    assert (await known(muster))[key("train")].takes == "1 of 2 nvidia.com/gpu"
    assert story.reason is not None
    assert story.reason.message.endswith(
        "for vcjob/ns/other, which takes 1 of 2 nvidia.com/gpu that were freed; "
        "this workload waits until it fits whole again"
    )
    assert story.reason.facts["evicted"]["takes"] == "1 of 2 nvidia.com/gpu"


async def test_who_goes_for_nobody_is_not_told_of_anybody(muster: Database) -> None:
    harness = await staged(muster)
    await evicted(harness, "train", await admitted(harness, "train"), beneficiary=key("other"))
    again = await admitted(harness, "train")
    await evicted(harness, "train", again, code="NotReady", not_before=NOW + 10)

    assert await known(muster) == {}


async def test_what_has_run_out_is_known_for_good_and_told_without_a_time_of_the_next_try(
    muster: Database,
) -> None:
    words = "it has held its seats for the 1h that queue a allows (access.maxRunTime)"
    harness = await staged(muster)
    first = await admitted(harness, "train")
    await evicted(harness, "train", first, code="MaxRunTime", not_before=NEVER_AGAIN, message=words)

    assert await known(muster) == {key("train"): LastEviction(at=NOW, code="MaxRunTime", cause=words)}
    async with muster.snapshot() as tx:
        rows = await world.load_world(tx, with_told=False)
    assert rows.setbacks[key("train")].is_run_out, "also where what is only told is not read"
    (story,) = await SqlReader(muster, clock=lambda: NOW).explain(namespace="ns", name="train", kind=None)
    assert (story.not_before, story.rollbacks) == (None, 1)
    assert words in story.reason.message


async def test_what_the_scheduler_said_is_told_until_its_pods_have_another_place(muster: Database) -> None:
    """Nothing else tells that the anti-affinity of other pods keeps it off a node that has room."""
    words = "the scheduler refuses pod train-0: 1 node(s) didn't satisfy existing pods anti-affinity rules"
    harness = await staged(muster)
    first = await admitted(harness, "train")
    await evicted(harness, "train", first, code="Refused", not_before=NOW + 10, message=words)

    assert await known(muster) == {key("train"): LastEviction(at=NOW, code="Refused", cause=words)}
    (story,) = await SqlReader(muster, clock=lambda: NOW).explain(namespace="ns", name="train", kind=None)
    assert story.reason is not None
    assert story.reason.message == f"0 of 2 pods fit; evicted at {WHEN} (Refused): {words}"
    assert story.reason.facts["evicted"] == {"at": WHEN, "code": "Refused", "refusal": words}
    await admitted(harness, "train")
    assert await known(muster) == {}


#: Five workloads wait, and workloads of twenty names are admitted again and again.
_HISTORY = """
INSERT INTO workloads (kind, uid, namespace, name, queue, arrival)
SELECT '{kind}', 'w' || n, 'ns', 'waits-' || n, 'a', n FROM generate_series(1, 5) AS n;
INSERT INTO backoffs (kind, uid, waiting_since) SELECT kind, uid, 1 FROM workloads;
INSERT INTO decisions (decided_at, ledger_seq, term, kind, workload_kind, workload_uid, namespace, name, queue, code,
                       message, numbers)
SELECT now(), 1, 1, 'evict', kind, uid, namespace, name, queue, 'Preempted', '',
       CAST('{{"for": "job/ns/x"}}' AS jsonb) FROM workloads
UNION ALL
SELECT now(), 1, 1, 'admit', '{kind}', 'u' || n, 'ns', 'runs-' || n % 20, 'a', 'gang', '', CAST('{{}}' AS jsonb)
FROM generate_series(1, 20000) AS n;
ANALYZE;
"""


@pytest.mark.parametrize("kind", ["job", "pod"])
async def test_what_is_looked_at_does_not_grow_with_the_decisions_about_others(
    database: str, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Where there are many decisions about each name Postgres expected the last one soon, and read all of them."""
    connected = await explained(database, monkeypatch)
    try:
        async with connected.transaction() as tx:
            for statement in _HISTORY.format(kind=kind).split(";\n")[:-1]:
                await tx.execute(text(statement))
        LOOKED.clear()
        async with connected.snapshot() as tx:
            assert len(await last_evictions(tx)) == 5
        assert sum(LOOKED.values()) < 250
    finally:
        await connected.close()


@with_rows("code", "order")
async def test_work_that_is_not_to_blame_comes_first_in_the_list_as_in_the_engine(
    muster: Database, code: str, order: list[str]
) -> None:
    small_first = {"spec": {"parent": ROOT, "policy": {"starvation": {"clearAfter": "12h"}}}}
    queues = [queue(ROOT, None), documented(queue("a"), small_first)]
    harness = await LedgerHarness.begin(muster, queues, {"n1": 16000}, ["train", "calm"])
    async with muster.transaction() as tx:
        described = (
            Description(
                key=key(name), namespace="ns", name=name, queue=QueueName("a"), created=NOW, devices=devices
            )
            for name, devices in (("train", 64), ("calm", 1))
        )
        await describe(tx, harness.term, described)
    reader = SqlReader(muster, clock=lambda: NOW, keep=0)

    async def line() -> list[str]:
        return [one.name for one in (await reader.pending(queue="a", namespace=None, limit=9)).items]

    assert await line() == ["calm", "train"]
    await evicted(harness, "train", await admitted(harness, "train"), code=code, not_before=NOW + 10)

    assert await line() == order
    (story,) = await reader.explain(namespace="ns", name="train", kind=None)
    assert story.position == order.index("train") + 1
