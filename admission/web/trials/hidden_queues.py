"""Answers of trials without queues that the user may not see: names, and the amounts shown with them. Pure."""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

_WORD: Final = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?")
#: Where messages name a queue: after these words.
_BEFORE: Final = r"\b(?:queues?|of|in|below|by|and|,) "
#: Instead of a message that is about a queue which the user may not see.
_UNTOLD: Final = "it is about a queue that you may not see"


def named_in(document: Any, queues: Collection[str]) -> frozenset[str]:
    """Those of the queues whose names stand anywhere in an answer."""
    return frozenset(word for text in _texts(document) for word in _WORD.findall(text) if word in queues)


def _texts(document: Any) -> Iterator[str]:
    if isinstance(document, str):
        yield document
    elif isinstance(document, dict):
        for name, value in document.items():
            yield name
            yield from _texts(value)
    elif isinstance(document, list | tuple):
        for each in document:
            yield from _texts(each)


def without_queues(document: Any, hidden: Collection[str]) -> Any:
    """The part of an answer without these queues: facts that name one are left out as a whole, a sentence keeps its
    parts that name none."""
    if not hidden:
        return document
    if isinstance(document, str):
        return _sentence(document, hidden)
    if isinstance(document, list):
        return [without_queues(each, hidden) for each in document]
    if isinstance(document, dict):
        return {name: _field(name, value, hidden) for name, value in document.items()}
    return document


def _field(name: str, value: Any, hidden: Collection[str]) -> Any:
    if name == "facts" and isinstance(value, Mapping) and named_in(value, hidden):
        return {}
    if name == "queue":
        return None if isinstance(value, str) and value in hidden else value
    return without_queues(value, hidden)


def _sentence(text: str, hidden: Collection[str]) -> str:
    names = "|".join(map(re.escape, sorted(hidden, key=len, reverse=True)))
    name = rf"(?:{names})(?![\w-]|\.\w)"
    text = re.sub(rf"\b(\d+ of ){name}", r"\1another queue", text)
    about = re.compile(rf"{_BEFORE}{name}|^{name}$")
    if not about.search(text):
        return text
    head, colon, rest = text.partition(": ")
    if not colon or about.search(head):
        return _UNTOLD
    kept = ", ".join(each for each in rest.split(", ") if not about.search(each))
    return f"{head}: {kept}" if kept else head
