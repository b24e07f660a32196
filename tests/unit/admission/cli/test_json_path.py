"""JSONPath as kubectl's users write it."""

from typing import Any

import pytest

from admission.cli.rendering.json_path import InvalidPath, parse_path, parse_template

ANSWER: dict[str, Any] = {
    "total": 3,
    "items": [
        {"name": "a", "queue": "x", "pods": 1, "asks": {"nvidia.com/gpu": "8"}, "reason": None},
        {"name": "b", "queue": "y", "pods": 4, "asks": {}, "reason": {"code": "QueueLimit"}},
        {"name": "c", "queue": "x", "pods": 2, "asks": {"nvidia.com/gpu": "1"}, "last": True},
    ],
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".total", [3]),
        ("total", [3]),
        ("{.total}", [3]),
        ("$.total", [3]),
        (".items[*].name", ["a", "b", "c"]),
        (".items[-1].name", ["c"]),
        (".items[5].name", []),
        (".items[0:2].name", ["a", "b"]),
        (".items[1:].name", ["b", "c"]),
        (".items[::2].name", ["a", "c"]),
        (r".items[*].asks.nvidia\.com/gpu", ["8", "1"]),
        (".items[*].asks['nvidia.com/gpu']", ["8", "1"]),
        ("..code", ["QueueLimit"]),
        (".items[*].reason.code", ["QueueLimit"]),
        ('.items[?(@.queue=="x")].name', ["a", "c"]),
        (".items[?(@.queue != 'x')].name", ["b"]),
        (".items[?(@.pods>=2)].name", ["b", "c"]),
        (".items[?(@.pods < 2)].name", ["a"]),
        (".items[?(@.last==true)].name", ["c"]),
        (".items[?(@.last)].name", ["c"]),
        (".items[?(@.name>1)].name", []),
        (".total.name", []),
        (".items[0].asks.*", ["8"]),
    ],
)
def test_a_path_leads_to_what_kubectl_would_show(path: str, found: list[Any]) -> None:
    assert parse_path(path).find(ANSWER) == found


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{.items[*].name}", "a b c"),
        ('{range .items[*]}{.name}{"\\t"}{.pods}{"\\n"}{end}', "a\t1\nb\t4\nc\t2\n"),
        ("{.total} of {.items[0].asks}", '3 of {"nvidia.com/gpu":"8"}'),
        ("{.items[0].reason}", "null"),
        ("{.items[?(@.name=='}')].name}none", "none"),
        ("{range .items[*]}{range .asks.*}{@}{' '}{end}{end}", "8 1 "),
        (".total", "3"),
    ],
)
def test_a_template_has_text_around_paths(template: str, text: str) -> None:
    assert parse_template(template).render(ANSWER) == text


@pytest.mark.parametrize(
    ("template", "sentence"),
    [
        ("{.items[}", "found its end"),
        ("{.items", "{ and } in pairs"),
        ("}", "{ and } in pairs"),
        ("{range .items[*]}{.name}", "expected {end}"),
        ("{end}", "a {range …} before it"),
        (".items[?(@.a==b)]", "a quoted text, a number, true, false or null"),
        (".items[?(x)]", "expected @"),
        (".items[0", "expected ]"),
        (".a b", "found ' b'"),
        ("..", "a name after the dot"),
        ("{}", "a path such as .items[*].name"),
    ],
)
def test_a_path_that_cannot_be_read_says_where(template: str, sentence: str) -> None:
    with pytest.raises(InvalidPath) as error:
        parse_template(template)
    assert sentence in str(error.value)
