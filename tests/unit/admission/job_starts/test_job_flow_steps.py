"""What follows for a JobFlow: which Jobs start, in which order, and what its status says."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.job_starts.job_flow import JobFlowFact, NetworkProbe, job_flow_fact
from admission.job_starts.job_flow_steps import FlowStep, step
from admission.job_starts.owned_jobs import OwnedJob
from tests.laws.worlds.settings import in_worlds
from tests.tables import with_rows

TEMPLATE = {"tasks": [{"name": "w", "template": {"spec": {"containers": [{"name": "c"}]}}}]}
TEMPLATES = dict.fromkeys("abcd", TEMPLATE)
DIAMOND = {"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c")}


def flow(
    graph: dict[str, tuple[str, ...]] = DIAMOND,
    status: dict[str, Any] | None = None,
    depends: dict[str, Any] | None = None,
    deleting: bool = False,
    **spec: Any,
) -> JobFlowFact:
    flows = [
        {"name": name, **({"dependsOn": {"targets": list(targets), **(depends or {})}} if targets else {})}
        for name, targets in graph.items()
    ]
    metadata = {"name": "f", "namespace": "team", "uid": "flow", "annotations": {"muster.dev/user": "ann"}}
    if deleting:
        metadata["deletionTimestamp"] = "2026-03-01T00:00:00Z"
    return job_flow_fact({"metadata": metadata, "spec": {"flows": flows, **spec}, "status": status or {}})


def job(name: str, phase: str = "Running", **more: Any) -> OwnedJob:
    fields = {"tasks": {"w": 1}, "created": 1, "changed": 2, **more}
    return OwnedJob(namespace="team", name=name, uid=f"u-{name}", owner="flow", phase=phase, **fields)


def jobs(**phases: str) -> dict[str, OwnedJob]:
    return {f"f-{name}": job(f"f-{name}", phase) for name, phase in phases.items()}


def started(found: FlowStep) -> list[str]:
    return [each["metadata"]["name"].removeprefix("f-") for each in found.starts]


def phase(found: FlowStep) -> str:
    return str(found.status["state"]["phase"])


def told(found: FlowStep, name: str) -> str:
    return str(found.status["conditions"].get(name, {}).get("message", ""))


@pytest.mark.parametrize(
    ("phases", "starts", "state"),
    [
        ({}, ["a"], "Pending"),
        ({"a": "Pending"}, [], "Pending"),
        ({"a": "Running"}, [], "Running"),
        ({"a": "Completing"}, [], "Running"),
        ({"a": "Completed"}, ["b", "c"], "Running"),
        ({"a": "Completed", "b": "Completed", "c": "Running"}, [], "Running"),
        ({"a": "Completed", "b": "Completed", "c": "Completed"}, ["d"], "Running"),
        (dict.fromkeys("abcd", "Completed"), [], "Succeed"),
        ({"a": "Failed"}, [], "Failed"),
        ({"a": "Completed", "b": "Terminated"}, [], "Failed"),
        ({"a": "Aborted"}, [], "Pending"),
    ],
)
def test_a_job_starts_when_those_before_it_are_completed(
    phases: dict[str, str], starts: list[str], state: str
) -> None:
    found = step(flow(), jobs(**phases), TEMPLATES)
    assert (starts, state) == (started(found), phase(found))


def test_one_target_is_enough_where_the_strategy_says_so() -> None:
    graph = {"a": (), "b": (), "c": ("a", "b")}
    first = jobs(a="Completed", b="Running")
    assert started(step(flow(graph), first, TEMPLATES)) == []
    fact = flow(graph, depends={"strategy": "any"})
    assert started(step(fact, first, TEMPLATES)) == ["c"]
    assert started(step(fact, jobs(a="Running", b="Running"), TEMPLATES)) == []


def test_what_is_missing_is_told() -> None:
    found = step(flow(), {}, {})
    assert started(found) == []
    assert told(found, "f-a") == "waits for JobTemplate a, which does not exist"
    assert told(found, "f-b") == "waits for Job f-a, which does not exist yet"
    found = step(flow(), jobs(a="Running"), TEMPLATES)
    assert told(found, "f-b") == "waits for Job f-a to be completed; it is Running"
    refused = step(flow(), {}, TEMPLATES, refused={"f-a": "Job f-a cannot be created: no"})
    assert "cannot be created: no" in told(refused, "f-a")


def test_a_flow_that_cannot_be_used_starts_nothing_and_says_why() -> None:
    found = step(flow({"a": ("b",), "b": ("a",)}), {}, TEMPLATES)
    assert (started(found), phase(found)) == ([], "Pending")
    assert "flows that depend on one another in a cycle" in told(found, "f")
    assert "expected one of" in told(step(flow(jobRetainPolicy="keep"), {}, TEMPLATES), "f")


@pytest.mark.parametrize("state", ["Succeed", "Failed"])
def test_what_is_over_starts_nothing_more(state: str) -> None:
    found = step(flow(status={"state": {"phase": state}}), jobs(a="Completed"), TEMPLATES)
    assert (started(found), phase(found)) == ([], state)


def test_a_flow_that_is_deleted_starts_nothing_more() -> None:
    found = step(flow(deleting=True), jobs(a="Completed"), TEMPLATES)
    assert (started(found), phase(found)) == ([], "Terminating")


def test_a_completed_job_counts_after_it_is_gone_and_no_other_does() -> None:
    before = step(flow(), jobs(a="Completed", b="Running", c="Running"), TEMPLATES).status
    found = step(flow(status=before), {}, TEMPLATES)
    assert started(found) == ["b", "c"]
    assert found.status["completedJobs"] == ["f-a"]


def test_jobs_are_deleted_only_after_the_status_says_that_all_is_done() -> None:
    done = jobs(**dict.fromkeys("abcd", "Completed"))
    found = step(flow(jobRetainPolicy="delete"), done, TEMPLATES)
    assert (phase(found), found.deleted) == ("Succeed", ())
    again = step(flow(jobRetainPolicy="delete", status=found.status), done, TEMPLATES)
    assert [each.name for each in again.deleted] == ["f-a", "f-b", "f-c", "f-d"]
    kept = step(flow(status=found.status), done, TEMPLATES)
    assert kept.deleted == ()
    gone = step(flow(jobRetainPolicy="delete", status=found.status), {}, TEMPLATES)
    assert gone.status["completedJobs"] == ["f-a", "f-b", "f-c", "f-d"]


def test_a_job_is_made_from_its_template_and_its_patch() -> None:
    document = {
        "metadata": {"name": "f", "namespace": "team", "uid": "flow"},
        "spec": {
            "flows": [
                {
                    "name": "a",
                    "patch": {
                        "spec": {"queue": "x", "maxRetry": 1},
                        "jobSpec": {"queue": "vision", "tasks": [{"replicas": 3}]},
                    },
                }
            ]
        },
    }
    [start] = step(job_flow_fact(document), {}, TEMPLATES).starts
    metadata, spec = start["metadata"], start["spec"]
    created_by = {"volcano.sh/created-by-jobtemplate": "team.a", "volcano.sh/created-by-jobflow": "team.f"}
    assert metadata["name"] == "f-a"
    assert metadata["annotations"] == metadata["labels"] == created_by
    assert metadata["ownerReferences"][0]["uid"] == "flow"
    assert (spec["queue"], spec["maxRetry"], spec["minAvailable"]) == ("vision", 1, 3)
    assert spec["tasks"][0]["template"] == TEMPLATE["tasks"][0]["template"]


def test_long_names_are_no_labels() -> None:
    document = {
        "metadata": {"name": "f", "namespace": "n" * 60, "uid": "u"},
        "spec": {"flows": [{"name": "abcd"}]},
    }
    [start] = step(job_flow_fact(document), {}, {"abcd": TEMPLATE}).starts
    assert list(start["metadata"]["labels"]) == ["volcano.sh/created-by-jobflow"]
    assert len(start["metadata"]["annotations"]) == 2


STATUS = {"probe": {"taskStatusList": [{"taskName": "w", "phase": "Running"}]}}
HTTP = {"probe": {"httpGetList": [{"taskName": "w", "path": "/ready", "port": 80}]}}


@with_rows("phase_of_job", "counts", "starts")
def test_a_probe_of_a_phase_asks_all_pods_of_the_task(
    phase_of_job: str, counts: dict[str, int], starts: bool
) -> None:
    target = job("f-a", phase_of_job, tasks={"w": 2}, counts={"w": counts})
    found = step(flow({"a": (), "b": ("a",)}, depends=STATUS), {"f-a": target}, TEMPLATES)
    assert starts == (started(found) == ["b"])


def test_a_probe_over_the_network_is_asked_until_it_passes_or_the_target_is_completed() -> None:
    fact, target = flow({"a": (), "b": ("a",)}, depends=HTTP), {"f-a": job("f-a")}
    found = step(fact, target, TEMPLATES)
    probe = NetworkProbe("f-a", "u-f-a", "w", 1, 80, "/ready")
    assert (started(found), found.probes) == ([], (probe,))
    assert told(found, "f-b") == "waits for 1 pod of task w of Job f-a to answer HTTP at 80/ready"
    assert started(step(fact, target, TEMPLATES, passed=frozenset({probe}))) == ["b"]
    assert started(step(fact, jobs(a="Completed"), TEMPLATES)) == ["b"]
    # Another Job of that name has to be asked again.
    other = {"f-a": replace(job("f-a"), uid="other")}
    assert started(step(fact, other, TEMPLATES, passed=frozenset({probe}))) == []


def test_targets_that_no_probe_names_have_to_be_completed() -> None:
    graph = {"a": (), "b": (), "c": ("a", "b")}
    probe = {"probe": {"taskStatusList": [{"taskName": "server", "phase": "Running"}]}}
    server = job("f-a", tasks={"server": 1}, counts={"server": {"Running": 1}})
    fact = flow(graph, depends=probe)
    assert started(step(fact, {"f-a": server, "f-b": job("f-b")}, TEMPLATES)) == []
    assert started(step(fact, {"f-a": server, "f-b": job("f-b", "Completed")}, TEMPLATES)) == ["c"]


def test_a_probe_of_a_task_that_no_target_has_is_told() -> None:
    probe = {"probe": {"tcpSocketList": [{"taskName": "sever", "port": 80}]}}
    found = step(flow({"a": (), "b": ("a",)}, depends=probe), jobs(a="Completed"), TEMPLATES)
    assert started(found) == []
    assert "found no task sever in any of its targets" in told(found, "f-b")


def test_the_status_lists_jobs_by_phase_with_their_history(golden: Any) -> None:
    phases = {"a": "Completed", "b": "Restarting", "c": "Terminating", "d": "Failed"}
    status = step(flow(), jobs(**phases), TEMPLATES).status
    lists = {key: value for key, value in status.items() if key.endswith("Jobs")}
    assert lists == golden
    first = step(flow(), {"f-a": job("f-a", "Running", changed=10)}, TEMPLATES).status
    ended = {"f-a": job("f-a", "Completed", changed=70)}
    second = step(flow(status=first), ended, TEMPLATES).status
    [entry] = second["jobStatusList"]
    assert entry["endTimestamp"] == "1970-01-01T00:01:10Z"
    assert [each["state"] for each in entry["runningHistories"]] == ["Running", "Completed"]
    assert entry["runningHistories"][0]["endTimestamp"] == "1970-01-01T00:01:10Z"
    # The same again changes nothing: a status is not written for its own sake.
    assert second == step(flow(status=second), ended, TEMPLATES).status


# ── a law over any graph, and any sequence of ticks, endings, deletions and restarts ──────────────────────────────


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, tuple[str, ...]]:
    names = "abcd"[: draw(st.integers(1, 4))]
    return {
        name: tuple(draw(st.sets(st.sampled_from(names[:index])))) if index else ()
        for index, name in enumerate(names)
    }


@given(
    graph=graphs(),
    events=st.lists(
        st.tuples(
            st.sampled_from(
                ["tick", "crash", "record", "Running", "Completed", "Completed", "Failed", "delete"]
            ),
            st.sampled_from("abcd"),
        ),
        max_size=40,
    ),
    retain=st.sampled_from(["retain", "delete"]),
)
@in_worlds(300)
def test_no_job_starts_before_those_it_depends_on_nor_twice(
    graph: dict[str, tuple[str, ...]], events: list[tuple[str, str]], retain: str
) -> None:
    fact = flow(graph, jobRetainPolicy=retain)
    there: dict[str, OwnedJob] = {}
    completed: set[str] = set()
    for what, name in events:
        job_name = f"f-{name}"
        match what:
            case "tick" | "crash":
                found = step(fact, there, TEMPLATES)
                for each in found.deleted:
                    assert set(graph) <= completed
                    del there[each.name]
                for begun in started(found)[: 1 if what == "crash" else None]:
                    assert set(graph[begun]) <= completed
                    assert begun not in completed, "what is completed runs once"
                    assert f"f-{begun}" not in there
                    there[f"f-{begun}"] = job(f"f-{begun}", "Pending")
            case "record":
                fact = replace(fact, status=step(fact, there, TEMPLATES).status)
            case "delete":
                # A user deletes a Job; one that is completed, after the status says so.
                if job_name in there and (name not in completed or job_name in fact.completed()):
                    del there[job_name]
            case _:
                if job_name in there and not there[job_name].ended:
                    there[job_name] = replace(there[job_name], phase=what)
                    completed |= {name} if what == "Completed" else set()
    states = step(fact, there, TEMPLATES).status["state"]["phase"]
    assert states != "Succeed" or set(graph) <= completed
