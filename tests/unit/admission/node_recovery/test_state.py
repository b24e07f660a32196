"""What is remembered of a node, as an annotation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.node_recovery.state import IN_SERVICE, RecoveryPhase, RecoveryState, moment, read_state

names = st.lists(st.text(max_size=40), max_size=8).map(tuple)
states = st.builds(
    RecoveryState,
    phase=st.sampled_from(RecoveryPhase),
    since=st.integers(1, 4_000_000_000).map(moment),
    test_failed=st.booleans(),
    devices=names,
    attempts=st.integers(0, 1000),
    accepted=names,
    waits=st.sampled_from(("", "agent", "circuit-breaker")),
)


@given(states)
def test_an_annotation_tells_all_of_it(state: RecoveryState) -> None:
    assert read_state(state.annotation()) == (state if state.annotation() else IN_SERVICE)


@given(st.text() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(str))
def test_no_text_harms(text: str) -> None:
    read_state(text).annotation().encode()


@pytest.mark.parametrize(
    "annotation",
    [
        "{",
        "[]",
        "{}",
        '{"phase":"resting"}',
        '{"phase":"none","attempts":-1}',
        '{"phase":"none","attempts":true}',
        '{"phase":"none","attempts":100000}',
        '{"phase":"none","accepted":{}}',
        '{"phase":"none","accepted":["\\ud800"]}',
        '{"phase":"none","since":"yesterday"}',
        "[" * 5000,
    ],
)
def test_what_cannot_be_read_is_not_remembered(annotation: str) -> None:
    assert read_state(annotation) == IN_SERVICE


def test_fields_of_a_later_version_are_left_out() -> None:
    assert read_state('{"phase":"failed","colour":"red"}') == RecoveryState(phase=RecoveryPhase.FAILED)


def test_nothing_to_remember_is_no_annotation() -> None:
    assert RecoveryState(phase=RecoveryPhase.NONE, since=moment(5), devices=("GPU-1",)).annotation() == ""
    assert read_state("") == IN_SERVICE
