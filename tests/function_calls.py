"""What work costs, without a clock: for tests that say how the cost grows."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).parents[1]
PRODUCT = tuple(f"{ROOT / folder}/" for folder in ("admission", "queues"))


def calls_of(work: Callable[[], object]) -> int:
    """Calls of functions that some work makes, those of C included."""
    found = 0

    def count(*_: object) -> None:
        nonlocal found
        found += 1

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found


class EnteredFiles:
    """Files of the product whose functions are called while ``watching``, in threads that start later too."""

    def __init__(self) -> None:
        self._entered = set[CodeType]()
        self._on = False

    @property
    def files(self) -> list[str]:
        """Paths below the root of the project, sorted. What a module does when it is imported does not count: its body,
        and those of its classes."""
        every = {code.co_filename for code in self._entered if code.co_flags & CO_OPTIMIZED}
        return sorted(file.removeprefix(f"{ROOT}/") for file in every if file.startswith(PRODUCT))

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count from now on, in this thread and in those that were started in ``prepared``."""
        self._on = True
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(None)
            self._on = False

    @contextmanager
    def prepared(self) -> Iterator[None]:
        """Threads that start meanwhile are watched."""
        threading.setprofile(self._note)
        try:
            yield
        finally:
            threading.setprofile(None)  # type: ignore[arg-type]

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        if self._on and event == "call":
            self._entered.add(frame.f_code)
