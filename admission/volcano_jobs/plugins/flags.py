"""Flags of Job plugins, written as a Go command line takes them."""

from collections import deque
from collections.abc import Iterable, Mapping

from queues.errors import InvalidDocument

_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE = frozenset({"0", "f", "F", "false", "FALSE", "False"})


def parse(arguments: Iterable[str], *, boolean_flags: frozenset[str]) -> Mapping[str, str]:
    """Flag → value: ``--a=b``, ``-a=b``, ``--a b``; a boolean flag alone is ``true``. Other words are ignored."""
    found: dict[str, str] = {}
    words = deque(arguments)
    while words:
        word = words.popleft().strip()
        if not word.startswith("-"):
            continue
        name, equals, value = word.lstrip("-").partition("=")
        if equals:
            found[name] = value
        elif name in boolean_flags:
            found[name] = "true"
        else:
            found[name] = words.popleft().strip() if words and not words[0].startswith("-") else ""
    return found


def boolean(plugin: str, name: str, value: str) -> bool:
    """A boolean flag's value as Go reads it. Raises InvalidDocument."""
    if value in _TRUE:
        return True
    if value in _FALSE:
        return False
    raise InvalidDocument(where=f"spec.plugins.{plugin} --{name}", found=value, expected="true or false")


def seconds(plugin: str, name: str, value: str) -> int:
    """A number of seconds. Raises InvalidDocument."""
    if value.isascii() and value.isdigit() and len(value) < 7:
        return int(value)
    raise InvalidDocument(
        where=f"spec.plugins.{plugin} --{name}", found=value, expected="a number of seconds"
    )


def port(plugin: str, name: str, flags: Mapping[str, str], default: int) -> int:
    """The port number that a flag names, else the default. Raises InvalidDocument."""
    if name not in flags:
        return default
    value = flags[name]
    if value.isascii() and value.isdigit() and len(value) < 6 and 0 < int(value) < 65536:
        return int(value)
    raise InvalidDocument(where=f"spec.plugins.{plugin} --{name}", found=value, expected="a port, 1 to 65535")
