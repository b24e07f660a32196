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
from admission.cli.plugin.dry_runs import create_in_dry_run, with_dry_runs
from queues.read_api.trials import PlaceBody, SkippedBody, TrialBody, TrialList, TrialRequestBody
from tests.builders.trials.worlds_in_memory import batch_job, volcano_job
from tests.fakes.scripted_server import scripted_server
from tests.tables import with_rows


def item(kind: str, name: str, state: str = "admitted", **more: Any) -> TrialBody:
    place = PlaceBody(node="n0", domain="", pod_set="main", flavor="", count=1, takes={})
    told = TrialBody(kind=kind, namespace="ml", name=name, state=state, places=(place,), node_count=1)
    return structs.replace(told, **more)


class Server:
    """Says the same of each document of a name."""

    def __init__(self, **answers: Exception) -> None:
        self.answers = answers
        self.asked: dict[tuple[str, str], Mapping[str, Any]] = {}
        self._lock = threading.Lock()

    def create(self, path: str, document: Mapping[str, Any]) -> object:
        name = document["metadata"].get("name", "generated")
        with self._lock:
            self.asked[path, name] = document
        if name in self.answers:
            raise self.answers[name]
        return document


def refused(status: int, found: str) -> Refused:
    return Refused(status=status, tried="Creating it in a dry run", found=found, hint="")


def answer(
    server: Server, documents: list[dict[str, Any]], *items: TrialBody, queue: str = ""
) -> tuple[TrialBody, ...]:
    skipped = (SkippedBody(api_version="v1", kind="ConfigMap", name="c"),)
    body = TrialList(now="2026-11-21T10:00:00Z", items=items, skipped=skipped)
    question = TrialRequestBody(documents=tuple(documents), namespace="ml", queue=queue)
    return with_dry_runs(body, question, server.create).items


def test_fields_that_strict_validation_refuses_refuse_the_object(golden: Any) -> None:
    said = (
        'Job in version "v1alpha1" cannot be handled as a Job: strict decoding error: '
        'unknown field "spec.minAvailble", unknown field "spec.tasks[0].replica"'
    )
    server = Server(a=refused(400, said))
    (found,) = answer(server, [volcano_job("a", 1, queue="team")], item("vcjob", "a"))

    assert found.state == "refused"
    assert list(found.refusals) == golden
    assert found.places == ()


def test_an_object_that_is_taken_stays_as_it_was_told() -> None:
    server = Server()
    told = item("job", "a", unknown_fields=("spec.ofALaterVersion",))
    assert answer(server, [batch_job("a", 1, queue="team")], told) == (
        structs.replace(told, unknown_fields=()),
    )
    jobs, pods = ("/apis/batch/v1/namespaces/ml/jobs", "a"), ("/api/v1/namespaces/ml/pods", "generated")
    assert list(server.asked) == [jobs, pods]


def test_fields_are_told_beside_what_muster_refuses_and_its_own_refusal_only_once(golden: Any) -> None:
    mine = item("vcjob", "a", "refused", refusals=("there is no queue",))
    job = volcano_job("a", 1, queue="nowhere")
    by_webhook = refused(403, 'admission webhook "muster.dev" denied the request: there is no queue')
    (found,) = answer(Server(a=by_webhook), [job], mine)
    assert found == mine
    strict = refused(400, 'strict decoding error: unknown field "spec.x"')
    (found,) = answer(Server(a=strict), [job], mine)
    assert [text.partition(":")[0] for text in found.refusals] == golden


def test_what_other_policies_refuse_is_told_as_it_is() -> None:
    said = 'pods "a" is forbidden: violates PodSecurity "restricted:latest"'
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}
    (found,) = answer(Server(a=refused(403, said)), [pod], item("pod", "a"))
    assert (found.state, found.refusals) == ("refused", (said,))


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            refused(
                403, 'jobs.batch is forbidden: User "eve" cannot create resource "jobs" in API group "batch"'
            ),
            "you may not create jobs.batch in namespace ml: whether the API server takes this is not known",
        ),
        (refused(409, 'jobs.batch "a" already exists'), "there is an object of this kind and name already"),
        (refused(429, "too many"), "the API server could not say whether it takes this object: too many"),
        (
            refused(503, "webhook away"),
            "the API server could not say whether it takes this object: webhook away",
        ),
        (
            refused(400, 'admission webhook "other" does not support dry run'),
            'the API server could not say whether it takes this object: admission webhook "other" does not support '
            "dry run",
        ),
        (
            CommandFailed(tried="Creating it", found="no answer", hint="Wait longer."),
            "the API server could not say whether it takes this object: Creating it: no answer.",
        ),
    ],
)
def test_what_says_nothing_of_the_object_is_a_warning(error: Exception, told: str) -> None:
    told_by_leader = item("job", "a", unknown_fields=("spec.x",))
    (found,) = answer(Server(a=error), [batch_job("a", 1, queue="team")], told_by_leader)
    assert (found.state, found.warnings) == ("admitted", (told,))
    # Of a name that is taken the fields were looked at first.
    assert found.unknown_fields == (() if "already" in told else ("spec.x",))


@with_rows("said")
@pytest.mark.parametrize(("kind", "job"), [("job", batch_job), ("vcjob", volcano_job)], ids=["Job", "vcjob"])
def test_what_the_api_server_would_refuse_of_the_pods_is_a_warning(kind: str, job: Any, said: str) -> None:
    server = Server(generated=refused(403, said))
    (found,) = answer(server, [job("a", 1, queue="team")], item(kind, "a"))
    assert found.state == "admitted"
    [warning] = found.warnings
    assert warning.endswith(f"TemplateRefused: {said}")
    assert warning.startswith("pods of spec.t")


def test_each_pod_template_is_asked_about_once_and_what_is_not_known_is_left_out() -> None:
    job = volcano_job("a", 1, queue="team")
    job["spec"]["tasks"] += [{**job["spec"]["tasks"][0], "name": "same"}]
    server = Server(generated=refused(403, 'User "eve" cannot create resource "pods" in API group ""'))
    (found,) = answer(server, [job], item("vcjob", "a"))
    assert found.warnings == ()
    (pod,) = [each for (path, _), each in server.asked.items() if path.endswith("/pods")]
    assert (pod["kind"], pod["metadata"]["namespace"]) == ("Pod", "ml")
    assert pod["spec"] == job["spec"]["tasks"][0]["template"]["spec"]


def test_the_pods_of_what_is_refused_itself_are_not_asked_about() -> None:
    server = Server(a=refused(403, "no"), generated=refused(403, "nor these"))
    (found,) = answer(server, [batch_job("a", 1)], item("job", "a"))
    assert found.refusals == ("no",)
    assert found.warnings == ()


def test_members_are_told_with_their_group() -> None:
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"m{number}", "annotations": {"scheduling.k8s.io/group-name": "ring"}},
        }
        for number in range(2)
    ]
    group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "ring"}}
    server = Server(m1=refused(400, 'strict decoding error: unknown field "spec.x"'))
    (found,) = answer(server, [group, *pods], item("podgroup", "ring"), queue="other")
    assert found.state == "refused"
    assert found.refusals[0].startswith('pod m1: unknown field "spec.x"')
    labels = {name: each["metadata"].get("labels") for (_, name), each in server.asked.items()}
    assert labels == {"ring": {"muster.dev/queue-name": "other"}, "m0": None, "m1": None}


def test_documents_that_do_not_wait_are_not_sent_and_stored_fields_neither() -> None:
    job = batch_job("a", 1, queue="team")
    job["metadata"] |= {"resourceVersion": "7", "uid": "u"}
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    server = Server()
    answer(server, [job, config], item("job", "a"))
    ((place, sent),) = (
        (place, each) for place, each in server.asked.items() if not place[0].endswith("/pods")
    )
    assert place[1] == "a"
    assert not {"resourceVersion", "uid"} & set(sent["metadata"])


def test_it_is_created_in_a_dry_run_with_strict_validation_and_not_where_no_api_server_is_known() -> None:
    assert create_in_dry_run(Route(server="https://replica")) is None
    with scripted_server() as server:
        server.says(201, {})
        create = create_in_dry_run(Route(access=Access(server=server.url)))
        assert create is not None
        create("/apis/batch/v1/namespaces/ml/jobs", batch_job("a", 1))
        (asked,) = server.asked
    assert asked.method == "POST"
    query = "dryRun=All&fieldValidation=Strict&fieldManager=kubectl-muster"
    assert asked.path == f"/apis/batch/v1/namespaces/ml/jobs?{query}"
    sent = asked.body if isinstance(asked.body, dict) else json.loads(asked.body)
    assert sent["metadata"]["name"] == "a"
