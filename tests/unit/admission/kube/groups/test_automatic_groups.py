"""PodGroups that Muster makes are made because of any pod that names them, whatever becomes of the others."""

import json
from typing import Any

from admission.kube.groups.automatic_groups import AutomaticGroups
from admission.world.world import World
from queues.errors import NotFound
from queues.workload import WorkloadKey
from tests.builders.facts import NOW, gated, gone, node, queue, world
from tests.waiting import eventually

NAME = "podgroup-pods-ring"


class ApiServer:
    """Knows the pods of a world, and keeps what is created."""

    def __init__(self, known: World) -> None:
        self._known = known
        self.created: list[dict[str, Any]] = []

    async def get(self, path: str) -> bytes:
        """A pod."""
        name = path.rpartition("/")[2]
        if all(pod.name != name for state in self._known.states.values() for pod in state.pods):
            raise NotFound(method="GET", path=path, status=404, reason="gone")
        return json.dumps({"metadata": {"name": name}, "spec": {"containers": []}}).encode()

    async def create(self, path: str, document: dict[str, Any], **_: Any) -> bytes:
        """A PodGroup."""
        self.created.append(document)
        return b"{}"


async def test_a_group_is_made_though_the_pod_that_asked_first_is_gone() -> None:
    pods = [gated(name, group=NAME, group_minimum=2, queue="team") for name in "abc"]
    known = world([queue("team"), node("n1"), *pods])
    asking = sorted(known.states)
    api = ApiServer(known)

    def again(key: WorkloadKey) -> None:
        groups.reconcile([key])

    groups = AutomaticGroups(api, known, lambda: None, requeue=again)  # type: ignore[arg-type]
    groups.reconcile(asking)  # because of the first of them, which goes before the API server is asked
    known.observe([gone(pods[0])])
    known.refresh(NOW)
    await eventually(lambda: bool(api.created), "the group to be made")
    assert api.created[0]["metadata"]["name"] == NAME
    await groups.queue.stop()
