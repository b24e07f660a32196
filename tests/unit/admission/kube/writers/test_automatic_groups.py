"""PodGroups that Muster makes are made because of any pod that names them, whatever becomes of the others."""

import json
from typing import Any

from admission.kube.writers.automatic_groups import AutomaticGroups
from admission.world.world import World
from queues.errors import ApiError, NotFound
from queues.workload import WorkloadKey
from tests.builders.facts import NOW, gated, gone, group, node, queue, seen, world
from tests.waiting import eventually

NAME = "podgroup-pods-ring"
#: The uid of each group that is made.
MADE = group(2).key.uid


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
        return json.dumps({"metadata": {**document["metadata"], "uid": MADE}}).encode()


class Broken(ApiServer):
    """Creates nothing."""

    async def create(self, path: str, document: dict[str, Any], **_: Any) -> bytes:
        raise ApiError(method="POST", path=path, status=500, reason="broken")


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


async def test_a_group_that_its_owner_took_away_is_made_again_at_once() -> None:
    pods = [gated(name, group=NAME, group_minimum=2, queue="team") for name in "ab"]
    known = world([queue("team"), node("n1"), *pods])
    api = ApiServer(known)
    groups = AutomaticGroups(api, known, lambda: None, requeue=lambda key: None)  # type: ignore[arg-type]
    groups.reconcile(sorted(known.states))
    await eventually(lambda: len(api.created) == 1 and not groups.queue.is_busy(), "the group to be made")

    made = group(2, name=NAME, queue="team")
    known.observe([seen(made)])
    known.refresh(NOW)
    groups.reconcile(sorted(known.states))
    known.observe([gone(made)])
    known.refresh(NOW)
    groups.reconcile(sorted(known.states))

    await eventually(lambda: len(api.created) == 2, "the group to be made again")
    await groups.queue.stop()


async def test_a_group_that_was_gone_before_it_was_seen_is_made_again_at_once() -> None:
    pods = [gated(name, group=NAME, group_minimum=2, queue="team") for name in "ab"]
    known = world([queue("team"), node("n1"), *pods])
    api = ApiServer(known)
    groups = AutomaticGroups(api, known, lambda: None, requeue=lambda key: None)  # type: ignore[arg-type]
    groups.reconcile(sorted(known.states))
    await eventually(lambda: len(api.created) == 1 and not groups.queue.is_busy(), "the group to be made")

    made = group(2, name=NAME, queue="team")
    known.observe([seen(made), gone(made)])
    groups.reconcile({*known.refresh(NOW), *known.states})

    await eventually(lambda: len(api.created) == 2, "the group to be made again")
    await groups.queue.stop()


async def test_a_failure_is_forgotten_once_another_has_made_the_group() -> None:
    pods = [gated("a", group=NAME, group_minimum=2, queue="team")]
    known = world([queue("team"), node("n1"), *pods])
    groups = AutomaticGroups(Broken(known), known, lambda: None, requeue=lambda key: None)  # type: ignore[arg-type]
    groups.reconcile(sorted(known.states))
    place = (pods[0].namespace, NAME)
    await eventually(lambda: groups.queue.is_backing_off(place), "the write to fail")

    known.observe([seen(group(2, name=NAME, queue="team"))])
    groups.reconcile(known.refresh(NOW))

    assert groups.queue._backoffs == {}
    await groups.queue.stop()


async def test_nothing_is_kept_of_a_group_that_nobody_needs_any_more() -> None:
    pods = [gated("a", group=NAME, group_minimum=2, queue="team")]
    known = world([queue("team"), node("n1"), *pods])
    api = ApiServer(known)
    groups = AutomaticGroups(api, known, lambda: None, requeue=lambda key: None)  # type: ignore[arg-type]
    groups.reconcile(sorted(known.states))
    known.observe([gone(pods[0])])  # before it is asked for: the write fails, and waits for its next attempt
    known.refresh(NOW)
    place = (pods[0].namespace, NAME)
    await eventually(lambda: groups.queue.is_backing_off(place), "the write to fail")

    await eventually(lambda: not len(groups.queue), "the next attempt to be due")

    assert groups.queue._backoffs == {}
