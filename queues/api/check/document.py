"""YAML files as documents, with the line of each document and of each field.

Text is read as kubectl reads it: split at ``---`` first, so that one broken document does not hide the others; no
timestamps, no base-60 numbers. No text raises: parts that cannot be read become problems of the document.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

import yaml

from queues.text_format import excerpt

#: Values that a document may expand to by aliases; a real document of 1 MiB has fewer than 200,000.
MOST_VALUES = 1_000_000
#: Levels of nesting. The API server's limit is 10,000; no real document needs 100.
MOST_DEPTH = 200

#: Where one document ends and the next begins.
_MARKER = re.compile(r"---(\s|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingProblem:
    """A part of a text that cannot be read, or that YAML reads differently than it looks."""

    #: 1-based.
    line: int
    path: str = ""
    found: str
    expected: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One document of a file."""

    #: 1-based position in the file.
    number: int
    #: 1-based line of the first value.
    line: int
    #: None if it could not be read, see ``problems``.
    value: Any
    #: 1-based, by field path.
    lines: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[ReadingProblem, ...] = ()

    def line_of(self, path: str) -> int:
        """The line of a field path; of an absent field, the line of the innermost part around it."""
        while path:
            if path in self.lines:
                return self.lines[path]
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return self.line


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Resolves plain scalars as YAML 1.1 in Kubernetes' dialect."""


_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, pattern)
        for tag, pattern in resolvers
        if tag.rpartition(":")[2] not in ("timestamp", "value", "int", "float")
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}

_TRUE, _FALSE = ("y", "yes", "true", "on"), ("n", "no", "false", "off")
_INT = r"[-+]?(?:0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|0|[1-9][0-9_]*)"
_FLOAT = (
    r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*|[0-9][0-9_]*(?=[eE]))(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?0[0-7_]*[89][0-9_]*|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)

_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("^[yYnN]$"), list("yYnN"))

_Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(f"^(?:{_FLOAT})$"), list("-+0123456789."))

_Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(f"^(?:{_INT})$"), list("-+0123456789"))


def documents_of(text: str) -> list[Document]:
    """The documents of a YAML text, empty ones left out."""
    documents: list[Document] = []
    for part, lines_before in _parts(text):
        documents += _documents_of_part(part, lines_before, len(documents))
    return documents


def _parts(text: str) -> Iterator[tuple[str, int]]:
    """The text between ``---`` lines, each with the number of lines before it."""
    lines = text.split("\n")
    start = 0
    for index, line in enumerate(lines):
        if index > start and _MARKER.match(line):
            yield "\n".join(lines[start:index]), start
            start = index
    yield "\n".join(lines[start:]), start


def _documents_of_part(text: str, lines_before: int, count: int) -> list[Document]:
    found: list[Document] = []
    loader = None

    def unreadable(line: int, problem: str, expected: str) -> Document:
        number, line = count + len(found) + 1, line + lines_before
        problems = (ReadingProblem(line=line, found=problem, expected=expected),)
        return Document(number=number, line=line, value=None, problems=problems)

    try:
        if deep := _too_deep(text):
            return [unreadable(deep, f"nesting deeper than {MOST_DEPTH}", "a Kubernetes object")]
        loader = _Loader(text)
        while loader.check_node():
            node = loader.get_node()
            if not _is_empty(node):
                found.append(_Reader(lines_before).document(node, count + len(found) + 1))
    except yaml.YAMLError as error:
        found.append(unreadable(*_syntax_error(error, text)))
    except _TooManyValues:
        found.append(unreadable(1, str(_TooManyValues.__doc__), "a document without such aliases"))
    except (ValueError, RecursionError) as error:
        found.append(unreadable(1, excerpt(str(error)), "YAML"))
    finally:
        if loader is not None:
            loader.dispose()
    return found


def _is_empty(node: Any) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.value in ("", "~", "null") and not node.style


def _too_deep(text: str) -> int:
    """The line where nesting exceeds MOST_DEPTH; 0: nowhere. Scanning is not recursive, as composing is."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MOST_DEPTH:
                return _line(event)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
    return 0


def _line(marked: Any) -> int:
    return int(marked.start_mark.line) + 1


def _syntax_error(error: yaml.YAMLError, text: str) -> tuple[int, str, str]:
    """Line, the found and the expected text."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    line = mark.line + 1 if mark is not None else 1
    lines = text.splitlines()
    source = lines[line - 1] if line <= len(lines) else ""
    if "\t" in source[: len(source) - len(source.lstrip())]:
        return line, "a tab in the indentation", "spaces"
    problem = (
        getattr(error, "problem", None) or getattr(error, "reason", None) or str(error).partition("\n")[0]
    )
    return line, str(problem), "YAML"


class _TooManyValues(ValueError):
    """aliases that expand to more than a million values"""


class _Reader:
    """Turns YAML nodes into values; collects lines, duplicate keys and values that JSON does not have."""

    def __init__(self, lines_before: int) -> None:
        self.lines_before = lines_before
        self.lines: dict[str, int] = {}
        self.problems: list[ReadingProblem] = []
        self.values = 0
        self.open: set[int] = set()
        scalars = yaml.SafeLoader("")
        self.readers: dict[str, Callable[[yaml.ScalarNode], Any]] = {
            "bool": lambda node: _boolean(node.value),
            "int": lambda node: _integer(node.value),
            "float": lambda node: _finite(scalars.construct_yaml_float(node)),
        }

    def document(self, node: Any, number: int) -> Document:
        value = self.value(node, "")
        return Document(
            number=number, line=self.line(node), value=value, lines=self.lines, problems=tuple(self.problems)
        )

    def line(self, node: Any) -> int:
        return _line(node) + self.lines_before

    def value(self, node: yaml.Node, at: str) -> Any:
        self.values += 1
        if self.values > MOST_VALUES:
            raise _TooManyValues
        self.lines.setdefault(at, self.line(node))
        if isinstance(node, yaml.ScalarNode):
            return self.scalar(node, at)
        if id(node) in self.open:
            self.problem(node, at, "an alias to something that contains it", "a value")
            return None
        self.open.add(id(node))
        try:
            if isinstance(node, yaml.SequenceNode):
                return [self.value(entry, f"{at}[{index}]") for index, entry in enumerate(node.value)]
            return self.mapping(node, at)
        finally:
            self.open.discard(id(node))

    def mapping(self, node: yaml.Node, at: str) -> dict[str, Any]:
        own: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                merged = {**self.merge(value_node, at), **merged}
                continue
            key = self.key(key_node, at)
            if key is None:
                continue
            if key in own:
                self.problem(
                    key_node, _below(at, key), "the key twice", "each key once; the last one would count"
                )
            own[key] = self.value(value_node, _below(at, key))
            self.lines[_below(at, key)] = self.line(key_node)
        return {**merged, **own}

    def merge(self, node: yaml.Node, at: str) -> dict[str, Any]:
        parts = node.value if isinstance(node, yaml.SequenceNode) else [node]
        merged: dict[str, Any] = {}
        for part in parts:
            value = self.value(part, at)
            if isinstance(value, dict):
                merged = {**value, **merged}
            else:
                self.problem(part, at, "<< with something else", "<< with a mapping")
        return merged

    def key(self, node: yaml.Node, at: str) -> str | None:
        if not isinstance(node, yaml.ScalarNode):
            self.problem(node, at, "a key that is a list or a mapping", "text")
            return None
        value = self.scalar(node, at)
        if isinstance(value, bool):
            # kubectl writes such keys so in JSON.
            return "true" if value else "false"
        return node.value if not isinstance(value, str) else value

    def scalar(self, node: yaml.ScalarNode, at: str) -> Any:
        kind = node.tag.removeprefix("tag:yaml.org,2002:")
        if kind in ("str", "binary"):
            return node.value
        if kind == "null":
            return None
        try:
            if kind in self.readers:
                return self.readers[kind](node)
        except (ValueError, KeyError):
            pass
        self.problem(node, at, f"{node.tag} {node.value[:40]!r}", "a plain value")
        return None

    def problem(self, node: yaml.Node, at: str, found: str, expected: str) -> None:
        self.problems.append(ReadingProblem(line=self.line(node), path=at, found=found, expected=expected))


def _below(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _boolean(text: str) -> bool:
    if (word := text.lower()) not in (*_TRUE, *_FALSE):
        raise ValueError("no truth value")
    return word in _TRUE


def _finite(number: float) -> float:
    if not isfinite(number):
        raise ValueError("JSON has no such number")
    return number


def _integer(text: str) -> int:
    digits = text.replace("_", "")
    sign = -1 if digits.startswith("-") else 1
    digits = digits.lstrip("+-")
    if len(digits) > 64:
        raise ValueError("a number with too many digits")
    if digits.startswith("0") and len(digits) > 1 and digits[1] in "01234567_":
        return sign * int(digits, 8)
    return sign * int(digits, 0)
