"""How busy and hot a node is said to be: seldom, and only what holds."""

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as some

from admission.agent.load import BETWEEN_REPORTS, HOLDS, Load, LoadState, Step, load_of
from admission.agent.readings import DeviceReading, NodeReading, Telemetry

NOW = 1_800_000_000


def reading(*told: Telemetry, lost: bool = False) -> NodeReading:
    devices = tuple(
        DeviceReading(id=f"GPU-{index}", index=index, model="H100", memory_bytes=1, telemetry=each, lost=lost)
        for index, each in enumerate(told)
    )
    return NodeReading(vendor="nvidia", driver_version="1", runtime_version="1", devices=devices)


def node(utilisation: int | None, temperature: int | None) -> NodeReading:
    return reading(Telemetry(utilisation=utilisation, temperature=temperature))


def test_the_mean_use_and_the_hottest_device_count() -> None:
    busy, idle = Telemetry(utilisation=90, temperature=60), Telemetry(utilisation=0, temperature=85)
    assert load_of([reading(busy, idle)]) == Load(utilisation=Step.MEDIUM, temperature=Step.HIGH)
    assert load_of([reading(busy, lost=True)]) == load_of([reading(Telemetry())]) == load_of([]) == Load()


#: Seconds until the next reading, and what it says.
READINGS = some.lists(
    some.tuples(
        some.integers(1, 400),
        some.sampled_from([None, 0, 29, 30, 69, 70, 100]),
        some.sampled_from([None, 40, 65, 79, 80]),
    ),
    max_size=60,
)


def lived(readings: Sequence[tuple[int, int | None, int | None]]) -> list[tuple[int, Load, LoadState]]:
    """Time, what was read, and the state after it. The agent starts again after every seventh reading."""
    now, state, found = NOW, LoadState(), list[tuple[int, Load, LoadState]]()
    for number, (seconds, utilisation, temperature) in enumerate(readings):
        now += seconds
        read = [node(utilisation, temperature)]
        state = (state.remembered() if number % 7 == 6 else state).after(read, now)
        found.append((now, load_of(read), state))
    return found


@given(READINGS)
def test_it_is_reported_seldom_and_only_what_has_held(
    readings: Sequence[tuple[int, int | None, int | None]],
) -> None:
    found = lived(readings)
    changed = [
        (now, after.reported)
        for (_, _, before), (now, _, after) in pairwise([(NOW, Load(), LoadState()), *found])
        if after.reported != before.reported
    ]
    assert all(later - earlier >= BETWEEN_REPORTS for (earlier, _), (later, _) in pairwise(changed))
    for at, reported in changed:
        assert all(load == reported for now, load, _ in found if at - HOLDS <= now <= at)


@given(READINGS, some.integers(-1000, 1000))
def test_what_stays_is_reported_in_the_end_whatever_the_clock_does(
    readings: Sequence[tuple[int, int | None, int | None]], shift: int
) -> None:
    found = lived(readings)
    now, state = (found[-1][0] + shift, found[-1][2]) if found else (NOW, LoadState())
    for seconds in range(0, BETWEEN_REPORTS + HOLDS + 11, 10):
        state = state.after([node(90, 40)], now + seconds)
    assert state.reported == Load(utilisation=Step.HIGH, temperature=Step.LOW)
