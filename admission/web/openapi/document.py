"""The OpenAPI document of the read API, made from the types of its answers and the table of its questions."""

import inspect
import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any, Final

import msgspec

from admission.web import bodies
from admission.web.openapi.operations import BASE, OF_PATHS, OPERATIONS, Operation, Parameter

#: Meaning of each status besides 200.
_ERRORS: Final = {
    400: "A wrong parameter.",
    401: "It is not known who asks.",
    403: "Nothing there is for this user.",
    404: "No such queue, workload or path; `hint` has similar names.",
    409: "The replica does not lead and does not reach the one that does.",
    429: "Too many questions; ask again after `Retry-After`.",
    500: "A fault of Muster; the cause is in its log.",
    503: "Postgres or the API server cannot be asked, or there was no answer in time.",
}
_USUAL_ERRORS: Final = (400, 401, 403, 404, 429, 500, 503)
_ABOUT: Final = (
    "Reads only: changes go through Kubernetes objects. Served by the API server, which passes requests on to Muster"
    " with the name of the user; replicas take bearer tokens of the cluster as well. What a user sees follows from the"
    " user's rights in Kubernetes. Every answer has an ETag that does not change with `now` and `asOf`; with"
    " If-None-Match an answer that is known already is 304. Fields are only ever added."
)
#: Package of all types of answers.
_BODIES: Final = "admission.web"
_COMMENT: Final = re.compile(r"^\s+#: ?(.*)$")
_FIELD: Final = re.compile(r"^\s+(\w+): ")


@lru_cache(maxsize=1)
def document() -> bytes:
    """The document as JSON, indented, with a newline at its end."""
    types = {
        (each.name, part): kind
        for each in OPERATIONS
        for part, kind in (("answer", each.answer), ("body", each.body))
        if kind is not None
    }
    schemas, components = msgspec.json.schema_components(
        (*types.values(), bodies.ProblemBody), ref_template="#/components/schemas/{name}"
    )
    by_type = dict(zip(types, schemas, strict=False))
    _describe(components)
    examples = _examples()
    text = {
        "openapi": "3.1.0",
        "info": {
            "title": "Muster read API",
            "version": "v1",
            "description": _ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": BASE, "description": "At the API server, and at each replica of Muster."}],
        "security": [{"bearer": []}],
        "paths": {each.path: {each.method: _operation(each, by_type, examples)} for each in OPERATIONS},
        "components": {
            "schemas": dict(sorted(components.items())),
            "responses": {str(status): _error(about) for status, about in _ERRORS.items()},
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }
    return (json.dumps(text, indent=1, ensure_ascii=False) + "\n").encode()


def _operation(
    operation: Operation, schemas: Mapping[tuple[str, str], Any], examples: Mapping[str, Any]
) -> dict[str, Any]:
    content: dict[str, Any] = {"schema": schemas.get((operation.name, "answer"), {"type": "string"})}
    asked = schemas.get((operation.name, "body"))
    if operation.name in examples:
        content["example"] = examples[operation.name]
    of_path = [
        Parameter(name=name, about=OF_PATHS[name], schema={"type": "string"}, is_required=True)
        for name in re.findall(r"{(\w+)}", operation.path)
    ]
    answer = {
        "description": "The answer.",
        "headers": {"ETag": {"schema": {"type": "string"}}},
        "content": {operation.media: content},
    }
    if operation.answer is None:
        del answer["headers"]
    unchanged = {"304": {"description": "What the client has, by `If-None-Match`, has not changed."}}
    errors = sorted({*_USUAL_ERRORS, *operation.errors})
    return {
        "operationId": operation.name,
        "summary": operation.summary,
        **({"description": operation.about} if operation.about else {}),
        "parameters": [
            *(_parameter(each, "path") for each in of_path),
            *(_parameter(each, "query") for each in operation.query),
        ],
        **(
            {"requestBody": {"required": True, "content": {"application/json": {"schema": asked}}}}
            if asked
            else {}
        ),
        "responses": {
            "200": answer,
            **(unchanged if operation.answer is not None else {}),
            **{str(status): {"$ref": f"#/components/responses/{status}"} for status in errors},
        },
    }


def _parameter(parameter: Parameter, place: str) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": place,
        "required": parameter.is_required,
        "description": parameter.about,
        "schema": dict(parameter.schema),
    }


def _error(about: str) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/ProblemBody"}
    return {"description": about, "content": {"application/json": {"schema": schema}}}


def _describe(components: Mapping[str, Any]) -> None:
    """Give each field the comment that stands above it where it is declared."""
    declared = {
        each.__name__: each for each in _structs(msgspec.Struct) if each.__module__.startswith(_BODIES)
    }
    for name, schema in components.items():
        body = declared[name]
        names = dict(zip(body.__struct_fields__, body.__struct_encode_fields__, strict=True))
        for ancestor in reversed(body.__mro__):
            if ancestor is msgspec.Struct or not issubclass(ancestor, msgspec.Struct):
                continue
            for field, about in _comments(ancestor):
                encoded = names[field]
                schema["properties"][encoded] = {**schema["properties"][encoded], "description": about}
        # Answers have all fields that the version which wrote the document knows.
        schema["required"] = list(schema["properties"])


def _structs(of: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    """All classes below one."""
    for each in of.__subclasses__():
        yield each
        yield from _structs(each)


@lru_cache(maxsize=256)
def _comments(body: type) -> tuple[tuple[str, str], ...]:
    """Fields that a class declares, each with the comment above it, if there is one."""
    found: list[tuple[str, str]] = []
    above: list[str] = []
    for line in inspect.getsource(body).splitlines():
        if comment := _COMMENT.match(line):
            above.append(comment[1].strip())
        elif field := _FIELD.match(line):
            if above:
                found.append((field[1], " ".join(above)))
            above = []
    return tuple(found)


def _examples() -> dict[str, Any]:
    """An answer for each operation, by its name: what a small cluster answers."""
    text = files(__package__).joinpath("examples.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found
