"""What the API server itself says of objects that are tried, in a dry run as the user."""

import json
import threading
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec import structs

from admission.api_connection import Access
from admission.cli.access.objects import Refused
from admission.cli.access.requests import Route
from admission.cli.command_line import CommandFailed
from admission.cli.plugin.dry_runs import (
    Created,
    DryRun,
    create_in_dry_run,
    dry_runs,
    to_be_tried,
    with_dry_runs,
    workloads_among,
)
from admission.workloads.kinds import known_kinds
from queues.read_api.bodies import SeatsBody
from queues.read_api.trials import TrialBody, TrialRequestBody
from tests.builders.added_kinds import WIDGET, widget
from tests.builders.trials.worlds_in_memory import batch_job, volcano_job
from tests.fakes.scripted_server import scripted_server
from tests.tables import with_rows


def item(kind: str, name: str, state: str = "admitted", **more: Any) -> TrialBody:
    place = SeatsBody(node="n0", pod_set="main", flavor="", ordinals="0", count=1, takes={})
    told = TrialBody(kind=kind, namespace="ml", name=name, state=state, places=(place,), node_count=1)
    return structs.replace(told, **more)


class Server:
    """Suspends each document, and says the same of each one of a name."""

    def __init__(self, **answers: Exception) -> None:
        self.answers = answers
        self.warnings: tuple[str, ...] = ()
        self.asked: dict[tuple[str, str], Mapping[str, Any]] = {}
        self._lock = threading.Lock()

    def create(self, path: str, document: Mapping[str, Any]) -> Created:
        name = document["metadata"].get("name", "generated")
        with self._lock:
            self.asked[path, name] = document
        if name in self.answers:
            raise self.answers[name]
        metadata = {"uid": "u", "managedFields": [], "name": "tried-x7", **document["metadata"]}
        return Created({**document, "metadata": metadata, "suspended": True}, self.warnings)


def refused(status: int, found: str) -> Refused:
    return Refused(status=status, tried="Creating it in a dry run", found=found, hint="")


def asked(server: Server, *documents: dict[str, Any], queue: str = "") -> list[DryRun]:
    workloads = {key: each.resource for key, each in known_kinds().by_resource.items()}
    question = TrialRequestBody(documents=documents, namespace="ml", queue=queue)
    return dry_runs(question, workloads, server.create)


def one(server: Server, document: dict[str, Any]) -> DryRun:
    (found,) = asked(server, document)
    return found


def pod(name: str, group: str = "") -> dict[str, Any]:
    annotations = {"scheduling.k8s.io/group-name": group} if group else {}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": annotations}}


CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}


def test_the_leader_is_asked_about_what_the_api_server_would_store() -> None:
    server = Server()
    (found,) = to_be_tried(asked(server, batch_job("a", 1, queue="team")))

    assert (found["suspended"], found["metadata"]["name"]) == (True, "a")
    assert not {"uid", "managedFields"} & set(found["metadata"])
    jobs, pods = ("/apis/batch/v1/namespaces/ml/jobs", "a"), ("/api/v1/namespaces/ml/pods", "generated")
    assert list(server.asked) == [jobs, pods]


def test_what_the_api_server_warns_of_is_told_of_the_object() -> None:
    server = Server()
    server.warnings = ("spec.queue is deprecated",)
    runs = asked(server, volcano_job("a", 1, queue="team"))
    (found,) = with_dry_runs((item("vcjob", "a"),), runs)
    assert found.warnings == ("spec.queue is deprecated",)


def test_fields_that_strict_validation_refuses_refuse_the_object(golden: Any) -> None:
    said = (
        'Job in version "v1alpha1" cannot be handled as a Job: strict decoding error: '
        'unknown field "spec.minAvailble", unknown field "spec.tasks[0].replica"'
    )
    runs = asked(Server(a=refused(400, said)), volcano_job("a", 1, queue="team"))

    assert to_be_tried(runs) == ()
    (found,) = with_dry_runs((), runs)
    assert (found.kind, found.name, found.state) == ("vcjob", "a", "refused")
    assert list(found.refusals) == golden


def test_what_is_refused_and_what_is_tried_are_told_in_the_order_of_the_documents() -> None:
    said = 'pods "a" is forbidden: violates PodSecurity "restricted:latest"'
    runs = asked(Server(a=refused(403, said)), batch_job("first", 1), pod("a"), batch_job("last", 1), CONFIG)

    assert [each["metadata"]["name"] for each in to_be_tried(runs)] == ["first", "last", "c"]
    found = with_dry_runs((item("job", "first"), item("job", "last")), runs)
    assert [(each.name, each.state) for each in found] == [
        ("first", "admitted"),
        ("a", "refused"),
        ("last", "admitted"),
    ]
    assert found[1].refusals == (said,)


def test_where_all_that_waits_is_refused_nothing_is_left_to_try() -> None:
    runs = asked(Server(a=refused(404, 'namespaces "ml" not found')), batch_job("a", 1), CONFIG)
    assert to_be_tried(runs) == ()
    assert [each.refusals for each in with_dry_runs((), runs)] == [('namespaces "ml" not found',)]


def test_of_a_name_that_is_taken_another_one_is_created() -> None:
    server = Server(a=refused(409, 'jobs.batch "a" already exists'))
    run = one(server, batch_job("a", 1, queue="team"))
    assert run.warnings == ("there is an object of this kind and name already",)
    assert (run.document["suspended"], run.document["metadata"]["name"]) == (True, "a")
    assert "generateName" not in run.document["metadata"]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            refused(
                403, 'jobs.batch is forbidden: User "eve" cannot create resource "jobs" in API group "batch"'
            ),
            "you may not create jobs.batch in namespace ml: what the API server makes of it is unknown",
        ),
        (refused(429, "too many"), "the API server could not say what it makes of this object: too many"),
        (
            refused(503, "webhook away"),
            "the API server could not say what it makes of this object: webhook away",
        ),
        (
            CommandFailed(tried="Creating it", found="no answer", hint="Wait longer."),
            "the API server could not say what it makes of this object: Creating it: no answer.",
        ),
    ],
)
def test_what_says_nothing_of_the_object_is_a_warning_and_it_is_tried_as_it_is(
    error: Exception, told: str
) -> None:
    runs = asked(Server(a=error), batch_job("a", 1, queue="team"))
    (tried,) = to_be_tried(runs)
    assert "suspended" not in tried
    (found,) = with_dry_runs((item("job", "a"),), runs)
    assert (found.state, found.warnings) == ("admitted", (told,))


@with_rows("said")
@pytest.mark.parametrize("job", [batch_job, volcano_job], ids=["Job", "vcjob"])
def test_what_the_api_server_would_refuse_of_the_pods_is_a_warning(job: Any, said: str) -> None:
    run = one(Server(generated=refused(403, said)), job("a", 1, queue="team"))
    [warning] = run.warnings
    assert (run.refusal, warning.endswith(f"TemplateRefused: {said}")) == ("", True)
    assert warning.startswith("pods of spec.t")


def test_each_pod_template_is_asked_about_once_and_what_is_not_known_is_left_out() -> None:
    job = volcano_job("a", 1, queue="team")
    job["spec"]["tasks"] += [{**job["spec"]["tasks"][0], "name": "same"}]
    server = Server(generated=refused(403, 'User "eve" cannot create resource "pods" in API group ""'))
    assert one(server, job).warnings == ()
    (pod,) = [each for (path, _), each in server.asked.items() if path.endswith("/pods")]
    assert (pod["kind"], pod["metadata"]["namespace"]) == ("Pod", "ml")
    assert pod["spec"] == job["spec"]["tasks"][0]["template"]["spec"]


def test_the_pods_of_what_is_refused_itself_are_not_asked_about() -> None:
    server = Server(a=refused(403, "no"), generated=refused(403, "nor these"))
    run = one(server, batch_job("a", 1))
    assert (run.refusal, run.warnings) == ("no", ())


def test_members_are_told_with_their_group() -> None:
    group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "ring"}}
    server = Server(m1=refused(400, 'strict decoding error: unknown field "spec.x"'))
    runs = asked(server, group, pod("m0", "ring"), pod("m1", "ring"), queue="other")
    assert to_be_tried(runs) == ()
    (found,) = with_dry_runs((), runs)
    assert (found.kind, found.name, found.state) == ("podgroup", "ring", "refused")
    assert found.refusals[0].startswith('pod m1: unknown field "spec.x"')
    labels = {name: each["metadata"].get("labels") for (_, name), each in server.asked.items()}
    assert labels == {"ring": {"muster.dev/queue-name": "other"}, "m0": None, "m1": None}


def test_documents_that_do_not_wait_are_not_sent_and_stored_fields_neither() -> None:
    job = batch_job("a", 1, queue="team")
    job["metadata"] |= {"resourceVersion": "7", "uid": "u"}
    server = Server()
    asked(server, job, CONFIG)
    ((place, sent),) = (
        (place, each) for place, each in server.asked.items() if not place[0].endswith("/pods")
    )
    assert place[1] == "a"
    assert not {"resourceVersion", "uid"} & set(sent["metadata"])


def test_it_is_created_in_a_dry_run_with_strict_validation_and_not_where_no_api_server_is_known() -> None:
    assert create_in_dry_run(Route(server="https://replica")) is None
    with scripted_server() as server:
        server.says(201, {}, Warning='299 - "of \\"a\\"", 299 - "too"')
        create = create_in_dry_run(Route(access=Access(server=server.url)))
        assert create is not None
        assert create("/apis/batch/v1/namespaces/ml/jobs", batch_job("a", 1)).warnings == ('of "a"', "too")
        (asked,) = server.asked
    assert asked.method == "POST"
    query = "dryRun=All&fieldValidation=Strict&fieldManager=kubectl-muster"
    assert asked.path == f"/apis/batch/v1/namespaces/ml/jobs?{query}"
    sent = asked.body if isinstance(asked.body, dict) else json.loads(asked.body)
    assert sent["metadata"]["name"] == "a"


def test_objects_of_a_kind_that_administrators_have_added_are_tried_as_others() -> None:
    document = widget("a", "team")
    with scripted_server() as server:
        route = Route(access=Access(server=server.url))
        assert ("example.com/v1", "Widget") not in workloads_among([document], route), "it may not see kinds"
        server.says(200, {"items": [WIDGET]})
        workloads = workloads_among([document, CONFIG], route)
        assert workloads_among([batch_job("a", 1), CONFIG], route).keys() < workloads.keys()
        assert len(server.asked) == 2, "kinds are asked for where a document is of an unknown one"
    asking = Server()
    (run,) = dry_runs(TrialRequestBody(documents=(document,), namespace="ml"), workloads, asking.create)
    assert (run.kind, run.name) == ("widget", "a")
    assert ("/apis/example.com/v1/namespaces/ml/widgets", "a") in asking.asked
