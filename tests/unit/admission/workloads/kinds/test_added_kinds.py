"""Kinds that administrators have added: their objects are read as those of other kinds, whatever they say."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from admission.facts.workloads import WorkloadFact
from admission.kube.watch.informers import Informers
from admission.kube.workload_kinds import digest_of, spec_of
from admission.wire import WireMetadata, WireOwnerReference
from admission.workloads.kinds import (
    OPERATOR_KINDS,
    Holding,
    Kinds,
    controller_of,
    known_kinds,
    support_of,
    use_kinds,
)
from queues.api.types.workload_kind import WorkloadKindDocument, WorkloadKindSpec
from queues.kind_names import KindName
from queues.reason_codes import ReasonCode
from queues.workload import WorkloadKey
from tests.builders.added_kinds import WIDGET, widget
from tests.builders.valid_documents import changed

NAME = KindName("widget")
KEY = WorkloadKey(NAME, "u")


def added(*changes: Any) -> Kinds:
    return Kinds(added=(WorkloadKindDocument.parse(changed(WIDGET, *changes)).spec,))


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = known_kinds()
    use_kinds(added())
    yield
    use_kinds(before)


def fact(document: dict[str, Any], **status: Any) -> WorkloadFact:
    """The workload that an object is."""
    reader = support_of(KEY).reader
    assert reader is not None
    metadata = {**document["metadata"], "namespace": "team", "uid": "u", "generation": 1}
    raw = msgspec.json.encode({**document, "metadata": metadata, "status": status})
    found = reader.fact(msgspec.json.decode(raw, type=reader.wire), msgspec.Raw(raw))
    assert isinstance(found, WorkloadFact)
    return found


def controller(kind: str = "Widget") -> Any:
    """Whose a pod is whose template says that it is a member of the widget."""
    reference = WireOwnerReference(kind=kind, api_version="example.com/v1", uid="u", controller=True)
    metadata = WireMetadata(
        labels={"muster.dev/released": "false"},
        annotations={"muster.dev/member-of": "widget/train/u/worker"},
        owner_references=(reference,),
    )
    found = controller_of(metadata)
    return found and found.key


def test_its_objects_are_workloads_with_a_pod_set_of_each_template() -> None:
    found = fact(widget("train", "team-a"))
    assert {pods.name: pods.count for pods in found.pod_sets} == {"lead": 1, "worker": 2}
    assert (found.queue, found.minimum, found.finished, found.obstacle) == ("team-a", 3, False, None)
    assert fact(widget("train", "team-a"), phase="Failed").failed
    assert support_of(KEY).holding is Holding.SUSPENDED_AND_GATED
    assert controller() == KEY


def test_its_objects_are_watched_next_to_those_of_all_other_kinds() -> None:
    watched = {each.kind.resource.plural for each in Informers(None).by_name.values()}  # type: ignore[arg-type]
    assert watched >= {"widgets", *(each.resource.plural for each in OPERATOR_KINDS)}
    use_kinds(Kinds())
    assert "widgets" not in Informers(None).by_name  # type: ignore[arg-type]


def test_pods_of_a_kind_that_was_taken_out_of_use_keep_their_seats() -> None:
    use_kinds(Kinds())
    assert controller() == KEY
    assert support_of(KEY).holding is Holding.SUSPENDED_AND_GATED
    assert support_of(KEY).reader is None


def test_nothing_more_of_a_kind_that_is_leaving_is_admitted() -> None:
    before = fact(widget("train", "team-a"))
    use_kinds(Kinds(added=known_kinds().added, leaving=frozenset([NAME])))
    after = fact(widget("train", "team-a"))
    assert after.obstacle is not None
    assert after.obstacle.code == ReasonCode.KIND_LEAVING
    assert (after.pod_sets, after.generation) == (before.pod_sets, before.generation)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("spec", "groups", 0, "replicas", 10_001), "replicas: found 10001, expected 0 to 10000"),
        (("spec", "groups", 0, "replicas", -1), "replicas: found -1, expected 0 to 10000"),
        (("spec", "groups", 0, "replicas", "two"), "spec.groups.0.replicas: "),
        (
            ("spec", "groups", 0, "template", None),
            "spec.groups.0.template: found none, expected a pod template",
        ),
        (
            ("spec", "groups", [{"name": f"g{each}"} for each in range(3000)]),
            "found none, expected a pod template",
        ),
        (
            (
                "spec",
                "groups",
                [{"name": f"g{each}", "template": {"spec": {"containers": []}}} for each in range(3000)],
            ),
            "spec.groups.",
        ),
        (("spec", "groups", {"name": "worker"}), "spec.groups: "),
        (("spec", "suspend", "yes"), "spec.suspend: "),
        (("spec", "lead", 7), "spec.lead: "),
    ],
)
def test_an_object_that_cannot_be_read_waits_and_says_why(change: Any, sentence: str) -> None:
    found = fact(changed(widget("train", "team-a"), change))
    assert found.obstacle is not None
    assert sentence in found.obstacle.message
    assert len(found.obstacle.message) <= 1000


def test_a_template_path_that_yields_nothing_is_said_by_the_object() -> None:
    use_kinds(
        added(("spec", "templates", [{"at": "spec.members", "each": "element", "template": "template"}]))
    )
    found = fact(widget("train", "team-a"))
    assert found.obstacle is not None
    assert found.obstacle.message == "spec.members: found no pod template, expected at least one"


def test_versions_that_know_more_and_less_of_a_document_read_it() -> None:
    newer = changed(
        WIDGET, ("spec", "inventedLater", {"at": "spec.b"}), ("status", {"conditions": [{"new": 1}]})
    )
    older = WorkloadKindDocument.parse(WIDGET).spec
    read = spec_of(newer)
    assert isinstance(read, WorkloadKindSpec)
    assert (read.templates, read.suspend) == (older.templates, older.suspend)


def test_what_the_api_server_adds_to_a_document_makes_no_other_kind_of_it() -> None:
    plain = changed(WIDGET)
    del plain["spec"]["suspend"]
    specs = [WorkloadKindDocument.parse(each).spec for each in (plain, WIDGET)]
    assert specs[0] == specs[1]
    assert digest_of(specs[0]) == digest_of(specs[1])
    assert digest_of(specs[0]) != digest_of(added(("spec", "ended", {})).added[0])
