"""A WorkloadKind that cannot be used is refused with what was found, what was expected, and where."""

from copy import deepcopy
from typing import Any

import pytest

from queues.api.types.workload_kind import WorkloadKindDocument
from queues.api.validation.kind_rules import definition_violations
from queues.api.validation.validation import unknown_fields, violations_of
from queues.api.workload_kinds import SHIPPED_KINDS
from tests.builders.added_kinds import WIDGET, definition
from tests.builders.valid_documents import changed


def refused(*changes: Any) -> list[str]:
    """What is said of the document of widgets, changed so."""
    return [each.message for each in violations_of(changed(WIDGET, *changes)) if not each.tolerable]


def misses(*changes: Any, schema: Any = None) -> list[str]:
    """What is said of it when it is compared with the definition of its objects."""
    document = WorkloadKindDocument.parse(changed(WIDGET, *changes))
    return [each.message for each in definition_violations(document.spec, schema or definition())]


def test_a_kind_that_fits_its_definition_is_taken() -> None:
    assert refused() == []
    assert misses() == []


def test_the_kinds_that_muster_brings_keep_the_rules_but_for_being_its_own() -> None:
    for spec in SHIPPED_KINDS:
        document = {
            "apiVersion": "muster.dev/v1alpha1",
            "kind": "WorkloadKind",
            "metadata": {"name": str(spec.kind)},
            "spec": spec.document(),
        }
        wrong = [each for each in violations_of(document) if not each.tolerable]
        assert {each.path for each in wrong} - {"spec.resource.apiVersion"} == {"spec.resource.kind"}


def test_a_kind_that_does_not_say_how_its_objects_end_is_warned_of() -> None:
    [found] = violations_of(changed(WIDGET, ("spec", "ended", {})))
    assert found.tolerable
    assert found.message.endswith("without it, it holds its seats until it is deleted")


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ((("metadata", "name", "other"),), "metadata.name: found 'other', expected widget"),
        ((("spec", "resource", "apiVersion", "batch/v1"),), "spec.resource.apiVersion: found 'batch/v1'"),
        ((("spec", "resource", "apiVersion", "v1"),), "spec.resource.apiVersion: found 'v1'"),
        ((("spec", "resource", "plural", "Wid gets"),), "spec.resource.plural: found 'Wid gets'"),
        ((("spec", "templates", []),), "spec.templates: found nothing, expected pod templates, or"),
        (
            (("spec", "templates", [{"at": "spec.a", "each": "element"}] * 33),),
            "spec.templates: found 33 entries",
        ),
        (
            (("spec", "suspend", "spec..paused"),),
            "spec.suspend: found 'spec..paused', expected names of at most 16",
        ),
        ((("spec", "suspend", ".".join(["a"] * 17)),), "spec.suspend: found 'a.a."),
        (
            (("spec", "suspend", "status.paused"),),
            "spec.suspend: found status.paused, expected a field of the object's spec",
        ),
        (
            (("spec", "suspend", "spec.namespace"),),
            "spec.suspend: found namespace, expected fields that policies can name",
        ),
        ((("spec", "templates", 0, "name", "A B"),), "spec.templates[0].name: found 'A B'"),
        (
            (("spec", "templates", [{"at": "spec.lead", "template": "template"}]),),
            "spec.templates[0].name: found nothing",
        ),
        (
            (("spec", "ended", {"fields": [{"at": "spec.phase", "values": ["Done"]}]}),),
            "spec.ended.fields[0].at: found spec.phase",
        ),
    ],
)
def test_a_document_that_cannot_be_used_is_refused(change: Any, path: str) -> None:
    assert [message for message in refused(*change) if message.startswith(path)], refused(*change)


@pytest.mark.parametrize("kind", ["JobSet", "Pod", "RayCluster"])
def test_no_document_takes_the_name_of_a_kind_that_muster_brings(kind: str) -> None:
    [message] = refused(("spec", "resource", "kind", kind), ("metadata", "name", kind.lower()))
    assert message == f"spec.resource.kind: found '{kind}', expected a kind that Muster does not bring itself"


def test_fields_that_the_definition_lacks_are_named_with_those_that_it_has() -> None:
    [message] = misses(("spec", "suspend", "spec.paused"))
    assert message == (
        "spec.suspend: found spec.paused, expected a field of the definition, where spec has groups, lead, suspend"
    )


def test_what_is_below_a_field_that_is_not_there_is_not_named_again() -> None:
    assert len(misses(("spec", "templates", 1, "at", "spec.members"))) == 1


def test_a_path_through_a_list_is_none() -> None:
    [message, *_] = misses(("spec", "templates", 0, "at", "spec.groups.lead"))
    assert message.startswith(
        "spec.templates[0].at: found spec.groups.lead, expected a field of the definition"
    )


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (
            ("spec", "suspend", "spec.groups"),
            "spec.suspend: found spec.groups, array, expected a field that is boolean",
        ),
        (
            ("spec", "templates", 1, "each", "entry"),
            "spec.templates[1].at: found spec.groups, array, expected a field that is object",
        ),
        (
            ("spec", "templates", 1, "counts", [{"at": "name"}]),
            "spec.templates[1].counts[0].at: found spec.groups[].name, string, expected a field that is integer",
        ),
    ],
)
def test_a_field_of_another_form_is_refused(change: Any, found: str) -> None:
    assert found in misses(change)


def test_a_template_whose_labels_the_api_server_would_drop_is_refused() -> None:
    schema = deepcopy(definition())
    lead = schema["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"][
        "lead"
    ]
    lead["properties"]["template"] = {
        "type": "object",
        "properties": {
            "metadata": {"type": "object"},
            "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    found = misses(schema=schema)
    assert [each.partition(",")[0] for each in found] == [
        f"spec.templates[0].template: found spec.lead.template.metadata.{name}"
        for name in ("labels", "annotations")
    ]


def test_a_version_that_is_not_served_is_named_with_those_that_are() -> None:
    [message] = misses(("spec", "resource", "apiVersion", "example.com/v7"))
    assert message == (
        "spec.resource.apiVersion: found 'example.com/v7', expected a version that is served: v1"
    )


def test_objects_outside_of_namespaces_are_refused() -> None:
    schema = deepcopy(definition())
    schema["spec"]["scope"] = "Cluster"
    assert misses(schema=schema) == [
        "spec.resource: found objects outside of namespaces, expected objects that are in namespaces"
    ]


def test_a_misspelt_field_is_named() -> None:
    document = changed(WIDGET, ("spec", "suspended", "spec.suspend"), ("spec", "templates", 0, "cuonts", []))
    assert set(unknown_fields(document)) == {"spec.suspended", "spec.templates[0].cuonts"}
