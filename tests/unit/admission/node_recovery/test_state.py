"""What is remembered of a node, as an annotation."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.node_recovery.state import RecoveryPhase, RecoveryState, read_state

seconds = st.integers(1, 4_000_000_000)
#: Of all alphabets, and nothing that a terminal does not show.
printable = st.characters().filter(str.isprintable)

states = st.builds(
    RecoveryState,
    phase=st.sampled_from(RecoveryPhase),
    since=seconds,
    test_failed=st.booleans(),
    fault=st.text(printable, max_size=300),
    devices=st.lists(st.text(printable, min_size=1, max_size=40), max_size=8).map(tuple),
    attempts=st.integers(0, 9999),
    job=st.text(printable, max_size=63),
    accepted=st.lists(st.text(printable, min_size=1, max_size=40), max_size=8).map(tuple),
    waits=st.sampled_from(("", "agent", "circuit-breaker")),
)


#: Values of fields as anybody may write them: with lone surrogates, of any length and age.
odd_texts = st.text(st.characters(exclude_categories=())) | st.sampled_from(
    ["é" * 4000, '"' * 600, "x" * 600, "\ud800", "\x1b[2J\n", "kills-pods", "person", "agent", "device"]
)
odd_times = st.datetimes(timezones=st.timezones() | st.none()).map(str) | st.sampled_from(
    ["9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59", "1969-12-31", "1970-01-01", "2026-W01-1"]
)
odd_values = st.none() | st.booleans() | st.integers(-1, 10_000) | odd_texts | odd_times
odd_fields = st.fixed_dictionaries(
    {"phase": st.sampled_from(RecoveryPhase)},
    optional={
        "since": odd_times,
        "testFailed": odd_values,
        "fault": odd_values,
        "devices": st.lists(odd_values, max_size=80),
        "attempts": st.integers(0, 9999),
        "job": odd_values,
        "accepted": st.lists(odd_values, max_size=80),
        "waits": odd_values,
    },
)


@given(states)
def test_an_annotation_tells_all_of_it(state: RecoveryState) -> None:
    assert read_state(state.annotation()) == (RecoveryState() if state.is_empty else state)


@given(st.text() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(str))
def test_no_text_harms(text: str) -> None:
    read_state(text)


@given(odd_fields, st.booleans())
def test_what_is_read_can_be_written_back_and_says_the_same_again(
    fields: dict[str, object], ascii_only: bool
) -> None:
    state = read_state(json.dumps(fields, ensure_ascii=ascii_only))
    if state is not None:
        written = state.annotation()
        written.encode()
        assert read_state(written) == (RecoveryState() if state.is_empty else state)


@pytest.mark.parametrize("name", ["\ud800", "x\n", "\x1b[2J", "x" * 700, 7, None])
def test_a_name_that_nothing_can_have_counts_as_absent(name: object) -> None:
    told = {"phase": "recovering", "job": name, "accepted": [name, "GPU-1/XidFault"]}
    expected = RecoveryState(phase=RecoveryPhase.RECOVERING, accepted=("GPU-1/XidFault",))
    assert read_state(json.dumps(told)) == expected


@pytest.mark.parametrize("moment", [-62_135_596_800, -1, 10**12])
def test_a_time_that_cannot_be_read_back_is_not_written(moment: int) -> None:
    state = RecoveryState(phase=RecoveryPhase.DRAINING, since=moment)
    assert read_state(state.annotation()) == RecoveryState(phase=RecoveryPhase.DRAINING)


def test_a_fault_in_several_lines_is_told_in_one() -> None:
    state = RecoveryState(phase=RecoveryPhase.DRAINING, fault="GPU 3: Xid\n(\x1b[2J\ud800)")
    read = read_state(state.annotation())
    assert read is not None
    assert read.fault == "GPU 3: Xid ( [2J )"


def test_muster_writes_nothing_that_is_too_long_for_it_to_read() -> None:
    names = tuple(str(number) + 'é"' * 250 for number in range(64))
    read = read_state(
        RecoveryState(phase=RecoveryPhase.FAILED, fault='"' * 300, job='"' * 253, accepted=names).annotation()
    )
    assert read is not None
    assert 0 < len(read.accepted) < 64
    assert read.accepted == names[: len(read.accepted)]


@pytest.mark.parametrize(
    "annotation",
    [
        "{",
        "[]",
        "1",
        "{}",
        '{"phase":"resting"}',
        '{"phase":1}',
        '{"phase":"none","attempts":-1}',
        '{"phase":"none","attempts":true}',
        '{"phase":"none","attempts":100000}',
        '{"phase":"none","accepted":{}}',
        '{"phase":"none","since":"yesterday"}',
        '{"phase":"none","since":"2027-13-01T00:00:00Z"}',
        '{"phase":"verifying","since":"9999-12-31T23:59:59-23:59","attempts":1}',
        '{"phase":"verifying","since":"9999-12-31T23:59:59Z"}',
        '{"phase":"none","since":"0001-01-01T00:00:00+23:59"}',
        '{"phase":"none","since":"1969-12-31T23:59:59Z"}',
        "[" * 5000,
        '{"phase":"none","fault":"' + "x" * 13_000 + '"}',
    ],
)
def test_what_cannot_be_read_is_none(annotation: str) -> None:
    assert read_state(annotation) is None


def test_fields_of_a_later_version_are_left_out() -> None:
    assert read_state('{"phase":"failed","colour":"red"}') == RecoveryState(phase=RecoveryPhase.FAILED)


def test_nothing_to_remember_is_no_annotation() -> None:
    assert RecoveryState(since=5, fault="gone").annotation() == ""
    assert read_state("") == RecoveryState()
