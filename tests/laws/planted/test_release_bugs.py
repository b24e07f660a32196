"""Planted bugs in what the writers know of pods that may still come: slow answers have to bring each to light."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from admission.kube.watch.unseen_pods import UnseenPods
from admission.kube.writers import awaited_seats
from admission.kube.writers.awaited_seats import AwaitedSeats
from admission.kube.writers.release import ReleaseWriter
from admission.kube.writers.volcano_jobs import VolcanoJobWriter
from admission.workloads.kinds import job_syncs
from tests.laws.release.test_release_laws import (
    SlowWrites,
    a_job_is_deleted_in_the_middle_of_a_sync,
    a_job_is_deleted_while_the_watch_is_behind,
    releases_are_under_way,
    releases_got_no_answer,
    tell,
    the_watch_is_behind,
    the_watch_is_behind_on_a_volcano_job,
)


@dataclass(frozen=True)
class Bug:
    """One attribute replaced by something wrong."""

    about: str
    owner: Any
    attribute: str
    wrong: Any
    history: Callable[[SlowWrites], None]

    def __str__(self) -> str:
        return self.about


def _nothing(self: Any, key: Any) -> Any:
    return {}


def _never(error: Any) -> bool:
    return False


def _all(inputs: Any, places: Any) -> bool:
    return True


def _answered(self: Any, key: Any, writes: Any) -> Any:
    """An answer counts as if the informer had shown the effect."""
    return {subject for subject, write in writes.items() if write.since is not None and not write.in_flight}


BUGS = (
    Bug("no write is awaited", AwaitedSeats, "of", _nothing, releases_are_under_way),
    Bug("no answer means not done", awaited_seats, "may_have_happened", _never, releases_got_no_answer),
    Bug("released pods count as seen", ReleaseWriter, "_shown", _answered, the_watch_is_behind),
    Bug(
        "created pods count as seen",
        VolcanoJobWriter,
        "_shown",
        _answered,
        the_watch_is_behind_on_a_volcano_job,
    ),
    Bug(
        "no pods but those that are seen",
        UnseenPods,
        "of",
        _nothing,
        a_job_is_deleted_while_the_watch_is_behind,
    ),
    Bug("no sync goes on", job_syncs, "_pods_seen", _all, a_job_is_deleted_in_the_middle_of_a_sync),
)


@pytest.mark.parametrize("bug", BUGS, ids=str)
def test_a_planted_bug_breaks_the_law(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bug.owner, bug.attribute, bug.wrong)
    with pytest.raises(AssertionError):
        tell(bug.history)
