"""Planted bugs, and what each has to do: break the law it is planted for, in some world that a search finds."""

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import HypothesisWarning
from hypothesis.strategies import SearchStrategy

#: Worlds of one search; so many of them are made, each begun anew.
AT_A_TIME: Final = 50


@dataclass(frozen=True)
class Bug:
    """One attribute replaced by something wrong; the law must fail."""

    about: str
    owner: Any
    attribute: str
    wrong: Any
    law: Callable[..., None]
    #: Number of the search to begin with: of one that finds a world soon. Any other finds one as well, but later.
    first: int = 0
    #: No search finds a world soon: it is looked for by `make test-all` only.
    rare: bool = False

    def __str__(self) -> str:
        return self.about

    def plant(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(self.owner, self.attribute, self.wrong)


def tried(bugs: Iterable[Bug]) -> list[Any]:
    """The bugs as parameters of a test: those that are found in seconds always, the others with the long tests."""
    return [pytest.param(bug, marks=[pytest.mark.long] if bug.rare else [], id=str(bug)) for bug in bugs]


def each_breaks_its_law(
    bugs: Iterable[Bug], worlds: SearchStrategy[Any] | None = None, *, examples: int = 3000
) -> Callable[..., None]:
    """A test of all these bugs. ``worlds``: in which their laws hold; None for those that each law draws itself."""

    @pytest.mark.parametrize("bug", tried(bugs))
    def breaks(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
        bug.plant(monkeypatch)
        if worlds is None:
            is_broken(bug.law, examples=examples, first=bug.first)
        else:
            is_broken_in(worlds, bug.law, examples=examples, first=bug.first)

    return breaks


def is_broken(law: Callable[..., None], *, examples: int = 3000, first: int = 0) -> None:
    """Fail if no world is found that breaks a law, a Hypothesis test; its explicit examples come first."""
    handle: Any = law.hypothesis  # type: ignore[attr-defined]
    explicit = getattr(law, "hypothesis_explicit_examples", [])

    def search(number: int) -> Any:
        searched: Any = seed(number)(given(**handle._given_kwargs)(handle.inner_test))
        searched.hypothesis_explicit_examples = explicit if number == first else []
        return searched

    _one_fails(search, examples, first)


def is_broken_in(
    worlds: SearchStrategy[Any], law: Callable[[Any], None], *, examples: int = 3000, first: int = 0
) -> None:
    """Fail if none of these worlds is found to break a law."""

    def search(number: int) -> Any:
        @seed(number)
        @given(worlds)
        def searched(world: Any) -> None:
            law(world)

        return searched

    _one_fails(search, examples, first)


def _one_fails(search: Callable[[int], Any], examples: int, first: int) -> None:
    """``search`` makes the test with a seed, which keeps it the same every time. What is found is not shrunk."""
    at_a_time = min(AT_A_TIME, examples)
    settled = settings(
        max_examples=at_a_time,
        database=None,
        derandomize=True,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    with warnings.catch_warnings():
        # The world that breaks the law is not printed, so its length does not matter.
        warnings.simplefilter("ignore", HypothesisWarning)
        other: Exception | None = None
        for number in range(first, first + examples // at_a_time):
            try:
                settled(search(number))()
            except (AssertionError, ExceptionGroup):
                return
            except Exception as error:
                other = error  # what the bug does is worse than the law says: other worlds have to show it
    raise AssertionError(f"none of {examples} worlds breaks the law") from other
