"""The kinds of other projects as they are shipped: a document for each."""

from importlib.resources import files
from typing import Final

import msgspec

from queues.api.types.workload_kind import WorkloadKindDocument

_DOCUMENTS: Final = (
    each for each in files(__package__).joinpath("kinds").iterdir() if each.name.endswith(".yaml")
)
SHIPPED_KINDS: Final = tuple(
    WorkloadKindDocument.read(msgspec.yaml.decode(each.read_bytes())).spec
    for each in sorted(_DOCUMENTS, key=lambda each: each.name)
)
#: Those whose objects wait by a field that suspends them.
OPERATOR_KINDS: Final = tuple(each for each in SHIPPED_KINDS if not each.passes_on)
#: Those whose objects do not wait themselves, and hand their queue on to what is made of them.
PASSING_KINDS: Final = tuple(each for each in SHIPPED_KINDS if each.passes_on)
