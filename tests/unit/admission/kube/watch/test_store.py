"""What is known of the objects of one kind."""

import logging
from typing import Any, cast

import msgspec
import pytest

from admission.decode import pods
from admission.decode.admin_documents import topology_fact
from admission.facts.cluster import TopologyFact
from admission.facts.pods import PodFact, PodPhase
from admission.kube.client.client import Client
from admission.kube.watch.informer import Informer
from admission.kube.watch.informers import Informers
from admission.kube.watch.store import ObjectChange, ObjectStore, WatchedKind, without_depths
from admission.wire import Bare
from queues.api.api_resources import TOPOLOGIES
from queues.reason_codes import ReasonCode
from queues.resources import Resources


def document(*levels: str) -> msgspec.Raw:
    return msgspec.Raw(
        msgspec.json.encode(
            {
                "metadata": {"name": "racks", "uid": "u", "resourceVersion": "1"},
                "spec": {"levels": [{"nodeLabel": level} for level in levels]},
            }
        )
    )


def test_a_document_that_cannot_be_used_any_more_is_gone_and_its_fault_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    kind: WatchedKind[Bare, TopologyFact] = WatchedKind(
        name="topologies",
        resource=TOPOLOGIES,
        struct=Bare,
        translate=lambda bare, raw: topology_fact(bytes(raw)),
    )
    known, shifts = ObjectStore(kind), list[ObjectChange[Any]]()
    known.put(document("rack"), shifts)
    with caplog.at_level(logging.WARNING):
        known.put(document(), shifts)

    assert [shift.after is None for shift in shifts] == [False, True]
    (told,) = caplog.records
    assert "spec.levels" in vars(told)["why"]
    assert told.exc_info is None


class Watched:
    """The pods as their informer knows them, told one document after the other."""

    def __init__(self) -> None:
        informers = Informers(cast(Client, None))
        self.informer = informers.by_name["pods"]
        self.changes: list[Any] = []

    def see(self, **fields: Any) -> PodFact | None:
        metadata = {"name": "p", "namespace": "ns", "uid": "u", **fields.pop("metadata", {})}
        spec = {"nodeName": "n1", "containers": [EIGHT_GPUS], **fields.pop("spec", {})}
        document = {"metadata": metadata, "spec": spec, "status": {"phase": "Running"}, **fields}
        self.informer._follow(msgspec.json.encode({"type": "MODIFIED", "object": document}), self.changes)
        kept = self.informer.collection.kept.get(("ns", "p"))
        return None if kept is None else cast(PodFact, kept.value)


EIGHT_GPUS = {"name": "c", "resources": {"requests": {"nvidia.com/gpu": "8"}}}
TAKES = Resources({"nvidia.com/gpu": 8000, "pods": 1})


@pytest.mark.parametrize(
    "said",
    [
        {"metadata": {"annotations": {"muster.dev/run-time": "9" * 400 + "h"}}},
        {"metadata": {"annotations": {"muster.dev/min-run-time": "9" * 63 + "h"}}},
        {"metadata": {"annotations": {"volcano.sh/queue-name": "x" * 6000}}},
        {"metadata": {"annotations": {"volcano.sh/task-index": "3000000000"}}},
        {"spec": {"priority": "high"}},
        {"spec": {"tolerations": [{"key": f"k{index}"} for index in range(100_000)]}},
        {"spec": {"tolerations": "all"}},
    ],
)
def test_no_pod_hides_from_its_node(said: dict[str, Any]) -> None:
    fact = Watched().see(**said)
    assert fact is not None
    assert (fact.node, fact.shape.takes, fact.phase) == ("n1", TAKES, PodPhase.RUNNING)


def test_a_pod_that_muster_cannot_handle_is_counted_and_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise OverflowError("a bug")

    monkeypatch.setattr(pods, "conduct_of", broken)
    watched = Watched()
    signs = {"muster.dev/admission-id": "7", "muster.dev/seat": "w/0"}
    fact = watched.see(metadata={"labels": {"muster.dev/released": "true"}, "annotations": signs})
    assert fact is not None
    assert (fact.node, fact.shape.takes, fact.phase) == ("n1", TAKES, PodPhase.RUNNING)
    assert (fact.admission, fact.seat) == (7, ("w", 0))
    assert fact.obstacle is not None
    assert fact.obstacle.code is ReasonCode.DEFECT

    watched.see(metadata={"resourceVersion": "2"})
    ended = watched.see(status={"phase": "Succeeded"})
    assert ended is not None
    assert ended.phase is PodPhase.SUCCEEDED
    assert len(caplog.records) == 1
    assert watched.informer.collection.unreadable == 1
    monkeypatch.undo()
    well = watched.see()
    assert well is not None
    assert well.obstacle is None
    assert watched.informer.collection.unreadable == 0


def test_what_is_nested_too_deeply_is_left_out_and_the_rest_is_read() -> None:
    deep = b'{"a":' * 5000 + b'"}"' + b"}" * 5000
    found = without_depths(b'{"metadata":{"name":"x{["},"spec":' + deep + b',"status":{"b":[]}}')
    document = msgspec.json.decode(found)
    assert document["metadata"] == {"name": "x{["}
    assert document["status"] == {"b": []}


class OnePage:
    """An API server with one list."""

    def __init__(self, *items: bytes) -> None:
        self.content = b'{"metadata":{"resourceVersion":"5"},"items":[' + b",".join(items) + b"]}"

    async def get(self, path: str, **query: Any) -> bytes:
        return self.content


def volcano_job(name: str, depth: int = 1) -> bytes:
    template = b'{"a":' * depth + b"1" + b"}" * depth
    head = f'{{"metadata":{{"name":"{name}","namespace":"ns","uid":"{name}"}},"spec":{{"tasks":[{{"template":'
    return head.encode() + template + b"}]}}"


async def test_an_object_that_is_nested_too_deeply_does_not_keep_others_from_being_read() -> None:
    """The decoder follows nesting by recursion, of the page as a whole too; the API server stores 10,000 levels."""
    server = OnePage(volcano_job("good"), volcano_job("deep", 5000), volcano_job("better"))
    kind = Informers(cast(Client, None)).by_name["volcano-jobs"].kind
    informer = Informer(cast(Client, server), kind, lambda changes: None)
    await informer._list()
    known = {kept.name: kept.value.obstacle for kept in informer.collection.kept.values()}
    assert sorted(known) == ["better", "deep", "good"]
    assert "nesting" in known["deep"].message
    assert "nesting" not in known["good"].message

    for verb, left in (("MODIFIED", 3), ("DELETED", 2)):
        informer._follow(b'{"type":"%b","object":%b}' % (verb.encode(), volcano_job("deep", 9000)), [])
        assert len(informer.collection.kept) == left
