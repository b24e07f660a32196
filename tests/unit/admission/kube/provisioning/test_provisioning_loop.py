"""The loop that asks autoscalers for nodes, look by look, against objects at an API server."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from admission.facts.changes import Change
from admission.kube.provisioning.provisioning_loop import ProvisioningLoop
from admission.provisioning.found_requests import RequestPhase
from admission.provisioning.request_progress import RequestProgress
from queues.api.api_resources import EVENTS, POD_TEMPLATES, PROVISIONING_REQUESTS
from queues.errors import ApiRefused, NotFound
from queues.plan import Reason
from queues.quota.queue import Limits, ProvisioningRules
from queues.reason_codes import ReasonCode
from queues.resources import GPU
from queues.workload import WorkloadKey
from tests.builders.facts import NOW, TEAM, VOLCANO, queue, seen, volcano_job, world
from tests.fakes.fake_documents import FakeDocuments

RULES = ProvisioningRules(class_name="check-capacity")
REQUESTS, TEMPLATES = PROVISIONING_REQUESTS.path("ns"), POD_TEMPLATES.path("ns")


class Documents(FakeDocuments):
    """With lists of all namespaces, and what is asked for counted."""

    def __init__(self) -> None:
        super().__init__({}, lambda: NOW)
        self.lists = 0
        self.absent = False

    async def get(self, path: str, **query: Any) -> bytes:
        assert path == PROVISIONING_REQUESTS.path()
        assert query["labelSelector"] == "muster.dev/provisioning-for"
        self.lists += 1
        if self.absent:
            raise NotFound(method="GET", path=path, status=404, reason="no such kind")
        return json.dumps({"items": [self.documents[each] for each in self.under(REQUESTS)]}).encode()

    async def delete(
        self, path: str, *, uid: str | None = None, check_lease: Any = None, **rest: Any
    ) -> bytes:
        return await super().delete(path, check_lease=check_lease)

    def under(self, collection: str) -> list[str]:
        return [each for each in self.documents if each.startswith(f"{collection}/")]

    def events(self) -> list[str]:
        made = [self.documents[each] for each in self.under(EVENTS.path("ns"))]
        return [each["reason"] for each in made]


class Looks:
    """A gang of a queue that asks for nodes, the loop, and its clock."""

    def __init__(self, rules: ProvisioningRules | None = RULES, **facts: Any) -> None:
        self.now = NOW
        self.world = world(
            (volcano_job(4), queue("root", parent=None), queue(TEAM, provisioning=rules, **facts))
        )
        self.world.number({VOLCANO: 1})
        self.world.refresh(NOW)
        self.api = Documents()
        self.told: list[Mapping[WorkloadKey, RequestProgress]] = []
        self.loop = ProvisioningLoop(
            self.api,  # type: ignore[arg-type]
            lambda: None,
            self.world,
            now=lambda: self.now,
            instance="test",
            tell=self.told.append,
        )

    def waits(self, code: ReasonCode | None, key: WorkloadKey = VOLCANO) -> None:
        reasons = {} if code is None else {key: Reason(code=code, message="")}
        self.world.put_reasons(reasons, (key,) if code is None else ())

    async def look(self) -> tuple[int, int]:
        """Requests and templates after one look."""
        await self.loop._contained_look()
        return len(self.api.under(REQUESTS)), len(self.api.under(TEMPLATES))


async def test_a_gang_that_waits_for_nodes_only_has_a_request_until_it_does_not() -> None:
    looks = Looks()
    looks.waits(ReasonCode.QUEUE_LIMIT)
    assert await looks.look() == (0, 0)
    looks.waits(ReasonCode.NO_FIT)
    assert await looks.look() == (1, 1)
    assert await looks.look() == (1, 1)
    assert looks.api.events() == ["ProvisioningRequested"]
    assert await looks.look() == (1, 1)
    assert [path for _, path in looks.api.writes].count(EVENTS.path("ns")) == 1, "told once"
    looks.waits(ReasonCode.MAKING_ROOM)
    assert await looks.look() == (1, 1), "it may go on waiting for nodes"
    looks.waits(ReasonCode.RESERVED)
    assert await looks.look() == (0, 0)


async def test_each_look_tells_how_far_requests_are() -> None:
    looks = Looks()
    looks.waits(ReasonCode.NO_FIT)
    await looks.look()
    await looks.look()
    assert looks.told[0] == {}, "it was made in this look"
    assert looks.told[1][VOLCANO].phase is RequestPhase.OPEN
    # That its reason says so takes the request away from no gang.
    looks.waits(ReasonCode.PROVISIONING)
    assert await looks.look() == (1, 1)
    [path] = looks.api.under(REQUESTS)
    condition = {"type": "Failed", "status": "True", "lastTransitionTime": "2027-01-15T08:00:00Z"}
    looks.api.documents[path]["status"] = {"conditions": [condition]}
    await looks.look()
    assert looks.told[-1][VOLCANO].next_at is not None
    looks.world.observe([seen(queue(TEAM, provisioning=None))])
    await looks.look()
    await looks.look()
    assert looks.told[-2:] == [{}, {}]


async def test_without_such_a_queue_nothing_is_asked_of_the_api_server() -> None:
    looks = Looks(None)
    looks.waits(ReasonCode.NO_FIT)
    assert await looks.look() == (0, 0)
    assert looks.api.lists == 0


async def test_requests_go_when_their_queue_asks_no_more() -> None:
    looks = Looks()
    looks.waits(ReasonCode.NO_FIT)
    await looks.look()
    looks.world.observe([seen(queue(TEAM, provisioning=ProvisioningRules(class_name="")))])
    assert await looks.look() == (0, 0)
    await looks.look()
    before = looks.api.lists
    await looks.look()
    assert looks.api.lists == before, "none is left"


async def test_without_such_a_queue_a_definition_that_is_removed_is_no_trouble(
    caplog: pytest.LogCaptureFixture,
) -> None:
    looks = Looks()
    looks.waits(ReasonCode.NO_FIT)
    await looks.look()
    looks.world.observe([seen(queue(TEAM, provisioning=None))])
    looks.api.absent = True
    await looks.look()
    before = looks.api.lists
    await looks.look()
    assert looks.api.lists == before
    assert not [each for each in caplog.records if each.levelname == "WARNING"]


async def test_the_nearest_queue_that_says_something_counts_and_may_say_no() -> None:
    looks = Looks(None)
    looks.waits(ReasonCode.NO_FIT)
    looks.world.observe([seen(queue("root", parent=None, provisioning=RULES))])
    assert await looks.look() == (1, 1)
    other = Looks(ProvisioningRules(class_name=""))
    other.waits(ReasonCode.NO_FIT)
    other.world.observe([seen(queue("root", parent=None, provisioning=RULES))])
    assert await other.look() == (0, 0)


async def test_devices_that_no_node_has_are_asked_for_within_the_stated_limits() -> None:
    looks = Looks(limits=Limits(capability={GPU: 4000}))
    looks.waits(ReasonCode.UNKNOWN_RESOURCE)
    assert await looks.look() == (1, 1)
    small = Looks(limits=Limits(capability={GPU: 3000}))
    small.waits(ReasonCode.UNKNOWN_RESOURCE)
    assert await small.look() == (0, 0)


async def test_a_new_leader_goes_on_with_the_requests_that_there_are() -> None:
    looks = Looks()
    looks.waits(ReasonCode.NO_FIT)
    await looks.look()
    successor = Looks()
    successor.api = looks.api
    successor.loop._client = looks.api  # type: ignore[assignment]
    successor.waits(ReasonCode.NO_FIT)
    writes = len(looks.api.writes)
    assert await successor.look() == (1, 1)
    assert [each for each in looks.api.writes[writes:] if "events" not in each[1]] == []


async def test_a_cluster_without_the_definition_is_told_once_and_left_alone_for_a_while(
    caplog: pytest.LogCaptureFixture,
) -> None:
    looks = Looks()
    looks.api.absent = True
    looks.waits(ReasonCode.NO_FIT)
    await looks.look()
    await looks.look()
    assert looks.api.lists == 1
    assert "muster install --provisioning" in caplog.records[-1].__dict__["why"]
    looks.now += 2
    looks.api.absent = False
    assert await looks.look() == (1, 1)


async def test_a_refusal_is_told_to_the_user_and_tried_again_later() -> None:
    looks = Looks()
    looks.waits(ReasonCode.NO_FIT)
    looks.api.failures[REQUESTS] = ApiRefused(method="POST", path=REQUESTS, status=403, reason="no quota")
    assert await looks.look() == (0, 1)
    assert looks.api.events() == ["ProvisioningRefused"]
    assert await looks.look() == (0, 1)
    looks.now += 2
    # The template is there already.
    assert await looks.look() == (1, 1)


async def test_a_gang_that_is_gone_takes_its_request_with_it() -> None:
    looks = Looks()
    looks.waits(ReasonCode.NO_FIT)
    await looks.look()
    fact = volcano_job(4)
    change = seen(fact)
    looks.world.observe([Change(change.kind, change.key, None, change.workload_kind)])
    looks.world.refresh(NOW)
    looks.waits(None)
    assert await looks.look() == (0, 0)
