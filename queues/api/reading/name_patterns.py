r"""Patterns for node names in HyperNodes, in Go's syntax as in Volcano. Go's syntax is RE2's, and RE2 reads them here.

A search takes time linear in pattern and name, whatever the pattern (Cox, "Regular Expression Matching in the Wild",
2010). Compared with Go 1.26 on random patterns: patterns that both accept match the same names. Go also accepts names
of Unicode classes that are new in Go 1.25 (``\p{Letter}``, ``\p{LC}``, ``\pl``) and patterns larger than ``LARGEST``;
RE2 also accepts group names beyond ASCII.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import re2

from queues.errors import MusterError

#: Bytes of memory for one pattern: about 40,000 steps, enough for a list of 3,000 names without a common beginning.
LARGEST: Final = 1 << 20

#: Bytes of memory for a set of patterns that are searched in one pass.
LARGEST_SET: Final = 1 << 25

#: Characters of a reason: RE2's messages may quote the whole pattern.
_MOST_REASON: Final = 80

#: Literal text between \Q and \E, and escape sequences outside of it.
_ESCAPED: Final = re.compile(r"\\Q.*?(?:\\E|\Z)|\\.", re.DOTALL)
#: A repetition with a huge number: text for RE2, an error for Go.
_HUGE: Final = re.compile(r"\{(?:\d+,)?\d{9,}")


class InvalidPattern(MusterError):
    """A pattern cannot be used: {reason}"""


def check_pattern(text: str) -> None:
    """Raises InvalidPattern with the reason if the pattern cannot be used."""
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
        words = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise InvalidPattern(
            reason=words if len(words) <= _MOST_REASON else f"{words[:_MOST_REASON]}…"
        ) from error


def _options(memory: int) -> Any:
    options = re2.Options()
    options.max_mem = memory
    options.log_errors = False  # RE2 writes to stderr by itself
    options.never_capture = True
    return options


class Patterns:
    """Many patterns, searched in one pass over each name. A pattern that cannot be used matches no name."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._compiled: dict[str, Any] = {}
        for text in sorted(set(texts)):
            try:
                self._compiled[text] = _compiled(text)
            except InvalidPattern:
                continue
        self._sets = list(_sets(tuple(self._compiled))) if self._compiled else []

    def found_in(self, names: Iterable[str]) -> Mapping[str, Sequence[str]]:
        """For each usable pattern the names that contain a match, in their order."""
        found: dict[str, list[str]] = {text: [] for text in self._compiled}
        for name in names:
            for texts, automaton in self._sets:
                matches = automaton.Match(name) if automaton is not None else None
                if matches is None:  # the empty pattern matches always, so the automaton ran out of memory
                    matches = [index for index, text in enumerate(texts) if self._compiled[text].search(name)]
                for index in matches:
                    if index < len(texts):
                        found[texts[index]].append(name)
        return found


def _sets(texts: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Patterns in as few automata as memory allows. None instead of an automaton: search its patterns one by one.

    Each automaton also has the empty pattern, which matches every name.
    """
    automaton = re2.Set.SearchSet(_options(LARGEST_SET))
    for text in (*texts, ""):
        automaton.Add(text)
    try:
        automaton.Compile()
    except re2.error:
        half = len(texts) // 2
        if half:
            yield from _sets(texts[:half])
            yield from _sets(texts[half:])
        else:
            yield texts, None
    else:
        yield texts, automaton
