"""The figures of paced gangs tell apart what Muster and what the cluster took."""

from tests.e2e.support.paced_gangs import GangTimes, PlainTimes, comparison


def gang(name: str, *, admitted: float = 0.2, plain: float = 0.3) -> GangTimes:
    """A gang that Muster admitted so many seconds after it was stored, while plain pods took so many to be bound."""
    stored = 10.1
    return GangTimes(
        name=name,
        planned=10.0,
        stored=stored,
        admitted=stored + admitted,
        released=stored + admitted + 0.1,
        bound=stored + admitted + 0.1 + plain,
        plain=PlainTimes(begun=stored, stored=stored + 0.1, seen=stored + plain / 2, bound=stored + plain),
    )


QUIET = [gang(f"quiet-{number}") for number in range(4)]


def test_a_gang_that_waits_for_its_admission_is_late_by_muster() -> None:
    told = comparison(QUIET, [*QUIET, gang("slow", admitted=2)])
    assert "late, gangs: 1 of 5" in told
    assert "late, gangs, from stored to released: 1 of 5" in told
    assert "late, plain pods: 0 of 5" in told
    assert "slow 2.50" in told


def test_a_gang_that_waits_for_the_scheduler_as_plain_pods_do_is_not_late_by_muster() -> None:
    told = comparison(QUIET, [*QUIET, gang("starved", plain=3)])
    assert "late, gangs: 1 of 5" in told
    assert "late, gangs, from stored to released: 0 of 5" in told
    assert "late, plain pods: 1 of 5" in told
