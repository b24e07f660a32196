"""Which templates share a dry run, and what its answers mean."""

import json
from typing import Any

import pytest

from admission.decode.template_trials import refusal_answered, shape_answered, template_digest
from queues.api import names
from queues.api.node_affinity import pinned
from queues.errors import ApiError, ApiRefused, ApiUnavailable, Conflict, NotFound, TooManyRequests
from queues.resources import Resources
from tests.tables import with_rows

LABELS = {"app": "train", "batch.kubernetes.io/controller-uid": "1", "job-name": "a"}
CONTAINER = {"name": "main", "image": "train", "command": ["train"], "resources": {"requests": {"cpu": "1"}}}


def digest(
    labels: dict[str, str] = LABELS,
    annotations: dict[str, str] | None = None,
    container: Any = CONTAINER,
    **spec: Any,
) -> str:
    metadata = {"labels": labels, **({"annotations": annotations} if annotations else {})}
    document = {"metadata": metadata, "spec": {"containers": [container], **spec}}
    return template_digest(json.dumps(document).encode())


def test_jobs_of_one_template_share_a_dry_run() -> None:
    of_another = {**LABELS, "batch.kubernetes.io/controller-uid": "2", "job-name": "b"}
    released = {**LABELS, "muster.dev/released": "false"}
    assert digest(of_another) == digest(released) == digest()
    assert digest(annotations={"muster.dev/user": "alice"}) == digest(annotations={"muster.dev/user": "bob"})


def test_runs_of_a_series_share_a_dry_run() -> None:
    assert digest(container={**CONTAINER, "command": ["train", "--seed=2"], "args": ["x"]}) == digest()


def test_nodes_and_a_gate_that_an_admission_wrote_make_no_other_template() -> None:
    assert digest(schedulingGates=[{"name": names.GATE}]) == digest()
    own = {"podAntiAffinity": {"kept": True}}
    of_admission = {names.ADMISSION_ID: "7"}
    assert digest(annotations=of_admission, affinity=pinned(own, ["n1", "n2"])) == digest(affinity=own)
    assert digest(annotations=of_admission, affinity=pinned(None, ["n1"])) == digest()
    assert digest(affinity=pinned(None, ["n1"])) != digest(), "its user wrote them"


@pytest.mark.parametrize(
    "other",
    [
        {"labels": {"app": "other"}},
        {"annotations": {"sidecar.istio.io/inject": "true"}},
        {"container": {**CONTAINER, "resources": {"requests": {"cpu": "2"}}}},
        {"container": {**CONTAINER, "securityContext": {"privileged": True}}},
        {"container": {**CONTAINER, "image": "other"}},
        {"runtimeClassName": "kata"},
        {"serviceAccountName": "robot"},
        {"initContainers": [CONTAINER]},
        {"schedulingGates": [{"name": "example.com/mine"}]},
    ],
)
def test_what_defaults_and_checks_may_rest_on_makes_another_template(other: dict[str, Any]) -> None:
    assert digest(**other) not in ("", digest())


@pytest.mark.parametrize("template", [b"", b"[]", b'{"spec": {"containers": 1}}', b'{"spec": []}'])
def test_a_template_that_cannot_be_read_is_not_tried(template: bytes) -> None:
    assert template_digest(template) == ""


def test_what_the_answer_shows_counts_with_sidecars_and_overhead() -> None:
    mesh = {"name": "mesh", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}}
    kata = {"overhead": {"cpu": "250m"}, "nodeSelector": {"runtime": "kata"}}
    spec = {"containers": [CONTAINER], "initContainers": [mesh], **kata}
    shape = shape_answered(json.dumps({"metadata": {"name": "a"}, "spec": spec}).encode())
    assert shape.takes == Resources({"cpu": 1350, "pods": 1})
    assert shape.nodes.selector == (("runtime", "kata"),)
    assert shape_answered(b"{}") is None
    assert shape_answered(b"no JSON") is None


def refused(status: int, reason: str, kind: type[ApiError] = ApiRefused, *, method: str = "POST") -> str:
    return refusal_answered(kind(method=method, path="/pods", status=status, reason=reason, code=""))


@with_rows("status", "reason", "told")
def test_checks_of_the_api_server_are_told_without_what_differs_each_time(
    status: int, reason: str, told: str
) -> None:
    assert refused(status, reason) == told


@pytest.mark.parametrize(
    ("status", "reason", "kind"),
    [
        (500, "failed calling webhook", ApiUnavailable),
        (0, "timeout", ApiUnavailable),
        (429, "later", TooManyRequests),
        (409, "conflict", Conflict),
        (404, "no such namespace", NotFound),
        (401, "Unauthorized", ApiRefused),
        (400, 'admission webhook "a.b" does not support dry run', ApiRefused),
        (403, 'pods is forbidden: User "muster" cannot create resource "pods" in API group ""', ApiRefused),
    ],
)
def test_what_says_nothing_of_the_pods_is_no_refusal(status: int, reason: str, kind: type[ApiError]) -> None:
    assert refused(status, reason, kind) == ""


def test_that_a_job_cannot_be_read_says_nothing_of_its_pods() -> None:
    """An API server that has just started may refuse everything: it does not know its rights yet."""
    forbidden = 'jobs.batch "a" is forbidden: User "muster" cannot get resource "jobs" in API group "batch"'
    assert refused(403, forbidden, method="GET") == ""
