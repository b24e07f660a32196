"""What a change of a Queue's quota breaks: asked before it is written, and before it is tried. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from queues.api.quota.quota_document import merged
from queues.api.validation.known import Known
from queues.api.validation.validation import violations_of
from queues.api.validation.violations import Violation
from queues.quota.queue import Queue

#: A refusal names so many violations; more would bury the first.
_TOLD: Final = 10


def violations_of_change(
    document: dict[str, Any], patch: Mapping[str, Any], queues: Mapping[str, Queue] | None
) -> list[Violation]:
    """What the admission webhook says to a merge patch of a Queue's spec.

    ``queues``: those that exist, by name; None if not known: the tree is then not checked.
    """
    return violations_of(merged(document, {"spec": patch}), Known(queues=queues), old=document)


def refusal_of(found: Iterable[Violation]) -> str:
    """The violations for which a change is refused, in one line without a full stop; "": it is not."""
    return "; ".join([each.message for each in found if not each.tolerable][:_TOLD]).rstrip(".")
