"""A load whose workloads end by themselves, a process of its own: submits them, and records when which object changed.

``python -m tests.bench.turnover.recorded_load`` reads an ``Order`` as JSON on its standard input, submits its documents
in their order as fast as one client can, waits until every workload has ended, and prints a ``Record`` as JSON. Moments
are seconds since the epoch, at which a watch event was read.
"""

import asyncio
import json
import resource
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import time
from typing import Any

import aiohttp
import msgspec

from tests.bench.documents import NAMESPACE, gang_of
from tests.bench.load import CONCURRENCY, Stuck, connected, follow, send, version_of

#: Without a workload that ends for so long, the round has failed.
PATIENCE_SECONDS = 90.0
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is to be submitted."""

    kubeconfig: str
    #: Path that documents are posted to.
    collection: str
    #: The name of each is ``GANG`` with its index.
    documents: list[dict[str, Any]]


@dataclass(slots=True, kw_only=True)
class WorkloadRecord:
    """When one workload changed."""

    #: When its POST was sent.
    submitted: float
    #: Resumed: it may have pods. Evicted: suspended again.
    resumed: list[float] = field(default_factory=list)
    evicted: list[float] = field(default_factory=list)
    finished: float | None = None
    failed: bool = False


@dataclass(slots=True, kw_only=True)
class PodRecord:
    """When one pod changed; None: it did not."""

    gang: int
    created: float
    node: str = ""
    bound: float | None = None
    running: float | None = None
    ended: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What was seen."""

    #: By index of its document.
    workloads: list[WorkloadRecord]
    pods: list[PodRecord]
    cpu_seconds: float

    @classmethod
    def from_json(cls, seen: dict[str, Any]) -> "Record":
        return msgspec.convert(seen, cls)


class _Metadata(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    uid: str = ""
    resource_version: str = ""


class _Condition(msgspec.Struct, gc=False):
    type: str = ""
    status: str = ""


class _State(msgspec.Struct, gc=False):
    phase: str = ""


class _Status(msgspec.Struct, gc=False):
    phase: str = ""
    conditions: list[_Condition] = []
    #: Of a Volcano Job.
    state: _State = msgspec.field(default_factory=_State)


class _Spec(msgspec.Struct, rename="camel", gc=False):
    node_name: str = ""
    suspend: bool = False


class _Object(msgspec.Struct, gc=False):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


class _Event(msgspec.Struct, gc=False):
    type: str
    object: _Object


_EVENT = msgspec.json.Decoder(_Event)
_ENDS = {"Complete": False, "Completed": False, "Failed": True, "Aborted": True, "Terminated": True}


class Recorder:
    """Takes in what the watches tell."""

    def __init__(self, count: int) -> None:
        self.workloads: list[WorkloadRecord] = [WorkloadRecord(submitted=0.0) for _ in range(count)]
        self.pods: dict[str, PodRecord] = {}
        self.unfinished = count
        self.changed = asyncio.Event()

    def see_workload(self, line: bytes) -> str:
        """Take in an event of a workload. Returns its resource version."""
        seen = _EVENT.decode(line).object
        record = self.workloads[int(seen.metadata.name[1:])]
        runs = len(record.resumed) > len(record.evicted)
        if not seen.spec.suspend and not runs:
            record.resumed.append(time())
        elif seen.spec.suspend and runs:
            record.evicted.append(time())
        reached = [each.type for each in seen.status.conditions if each.status == "True"]
        ends = [_ENDS[each] for each in (*reached, seen.status.state.phase) if each in _ENDS]
        if ends and record.finished is None:
            record.finished, record.failed = time(), any(ends)
            self.unfinished -= 1
            self.changed.set()
        return seen.metadata.resource_version

    def see_pod(self, line: bytes) -> str:
        """Take in an event of a pod. Returns its resource version."""
        event = _EVENT.decode(line)
        seen, now = event.object, time()
        record = self.pods.get(seen.metadata.uid)
        if record is None:
            record = PodRecord(gang=gang_of(seen.metadata.name), created=now)
            self.pods[seen.metadata.uid] = record
        if seen.spec.node_name and record.bound is None:
            record.node, record.bound = seen.spec.node_name, now
        if seen.status.phase == "Running" and record.running is None:
            record.running = now
        if (seen.status.phase in ("Succeeded", "Failed") or event.type == "DELETED") and record.ended is None:
            record.ended = now
        return seen.metadata.resource_version

    async def until_finished(self) -> None:
        """Wait until every workload has ended. Raises Stuck."""
        while self.unfinished:
            self.changed.clear()
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    await self.changed.wait()
            except TimeoutError:
                raise Stuck(f"{self.unfinished} workloads have not ended") from None


async def record(order: Order, session: aiohttp.ClientSession) -> Record:
    """Submit the documents and watch until every workload has ended."""
    recorder = Recorder(len(order.documents))
    watched: dict[str, Callable[[bytes], str]] = {
        order.collection: recorder.see_workload,
        _PODS: recorder.see_pod,
    }
    versions = {collection: await version_of(session, collection) for collection in watched}
    documents = iter(enumerate(order.documents))

    async def submit() -> None:
        for number, document in documents:
            data = msgspec.json.encode(document)
            recorder.workloads[number].submitted = time()
            await send(session.post(order.collection, data=data))

    async with asyncio.TaskGroup() as tasks:
        watching = [
            tasks.create_task(follow(session, collection, versions[collection], see))
            for collection, see in watched.items()
        ]
        async with asyncio.TaskGroup() as submitting:
            for _ in range(CONCURRENCY):
                submitting.create_task(submit())
        await recorder.until_finished()
        for task in watching:
            task.cancel()
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return Record(
        workloads=recorder.workloads,
        pods=list(recorder.pods.values()),
        cpu_seconds=usage.ru_utime + usage.ru_stime,
    )


async def main(order: Order, kubeconfig: str) -> Record:
    async with connected(kubeconfig) as session:
        return await record(order, session)


if __name__ == "__main__":
    order = Order(**json.load(sys.stdin))
    print(json.dumps(asdict(asyncio.run(main(order, Path(order.kubeconfig).read_text())))))
