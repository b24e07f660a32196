"""CronJobs, JobFlows, JobTemplates and their Jobs with anything in their fields: read, judged, never raised."""

import json
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from admission.job_starts import cron_job_steps as cron_steps
from admission.job_starts import job_flow_steps as flow_steps
from admission.job_starts.job_flow import job_flow_fact
from admission.job_starts.owned_jobs import owned_job
from admission.kube.job_starts.watched_kinds import template_fact
from queues.api.schedules.made_jobs import made_job_violations
from queues.api.validation.validation import violations_of
from tests.laws.worlds.settings import in_worlds

#: What a document may hold where its definition does not look, or an older definition did not.
ANYTHING = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(allow_nan=False, allow_infinity=False),
        st.sampled_from(
            ["", "a", "* * * * *", "0 0 31 2 *", "@every 1ns", "Europe/Berlin", "x" * 300, "\0\n"]
        ),
        st.text(max_size=8),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
FIELDS = [
    "schedule timeZone startingDeadlineSeconds concurrencyPolicy suspend jobTemplate successfulJobsHistoryLimit",
    "failedJobsHistoryLimit flows name dependsOn targets probe strategy httpGetList tcpSocketList taskStatusList",
    "taskName port path httpHeader phase value patch jobSpec spec jobRetainPolicy tasks replicas minAvailable",
    "template metadata labels annotations containers queue plugins priorityClassName state jobStatusList active",
    "conditions lastScheduleTime runningHistories startTimestamp uid ownerReferences controller kind",
]
KEYS = st.sampled_from(" ".join(FIELDS).split())


def parts(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(ANYTHING, st.dictionaries(KEYS, inner, max_size=5), st.lists(inner, max_size=3))


PART = parts(parts(parts(parts(ANYTHING))))
SPEC = st.dictionaries(KEYS, PART, max_size=8)
#: As the API server itself writes it.
METADATA = {"name": "x", "namespace": "team", "uid": "u", "creationTimestamp": "2026-03-01T00:00:00Z"}


def job() -> Any:
    owner = {"kind": "CronJob", "name": "x", "uid": "u", "controller": True}
    found = owned_job(json.dumps({"metadata": {**METADATA, "ownerReferences": [owner]}}).encode())
    assert found is not None
    return found


@given(spec=SPEC, status=SPEC)
@in_worlds(120)
def test_no_cron_job_raises(spec: Any, status: Any) -> None:
    document = {"metadata": METADATA, "spec": spec, "status": status}
    violations_of({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "CronJob", **document})
    fact = cron_steps.cron_job_fact(document)
    found = cron_steps.step(fact, [job()], fact.created + 10_000_000)
    cron_steps.status_of(fact, [job()])
    if found.start is not None:
        made_job_violations(cron_steps.job_document(fact, found.start, namespace_queue=None))


@given(spec=SPEC, status=SPEC, template=SPEC)
@in_worlds(120)
def test_no_job_flow_raises(spec: Any, status: Any, template: Any) -> None:
    flows = [{"name": "a"}, {"name": "b", "dependsOn": {"targets": ["a"]}, **spec}]
    for each in (spec, {"flows": flows}):
        document = {"metadata": METADATA, "spec": each, "status": status}
        violations_of({"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobFlow", **document})
        fact = job_flow_fact(document)
        templates = {"a": template_fact({"metadata": METADATA, "spec": template}).spec}
        found = flow_steps.step(fact, {"x-a": job()}, {**templates, "b": template})
        found = flow_steps.step(fact, {}, {**templates, "b": template})
        for start in found.starts:
            made_job_violations(start)
        msgspec.json.encode(found.status)


@given(document=st.fixed_dictionaries({"metadata": SPEC, "spec": PART, "status": PART}))
@in_worlds(100)
def test_no_job_raises(document: Any) -> None:
    owned_job(json.dumps(document).encode())
