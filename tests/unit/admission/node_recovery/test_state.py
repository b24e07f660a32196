"""What is remembered of a node, as an annotation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.node_recovery.state import (
    FaultCause,
    RecoveryPhase,
    RecoveryState,
    StartedBy,
    WaitsFor,
    read_state,
)

seconds = st.integers(1, 4_000_000_000)

states = st.builds(
    RecoveryState,
    phase=st.sampled_from(RecoveryPhase),
    since=seconds,
    fault_since=st.just(0) | seconds,
    cause=st.none() | st.sampled_from(FaultCause),
    fault=st.text(max_size=300),
    attempts=st.integers(0, 9999),
    job=st.text(max_size=63),
    by=st.sampled_from(StartedBy),
    accepted=st.lists(st.text(min_size=1, max_size=40), max_size=8).map(tuple),
    waits=st.none() | st.sampled_from(WaitsFor),
)


@given(states)
def test_an_annotation_tells_all_of_it(state: RecoveryState) -> None:
    assert read_state(state.annotation()) == (RecoveryState() if state.is_empty else state)


@given(st.text() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(str))
def test_no_text_harms(text: str) -> None:
    read_state(text)


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
        '{"phase":"none","cause":"bad luck"}',
        '{"phase":"none","since":"2027-13-01T00:00:00Z"}',
        "[" * 5000,
        '{"phase":"none","fault":"' + "x" * 9000 + '"}',
    ],
)
def test_what_cannot_be_read_is_none(annotation: str) -> None:
    assert read_state(annotation) is None


def test_fields_of_a_later_version_are_left_out() -> None:
    assert read_state('{"phase":"failed","colour":"red"}') == RecoveryState(phase=RecoveryPhase.FAILED)


def test_nothing_to_remember_is_no_annotation() -> None:
    assert RecoveryState(since=5, fault="gone").annotation() == ""
    assert read_state("") == RecoveryState()
