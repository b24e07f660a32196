"""The lease of an agent."""

import random
from typing import Any, cast

from admission.agent.cluster.api_client import ApiClient
from admission.agent.cluster.heartbeat import INTERVAL, LeaseHeartbeat
from tests.fakes.agent_api import AgentApi, unavailable

LEASE = "/apis/coordination.k8s.io/v1/namespaces/muster-agents/leases/n1"


def _heartbeat(api: AgentApi) -> LeaseHeartbeat:
    client = cast(ApiClient, api)
    return LeaseHeartbeat(client, namespace="muster-agents", node="n1", holder="pod-a", rng=random.Random(1))


def _spec(api: AgentApi) -> dict[str, Any]:
    spec: dict[str, Any] = api.objects[LEASE]["spec"]
    return spec


def test_the_first_beat_makes_the_lease_and_each_later_one_is_a_single_request(golden: Any) -> None:
    api = AgentApi()
    heartbeat = _heartbeat(api)
    heartbeat.beat(1_700_000_000.25, "uid-1")
    assert _spec(api) == golden
    api.writes.clear()
    heartbeat.beat(1_700_000_060, "uid-1")
    assert [verb for verb, _, _ in api.writes] == ["PATCH"]
    assert _spec(api)["renewTime"] == "2023-11-14T22:14:20.000000Z"
    assert not api.reads


def test_the_lease_goes_with_its_node() -> None:
    api = AgentApi()
    _heartbeat(api).beat(0, "uid-1")
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "uid-1"}
    assert api.objects[LEASE]["metadata"]["ownerReferences"] == [owner]


def test_agents_that_began_together_beat_apart() -> None:
    pauses = [_heartbeat(AgentApi())]
    heartbeat = pauses[0]
    found = {round(heartbeat.beat(0, "uid-1"), 3) for _ in range(50)}
    assert len(found) > 40
    assert all(INTERVAL * 0.9 <= pause <= INTERVAL * 1.1 for pause in found)


def test_a_beat_that_fails_is_tried_again_before_the_lease_ends() -> None:
    api = AgentApi()
    heartbeat = _heartbeat(api)
    heartbeat.beat(0, "uid-1")
    api.faults.extend([unavailable(), unavailable()])
    first, second = heartbeat.beat(1, "uid-1"), heartbeat.beat(2, "uid-1")
    assert first <= 1 < second + 1
    assert second <= 2
    assert heartbeat.beat(3, "uid-1") > 20
    assert heartbeat.renewals == 2


def test_two_that_make_the_lease_at_the_same_time_do_not_disturb_each_other() -> None:
    api = AgentApi()
    heartbeat = _heartbeat(api)
    create = api.create

    def late(path: str, document: dict[str, Any]) -> dict[str, Any]:
        api.put(LEASE, document)
        return create(path, document)

    api.create = late  # type: ignore[method-assign]
    assert heartbeat.beat(0, "uid-1") > 20
