"""The definitions in deploy/chart/crds are the models' own, and the API server's rules for schemas hold."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from queues.api.crd import crd_files, crds
from tests.tables import with_rows

FOLDER = Path(__file__).parents[4] / "deploy/chart/crds"


def test_the_definitions_of_the_chart_are_what_the_models_say():
    written = {path.name: path.read_text() for path in FOLDER.glob("*.yaml")}
    assert written == crd_files(), "run `python -m deploy.manifests`"


def test_the_files_hold_the_definitions():
    assert [yaml.safe_load(text) for text in crd_files().values()] == crds()


@with_rows("name", "scope", "short", "columns")
def test_kubectl_get_shows_what_volcanos_users_expect(name, scope, short, columns):
    spec = next(crd for crd in crds() if crd["metadata"]["name"] == name)["spec"]
    version = spec["versions"][0]
    assert scope == spec["scope"]
    assert short == spec["names"]["shortNames"]
    assert columns == [column["name"] for column in version["additionalPrinterColumns"]]
    assert version["subresources"] == {"status": {}}


def nodes_of(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield schema
    for child in schema.get("properties", {}).values():
        yield from nodes_of(child)
    for word in ("items", "additionalProperties"):
        if word in schema:
            yield from nodes_of(schema[word])


@pytest.mark.parametrize("crd", crds(), ids=lambda crd: crd["metadata"]["name"])
def test_schemas_are_structural(crd):
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for node in nodes_of(schema):
        assert "type" in node or node.get("x-kubernetes-int-or-string")
        assert not {"$ref", "anyOf", "allOf", "title", "const"} & node.keys()
        assert node.get("default") != {}
    assert schema["type"] == "object"


@pytest.mark.parametrize("crd", crds(), ids=lambda crd: crd["metadata"]["name"])
def test_no_default_is_stored_in_a_list(crd):
    """A list is one value: with a default in it, it conflicts with what other field managers apply."""
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    lists = [node["items"] for node in nodes_of(schema) if "items" in node]
    assert not [node for each in lists for node in nodes_of(each) if "default" in node]


@pytest.mark.parametrize("crd", crds(), ids=lambda crd: crd["metadata"]["name"])
def test_no_object_loses_all_of_its_fields(crd):
    """The API server drops what a schema does not name: an object without fields, values or leave to keep them."""
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    parts = {name: part for name, part in schema["properties"].items() if name != "metadata"}
    kept = {"properties", "additionalProperties", "x-kubernetes-preserve-unknown-fields"}
    objects = [node for part in parts.values() for node in nodes_of(part) if node.get("type") == "object"]
    assert objects
    assert [node for node in objects if not kept & node.keys()] == []


def test_pod_templates_are_kept_whole(golden: Any):
    schema = crds()[0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    template = schema["properties"]["spec"]["properties"]["tasks"]["items"]["properties"]["template"]
    assert template == golden


@pytest.mark.parametrize("definition", crds(), ids=lambda each: each["metadata"]["name"])
def test_every_field_says_what_it_means(definition):
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    known = ("apiVersion", "kind", "metadata")
    fields = {path: field for path, field in fields_of(schema) if path not in known}
    assert {path for path, field in fields.items() if not field.get("description")} == set()


def fields_of(schema, path=""):
    for name, field in schema.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        yield here, field
        yield from fields_of(field.get("items", field), here)


@pytest.mark.parametrize(("file_name", "text"), crd_files().items())
def test_a_definition_fits_the_annotation_of_a_client_side_apply(file_name, text):
    assert len(text) < 32 * 1024
