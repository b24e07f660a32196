"""Labels and annotations of Muster's whose values cannot be read: each is shown with what counts in its place. Pure.

What could mislead a decision (a topology, a part of a device) makes the workload wait instead, with the reason
``InvalidSpec``; these values count as if they were not written.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from queues.api import names
from queues.api.reading.user_values import duration, shortened
from queues.text_format import excerpt

_DURATION: Final = "a duration such as 90s, 30m or 2h"
_TRUTH: Final = "'true' or 'false'"
#: Durations, with what counts instead.
_DURATIONS: Final = {
    names.RUN_TIME: "as if no run time were declared",
    names.CHECKPOINT_INTERVAL: "as if there were no checkpoints: an eviction loses all work",
    names.MIN_RUN_TIME: "as 0s: it may be evicted at any time",
    names.COOLDOWN_TIME: "as 0s: it may be evicted at any time",
}
#: What counts as yes or no.
_TRUTHS: Final = ("true", "1", "t", "false", "0", "f")
_HOLDS: Final = ("true", "suspended", "false")
_HOLD: Final = "'true', 'suspended' or 'false'"
#: Characters of a sentence, and sentences of one workload.
_LONGEST: Final = 240
MOST_IGNORED: Final = 5


def ignored_in_metadata(said: Mapping[str, str | None]) -> tuple[str, ...]:
    """Sentences about what annotations, or labels of the same names, say of how work may be interrupted."""
    found = []
    for key, instead in _DURATIONS.items():
        text = said.get(key)
        if text is not None and duration(text) is None:
            found.append(_sentence(key, text, _DURATION, instead))
    text = said.get(names.PREEMPTABLE)
    if text is not None and text[:8].lower() not in _TRUTHS:
        found.append(_sentence(names.PREEMPTABLE, text, _TRUTH, "as 'false'"))
    text = said.get(names.HOLD)
    if text and text not in _HOLDS:
        found.append(_sentence(names.HOLD, text, _HOLD, "as 'true'"))
    return tuple(found)


def ignored_in_template(annotations: Mapping[str, str] | None, where: str) -> tuple[str, ...]:
    """Sentences about values that say where pods go. ``where``: what paths begin with, "" for a pod."""
    text = (annotations or {}).get(names.BALANCED, "true")
    if text in ("true", "false"):
        return ()
    return (_sentence(f"{where}metadata.annotations[{names.BALANCED}]", text, _TRUTH, "as 'false'"),)


def ignored_in_job(annotations: Mapping[str, str] | None) -> tuple[str, ...]:
    """Sentences about what a Job says of how its pods are released."""
    text = (annotations or {}).get(names.MAY_GROW, "true")
    if text in ("true", "false"):
        return ()
    return (_sentence(f"metadata.annotations[{names.MAY_GROW}]", text, _TRUTH, "as its queue says"),)


def first_ignored(sentences: Iterable[str]) -> tuple[str, ...]:
    """Those that are shown for one workload, each once."""
    return tuple(dict.fromkeys(sentences))[:MOST_IGNORED]


def _sentence(path: str, text: str, expected: str, instead: str) -> str:
    return shortened(f"{path}: found {excerpt(text)}, expected {expected}; it counts {instead}", _LONGEST)
