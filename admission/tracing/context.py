"""Which trace an admission has: its own, or that of the program which submitted the gang. Pure.

The ids follow from the workload and the admission, so an admission that is reported twice has the same spans.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, NamedTuple

from queues.workload import AdmissionId, WorkloadKey

#: W3C Trace Context: version, trace, span, flags; later versions may add fields.
_TRACEPARENT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED: Final = 1


class Traceparent(NamedTuple):
    """A span of another program, such as the pipeline that submitted the gang."""

    #: 32 hexadecimal digits, and 16.
    trace: str
    span: str
    #: Its program records the trace; what is below it does as that does.
    sampled: bool


def parsed(text: str) -> Traceparent | None:
    """A ``traceparent`` as W3C writes it. None if the text is not one; a trace then begins with the gang."""
    found = _TRACEPARENT.fullmatch(text)
    if found is None:
        return None
    version, trace, span, flags, more = found.groups()
    if version == "ff" or (version == "00" and more) or not int(trace, 16) or not int(span, 16):
        return None
    return Traceparent(trace, span, bool(int(flags, 16) & _SAMPLED))


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceStart:
    """What a decision adds to the trace of the gang that it admits."""

    #: When the decision was made, in seconds since the epoch.
    decided_at: float
    #: Code of the reason for which the gang waited; "": it did not, or that is not known.
    waited_for: str = ""
    #: None if the trace begins with the gang.
    parent: Traceparent | None = None

    def trace(self, workload: WorkloadKey, admission: AdmissionId) -> str:
        """32 hexadecimal digits; "": the program that submitted the gang does not record its trace."""
        if self.parent is None:
            return _digits(32, workload.kind, workload.uid, admission)
        return self.parent.trace if self.parent.sampled else ""

    def numbers(self, workload: WorkloadKey, admission: AdmissionId) -> Mapping[str, Any]:
        """For the decision log, from which the spans are made; empty: there is no trace."""
        trace = self.trace(workload, admission)
        if not trace:
            return {}
        return {
            "trace": trace,
            "decidedAt": round(self.decided_at, 3),
            **({"waitedFor": self.waited_for} if self.waited_for else {}),
            **({"parentSpan": self.parent.span} if self.parent is not None else {}),
        }


def span_id(trace: str, admission: AdmissionId, name: str) -> str:
    """16 hexadecimal digits: of one span of an admission."""
    return _digits(16, trace, admission, name)


def _digits(number: int, *words: object) -> str:
    return sha256("/".join(map(str, words)).encode()).hexdigest()[:number]
