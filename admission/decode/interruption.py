"""What users say about interrupting their work: annotations, or labels of the same names, as Volcano takes both."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

from admission.decode.fields import one
from admission.decode.ignored_values import ignored_in_metadata
from admission.facts.pods import NOTHING_SAID, Conduct, Hold
from queues.api import names
from queues.api.reading.dependencies import read_dependencies
from queues.api.reading.user_values import duration, shortened
from queues.api.types.pod import WirePodSpec
from queues.text_format import LONGEST_SECONDS

_NAMES: Final = (
    names.USER,
    names.RUN_TIME,
    names.CHECKPOINT_INTERVAL,
    names.MIN_RUN_TIME,
    names.PREEMPTABLE,
    names.COOLDOWN_TIME,
    names.RETRY,
)
#: Annotations only: policies read and write the one, and no label can have the value of the other.
_ANNOTATIONS: Final = (names.HOLD, names.AFTER)
_SAID: Final = (*_NAMES, *_ANNOTATIONS)
_HOLDS: Final = {"true": Hold.ADMISSION, "suspended": Hold.SUSPENDED, "false": Hold.NONE}
_NOTHING: Final[Mapping[str, str]] = {}
#: Characters.
_CACHED: Final = 512
LONGEST_IMAGE: Final = 200
#: Hints to policies that count of one object, the first by name; and characters of each.
MOST_HINTS: Final = 16
LONGEST_HINT: Final = 256
_HINTS: Final = f"{names.HINTS}/"


def image_of(spec: WirePodSpec) -> str:
    """Repository and tag of the first container's image, without a digest after the tag; "": there is none.

    At most ``LONGEST_IMAGE`` characters; different images stay different.
    """
    image = spec.containers[0].image if spec.containers else None
    if not image:
        return ""
    name, _, digest = image.partition("@")
    is_tagged = ":" in name.rpartition("/")[2]
    return shortened(name if is_tagged or not digest else image, LONGEST_IMAGE)


def conduct_of(
    annotations: Mapping[str, str] | None,
    labels: Mapping[str, str] | None,
    deadline: int | None = None,
    image: str = "",
    ignored: Sequence[str] = (),
) -> Conduct:
    """What is declared. A duration that cannot be read is not declared; ``deadline``: seconds it runs at most;
    ``image``: by ``image_of``; ``ignored``: of other values, by ``ignored_in_template``."""
    first, second = annotations or _NOTHING, labels or _NOTHING
    either = (first.get(name) if name in first else second.get(name) for name in _NAMES)
    said = (*either, *(first.get(name) for name in _ANNOTATIONS))
    # Long texts are not kept twice.
    is_short = sum(len(text) for text in said if text) <= _CACHED
    conduct = (_conduct if is_short else _conduct.__wrapped__)(deadline, said)
    if hints := _hints(first, second):
        conduct = replace(conduct, hints=hints)
    if ignored:
        conduct = replace(conduct, ignored=(*conduct.ignored, *ignored))
    return _with_image(conduct, image) if image else conduct


def _hints(annotations: Mapping[str, str], labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """What is said to the policies of the queue, by key; an annotation goes before a label."""
    found = {
        key.removeprefix(_HINTS): text[:LONGEST_HINT]
        for said in (labels, annotations)
        for key, text in said.items()
        if key.startswith(_HINTS)
    }
    return tuple(sorted(found.items())[:MOST_HINTS])


@lru_cache(maxsize=8192)
def _with_image(conduct: Conduct, image: str) -> Conduct:
    return one(replace(conduct, image=image))


@lru_cache(maxsize=8192)
def _conduct(deadline: int | None, texts: tuple[str | None, ...]) -> Conduct:
    """From the texts of ``_SAID``. Most workloads of a user repeat one of a few."""
    said = dict(zip(_SAID, texts, strict=True))
    preemptable = said[names.PREEMPTABLE]
    conduct = Conduct(
        user=shortened(said[names.USER] or ""),
        run_time=duration(said[names.RUN_TIME]) or (deadline and min(deadline, LONGEST_SECONDS)),
        checkpoint_interval=duration(said[names.CHECKPOINT_INTERVAL]),
        min_run_time=duration(said[names.MIN_RUN_TIME]) or 0,
        # As in Volcano, what is neither true nor false is false.
        preemptable=None if preemptable is None else preemptable[:8].lower() in ("true", "1", "t"),
        cooldown=duration(said[names.COOLDOWN_TIME]) or 0,
        retry=shortened(said[names.RETRY] or ""),
        # Work that its owner may have wished to hold back could not be held back once it runs.
        hold=_HOLDS.get(said[names.HOLD] or "false", Hold.ADMISSION),
        after=read_dependencies(said[names.AFTER]),
        ignored=ignored_in_metadata(said),
    )
    return NOTHING_SAID if conduct == NOTHING_SAID else one(conduct)
