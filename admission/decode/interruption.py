"""What users say about interrupting their work: annotations, or labels of the same names, as Volcano takes both."""

from collections.abc import Mapping

from admission.decode.fields import one
from admission.facts import NOTHING_SAID, Conduct
from queues.api import names
from queues.api.model import LONGEST_SECONDS
from queues.api.reading.user_values import duration, shortened


def conduct_of(
    annotations: Mapping[str, str] | None, labels: Mapping[str, str] | None, deadline: int | None = None
) -> Conduct:
    """What is declared. A duration that cannot be read is not declared; ``deadline``: seconds it runs at most."""
    said = {**(labels or {}), **(annotations or {})}
    preemptable = said.get(names.PREEMPTABLE)
    conduct = Conduct(
        user=shortened(said.get(names.USER, "")),
        run_time=duration(said.get(names.RUN_TIME)) or (deadline and min(deadline, LONGEST_SECONDS)),
        checkpoint_interval=duration(said.get(names.CHECKPOINT_INTERVAL)),
        min_run_time=duration(said.get(names.MIN_RUN_TIME)) or 0,
        # As in Volcano, what is neither true nor false is false.
        preemptable=None if preemptable is None else preemptable[:8].lower() in ("true", "1", "t"),
        cooldown=duration(said.get(names.COOLDOWN_TIME)) or 0,
        retry=shortened(said.get(names.RETRY, "")),
    )
    return NOTHING_SAID if conduct == NOTHING_SAID else one(conduct)
