"""Planted bugs in what the writers know of pods that may still come: slow answers have to bring each to light."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from admission.kube.watch.unseen_pods import UnseenPods
from admission.kube.writers import awaited_seats
from admission.kube.writers.awaited_seats import AwaitedSeats, AwaitedWrite
from admission.kube.writers.release import ReleaseWriter
from admission.kube.writers.volcano_jobs import VolcanoJobWriter
from admission.workloads import job_counts
from admission.world.admissions import AdmissionIndex
from tests.laws.release.test_release_laws import (
    SlowWrites,
    a_group_is_made_again_before_its_member_is_bound,
    a_job_is_deleted_in_the_middle_of_a_sync,
    a_job_is_deleted_while_the_watch_is_behind,
    a_job_is_made_smaller_in_the_middle_of_a_sync,
    a_request_is_given_up_after_its_pod_was_seen,
    a_request_that_was_given_up_is_carried_out_twice,
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


def _not_now(self: Any, now: float) -> bool:
    return False


def _seen(self: VolcanoJobWriter, key: Any, writes: Any) -> Any:
    """A pod that is shown counts, though its request is under way."""
    names, now = {pod.name for pod in self.world.pod_index.of(key)}, self.queue.now()
    return {subject for subject, write in writes.items() if subject in names and not write.may_arrive(now)}


def _as_given(self: Any, key: Any, awaited: Any, pods: Any) -> Any:
    return awaited


def _not_smaller(fact: Any, admission: Any) -> bool:
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
    Bug(
        "what was given up never arrives",
        AwaitedWrite,
        "may_arrive",
        _not_now,
        a_request_that_was_given_up_is_carried_out_twice,
    ),
    Bug(
        "what was seen is not given up any more",
        VolcanoJobWriter,
        "_shown",
        _seen,
        a_request_is_given_up_after_its_pod_was_seen,
    ),
    Bug(
        "a pod that belongs to another workload needs no seat",
        AdmissionIndex,
        "with_left",
        _as_given,
        a_group_is_made_again_before_its_member_is_bound,
    ),
    Bug(
        "no pod is made for a seat that a Job wants no more",
        job_counts,
        "_is_made_smaller",
        _not_smaller,
        a_job_is_made_smaller_in_the_middle_of_a_sync,
    ),
    Bug("no sync goes on", job_counts, "_pods_seen", _all, a_job_is_deleted_in_the_middle_of_a_sync),
)


@pytest.mark.parametrize("bug", BUGS, ids=str)
def test_a_planted_bug_breaks_the_law(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bug.owner, bug.attribute, bug.wrong)
    with pytest.raises(AssertionError):
        tell(bug.history)
