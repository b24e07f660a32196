"""What the PodGroup of a gang says while the gang waits, in the words of Volcano's scheduler. Pure.

Volcano has one reason for all of it, ``NotEnoughResources``, and a sentence. Muster's code stands in that sentence, so
that a reader, or the next leader, still learns which limit it is: ``2/2 tasks in gang unschedulable: QueueLimit: …``.
"""

import re
from collections.abc import Iterable
from typing import Final

from admission.facts.workloads import NO_CONDITION
from admission.wire import WireCondition
from queues.api.reading.user_values import shortened
from queues.plan import Reason
from queues.reason_codes import ReasonCode

#: Type of the condition, and reason of the event.
UNSCHEDULABLE: Final = "Unschedulable"

NOT_ENOUGH_RESOURCES: Final = "NotEnoughResources"

#: Codes of gangs that wait until there is room for them.
WAITS_FOR_RESOURCES: Final = frozenset(
    {
        ReasonCode.QUEUE_LIMIT,
        ReasonCode.NO_FIT,
        ReasonCode.TOPOLOGY_NO_FIT,
        ReasonCode.NEVER_FITS,
        ReasonCode.UNKNOWN_RESOURCE,
        ReasonCode.PROVISIONING,
        ReasonCode.NAMESPACE_QUOTA,
        ReasonCode.MAKING_ROOM,
        ReasonCode.RESERVED,
        ReasonCode.BEHIND,
        # Volcano reports pods that gates of others hold by the same reason.
        ReasonCode.OTHER_GATES,
    }
)

_WORDS: Final = {ReasonCode.NOT_ENOUGH_PODS: "NotEnoughTasks"}
_CODES: Final = {word: code for code, word in _WORDS.items()}
_SENTENCE: Final = re.compile(r"\d+/\d+ tasks in gang unschedulable: (\w+): ")


def word_of(code: ReasonCode) -> str:
    """Volcano's word for a code, as the reason of a condition; the code itself where Volcano has none."""
    if code in WAITS_FOR_RESOURCES:
        return NOT_ENOUGH_RESOURCES
    return _WORDS.get(code, code)


def gang_sentence(reason: Reason, *, unready: int, pods: int) -> str:
    """Why a gang waits. ``unready``: pods that it lacks to start, of so many."""
    if reason.code not in WAITS_FOR_RESOURCES:
        return reason.message
    return f"{unready}/{pods} tasks in gang unschedulable: {reason.code}: {reason.message}"


def code_in(word: str, sentence: str) -> str:
    """The code that a condition with this reason and message gives."""
    found = _SENTENCE.match(sentence) if word == NOT_ENOUGH_RESOURCES else None
    return _CODES.get(word, word) if found is None else found[1]


def told_of(conditions: Iterable[WireCondition] | None) -> tuple[str, str]:
    """What a PodGroup says of its admission, as a condition ``muster.dev/Admitted`` would: status and code."""
    for each in conditions or ():
        if each.type == UNSCHEDULABLE and each.status == "True":
            return "False", shortened(code_in(each.reason or "", each.message or ""))
    return NO_CONDITION
