"""The kinds of other projects as they are shipped: a document for each."""

from importlib.resources import files
from typing import Final

import msgspec

from queues.api.types.workload_kind import WorkloadKindDocument, WorkloadKindSpec


def read_kind(content: bytes) -> WorkloadKindDocument:
    """A kind from its document in YAML. Raises InvalidDocument, msgspec.DecodeError."""
    return WorkloadKindDocument.read(msgspec.yaml.decode(content))


def _shipped() -> tuple[WorkloadKindSpec, ...]:
    folder = files(__package__).joinpath("kinds")
    documents = sorted(
        (each for each in folder.iterdir() if each.name.endswith(".yaml")), key=lambda each: each.name
    )
    return tuple(read_kind(each.read_bytes()).spec for each in documents)


_SHIPPED: Final = _shipped()
#: Those whose objects wait by a field that suspends them.
OPERATOR_KINDS: Final = tuple(each for each in _SHIPPED if not each.passes_on)
#: Those whose objects do not wait themselves, and hand their queue on to what is made of them.
PASSING_KINDS: Final = tuple(each for each in _SHIPPED if each.passes_on)
