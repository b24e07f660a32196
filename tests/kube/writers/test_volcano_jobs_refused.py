"""What stands in the way of a Volcano Job's pods is a reason, and stops no other Job."""

from admission.kube.client.client import Client
from queues.errors import Fenced
from tests.kube.support.posted_volcano_jobs import (
    ReportingWriter,
    admitted,
    eventually,
    gang_of_four,
    listed,
    named,
    plain,
    submitted,
    work,
)


async def test_somebody_elses_pod_under_our_name_is_a_reason_and_stops_no_other(
    api: Client, namespace: str, jobs: ReportingWriter, nodes: list[str]
) -> None:
    squatter = {
        "metadata": {"name": "plain-worker-2"},
        "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": nodes[0]},
    }
    await api.create(f"/api/v1/namespaces/{namespace}/pods", squatter)
    spec = await submitted(api, namespace, plain())

    taken = admitted(spec, nodes)
    (report,) = await jobs.reconciled([work(spec, taken)])

    assert report.created == 3
    assert report.problem is not None
    assert (report.problem.code, "plain-worker-2" in report.problem.message) == ("NameTaken", True)
    # What has the gang go back, and be tried again when the pod is gone.
    assert report.problem.facts == {"admission": taken.id, "pod": "plain-worker-2"}


async def test_a_pod_that_claims_to_be_the_jobs_is_neither_taken_for_its_member_nor_deleted(
    api: Client, namespace: str, jobs: ReportingWriter, nodes: list[str]
) -> None:
    """Anybody who may create a pod may write the Job's uid into an owner reference."""
    spec = await submitted(api, namespace, plain())
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": spec.name, "uid": spec.uid}
    squatter = {
        "metadata": {"name": "plain-worker-2", "ownerReferences": [{**owner, "controller": True}]},
        "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": nodes[0]},
    }
    await api.create(f"/api/v1/namespaces/{namespace}/pods", squatter)

    (report,) = await jobs.reconciled([work(spec, admitted(spec, nodes))])

    assert report.created == 3
    assert report.problem is not None
    assert (report.problem.code, "plain-worker-2" in report.problem.message) == ("NameTaken", True)
    assert "deletionTimestamp" not in (await named(api, namespace, "pods", "plain-worker-2"))["metadata"]


async def test_a_quota_that_refuses_is_a_reason_until_it_no_longer_does(
    api: Client, namespace: str, nodes: list[str]
) -> None:
    await api.create(
        f"/api/v1/namespaces/{namespace}/resourcequotas",
        {"metadata": {"name": "two"}, "spec": {"hard": {"pods": "2"}}},
    )

    async def counted() -> bool:
        return bool((await named(api, namespace, "resourcequotas", "two"))["status"].get("hard"))

    await eventually(counted)
    spec = await submitted(api, namespace, plain())
    todo = work(spec, admitted(spec, nodes))
    jobs = ReportingWriter(api, requeue=lambda _: jobs.reconcile([todo]))

    (first,) = await jobs.reconciled([todo])
    assert first.created == 2
    assert first.problem is not None
    assert first.problem.code == "PodRefused"
    assert "exceeded quota" in first.problem.message

    await api.delete(f"/api/v1/namespaces/{namespace}/resourcequotas/two")

    async def whole() -> bool:
        return len(await listed(api, namespace)) == 4 and not jobs.problems

    await eventually(whole)
    await jobs.stop()


async def test_an_invalid_template_is_a_reason_and_stops_no_other_job(
    api: Client, namespace: str, jobs: ReportingWriter, nodes: list[str]
) -> None:
    template = {"spec": {"containers": [{"name": "Not A Name", "image": "i"}]}}
    bad = await submitted(
        api, namespace, plain("bad", tasks=[{"name": "w", "replicas": 500, "template": template}])
    )
    good = await submitted(api, namespace, plain("good"))
    refused_before = api.counts["POST", "pods", 422]

    bad_report, good_report = await jobs.reconciled(
        [work(bad, admitted(bad, nodes)), work(good, admitted(good, nodes))]
    )

    assert bad_report.problem is not None
    assert "Not A Name" in bad_report.problem.message
    assert (good_report.created, good_report.problem) == (4, None)
    assert api.counts["POST", "pods", 422] - refused_before <= 64


async def test_a_leader_whose_lease_is_over_writes_nothing(
    api: Client, namespace: str, nodes: list[str]
) -> None:
    def over() -> None:
        raise Fenced(term=1, holder="me", reason="its lease ran out")

    spec = await submitted(api, namespace, gang_of_four())
    deposed = ReportingWriter(api, over)

    (report,) = await deposed.reconciled([work(spec, admitted(spec, nodes), has_group=False)])
    await deposed.stop()

    assert report.created == 0
    assert await listed(api, namespace) == []
    assert await listed(api, namespace, "secrets") == []
