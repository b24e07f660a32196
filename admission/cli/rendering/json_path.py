"""JSONPath as kubectl knows it: paths into an answer, and templates of text around them.

Paths: ``.items[0].name``, ``.items[*].asks.nvidia\\.com/gpu``, ``['a.b']``, ``..name``, ``[1:3]``, ``[-1]`` and
``[?(@.queue=="team")]`` with ``==``, ``!=``, ``<``, ``<=``, ``>``, ``>=``, or only a path that must exist. Templates:
``{.items[*].name}`` and ``{range .items[*]}{.name}{"\\n"}{end}``. What does not exist gives nothing.
"""

import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from queues.errors import MusterError

_NAME: Final = re.compile(r"(?:\\.|[^\s.\[\]{}()=!<>'\"\\,])+")
_INDEX: Final = re.compile(r"-?\d+")
_SLICE: Final = re.compile(r"(-?\d*):(-?\d*)(?::(\d+))?")
_LITERAL: Final = re.compile(
    r"""\s*("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|-?\d+(?:\.\d+)?|true|false|null)\s*"""
)
_OPERATOR: Final = re.compile(r"\s*(==|!=|<=|>=|<|>)")
_COMPARED: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
#: Deepest value that ``..`` looks into; answers are far flatter.
_DEEPEST: Final = 100

#: From a value to those that a step finds in it.
_Step = Callable[[Any], Iterator[Any]]


class InvalidPath(MusterError):
    """JSONPath {path!r}: found {found}, expected {expected}."""


@dataclass(frozen=True, slots=True)
class Path:
    """A parsed path."""

    steps: tuple[_Step, ...]

    def find(self, value: Any) -> list[Any]:
        """All that the path leads to, in the order of the document."""
        found = [value]
        for step in self.steps:
            found = [each for one in found for each in step(one)]
        return found


def parse_path(text: str) -> Path:
    """A path, with or without braces, ``$`` and the first dot. Raises InvalidPath."""
    inner = text.strip()
    if inner.startswith("{") and inner.endswith("}"):
        inner = inner[1:-1].strip()
    if inner and inner[0] not in ".[$@":
        inner = f".{inner}"
    parser = _Parser(text, inner)
    path = parser.path()
    if parser.rest:
        raise parser.error("the end, `.name` or `[…]`")
    if not path.steps and inner not in ("$", "@", "."):
        raise parser.error("a path such as .items[*].name")
    return path


def shown(value: Any) -> str:
    """A value as kubectl prints it: text bare, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)


class _Parser:
    """Reads a path from left to right."""

    def __init__(self, whole: str, text: str) -> None:
        self._whole = whole
        self.rest = text

    def error(self, expected: str) -> InvalidPath:
        found = repr(self.rest[:20]) if self.rest else "its end"
        return InvalidPath(path=self._whole, found=found, expected=expected)

    def path(self) -> Path:
        if self.rest[:1] in ("$", "@"):
            self.rest = self.rest[1:]
        if self.rest == ".":
            self.rest = ""
        steps: list[_Step] = []
        while self.rest[:1] in (".", "["):
            steps += self._dotted() if self.rest[0] == "." else [self._bracketed()]
        return Path(tuple(steps))

    def _dotted(self) -> list[_Step]:
        recursive = self.rest.startswith("..")
        self.rest = self.rest[2 if recursive else 1 :]
        before: list[_Step] = [_below] if recursive else []
        if self.rest.startswith("["):
            return [*before, self._bracketed()]
        if self.rest.startswith("*"):
            self.rest = self.rest[1:]
            return [*before, _children]
        name = _NAME.match(self.rest)
        if name is None:
            raise self.error("a name after the dot")
        self.rest = self.rest[name.end() :]
        return [*before, _member(re.sub(r"\\(.)", r"\1", name[0]))]

    def _bracketed(self) -> _Step:
        self.rest = self.rest[1:].lstrip()
        step = self._between_brackets()
        self.rest = self.rest.lstrip()
        if not self.rest.startswith("]"):
            raise self.error("]")
        self.rest = self.rest[1:]
        return step

    def _between_brackets(self) -> _Step:
        if self.rest.startswith("?("):
            self.rest = self.rest[2:]
            return self._filter()
        if self.rest.startswith("*"):
            self.rest = self.rest[1:]
            return _children
        if part := _SLICE.match(self.rest):
            self.rest = self.rest[part.end() :]
            first, last, each = (int(number) if number else None for number in part.groups())
            return _slice(slice(first, last, each or None))
        if index := _INDEX.match(self.rest):
            self.rest = self.rest[index.end() :]
            return _element(int(index[0]))
        if self.rest[:1] in ("'", '"') and (quoted := _LITERAL.match(self.rest)):
            self.rest = self.rest[quoted.end() :]
            return _member(_unquoted(quoted[1]))
        raise self.error("*, a number, a quoted name or ?(…)")

    def _filter(self) -> _Step:
        if not self.rest.lstrip().startswith("@"):
            raise self.error("@")
        self.rest = self.rest.lstrip()
        path = self.path()
        sign = _OPERATOR.match(self.rest)
        compared: tuple[Callable[[Any, Any], bool], Any] | None = None
        if sign is not None:
            self.rest = self.rest[sign.end() :]
            literal = _LITERAL.match(self.rest)
            if literal is None:
                raise self.error("a quoted text, a number, true, false or null")
            self.rest = self.rest[literal.end() :]
            compared = _COMPARED[sign[1]], _literal(literal[1])
        self.rest = self.rest.lstrip()
        if not self.rest.startswith(")"):
            raise self.error("a comparison or )")
        self.rest = self.rest[1:]
        return _filtered(path, compared)


def _member(name: str) -> _Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, Mapping) and name in value:
            yield value[name]

    return step


def _element(index: int) -> _Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list) and -len(value) <= index < len(value):
            yield value[index]

    return step


def _slice(part: slice) -> _Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            yield from value[part]

    return step


def _filtered(path: Path, compared: tuple[Callable[[Any, Any], bool], Any] | None) -> _Step:
    def holds(value: Any) -> bool:
        found = path.find(value)
        if compared is None:
            return bool(found)
        compare, wanted = compared
        try:
            return any(compare(each, wanted) for each in found)
        except TypeError:
            return False  # of different kinds

    def step(value: Any) -> Iterator[Any]:
        yield from (each for each in _children(value) if holds(each))

    return step


def _children(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _below(value: Any, depth: int = 0) -> Iterator[Any]:
    yield value
    if depth < _DEEPEST:
        for child in _children(value):
            yield from _below(child, depth + 1)


def _literal(text: str) -> Any:
    return _unquoted(text) if text[0] in "'\"" else json.loads(text)


def _unquoted(text: str) -> str:
    """The text between quotes, with its escapes resolved."""
    escapes = {"n": "\n", "t": "\t", "r": "\r"}
    return re.sub(r"\\(.)", lambda found: escapes.get(found[1], found[1]), text[1:-1])


# -- templates -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Template:
    """Text with paths in braces."""

    parts: tuple["str | Path | _Range", ...]

    def render(self, value: Any) -> str:
        """The text for an answer; several values of one path are separated by blanks."""
        return "".join(_rendered(part, value) for part in self.parts)


@dataclass(frozen=True, slots=True)
class _Range:
    over: Path
    body: Template


def _rendered(part: "str | Path | _Range", value: Any) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, Path):
        return " ".join(shown(each) for each in part.find(value))
    return "".join(part.body.render(each) for each in part.over.find(value))


_BRACED: Final = re.compile(r"""\{((?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^{}"'])*)\}""")


def parse_template(text: str) -> Template:
    """A template. One without braces is one path. Raises InvalidPath."""
    if not set("{}") & set(text):
        return Template((parse_path(text),))
    open_: list[tuple[Path | None, list[str | Path | _Range]]] = [(None, [])]
    at = 0
    while at < len(text):
        braced = _BRACED.match(text, at)
        if braced is None:
            if text[at] in "{}":
                raise InvalidPath(path=text, found=repr(text[at : at + 20]), expected="{ and } in pairs")
            end = min(
                (each for each in (text.find("{", at), text.find("}", at)) if each >= 0), default=len(text)
            )
            open_[-1][1].append(text[at:end])
            at = end
            continue
        at = braced.end()
        _take(text, braced[1].strip(), open_)
    if len(open_) > 1:
        raise InvalidPath(path=text, found="its end", expected="{end} of the {range …}")
    return Template(tuple(open_[0][1]))


def _take(whole: str, inner: str, open_: list[tuple[Path | None, list[str | Path | _Range]]]) -> None:
    """Add what stands in one pair of braces to the innermost open range."""
    if inner.startswith("range ") or inner == "range":
        open_.append((parse_path(inner[5:]), []))
    elif inner == "end":
        over, parts = open_.pop()
        if over is None:
            raise InvalidPath(path=whole, found="{end}", expected="a {range …} before it")
        open_[-1][1].append(_Range(over, Template(tuple(parts))))
    elif (quoted := _LITERAL.fullmatch(inner)) and inner[0] in "'\"":
        open_[-1][1].append(_unquoted(quoted[1]))
    else:
        open_[-1][1].append(parse_path(inner))
