"""PodGroups of Volcano Jobs: a few are made at once, many wait until more urgent writes are done."""

from dataclasses import replace

import pytest

from admission.kube.client.client import Client
from admission.kube.writers import companion_objects
from admission.kube.writers.companion_objects import Companions
from tests.builders.volcano_jobs import job
from tests.fakes.fake_api_server import FakeApiServer
from tests.waiting import eventually


@pytest.fixture
def companions(client: Client) -> Companions:
    return Companions(client, lambda: None, priorities=dict)


def make(companions: Companions, count: int) -> None:
    for number in range(count):
        companions.make_later(replace(job(), uid=f"uid-{number}", name=f"job-{number}"))


async def test_the_podgroup_of_a_job_is_there_with_its_min_resources_before_the_job_has_a_phase(
    server: FakeApiServer, companions: Companions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(companion_objects, "_GROUP_DELAY", 3600.0)
    make(companions, 1)
    await eventually(lambda: bool(server.seen("POST")), "the PodGroup")
    [request] = server.seen("POST")
    assert request.path.endswith("/podgroups")
    assert request.body["spec"]["minResources"]
    await companions.stop()


async def test_podgroups_of_many_jobs_that_come_together_do_not_go_before_their_pods(
    server: FakeApiServer, client: Client, companions: Companions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(companion_objects, "_GROUP_DELAY", 3600.0)
    make(companions, 30)
    for _ in range(5):  # what is sent at once has arrived by then
        await client.get("/api/v1/pods")
    assert server.seen("POST") == []
    await companions.stop()
