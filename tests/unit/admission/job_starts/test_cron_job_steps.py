"""What follows for a CronJob: which Job starts, what goes, and what is told."""

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.job_starts.cron_job_steps import CronJobFact, cron_job_fact, job_document, status_of, step
from admission.job_starts.owned_jobs import OwnedJob, owned_job
from tests.laws.worlds.settings import in_worlds
from tests.tables import with_rows


def at(text: str) -> int:
    return int(datetime.fromisoformat(f"{text}+00:00").timestamp())


CREATED = at("2026-03-01 00:00:30")


def cron(status: dict[str, Any] | None = None, **spec: Any) -> CronJobFact:
    document = {
        "metadata": {
            "name": "nightly",
            "namespace": "team",
            "uid": "cron",
            "creationTimestamp": "2026-03-01T00:00:30Z",
            "annotations": {"muster.dev/user": "ann"},
        },
        "spec": {"schedule": "0 * * * *", "jobTemplate": {"spec": {"tasks": [{"name": "w"}]}}, **spec},
        "status": status or {},
    }
    return cron_job_fact(document)


def job(scheduled: str, phase: str = "Running", **more: Any) -> OwnedJob:
    time = at(scheduled)
    name = f"nightly-{time // 60}"
    fields = {"changed": time + 60, "created": time, "scheduled": time, **more}
    return OwnedJob(namespace="team", name=name, uid=f"uid-{name}", owner="cron", phase=phase, **fields)


@with_rows("spec", "status", "now", "scheduled")
def test_a_job_starts_for_the_last_time_that_was_due(
    spec: dict[str, Any], status: dict[str, Any], now: str, scheduled: str
) -> None:
    found = step(cron(status, **spec), [], at(now))
    assert (at(scheduled) if scheduled else None) == found.start


def test_the_next_look_is_at_the_next_time() -> None:
    assert step(cron(), [], at("2026-03-01 05:30")).look_again == at("2026-03-01 06:00")
    assert step(cron(suspend=True), [], at("2026-03-01 05:30")).look_again is None
    every = cron({"lastScheduleTime": "2026-03-01T05:10:00Z"}, schedule="@every 30m")
    assert step(every, [], at("2026-03-01 05:30")).look_again == at("2026-03-01 05:40")


@pytest.mark.parametrize(
    ("policy", "starts", "replaced"),
    [("Allow", True, []), ("Forbid", False, []), ("Replace", True, ["nightly-29539020"])],
)
def test_the_policy_decides_about_jobs_that_still_run(policy: str, starts: bool, replaced: list[str]) -> None:
    running = job("2026-03-01 05:00")
    found = step(cron(concurrencyPolicy=policy), [running], at("2026-03-01 06:00"))
    assert starts == (found.start is not None)
    assert replaced == [each.name for each in found.replaced]
    assert ("ForbidConcurrent" in {note.reason for note in found.notes}) == (policy == "Forbid")


def test_a_job_on_its_way_out_still_counts_where_two_are_forbidden() -> None:
    going = job("2026-03-01 05:00", "Completed", deleting=True)
    assert step(cron(concurrencyPolicy="Forbid"), [going], at("2026-03-01 06:00")).start is None
    ended = job("2026-03-01 05:00", "Terminated")
    assert step(cron(concurrencyPolicy="Forbid"), [ended], at("2026-03-01 06:00")).start is not None


def test_more_than_a_hundred_missed_times_are_told() -> None:
    found = step(cron(), [], at("2026-03-05 04:00"))
    assert found.start is not None
    assert not found.notes
    found = step(cron(), [], at("2026-03-05 05:00"))
    assert found.start is not None
    assert [note.reason for note in found.notes] == ["TooManyMissedTimes"]
    # A deadline is what bounds them.
    assert not step(cron(startingDeadlineSeconds=3600), [], at("2026-03-06 05:00")).notes


def test_the_oldest_jobs_go_once_the_status_has_taken_them_in() -> None:
    ended = [job(f"2026-03-01 0{hour}:00", "Completed") for hour in range(1, 6)]
    ended += [job("2026-03-01 06:00", "Failed"), job("2026-03-01 07:00", "Terminated")]
    recorded = {"lastScheduleTime": "2026-03-01T07:00:00Z", "lastSuccessfulTime": "2026-03-01T05:01:00Z"}
    now = at("2026-03-01 07:30")
    names = [each.name for each in step(cron(recorded), ended, now).outdated]
    assert names == [job(f"2026-03-01 0{hour}:00").name for hour in (1, 2, 6)]
    assert step(cron(), ended, now).outdated == ()
    behind = {**recorded, "lastSuccessfulTime": "2026-03-01T01:30:00Z"}
    assert [each.name for each in step(cron(behind), ended, now).outdated] == [names[0], names[2]]
    active = {**recorded, "active": [{"uid": ended[0].uid}]}
    assert [each.name for each in step(cron(active), ended, now).outdated] == names[1:]
    assert len(step(cron(recorded, successfulJobsHistoryLimit=0), ended, now).outdated) == 6


def test_the_status_names_jobs_and_times() -> None:
    jobs = [job("2026-03-01 05:00"), job("2026-03-01 04:00", "Completed"), job("2026-03-01 03:00", "Failed")]
    fields = status_of(cron(), jobs)
    assert [each["name"] for each in fields["active"]] == [jobs[0].name]
    assert fields["lastScheduleTime"] == "2026-03-01T05:00:00Z"
    assert fields["lastSuccessfulTime"] == "2026-03-01T04:01:00Z"
    assert status_of(cron(), []) == {}


def test_a_job_is_made_as_its_template_says() -> None:
    fact = cron(
        jobTemplate={
            "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
            "spec": {"tasks": [{"name": "w", "replicas": 2, "unknown": 1}], "plugins": {"pytorch": []}},
        }
    )
    found = step(fact, [], at("2026-03-01 05:30"))
    assert found.start is not None
    document = job_document(fact, found.start, namespace_queue="vision")
    metadata, spec = document["metadata"], document["spec"]
    assert metadata["name"] == f"nightly-{at('2026-03-01 05:00') // 60}"
    assert metadata["labels"] == {"a": "b"}
    scheduled = {"volcano.sh/cronjob-scheduled-timestamp": "2026-03-01T05:00:00Z"}
    assert metadata["annotations"] == {"c": "d", **scheduled}
    assert (spec["queue"], spec["minAvailable"], spec["plugins"]) == ("vision", 2, {"pytorch": [], "svc": []})
    assert spec["tasks"][0]["unknown"] == 1


@with_rows("spec", "problem")
def test_what_cannot_be_used_is_a_problem(spec: dict[str, Any], problem: str) -> None:
    assert problem in cron(**spec).problem


def test_the_job_of_a_cron_job_is_known_by_its_owner() -> None:
    owner = {"kind": "CronJob", "uid": "cron", "controller": True}
    metadata: dict[str, Any] = {
        "name": "nightly-29539020",
        "namespace": "team",
        "uid": "u",
        "ownerReferences": [owner],
    }
    found = owned_job(
        msgspec.json.encode({"metadata": metadata, "status": {"state": {"phase": "Completed"}}})
    )
    # Volcano's own controller may have made it: without the annotation the name says when.
    assert (found.owner, found.scheduled, found.ended) == ("cron", at("2026-03-01 05:00"), True)
    assert owned_job(msgspec.json.encode({"metadata": {**metadata, "ownerReferences": []}})) is None


# ── a law over any sequence of ticks, endings, restarts and lagging statuses ──────────────────────────────────────


@dataclass
class Cluster:
    """What the API server has, and what a controller remembers of it."""

    fact: CronJobFact
    now: int = CREATED
    jobs: dict[str, OwnedJob] = field(default_factory=dict)
    #: Every Job that ever was: its name once for each creation.
    made: list[str] = field(default_factory=list)
    started: list[int] = field(default_factory=list)

    def tick(self, *, crash: bool) -> None:
        """A step; ``crash``: right after the Job was created."""
        found = step(self.fact, list(self.jobs.values()), self.now)
        for each in found.replaced:
            self.jobs.pop(each.name, None)
        if found.start is not None:
            name = f"nightly-{found.start // 60}"
            if name not in self.jobs:  # else AlreadyExists
                self.made.append(name)
                self.started.append(found.start)
                self.jobs[name] = OwnedJob(
                    namespace="team",
                    name=name,
                    uid=f"{name}-{len(self.made)}",
                    owner="cron",
                    phase="Running",
                    created=self.now,
                    scheduled=found.start,
                )
            if crash:
                return
        for each in found.outdated:
            self.jobs.pop(each.name, None)

    def record(self) -> None:
        """The status is written, and the next step sees it."""
        fields = status_of(self.fact, list(self.jobs.values()))
        fact = cron_job_fact({"metadata": {"uid": "cron"}, "spec": {}, "status": fields})
        self.fact = replace(
            self.fact,
            last_scheduled=fact.last_scheduled,
            last_successful=fact.last_successful,
            active=fact.active,
        )

    def end_one(self, phase: str) -> None:
        running = [each for each in self.jobs.values() if not each.ended]
        if running:
            self.jobs[running[0].name] = replace(running[0], phase=phase, changed=self.now)


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("wait"), st.integers(1, 7200)),
        st.tuples(st.just("tick"), st.booleans()),
        st.tuples(st.just("end"), st.sampled_from(["Completed", "Failed", "Terminated"])),
        st.tuples(st.just("record"), st.none()),
        st.tuples(st.just("clock"), st.integers(-5400, -1)),
    ),
    max_size=40,
)


@given(
    events=EVENTS,
    policy=st.sampled_from(["Allow", "Forbid", "Replace"]),
    schedule=st.sampled_from(["*/10 * * * *", "@hourly", "@every 7m", "5,6 * * * *"]),
    deadline=st.sampled_from([None, 30, 1200]),
    limit=st.integers(0, 2),
)
@in_worlds(300)
def test_each_time_starts_at_most_one_job_and_forbid_never_has_two(
    events: list[tuple[str, Any]], policy: str, schedule: str, deadline: int | None, limit: int
) -> None:
    spec = {"schedule": schedule, "concurrencyPolicy": policy, "successfulJobsHistoryLimit": limit}
    if deadline is not None:
        spec["startingDeadlineSeconds"] = deadline
    cluster = Cluster(cron(**spec))
    for what, value in events:
        match what:
            case "wait" | "clock":
                cluster.now = max(CREATED, cluster.now + value)
            case "tick":
                due = step(cluster.fact, list(cluster.jobs.values()), cluster.now).start
                assert due is None or deadline is None or cluster.now <= due + deadline
                cluster.tick(crash=value)
            case "end":
                cluster.end_one(value)
            case "record":
                cluster.record()
        running = [each for each in cluster.jobs.values() if not each.ended]
        assert policy == "Allow" or len(running) <= 1
        assert sorted(set(cluster.made)) == sorted(cluster.made), "no name is used twice"
        assert cluster.started == sorted(set(cluster.started)), "no time is used twice, nor out of order"


@given(pauses=st.lists(st.integers(1, 400), min_size=1, max_size=30))
def test_no_start_is_lost_while_ticks_come_within_the_deadline(pauses: list[int]) -> None:
    cluster = Cluster(cron(schedule="*/10 * * * *", startingDeadlineSeconds=400))
    for pause in pauses:
        cluster.now += pause
        cluster.tick(crash=False)
        cluster.record()
    expected = list(range(CREATED // 600 * 600 + 600, cluster.now + 1, 600))
    assert expected == cluster.started
