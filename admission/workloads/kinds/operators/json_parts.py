"""Objects of kinds of other projects as they are decoded: their parts are found by their places. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from admission.decode.fields import explained
from admission.wire import WireMetadata, WireStruct
from queues.api.types.workload_kind import Path
from queues.errors import InvalidDocument

T = TypeVar("T")

_MAP: Final[msgspec.json.Decoder[Mapping[str, msgspec.Raw]]] = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LIST: Final[msgspec.json.Decoder[Sequence[msgspec.Raw]]] = msgspec.json.Decoder(list[msgspec.Raw])
_TEXT: Final = msgspec.json.Decoder(str)
_NUMBER: Final = msgspec.json.Decoder(int)
_FLAG: Final = msgspec.json.Decoder(bool)
_NULL: Final = b"null"


class UnexpectedPart(InvalidDocument):
    """{where}: {found}."""


def part(raw: msgspec.Raw | None, path: Path, where: Sequence[str] = ()) -> msgspec.Raw | None:
    """The part at a place; None if it is absent. ``where``: the place of ``raw`` itself. Raises UnexpectedPart."""
    for depth, field in enumerate(path):
        if raw is None:
            return None
        found = members(raw, (*where, *path[:depth])).get(field)
        raw = None if found is None or bytes(found) == _NULL else found
    return raw


def members(raw: msgspec.Raw | None, where: Sequence[str]) -> Mapping[str, msgspec.Raw]:
    """The fields of an object, or the entries of a map; empty: it is absent. Raises UnexpectedPart."""
    return _read(_MAP, raw, where) if raw is not None else {}


def elements(raw: msgspec.Raw | None, where: Sequence[str]) -> Sequence[msgspec.Raw]:
    """The elements of a list; empty: it is absent. Raises UnexpectedPart."""
    return _read(_LIST, raw, where) if raw is not None else ()


def text(raw: msgspec.Raw | None, where: Sequence[str]) -> str:
    """A text; "": it is absent. Raises UnexpectedPart."""
    return _read(_TEXT, raw, where) if raw is not None else ""


def number(raw: msgspec.Raw | None, where: Sequence[str]) -> int | None:
    """A number; None if it is absent. Raises UnexpectedPart."""
    return None if raw is None else _read(_NUMBER, raw, where)


def flag(raw: msgspec.Raw | None, where: Sequence[str]) -> bool:
    """Whether something is set; absent: it is not. Raises UnexpectedPart."""
    return raw is not None and _read(_FLAG, raw, where)


def _read(decoder: msgspec.json.Decoder[T], raw: msgspec.Raw, where: Sequence[str]) -> T:
    try:
        return decoder.decode(raw)
    except msgspec.DecodeError as error:
        found = explained(error).removeprefix("document: ")
        raise UnexpectedPart(where=".".join(where) or "document", found=found) from error


class WireOperatorJob(WireStruct):
    """An object of such a kind; its parts are read by their places."""

    metadata: WireMetadata
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")

    def part(self, path: Path) -> msgspec.Raw | None:
        """The part at a place in the spec or the status. Raises UnexpectedPart."""
        own = self.spec if path[0] == "spec" else self.status
        return part(None if bytes(own) == _NULL else own, path[1:], path[:1])
