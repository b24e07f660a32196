"""One metric, as the code shows it and the page of reference describes it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

#: Labels of a device of a node, and of the pod that has it.
DEVICE: Final = ("gpu", "uuid", "model", "namespace", "pod", "queue", "gang", "user")


class Kind(StrEnum):
    """Prometheus' types of metrics."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric."""

    #: As Prometheus shows it; a histogram without ``_bucket``.
    name: str
    kind: Kind
    #: Plain text, one sentence.
    help: str
    labels: tuple[str, ...] = ()
    #: Values that a label has, where these are few and fixed.
    values: str = ""
    #: How many series there can be of one process.
    series: str = "1"
    #: More than ``help`` says, as Markdown.
    meaning: str = ""

    @property
    def base_name(self) -> str:
        """As Prometheus' client library wants it: of a counter without ``_total``."""
        return self.name.removesuffix("_total") if self.kind is Kind.COUNTER else self.name
