"""How far a leader is behind the cluster."""

from admission.kube.watch.informers import InformerState
from admission.kube.watch.lag import Lag, lag_of


def state(behind: float = 0.0, problem: str | None = None) -> InformerState:
    return InformerState(
        silent_seconds=behind,
        behind_seconds=behind,
        lists=1,
        objects=3,
        problem=problem,
    )


def test_a_leader_whose_watches_are_open_and_whose_turns_follow_one_another_is_not_behind() -> None:
    assert lag_of({"pods": state(), "nodes": state()}, turned=4.0, turn_every=5.0) == Lag()


def test_the_watch_that_is_furthest_behind_counts_with_its_problem() -> None:
    hearings = {"pods": state(50.0, "403 Forbidden"), "nodes": state(3.0), "queues": state()}

    assert lag_of(hearings, turned=0.1, turn_every=5.0) == Lag(
        50.0, "the watch of pods is interrupted (403 Forbidden)"
    )


def test_a_turn_that_does_not_end_counts_too() -> None:
    lag = lag_of({"pods": state(3.0)}, turned=30.0, turn_every=5.0)

    assert (lag.seconds, lag.why) == (30.0, "the last turn ended 30s ago")
