"""A replica leads only where the API server keeps what Queues say."""

import json
from collections.abc import Callable
from typing import Any, cast

import pytest

from admission.kube.client.client import Client
from admission.kube.queue_definition import QueueDefinition
from queues.api.crd import crds
from queues.errors import ApiUnavailable

Schema = dict[str, Any]
KEEPS = "x-kubernetes-preserve-unknown-fields"


def own() -> Schema:
    """The schema of Queues in Muster's definition."""
    (found,) = (each for each in crds() if each["spec"]["names"]["kind"] == "Queue")
    schema: Schema = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def of_volcano() -> Schema:
    """One that knows nothing of Muster's fields."""
    schema = own()
    spec = schema["properties"]["spec"]
    spec.pop(KEEPS, None)
    spec["properties"] = {"weight": {"type": "integer"}}
    return schema


def with_all_kept(schema: Schema) -> Schema:
    schema["properties"]["spec"][KEEPS] = True
    return schema


def without_keeping(schema: Schema) -> Schema:
    schema["properties"]["spec"].pop(KEEPS, None)
    return schema


class Server:
    """An API server that describes its kinds."""

    def __init__(self, schema: Schema | None) -> None:
        self.schema = schema
        self.asked = 0

    async def get(self, path: str) -> bytes:
        assert path == "/openapi/v3/apis/scheduling.volcano.sh/v1beta1"
        self.asked += 1
        if self.schema is None:
            raise ApiUnavailable(status=503, method="GET", path=path, reason="")
        kinds = [{"group": "scheduling.volcano.sh", "kind": "Queue", "version": "v1beta1"}]
        described = {"sh.volcano.Queue": self.schema | {"x-kubernetes-group-version-kind": kinds}}
        return json.dumps({"components": {"schemas": described if self.schema else {}}}).encode()


async def test_a_definition_that_drops_fields_is_refused_until_it_is_musters() -> None:
    server = Server(of_volcano())
    definition = QueueDefinition(cast(Client, server))
    for _ in range(2):
        why = await definition.why_refused()
        assert why is not None
        assert "spec." in why
        assert "`muster install --only-definitions --adopt-crds`" in why
    server.schema = own()
    assert await definition.why_refused() is None
    asked = server.asked
    assert await definition.why_refused() is None
    assert server.asked == asked, "asked for no more once it is right"


@pytest.mark.parametrize(
    "schema",
    [
        lambda: None,
        dict,
        own,
        lambda: without_keeping(own()),
        lambda: with_all_kept(of_volcano()),
        lambda: of_volcano() | {KEEPS: True},
    ],
)
async def test_nothing_is_refused_that_keeps_all_or_is_not_told(schema: Callable[[], Schema | None]) -> None:
    assert await QueueDefinition(cast(Client, Server(schema()))).why_refused() is None
