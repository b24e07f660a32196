"""The webhook, asked by a real API server; and what it answers to nonsense."""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import aiohttp
import msgspec
import pytest

from admission.kube.install.install import Installation, install
from admission.kube.webhook.certificates import Lifetimes, encoded, renewed
from admission.kube.webhook.configuration import Callee
from admission.kube.webhook.keyring import KeyringStore, utc_now
from admission.kube.webhook.review import LARGEST_REVIEW
from admission.kube.webhook.server import WebhookServer
from deploy.local.processes import free_port
from queues.api.api_resources import (
    DEPLOYMENTS,
    JOB_FLOWS,
    JOB_TEMPLATES,
    NAMESPACES,
    NODES,
    PRIORITY_CLASSES,
    QUEUES,
    VOLCANO_JOBS,
)
from queues.api.api_resources import JOBS as BATCH_JOBS
from queues.api.names import AFTER, GROUP_MIN_MEMBER, QUEUE_LABEL
from queues.api.types.queue import QueueDocument
from queues.errors import ApiRefused, NotFound
from queues.quota.queue import Queue
from tests.kube.support.cluster_objects import batch_job, becomes, exists, pod
from tests.kube.support.guarded_namespace import GATE, QUEUED
from tests.kube.support.webhook_door import NAMESPACE, Running
from tests.tables import with_rows

JOBS = VOLCANO_JOBS.path("default")


GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"


def a_queue(name: str, *, parent: str | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {**({"parent": parent} if parent else {}), **spec},
    }


def a_job(
    name: str, *, queue: str | None = None, minimum: int | None = None, replicas: int = 2
) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "main", "image": "example.com/main"}]}}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            **({"queue": queue} if queue else {}),
            **({"minAvailable": minimum} if minimum else {}),
            "tasks": [{"replicas": replicas, "template": template}],
        },
    }


async def test_a_job_gets_its_queue_and_no_default_that_a_list_would_have(running: Running) -> None:
    asked = a_job("defaults")
    made = await running.created(JOBS, asked)
    assert made["spec"] == {**asked["spec"], "queue": "default", "maxRetry": 3}
    assert made["metadata"]["annotations"]["muster.dev/user"] == "alice"


async def test_a_namespace_says_where_its_jobs_wait(running: Running) -> None:
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "team-a", "annotations": {"scheduling.volcano.sh/queue-name": "team-a"}},
    }
    await running.user.create("/api/v1/namespaces", namespace)
    await becomes(lambda: _defaults_to(running.door, "team-a"))
    assert (await running.created(VOLCANO_JOBS.path("team-a"), a_job("a")))["spec"]["queue"] == "team-a"


async def _knows(door: WebhookServer, queue: str) -> bool:
    return queue in (door.watched.known("default").queues or {})


async def _defaults_to(door: WebhookServer, queue: str) -> bool:
    return door.watched.known("team-a").namespace_queue == queue


async def test_a_job_for_a_queue_made_a_moment_ago_is_accepted(running: Running) -> None:
    for number in range(5):
        await running.user.create(QUEUES.path(), a_queue(f"young-{number}"))
        await running.user.create(JOBS, a_job(f"young-{number}", queue=f"young-{number}"))


async def test_who_makes_a_job_in_a_queue_is_warned_of_what_it_would_wait_for(running: Running) -> None:
    kind = {"apiVersion": PRIORITY_CLASSES.api_version, "kind": PRIORITY_CLASSES.kind}
    await running.user.create(PRIORITY_CLASSES.path(), {**kind, "metadata": {"name": "high"}, "value": 1})
    await running.user.create(QUEUES.path(), a_queue("pair", access={"maxGang": 2}))
    await becomes(lambda: _knows(running.door, "pair"))

    async def warned(minimum: str = "", queue: str = "team-a", **spec: Any) -> str:
        job = batch_job("a", labels={QUEUE_LABEL: queue} if queue else {}, **spec)
        job["metadata"]["annotations"] = {GROUP_MIN_MEMBER: minimum} if minimum else {}
        return await running.warnings(BATCH_JOBS.path("default"), job)

    assert "found 8 pods, which start together or not at all" in await warned(parallelism=8)
    assert await warned(parallelism=8, subdomain="train") == ""
    assert await warned("8", parallelism=8) == await warned() == await warned(queue="", parallelism=8) == ""
    assert "a Queue that exists. Did you mean team-a?" in await warned(queue="taem-a")
    assert "a PriorityClass. Did you mean high?" in await warned(priorityClassName="hihg")
    assert "expected at most 2: it never fits" in await warned("3", queue="pair", parallelism=3)


async def test_a_change_that_closes_a_cycle_is_refused_before_a_reason_is_said(running: Running) -> None:
    def a_batch_job(name: str, after: str = "") -> dict[str, Any]:
        job = batch_job(name, labels=QUEUED)
        job["metadata"]["annotations"] = {AFTER: after} if after else {}
        job["spec"]["suspend"] = True
        return job

    jobs = BATCH_JOBS.path("default")
    for job in (a_batch_job("one"), a_batch_job("two", "job/one"), a_batch_job("three", "job/four")):
        await running.user.create(jobs, job)
    with pytest.raises(ApiRefused, match="job/one and job/two, each after the next"):
        await running.user.patch(f"{jobs}/one", {"metadata": {"annotations": {AFTER: "job/two"}}})
    told = await running.warnings(jobs, a_batch_job("four", "job/three"))
    assert "an earlier job/four, which has ended; else both wait without end" in told


async def test_a_job_that_is_larger_than_any_node_is_warned_of_until_one_comes(running: Running) -> None:
    resource = "example.com/licence"  # no node of another test has it
    containers = [{"name": "main", "image": "x", "resources": {"limits": {resource: "8"}}}]
    job = batch_job("a", labels=QUEUED, containers=containers)

    async def node_with(units: str) -> None:
        path, named = NODES.path(name=f"with-{units}"), {"metadata": {"name": f"with-{units}"}}
        await running.user.create(NODES.path(), {"apiVersion": "v1", "kind": "Node", **named})
        await running.user.patch(
            f"{path}/status", {"status": {"allocatable": {resource: units, "pods": "9"}}}
        )

    async def is_warned() -> bool:
        return "the largest node has 4" in await running.warnings(BATCH_JOBS.path("default"), job)

    async def is_warned_no_more() -> bool:
        return not await is_warned()

    await node_with("4")
    await becomes(is_warned)
    await node_with("16")
    await becomes(is_warned_no_more)
    for units in ("4", "16"):
        await running.user.delete(NODES.path(name=f"with-{units}"))


async def test_fields_that_a_kind_does_not_have_are_warned_of(running: Running) -> None:
    job = a_job("misspelt")
    job["spec"]["minAvailble"] = 1
    job["spec"]["tasks"][0]["template"]["spec"]["nodeSelecter"] = {}
    found = await running.warnings(JOBS, job)
    assert "spec.minAvailble: found a field that is not known" in found
    assert "spec.tasks[0].template.spec.nodeSelecter: found" in found


async def test_who_makes_a_gang_of_pods_that_run_is_warned_once(running: Running) -> None:
    path, labels = DEPLOYMENTS.path("default"), {"app": "web"}
    pods = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "x"}]}}
    web = {"apiVersion": DEPLOYMENTS.api_version, "kind": DEPLOYMENTS.kind}
    web |= {"metadata": {"name": "web", "labels": QUEUED}, "spec": {"replicas": 4, "template": pods}}
    web["spec"]["selector"] = {"matchLabels": labels}
    await running.user.create(path, web)
    late = {"metadata": {"annotations": {GROUP_MIN_MEMBER: "4"}}}

    async def is_warned() -> bool:
        found = await running.warnings(f"{path}/web", late, verb="PATCH")
        return "Scale to 0 and write it then" in found

    async def is_none_when_empty() -> bool:
        empty = {**late, "spec": {"replicas": 0}}
        return await running.warnings(f"{path}/web", empty, verb="PATCH") == ""

    await becomes(is_warned)
    await becomes(is_none_when_empty)
    await running.user.patch(f"{path}/web", late)
    assert await running.warnings(f"{path}/web", {"spec": {"replicas": 5}}, verb="PATCH") == ""


async def test_what_a_flow_makes_of_a_stored_template_is_warned_of(running: Running) -> None:
    await running.user.create(QUEUES.path(), a_queue("pairs", access={"maxGang": 2}))
    await becomes(lambda: _knows(running.door, "pairs"))
    templates = {"apiVersion": JOB_TEMPLATES.api_version, "kind": JOB_TEMPLATES.kind}
    pair = {**templates, "metadata": {"name": "pair"}, "spec": a_job("pair", queue="pairs")["spec"]}
    await running.user.create(JOB_TEMPLATES.path("default"), pair)
    larger = {"jobSpec": {"tasks": [{"replicas": 3}]}}
    flows = [{"name": "pair", "patch": larger}, {"name": "missing", "patch": larger}]
    flow = {"apiVersion": JOB_FLOWS.api_version, "kind": JOB_FLOWS.kind, "metadata": {"name": "f"}}
    found = await running.warnings(JOB_FLOWS.path("default"), {**flow, "spec": {"flows": flows}})
    assert "spec.flows[0].patch.spec.tasks[0].replicas: found 3 pods, expected at most 2" in found


async def test_a_namespace_that_may_not_use_a_queue_starts_no_work_of_volcanos_kinds_in_it(
    running: Running,
) -> None:
    namespace = "no-gold"
    await running.user.create(NAMESPACES.path(), {"metadata": {"name": namespace}})
    selector = {"namespaceSelector": {"matchLabels": {"tier": "gold"}}}
    await running.user.create(QUEUES.path(), a_queue("gold", access=selector))
    await becomes(lambda: _knows(running.door, "gold"))
    job = a_job("a", queue="gold")
    with pytest.raises(ApiRefused, match="found no-gold, which has"):
        await running.user.create(VOLCANO_JOBS.path(namespace), job)
    # The webhook asks again before it refuses: its watch may not have told of the label yet.
    await running.user.patch(NAMESPACES.path(name=namespace), {"metadata": {"labels": {"tier": "gold"}}})
    await running.user.create(VOLCANO_JOBS.path(namespace), job)


@pytest.mark.parametrize("queue", ["..", "../podgroups", "team/status", "team?limit=1"])
async def test_what_cannot_be_a_queue_is_no_way_to_other_objects(running: Running, queue: str) -> None:
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "astray"},
        "spec": {"minMember": 2, "queue": queue},
    }
    with pytest.raises(ApiRefused, match="expected the name of a Queue"):
        await running.user.create(GROUPS, group)


async def test_no_queue_is_refused_for_another_that_has_just_gone(running: Running) -> None:
    """As `kubectl delete -f` and `apply -f` need it: each request comes before the last one is watched."""
    guarantee: dict[str, Any] = {"guarantee": {"resource": {"cpu": "2"}}}
    await running.user.create(QUEUES.path(), a_queue("whole", **guarantee))
    known = running.door.watched.known("default").queues
    assert known is not None
    gone = QueueDocument.read(a_queue("gone", parent="whole", **guarantee)).to_domain()
    cast(dict[str, Queue], known)["gone"] = gone
    await running.user.create(QUEUES.path(), a_queue("half", parent="whole", **guarantee))
    with pytest.raises(ApiRefused, match="which has 1 queue below it: half"):
        await running.user.delete(QUEUES.path(name="whole"))
    await running.user.delete(QUEUES.path(name="half"))
    await running.user.delete(QUEUES.path(name="whole"))


# -- what is no review ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"", "found an empty body"),
        (b"{", "found '{'"),
        (b"[]", "found '[]'"),
        (b'{"apiVersion":"v1","kind":"Pod","request":{"uid":"1","operation":"CREATE"}}', "found Pod of v1"),
        (
            b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}',
            "missing required field `request`",
        ),
        (
            b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview",'
            b'"request":{"uid":"1","operation":"CREATE","object":7}}',
            "an object that is no mapping: '7'",
        ),
        (b"\xff\xfe", "Expected an AdmissionReview"),
    ],
)
@pytest.mark.parametrize("path", ["mutate", "validate"])
async def test_nonsense_is_answered_with_a_sentence(
    running: Running, path: str, body: bytes, sentence: str
) -> None:
    status, text = await _posted(running, path, body)
    assert status == 400
    assert sentence in text
    assert "Traceback" not in text


@with_rows("spec")
async def test_a_job_of_the_wrong_form_is_refused_and_never_breaks_anything(
    running: Running, spec: Any
) -> None:
    """Whatever the schema lets through, or an API server without it."""
    job = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "a"}, "spec": spec}
    review = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {"uid": "1", "operation": "CREATE", "namespace": "default", "object": job},
    }
    for path, allowed in (("mutate", True), ("validate", False)):
        status, text = await _posted(running, path, msgspec.json.encode(review))
        assert status == 200, text
        answer = msgspec.json.decode(text)["response"]
        assert answer["uid"] == "1"
        assert answer["allowed"] is allowed


async def test_what_is_too_large_or_too_slow_for_a_review_is_turned_away(running: Running) -> None:
    async def large() -> AsyncIterator[bytes]:
        for _ in range(LARGEST_REVIEW // 2**20 + 1):
            yield b" " * 2**20

    async def never() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    status, _ = await _posted(running, "validate", large())
    assert status == 413

    status, text = await _posted(running, "validate", never())
    assert (status, "No review within 1 seconds" in text) == (408, True)
    status, _ = await _posted(running, "validate", b"")
    assert status == 400


async def test_other_kinds_are_none_of_its_business(running: Running) -> None:
    review = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "1",
            "operation": "CREATE",
            "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}},
        },
    }
    for path in ("mutate", "validate"):
        _, text = await _posted(running, path, msgspec.json.encode(review))
        assert msgspec.json.decode(text)["response"] == {"uid": "1", "allowed": True}


async def _posted(running: Running, path: str, body: bytes | AsyncIterator[bytes]) -> tuple[int, str]:
    keyring = await running.door.keeper.agree()
    context = ssl.create_default_context(cadata=keyring.bundle.decode())
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"https://127.0.0.1:{running.port}/{path}", data=body, ssl=context) as answer,
    ):
        return answer.status, await answer.text()


# -- certificates and absence ---------------------------------------------------------------------------------


async def test_the_certificate_changes_while_serving_and_the_api_server_goes_on_believing(
    running: Running,
) -> None:
    before = await running.door.keeper.keep()
    # Whoever believes that certificates live for moments only finds both an old authority and an old certificate.
    short = Lifetimes(
        authority=timedelta(seconds=1),
        serving=timedelta(days=1),
        settling=timedelta(),
        skew=timedelta(minutes=5),
    )
    impatient = KeyringStore(
        running.user,
        namespace=NAMESPACE,
        names=running.door.keeper.names | {"other.example"},
        lifetimes=short,
        clock=lambda: utc_now() + timedelta(days=300),
    )
    after = await impatient.agree()
    assert len(after.authorities) == len(before.authorities) + 1
    assert after.serving.certificate != before.serving.certificate
    await running.door.keeper.keep()
    status, _ = await _posted(running, "validate", b"")
    assert status == 400
    with pytest.raises(ApiRefused, match="expected the name of a Queue"):
        await running.user.create(JOBS, a_job("a", queue="nowhere"))


async def test_replicas_that_start_together_agree_on_one_keyring(running: Running) -> None:
    await running.user.create(
        "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "many"}}
    )
    keepers = [
        KeyringStore(running.user, namespace="many", names=[f"replica-{number}"]) for number in range(4)
    ]
    await asyncio.gather(*(keeper.agree() for keeper in keepers))
    keyrings = [await keeper.agree() for keeper in keepers]
    assert len({keyring.bundle for keyring in keyrings}) == 1
    assert keyrings[0].names() == {f"replica-{number}" for number in range(4)}


async def test_certificates_of_others_are_served_and_none_are_written(
    running: Running, tmp_path: Path
) -> None:
    callee = Callee(namespace="of-cert-manager")
    keyring = renewed(None, {*callee.names(), "127.0.0.1"}, utc_now())
    for name, content in encoded(keyring).items():
        (tmp_path / name).write_bytes(content)
    door = WebhookServer(running.user, callee=callee, host="127.0.0.1", port=0, certificates=tmp_path)
    task = asyncio.create_task(door.run())
    await door.open.wait()
    trust = ssl.create_default_context(cadata=keyring.bundle.decode())
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"https://127.0.0.1:{door.port}/validate", data=b"", ssl=trust) as answer,
    ):
        assert answer.status == 400
    configuration = await running.user.get(
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/muster"
    )
    assert base64.b64encode(keyring.bundle) not in configuration
    with pytest.raises(NotFound):
        await running.user.get(f"/api/v1/namespaces/{callee.namespace}/secrets/muster-webhook")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_damaged_secret_is_replaced(running: Running) -> None:
    secret = f"/api/v1/namespaces/{NAMESPACE}/secrets/muster-webhook"
    await running.user.patch(secret, {"data": {"tls.key": None}})
    keyring = await running.door.keeper.keep()
    assert keyring.names() >= {"127.0.0.1"}
    with pytest.raises(ApiRefused, match="expected the name of a Queue"):
        await running.user.create(JOBS, a_job("a", queue="nowhere"))


async def test_while_no_replica_answers_work_is_accepted_and_waits(running: Running) -> None:
    """Last in this file: it leaves the API server with a webhook that nobody answers."""
    url = f"https://127.0.0.1:{free_port()}"
    await install(running.user, Installation(webhook_url=url), lambda line: None)
    await becomes(lambda: _accepted(running))
    accepted = await running.created(JOBS, a_job("alone", queue="nowhere"))
    assert accepted["metadata"]["annotations"]["muster.dev/user"] == "alice"

    await becomes(lambda: exists(running.user, "/api/v1/namespaces/default/serviceaccounts/default"))
    job = await running.created("/apis/batch/v1/namespaces/default/jobs", batch_job("alone", labels=QUEUED))
    assert job["spec"]["suspend"] is True
    gated = await running.created("/api/v1/namespaces/default/pods", pod("alone", labels=QUEUED))
    assert gated["spec"]["schedulingGates"] == GATE


async def _accepted(running: Running) -> bool:
    try:
        await running.user.create(JOBS, a_job("probe", queue="nowhere"), dry_run=True)
    except ApiRefused:
        return False
    return True
