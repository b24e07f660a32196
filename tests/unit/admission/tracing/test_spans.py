"""The spans of an admission: one for each stage that is known, in their order, within one that contains them."""

from dataclasses import replace

from admission.tracing.spans import GangSpan, spans_of
from queues.sql.read.over_time.traced import TracedAdmission
from queues.workload import AdmissionId, WorkloadKey, WorkloadKind

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
T = 1_700_000_000.0
RAN = TracedAdmission(
    id=AdmissionId(7),
    workload=WorkloadKey(WorkloadKind.JOB, "uid"),
    namespace="ml",
    name="train",
    queue="vision",
    seats=4,
    devices=32.0,
    turn=99,
    term=3,
    numbers={"trace": TRACE, "decidedAt": T + 60.25, "waitedFor": "QueueLimit"},
    created=T,
    seen=T + 0.5,
    admitted=T + 60.5,
    released=T + 61,
    bound=T + 62,
    running=T + 70,
)


def below(spans: tuple[GangSpan, ...]) -> list[tuple[str, float, float]]:
    return [(each.name, each.start - T, each.end - T) for each in spans[1:]]


def test_each_stage_is_a_span_that_begins_where_the_one_before_ends() -> None:
    spans = spans_of(RAN)
    assert below(spans) == [
        ("seen", 0, 0.5),
        ("decided", 0.5, 60.25),
        ("applied", 60.25, 60.5),
        ("released", 60.5, 61),
        ("bound", 61, 62),
        ("running", 62, 70),
    ]
    whole = spans[0]
    assert (whole.name, whole.start - T, whole.end - T, whole.parent) == ("admission", 0, 70, "")
    assert {each.parent for each in spans[1:]} == {whole.id}
    assert {each.trace for each in spans} == {TRACE}
    assert len({each.id for each in spans}) == len(spans)


def test_spans_tell_queue_gang_gpus_the_reason_of_the_wait_and_the_turn() -> None:
    whole, *stages = spans_of(RAN)
    for span in (whole, *stages):
        assert span.attributes["muster.queue"] == "vision"
        assert span.attributes["muster.gang"] == "ml/train"
        assert (span.attributes["muster.pods"], span.attributes["muster.gpus"]) == (4, 32.0)
    told = {
        each.name for each in (whole, *stages) if each.attributes.get("muster.wait.reason") == "QueueLimit"
    }
    assert told == {"admission", "decided", "applied"}
    assert (whole.attributes["muster.turn"], whole.attributes["muster.term"]) == (99, 3)
    assert whole.attributes["muster.outcome"] == "running"


def test_whoever_tells_it_twice_tells_the_same() -> None:
    assert spans_of(RAN) == spans_of(replace(RAN))


def test_the_trace_is_below_the_span_of_whoever_submitted_the_gang() -> None:
    spans = spans_of(replace(RAN, numbers={**RAN.numbers, "parentSpan": "00f067aa0ba902b7"}))
    assert spans[0].parent == "00f067aa0ba902b7"
    assert {each.parent for each in spans[1:]} == {spans[0].id}


def test_a_gang_that_was_evicted_before_it_ran_is_an_error_with_its_reason() -> None:
    gone = replace(RAN, running=None, bound=None, evicted=T + 65, closed=T + 80, cause="Preempted")
    spans = spans_of(gone)
    assert below(spans)[-1] == ("evicted", 61, 65)
    assert (spans[0].end - T, spans[0].error) == (65, "Preempted")
    assert spans[0].attributes["muster.outcome"] == "evicted"
    assert [each.name for each in spans if each.error] == ["admission", "evicted"]


def test_a_gang_that_ended_before_it_was_seen_to_run_ends_its_trace() -> None:
    spans = spans_of(replace(RAN, running=None, closed=T + 66))
    assert below(spans)[-1] == ("ended", 62, 66)
    assert spans[0].attributes["muster.outcome"] == "ended"
    assert not [each for each in spans if each.error]


def test_what_happened_after_it_ran_is_no_part_of_it() -> None:
    assert spans_of(replace(RAN, evicted=T + 90, closed=T + 95, cause="Preempted")) == spans_of(RAN)


def test_the_next_admission_of_a_gang_begins_where_the_one_before_was_closed() -> None:
    again = replace(RAN, waits_since=T + 20)
    spans = spans_of(again)
    assert spans[0].start - T == 20
    assert below(spans)[0] == ("decided", 20, 60.25)


def test_a_part_of_a_gang_that_runs_has_not_waited() -> None:
    assert below(spans_of(replace(RAN, is_part=True)))[0] == ("decided", 60.25, 60.25)


def test_clocks_that_differ_make_no_span_that_ends_before_it_begins() -> None:
    spans = spans_of(replace(RAN, seen=T + 60.4, admitted=T + 59.0, released=T + 58.0))
    assert all(each.start <= each.end for each in spans)
    assert all(one[2] == next_[1] for one, next_ in zip(below(spans), below(spans)[1:], strict=False))


def test_what_is_not_known_is_left_out() -> None:
    old = replace(RAN, created=None, seen=None, released=None)
    assert [name for name, _, _ in below(spans_of(old))] == ["decided", "applied", "bound", "running"]
