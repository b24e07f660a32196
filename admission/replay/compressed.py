"""A saved turn as compressed bytes, written in small steps: beside the turns, a writer may rest between two of them.

The form is that of ``admission.replay.snapshot_file``, without the spaces for people, compressed by gzip.
"""

import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any, Final

import msgspec

from admission.engine.snapshot import Snapshot
from admission.replay import json_form
from admission.replay.snapshot_file import (
    SCHEMA,
    NotASnapshot,
    Saved,
    load,
    nodes_of,
    written_queues,
    written_table_without_nodes,
)
from queues.plan import Plan
from queues.quota.decayed_usage import PastUse

#: Values of a list or mapping that one step writes: less than a millisecond.
_AT_A_TIME: Final = 16
#: More bytes than the largest turn that is kept has; corrupt content shall not fill the memory.
_MOST_BYTES: Final = 2**30
#: Good compression that costs a tenth of what writing the JSON does.
_LEVEL: Final = 6
_GZIP: Final = 31


def compressed_steps(snapshot: Snapshot, plan: Plan, configuration: str) -> Iterator[bytes]:
    """The bytes of a saved turn, in their order; many steps give none. ``configuration``: as ``save`` takes it."""
    compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    for piece in _document(snapshot, plan, configuration):
        yield compressor.compress(piece)
    yield compressor.flush()


def load_compressed(content: bytes) -> Saved:
    """Read what ``compressed_steps`` has written. Raises NotASnapshot or InvalidDocument."""
    reader = zlib.decompressobj(_GZIP)
    try:
        text = reader.decompress(content, _MOST_BYTES)
    except zlib.error as error:
        raise NotASnapshot(found=f"corrupt content ({error})", expected=SCHEMA) from error
    if not reader.eof:
        raise NotASnapshot(found="content that ends too early", expected=SCHEMA)
    return load(text)


def compressed(snapshot: Snapshot, plan: Plan, configuration: str = "") -> bytes:
    """All bytes of a saved turn."""
    return b"".join(compressed_steps(snapshot, plan, configuration))


def _document(snapshot: Snapshot, plan: Plan, configuration: str) -> Iterator[bytes]:
    yield b'{"schema":' + _json(SCHEMA) + b',"configuration":' + _json(configuration)
    yield b',"plan":'
    yield from _members((each.name, getattr(plan, each.name)) for each in fields(plan))
    yield b',"snapshot":{'
    for number, name in enumerate(_public(snapshot)):
        yield (b"," if number else b"") + _json(name) + b":"
        yield from _snapshot_field(name, getattr(snapshot, name))
    yield b"}}"


def _snapshot_field(name: str, value: Any) -> Iterator[bytes]:
    if name == "nodes":
        yield _json(written_table_without_nodes(value))[:-1] + b',"nodes":'
        yield from _items(nodes_of(value))
        yield b"}"
    elif name == "queues":
        yield _json(written_queues(value))
    elif name == "past_use":
        yield _json(PastUse.lines(value))
    else:
        yield from _value(value)


def _value(value: Any) -> Iterator[bytes]:
    """A field: of a long list or mapping a few values to a step."""
    if isinstance(value, Mapping):
        yield from _members(value.items())
    elif isinstance(value, tuple):
        yield from _items(value)
    else:
        yield _json(json_form.written(value))


def _members(items: Iterable[tuple[Any, Any]]) -> Iterator[bytes]:
    separator = b"{"
    waiting: list[bytes] = []
    for key, value in items:
        if isinstance(value, Mapping | tuple) and len(value) > _AT_A_TIME:
            yield separator + b",".join([*waiting, _json(str(key)) + b":"])
            yield from _value(value)
            separator, waiting = b",", []
            continue
        waiting.append(_json(str(key)) + b":" + _json(json_form.written(value)))
        if len(waiting) == _AT_A_TIME:
            yield separator + b",".join(waiting)
            separator, waiting = b",", []
    yield (separator + b",".join(waiting) if waiting else b"{" * (separator == b"{")) + b"}"


def _items(values: Iterable[Any]) -> Iterator[bytes]:
    separator = b"["
    waiting: list[bytes] = []
    for value in values:
        waiting.append(_json(json_form.written(value)))
        if len(waiting) == _AT_A_TIME:
            yield separator + b",".join(waiting)
            separator, waiting = b",", []
    yield (separator + b",".join(waiting) if waiting else b"[" * (separator == b"[")) + b"]"


def _public(value: Any) -> list[str]:
    return [each.name for each in fields(value) if not each.name.startswith("_")]


_json = msgspec.json.encode
