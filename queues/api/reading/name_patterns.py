r"""Patterns in HyperNodes, read as Volcano reads them: Go's syntax is RE2's, and RE2 itself reads them here.

Whether one is found takes time linear in pattern and name, whatever the pattern (Cox, "Regular Expression Matching
in the Wild", 2010). Compared with Go 1.26 on random patterns, what both read they find in the same names. Only Go
reads names of Unicode classes that are new in Go 1.25 (``\p{Letter}``, ``\p{LC}``, ``\pl``) and patterns larger than
``LARGEST``; only here a group may have a name beyond ASCII.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import re2

from queues.errors import MusterError

#: Bytes of memory for one pattern: about 40,000 steps, enough for a list of 3,000 names without a common beginning.
LARGEST: Final = 1 << 20

#: Bytes of memory for patterns that are searched together.
TOGETHER: Final = 1 << 25

#: Characters of what RE2 says of a pattern, which may quote all of it.
_TOLD: Final = 80

#: What is taken literally, and what follows a backslash elsewhere.
_ESCAPED: Final = re.compile(r"\\Q.*?(?:\\E|\Z)|\\.", re.DOTALL)

#: A number that RE2 takes for no repetition but for text, Go for an error.
_HUGE: Final = re.compile(r"\{(?:\d+,)?\d{9,}")


class InvalidPattern(MusterError):
    """A pattern cannot be used: {reason}"""


def check_pattern(text: str) -> None:
    """Raises InvalidPattern, with what is wrong with it."""
    _compiled(text)


def _compiled(text: str) -> Any:
    if not text:
        raise InvalidPattern(reason="nothing")
    if r"\C" in _ESCAPED.findall(text):
        raise InvalidPattern(reason=r"invalid escape sequence: \C")  # one byte: RE2 knows it, Go does not
    if huge := _HUGE.search(_ESCAPED.sub(" ", text)):
        raise InvalidPattern(reason=f"invalid repetition size: {huge.group()}")
    try:
        return re2.compile(text, _options(LARGEST))
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0] if isinstance(error, re2.error) else "characters that are no Unicode"
        told = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise InvalidPattern(reason=told if len(told) <= _TOLD else f"{told[:_TOLD]}…") from error


def _options(memory: int) -> Any:
    options = re2.Options()
    options.max_mem = memory
    options.log_errors = False  # RE2 writes to stderr by itself
    options.never_capture = True
    return options


class Patterns:
    """Many patterns, looked for in one pass over each name. One that cannot be used is found nowhere."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._compiled: dict[str, Any] = {}
        for text in sorted(set(texts)):
            try:
                self._compiled[text] = _compiled(text)
            except InvalidPattern:
                continue
        self._sets = list(_sets(tuple(self._compiled))) if self._compiled else []

    def found_in(self, names: Iterable[str]) -> Mapping[str, Sequence[str]]:
        """The names, in their order, in which each pattern is found somewhere."""
        found: dict[str, list[str]] = {text: [] for text in self._compiled}
        for name in names:
            for texts, together in self._sets:
                at = together.Match(name) if together is not None else None
                if at is None:  # not even the one that is found everywhere: there was not the memory for all
                    at = [index for index, text in enumerate(texts) if self._compiled[text].search(name)]
                for index in at:
                    if index < len(texts):
                        found[texts[index]].append(name)
        return found


def _sets(texts: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """As few automata as there is memory for, each with one more pattern, found in every name; None: one by one."""
    together = re2.Set.SearchSet(_options(TOGETHER))
    for text in (*texts, ""):
        together.Add(text)
    try:
        together.Compile()
    except re2.error:
        half = len(texts) // 2
        if half:
            yield from _sets(texts[:half])
            yield from _sets(texts[half:])
        else:
            yield texts, None
    else:
        yield texts, together
