"""Planted bugs, and what each has to do: break the law it is planted for, in some world that a search finds."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import HypothesisWarning
from hypothesis.strategies import SearchStrategy


@dataclass(frozen=True)
class Bug:
    """One attribute replaced by something wrong; the law must fail."""

    about: str
    owner: Any
    attribute: str
    wrong: Any
    law: Callable[..., None]

    def __str__(self) -> str:
        return self.about

    def plant(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(self.owner, self.attribute, self.wrong)


def is_broken(law: Callable[..., None], *, examples: int = 1500) -> None:
    """Fail if no world is found that breaks a law, a Hypothesis test; its explicit examples come first."""
    handle: Any = law.hypothesis  # type: ignore[attr-defined]
    # Without the seed the search would depend on how the law is written.
    searched: Any = seed(3)(given(**handle._given_kwargs)(handle.inner_test))
    searched.hypothesis_explicit_examples = getattr(law, "hypothesis_explicit_examples", [])
    _fails(searched, examples)


def is_broken_in(worlds: SearchStrategy[Any], law: Callable[[Any], None], *, examples: int = 1500) -> None:
    """Fail if none of these worlds is found to break a law."""

    @seed(3)  # without it the search would depend on how this function is written
    @given(worlds)
    def searched(world: Any) -> None:
        law(world)

    _fails(searched, examples)


def _fails(searched: Any, examples: int) -> None:
    """The search is the same every time, and does not shrink what it finds."""
    search = settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    with warnings.catch_warnings():
        # The world that breaks the law is not printed, so its length does not matter.
        warnings.simplefilter("ignore", HypothesisWarning)
        with pytest.raises((AssertionError, ExceptionGroup)):
            search(searched)()
