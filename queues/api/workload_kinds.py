"""The kinds of other projects that wait by a field that suspends them, as they are shipped: a document for each."""

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


#: What Muster knows of each of them.
OPERATOR_KINDS: Final = _shipped()
