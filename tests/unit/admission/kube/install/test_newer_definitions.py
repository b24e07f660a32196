"""What the definitions of a newer version have that this one's have not."""

from copy import deepcopy
from typing import Any

import pytest

from admission.kube.install.crds import added_by_newer
from queues.api.crd import crds

QUEUE = next(each for each in crds() if each["spec"]["names"]["kind"] == "Queue")


def schema(definition: dict[str, Any]) -> Any:
    return definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


@pytest.mark.parametrize("definition", crds(), ids=lambda each: str(each["metadata"]["name"]))
def test_a_definition_has_nothing_beyond_itself(definition: dict[str, Any]) -> None:
    assert added_by_newer(definition, definition) == []


def test_a_field_that_was_added_is_told_by_its_path() -> None:
    newer = deepcopy(QUEUE)
    schema(newer)["properties"]["spec"]["properties"]["carbon"] = {"type": "string"}
    assert added_by_newer(newer, QUEUE) == ["spec.carbon"]
    assert added_by_newer(QUEUE, newer) == []


def test_a_field_of_the_entries_of_a_list_or_map_is_found() -> None:
    older = {"type": "object", "properties": {"of": {"items": {"properties": {"a": {}}}, "type": "array"}}}
    newer = deepcopy(older)
    newer["properties"]["of"]["items"]["properties"]["b"] = {}  # type: ignore[index]

    def definition(schema: dict[str, Any]) -> dict[str, Any]:
        return {"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}}

    assert added_by_newer(definition(newer), definition(older)) == ["of[].b"]
    by_name = {"additionalProperties": {"properties": {"a": {}, "c": {}}}}
    before = {"additionalProperties": {"properties": {"a": {}}}}
    assert added_by_newer(definition(by_name), definition(before)) == ["{}.c"]


def test_a_version_that_was_added_is_told() -> None:
    newer = deepcopy(QUEUE)
    newer["spec"]["versions"].append({"name": "v2", "served": True, "storage": False})
    assert added_by_newer(newer, QUEUE) == ["version v2"]
