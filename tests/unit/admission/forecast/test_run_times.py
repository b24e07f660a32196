"""How long workloads are expected to run: the closest group of which enough is known, long work that runs included."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.forecast.run_times import (
    LEAST_SAMPLES,
    PRIOR_MEDIAN,
    SHARES,
    Basis,
    Likeness,
    Run,
    RunTimes,
    Survival,
    WorkloadShape,
    share_of,
)
from queues.resources import Resources
from queues.workload import QueueName

MIDDLE = SHARES // 2
ONE_GPU, TWO_GPUS = (
    WorkloadShape.of([(Resources({"nvidia.com/gpu": count * 1000, "pods": 1}), 4)]) for count in (1, 2)
)


def like(user: str = "ann", queue: str = "a", shape: WorkloadShape = ONE_GPU, image: str = "") -> Likeness:
    return Likeness(user, QueueName(queue), shape, image)


def runs(likeness: Likeness, *seconds: int) -> list[Run]:
    return [Run(likeness, each) for each in seconds]


def test_a_declared_run_time_counts() -> None:
    run_times = RunTimes(tuple(runs(like(), *range(1, 100))))

    assert run_times.total(like(), MIDDLE, declared=7200) == 7200
    assert run_times.basis(like(), declared=7200) is Basis.DECLARED


def test_who_is_over_the_declared_time_is_expected_to_take_as_long_again() -> None:
    assert RunTimes().total(like(), MIDDLE, declared=100, ran=100) == 200
    assert RunTimes().total(like(), MIDDLE, declared=100, ran=450) == 800


def test_with_nothing_known_the_middle_is_an_hour_and_as_long_again_as_it_ran() -> None:
    for ran in (0, 600, 86_400):
        assert RunTimes().total(like(), MIDDLE, ran=ran) == pytest.approx(2 * ran + PRIOR_MEDIAN, abs=2)
    assert RunTimes().basis(like()) is Basis.PRIOR


def test_what_has_not_begun_is_assumed_to_run_as_half_of_its_like_or_as_it_declares() -> None:
    run_times = RunTimes(tuple(runs(like(), *range(100, 100 + 10 * LEAST_SAMPLES, 10))))
    assert run_times.median(like(), None) == run_times.total(like(), MIDDLE)
    assert run_times.median(like(), 77) == 77


def test_work_that_runs_says_how_long_one_of_its_user_and_shape_runs_at_least() -> None:
    running, other = Run(like(), 1500, is_over=False), Run(like(user="bob"), 9000, is_over=False)
    run_times = RunTimes((*runs(like(), 9999), running, other))
    assert run_times.longest_so_far(like()) == 1500
    assert run_times.longest_so_far(like(shape=TWO_GPUS)) == 0


@pytest.mark.parametrize(
    ("known", "basis"),
    [
        (like(), Basis.USER_AND_SHAPE),
        (like(user="bob"), Basis.QUEUE_AND_SHAPE),
        (like(queue="b", shape=TWO_GPUS), Basis.USER),
        (like(user="bob", queue="b"), Basis.SHAPE),
        (like(user="bob", queue="b", shape=TWO_GPUS), Basis.EVERYTHING),
    ],
)
def test_the_closest_group_answers(known: Likeness, basis: Basis) -> None:
    few = like(user="eve", queue="c")
    run_times = RunTimes((*runs(known, *([500] * LEAST_SAMPLES)), *runs(few, *([9] * (LEAST_SAMPLES - 1)))))

    assert run_times.basis(like()) is basis
    assert 1 <= run_times.total(like(), MIDDLE) <= 500


@pytest.mark.parametrize(
    ("known", "basis"),
    [
        (like(image="bert:1"), Basis.USER_IMAGE_AND_SHAPE),
        (like(image="other:1"), Basis.USER_AND_SHAPE),
        (like(user="bob", queue="b", image="bert:1"), Basis.IMAGE_AND_SHAPE),
        (like(user="bob", image="other:1"), Basis.QUEUE_AND_SHAPE),
        (like(queue="b", shape=TWO_GPUS, image="bert:1"), Basis.USER),
    ],
)
def test_an_image_is_a_group_together_with_a_shape(known: Likeness, basis: Basis) -> None:
    run_times = RunTimes(tuple(runs(known, *([500] * LEAST_SAMPLES))))
    assert run_times.basis(like(image="bert:1")) is basis


def test_work_of_one_image_is_told_from_other_work_of_the_user() -> None:
    short, long = like(image="eval:1"), like(image="train:1")
    run_times = RunTimes((*runs(short, *([60] * 20)), *runs(long, *([7200] * 20))))
    assert run_times.total(short, MIDDLE) == 60
    assert run_times.total(long, MIDDLE) == 7200


def test_an_image_nobody_knows_changes_no_draw() -> None:
    """Forecasts of work without images are what they were before images were known."""
    assert like().identity() == f"Likeness(user='ann', queue='a', shape={ONE_GPU!r})"
    assert like(image="a:1").identity() not in (like().identity(), like(image="a:2").identity())


def test_a_user_nobody_knows_is_no_group() -> None:
    unknown = [Run(like(user="", queue="b", shape=TWO_GPUS), 77)] * LEAST_SAMPLES

    assert RunTimes(tuple(unknown)).basis(like(user="")) is Basis.EVERYTHING


def test_a_group_that_never_ran_so_long_leaves_the_answer_to_a_wider_one() -> None:
    run_times = RunTimes(
        (*runs(like(), *([60] * 50)), *runs(like("bob", "b", TWO_GPUS), *([90_000] * LEAST_SAMPLES)))
    )

    assert run_times.basis(like(), ran=30) is Basis.USER_AND_SHAPE
    assert run_times.basis(like(), ran=5000) is Basis.EVERYTHING
    assert run_times.total(like(), MIDDLE, ran=5000) == 90_000


def test_work_that_still_runs_counts_as_longer_than_it_ran() -> None:
    """Ten ended after a minute, and ninety have run for an hour: most run longer than an hour."""
    ended = [(60, True)] * 10
    assert Survival.of(ended).total(0, MIDDLE) == 60
    assert Survival.of([*ended, *[(3600, False)] * 90]).total(0, MIDDLE) > 3600


_lengths = st.lists(st.tuples(st.integers(0, 10**6), st.booleans()), max_size=40)


@given(_lengths, st.integers(0, 10**6), st.integers(0, SHARES - 1), st.integers(0, SHARES - 1))
def test_a_run_goes_on_and_a_larger_share_of_them_is_over_later(
    lengths: list[tuple[int, bool]], ran: int, share: int, other: int
) -> None:
    survival = Survival.of(lengths)
    low, high = sorted((share, other))

    assert ran < survival.total(ran, low) <= survival.total(ran, high)


@given(st.lists(st.integers(1, 10**5), min_size=8, max_size=60))
def test_the_middle_of_the_seen_run_times_is_the_middle(lengths: list[int]) -> None:
    ordered = sorted(lengths)
    middle = Survival.of((each, True) for each in lengths).total(0, MIDDLE)

    assert ordered[(len(ordered) - 1) // 2] <= middle <= ordered[len(ordered) // 2 + 1]


@given(st.text(), st.sampled_from([1, 2, 8, 16, 32]))
def test_the_draws_of_a_workload_cover_all_that_is_likely(identity: str, draws: int) -> None:
    shares = [share_of(identity, draw, draws) for draw in range(draws)]

    assert sorted(share * draws // SHARES for share in shares) == list(range(draws))
    assert shares == [share_of(identity, draw, draws) for draw in range(draws)]


def test_draws_of_different_workloads_differ() -> None:
    shares = {share_of(str(number), 3, 16) for number in range(100)}

    assert len(shares) == 100
    assert len({share * 16 // SHARES for share in shares}) == 16
