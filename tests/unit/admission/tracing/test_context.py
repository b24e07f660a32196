"""Which trace an admission has."""

import pytest

from admission.tracing.context import Traceparent, TraceStart, parsed, span_id
from queues.workload import AdmissionId, WorkloadKey, WorkloadKind

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRAIN = WorkloadKey(WorkloadKind.JOB, "uid-of-train")
OTHER = WorkloadKey(WorkloadKind.JOB, "uid-of-other")
FIRST, SECOND = AdmissionId(7), AdmissionId(8)


def test_the_ids_follow_from_workload_and_admission_alone() -> None:
    trace = TraceStart(decided_at=1.0).trace(TRAIN, FIRST)
    assert len(trace) == 32
    assert int(trace, 16)
    assert trace == TraceStart(decided_at=2.0, waited_for="NoFit").trace(TRAIN, FIRST)
    start = TraceStart(decided_at=1.0)
    assert len({trace, start.trace(TRAIN, SECOND), start.trace(OTHER, FIRST)}) == 3

    spans = {
        span_id(trace, id_, name) for id_ in (FIRST, SECOND) for name in ("admission", "seen", "decided")
    }
    assert len(spans) == 6
    assert {len(each) for each in spans} == {16}


def test_the_decision_log_is_told_what_the_spans_need() -> None:
    start = TraceStart(decided_at=1.23456, waited_for="QueueLimit", parent=Traceparent(TRACE, SPAN, True))
    assert start.numbers(TRAIN, FIRST) == {
        "trace": TRACE,
        "decidedAt": 1.235,
        "waitedFor": "QueueLimit",
        "parentSpan": SPAN,
    }
    own = TraceStart(decided_at=1.0)
    assert own.numbers(TRAIN, FIRST) == {"trace": own.trace(TRAIN, FIRST), "decidedAt": 1.0}


def test_a_gang_of_a_trace_that_nobody_records_has_none() -> None:
    start = TraceStart(decided_at=1.0, parent=Traceparent(TRACE, SPAN, False))
    assert start.trace(TRAIN, FIRST) == ""
    assert start.numbers(TRAIN, FIRST) == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"00-{TRACE}-{SPAN}-01", Traceparent(TRACE, SPAN, True)),
        (f"00-{TRACE}-{SPAN}-00", Traceparent(TRACE, SPAN, False)),
        # Other bits say other things.
        (f"00-{TRACE}-{SPAN}-03", Traceparent(TRACE, SPAN, True)),
        # Later versions may say more.
        (f"01-{TRACE}-{SPAN}-01-more", Traceparent(TRACE, SPAN, True)),
        (f"00-{TRACE}-{SPAN}-01-more", None),
        (f"ff-{TRACE}-{SPAN}-01", None),
        (f"00-{'0' * 32}-{SPAN}-01", None),
        (f"00-{TRACE}-{'0' * 16}-01", None),
        (f"00-{TRACE.upper()}-{SPAN}-01", None),
        (f"00-{TRACE}-{SPAN}", None),
        ("", None),
    ],
)
def test_a_traceparent_is_read_as_w3c_writes_it(text: str, expected: Traceparent | None) -> None:
    assert parsed(text) == expected
