"""What users say about interrupting their work: annotations, or labels of the same names, as Volcano takes both."""

from collections.abc import Mapping

from admission.facts import NOTHING_SAID, Conduct
from queues.api import names
from queues.api.model import seconds_of


def conduct_of(
    annotations: Mapping[str, str] | None, labels: Mapping[str, str] | None, deadline: int | None = None
) -> Conduct:
    """What is declared. A duration that cannot be read is not declared; ``deadline``: seconds it runs at most."""
    said = {**(labels or {}), **(annotations or {})}
    preemptable = said.get(names.PREEMPTABLE)
    conduct = Conduct(
        user=said.get(names.USER, ""),
        run_time=_seconds(said.get(names.RUN_TIME)) or deadline,
        checkpoint_interval=_seconds(said.get(names.CHECKPOINT_INTERVAL)),
        min_run_time=_seconds(said.get(names.MIN_RUN_TIME)) or 0,
        # As in Volcano, what is neither true nor false is false.
        preemptable=None if preemptable is None else preemptable.lower() in ("true", "1", "t"),
        cooldown=_seconds(said.get(names.COOLDOWN_TIME)) or 0,
    )
    return NOTHING_SAID if conduct == NOTHING_SAID else conduct


def _seconds(text: str | None) -> int | None:
    seconds = seconds_of(text) if text is not None else None
    return None if seconds is None or seconds < 0 else int(seconds)
