"""The OpenAPI document: it has every question with its parameters, and its examples are what is answered."""

import json
import re
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web

from admission.web.app import PREFIX
from admission.web.openapi.document import document
from admission.web.openapi.operations import BASE, OPERATIONS, Operation
from tests.fakes.fake_reader import FakeReader, fake_api, served
from tests.fakes.read_api.examples import FILE, QUESTIONS, examples, text

DOCUMENT = json.loads(document())


@pytest.fixture
async def server() -> AsyncIterator[str]:
    async with served(FakeReader()) as url:
        yield url


async def test_it_has_every_path_that_can_be_asked_and_no_other() -> None:
    routes = fake_api(FakeReader()).application().router.routes()
    paths = {route.resource.canonical for route in routes if route.resource is not None}
    assert {BASE + path for path in DOCUMENT["paths"]} == paths - {PREFIX, "/metrics"}
    assert len({each.name for each in OPERATIONS}) == len(OPERATIONS)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
async def test_it_has_the_parameters_that_are_understood(server: str, operation: Operation) -> None:
    path = re.sub(r"{\w+}", "x", BASE + operation.path)
    async with (
        aiohttp.ClientSession() as session,
        session.request(operation.method, f"{server}{path}?nonsense=1") as answer,
    ):
        assert answer.status == 400
        expected = (await answer.json())["expected"]
    if operation.body is None:
        assert [each.name for each in operation.query] == [name for name in expected.split(", ") if name]
    else:
        assert expected == "a body, and no parameters"


async def test_examples_are_what_is_answered(server: str) -> None:
    assert FILE.read_text(encoding="utf-8") == text(await examples()), (
        "run python -m tests.fakes.read_api.examples && python -m deploy.reference_pages"
    )


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_an_example_is_of_the_type_that_is_promised(operation: Operation) -> None:
    if operation.name not in QUESTIONS:
        return
    content = DOCUMENT["paths"][operation.path]["get"]["responses"]["200"]["content"]["application/json"]
    found = msgspec.convert(content["example"], operation.answer)
    # No field too many, and none left out.
    assert json.loads(msgspec.json.encode(found)) == content["example"]
    fits(content["example"], content["schema"])


def fits(value: Any, schema: dict[str, Any]) -> None:
    """A part of JSON Schema: what the document uses of it."""
    if "$ref" in schema:
        schema = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        assert any(holds(value, each) for each in schema["anyOf"]), (value, schema)
        return
    kinds: dict[str, Any] = {
        "object": dict,
        "array": list,
        "string": str,
        "boolean": bool,
        "integer": int,
        "number": (int, float),
        "null": type(None),
    }
    assert "type" not in schema or isinstance(value, kinds[schema["type"]]), (value, schema)
    if isinstance(value, dict) and "properties" in schema:
        assert value.keys() == schema["properties"].keys() == set(schema["required"])
        for name, each in value.items():
            fits(each, schema["properties"][name])
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        for each in value:
            fits(each, schema["items"])


def holds(value: Any, schema: dict[str, Any]) -> bool:
    try:
        fits(value, schema)
    except AssertionError:
        return False
    return True


def test_fields_have_the_comments_of_their_declarations() -> None:
    listed = DOCUMENT["components"]["schemas"]["ListedBody"]["properties"]
    assert listed["nodeCount"]["type"] == "integer"
    assert listed["user"]["description"] == 'The user that created it; "": unknown.'
    assert listed["result"]["description"].startswith("succeeded | failed | deleted")
    series = DOCUMENT["components"]["schemas"]["SeriesBody"]["properties"]
    assert series["waitMedian"]["description"].endswith("null: there are none.")


async def test_every_reference_in_it_leads_somewhere() -> None:
    for target in re.findall(r'"\$ref": "#/([^"]+)"', document().decode()):
        found = DOCUMENT
        for part in target.split("/"):
            found = found[part]


async def test_it_is_served_with_an_etag(server: str) -> None:
    url = f"{server}{BASE}/openapi"
    async with aiohttp.ClientSession() as session:
        async with session.get(url) as answer:
            assert (answer.status, await answer.read()) == (200, document())
            tag = answer.headers["ETag"]
        async with session.get(url, headers={"If-None-Match": f'"other", {tag}'}) as answer:
            assert (answer.status, await answer.read(), answer.headers["ETag"]) == (304, b"", tag)


async def test_an_answer_that_only_got_older_is_not_sent_again(server: str) -> None:
    reader = FakeReader()
    async with served(reader) as url, aiohttp.ClientSession() as session:
        queues = f"{url}{BASE}/queues"
        async with session.get(queues) as answer:
            tag = answer.headers["ETag"]
            assert answer.headers["Cache-Control"] == "private, no-cache"
        known = {"If-None-Match": tag}
        reader.as_of = "2026-11-21T09:00:00Z"
        async with session.get(queues, headers=known) as answer:
            assert answer.status == 304
        reader.behind = "Postgres was away"
        async with session.get(queues, headers=known) as answer:
            assert answer.status == 200
            assert answer.headers["ETag"] != tag


async def test_what_is_no_json_is_whole_whatever_the_client_has(server: str) -> None:
    async with aiohttp.ClientSession() as session:
        for _ in range(2):
            async with session.get(f"{server}{BASE}/snapshot", headers={"If-None-Match": "*"}) as answer:
                assert isinstance(answer, aiohttp.ClientResponse)
                assert answer.status == 200
                assert await answer.read()
    assert web.Response(status=304).body is None
