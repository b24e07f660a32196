"""What Muster wrote into objects that wait goes when they are freed: nobody takes them for its own later."""

from copy import deepcopy
from typing import Any

import pytest

from admission.kube.install.drain import without_directions, without_members
from queues.api.types.workload_kind import Path
from queues.kind_names import KindName
from tests.builders.operator_jobs import SPECS, Document, fact
from tests.fakes.fake_objects import json_patched, merged


def put(document: Any, path: Path, value: Any) -> None:
    """Merge a value into what is at a place; what is missing on the way is made."""
    at = document
    for field in path[:-1]:
        at = at[int(field)] if isinstance(at, list) else at.setdefault(field, {})
    at[path[-1]] = merged(at.get(path[-1], {}), value)


def marked(kind: KindName, uid: str = "u") -> Document:
    """An object as it is after it was resumed."""
    spec = deepcopy(SPECS[kind][0])
    document = {"metadata": {"name": "train", "uid": "u"}, "spec": spec}
    revision = fact(kind).revision
    assert revision is not None
    infos: dict[Path, list[Document]] = {}
    for number, path in enumerate(revision.templates):
        written = {
            "labels": {"muster.dev/queue-name": "team", "own": "yes"},
            "annotations": {"muster.dev/member-of": f"{kind}/train/{uid}/{number}", "own": "yes"},
        }
        if path[-1].isdecimal():
            infos.setdefault(path[:-1], []).append(written)
        else:
            put(document, path, written)
    for path, found in infos.items():
        put(document, path, found)
    return document


def resumed_by_muster(kind: KindName, document: Document) -> bool:
    revision = fact(kind, document["spec"]).revision
    assert revision is not None
    return revision.resumed


@pytest.mark.parametrize("kind", SPECS)
def test_templates_of_a_freed_object_do_not_say_that_muster_resumed_it(kind: KindName) -> None:
    document = marked(kind)
    assert resumed_by_muster(kind, document)

    freed = json_patched(document, list(without_members(document)))

    assert not resumed_by_muster(kind, freed)
    assert "muster.dev" not in str(freed)
    assert str(freed).count("'own': 'yes'") == str(document).count("'own': 'yes'")


@pytest.mark.parametrize("kind", SPECS)
def test_what_is_said_of_another_object_stays(kind: KindName) -> None:
    assert list(without_members(marked(kind, uid="another"))) == []


PIN = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
ASKED = {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def job_template(*terms: Document, **annotations: str) -> Document:
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}
    metadata = {"labels": {"muster.dev/released": "true", "app": "a"}, "annotations": annotations}
    return {"metadata": metadata, "spec": {"affinity": affinity if terms else None}}


def freed(template: Document) -> Document:
    return json_patched({"at": template}, list(without_directions(template, "/at")))["at"]


def test_a_freed_job_is_tied_to_no_node_and_its_pods_are_of_no_admission() -> None:
    found = freed(job_template(PIN, **{"muster.dev/admission-id": "7", "own": "yes"}))
    assert found["metadata"] == {"labels": {"app": "a"}, "annotations": {"own": "yes"}}
    assert found["spec"]["affinity"] == {}


def test_a_freed_job_keeps_what_it_asked_of_nodes_itself() -> None:
    found = freed(job_template({**ASKED, **PIN}, **{"muster.dev/admission-id": "7"}))
    assert found["spec"]["affinity"] == {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [ASKED]}}}


def test_a_job_that_was_not_directed_stays_as_it_is() -> None:
    assert list(without_directions(job_template(PIN), "/at")) == []
