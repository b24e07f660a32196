"""Programs of users speak to the API server by Python's client library: what they send, change and read fits."""

from kubernetes_asyncio import client, config

from tests.e2e.support.manifests import batch_job, volcano_job
from tests.e2e.support.sandbox import Sandbox

VOLCANO = ("batch.volcano.sh", "v1alpha1")


async def test_a_program_submits_changes_and_deletes_work(sandbox: Sandbox) -> None:
    """A client that shares no code with Muster. Its models write what they know of an object, nulls left out."""
    sandbox.add_nodes(1)
    sandbox.add_queue()
    configuration, here = client.Configuration(), sandbox.name
    who = sandbox.somebody(f"alice-{here}")
    await config.load_kube_config(str(who), client_configuration=configuration)
    async with client.ApiClient(configuration) as api:
        jobs, pods, objects = client.BatchV1Api(api), client.CoreV1Api(api), client.CustomObjectsApi(api)
        gang = volcano_job(sandbox, "gang", 2)
        await objects.create_namespaced_custom_object(*VOLCANO, here, "jobs", gang)
        made = await jobs.create_namespaced_job(here, batch_job(sandbox, "typed", 1))
        assert made.spec.suspend, "it waits in its queue"
        sandbox.wait_running("gang-", 2)
        sandbox.wait_running("typed-", 1)

        # Read, changed and written whole, as programs do.
        [job] = (await jobs.list_namespaced_job(here)).items
        job.metadata.labels["colour"] = "blue"
        await jobs.replace_namespaced_job("typed", here, job)
        stored = await objects.get_namespaced_custom_object(*VOLCANO, here, "jobs", "gang")
        stored["metadata"]["labels"] = {"colour": "blue"}
        await objects.replace_namespaced_custom_object(*VOLCANO, here, "jobs", "gang", stored)

        running = (await pods.list_namespaced_pod(here)).items
        assert [pod.status.phase for pod in running] == ["Running"] * 3
        await objects.delete_namespaced_custom_object(*VOLCANO, here, "jobs", "gang")
        await jobs.delete_namespaced_job("typed", here, propagation_policy="Background")
    sandbox.wait_free()
