"""What a planted bug has to do: break the law it is planted for, in some world that a search finds."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings


def is_broken(law: Callable[..., None], *, examples: int = 1500) -> None:
    """Fail if no world is found that breaks a law, a Hypothesis test; its explicit examples come first.

    The search is the same every time, and does not shrink what it finds.
    """
    handle: Any = law.hypothesis  # type: ignore[attr-defined]
    searched: Any = given(**handle._given_kwargs)(handle.inner_test)
    searched.hypothesis_explicit_examples = getattr(law, "hypothesis_explicit_examples", [])
    search = settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    with pytest.raises((AssertionError, ExceptionGroup)):
        search(searched)()
