"""The loop that asks autoscalers for nodes, look by look, against objects at an API server."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from admission.facts.changes import Change
from admission.kube.provisioning import ProvisioningLoop
from admission.provisioning.found_requests import RequestPhase
from admission.provisioning.plan import MOST_REFUSALS, pause_after
from admission.provisioning.request_progress import NodesAsked
from admission.world.reasons import ToldRequests
from queues import kind_names
from queues.api.api_resources import POD_TEMPLATES, PROVISIONING_REQUESTS
from queues.errors import ApiRefused, Conflict, NotFound
from queues.plan import NODES_REFUSED, Reason
from queues.quota.queue import Limits, ProvisioningRules
from queues.reason_codes import ReasonCode
from queues.resources import GPU
from queues.text_format import rfc3339
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
        if path.startswith(f"{TEMPLATES}/"):
            return await super().get(path)
        assert path == PROVISIONING_REQUESTS.path()
        assert query["labelSelector"] == "muster.dev/provisioning-for"
        self.lists += 1
        if self.absent:
            raise NotFound(method="GET", path=path, status=404, reason="no such kind")
        first, most = int(query["continue"] or 0), query["limit"]
        paths = self.under(REQUESTS)
        items = [self.documents[each] for each in paths[first : first + most]]
        more = str(first + most) if first + most < len(paths) else ""
        return json.dumps({"metadata": {"continue": more}, "items": items}).encode()

    async def delete(
        self, path: str, *, uid: str | None = None, check_lease: Any = None, **rest: Any
    ) -> bytes:
        if path in self.documents and uid != self.documents[path]["metadata"]["uid"]:
            raise Conflict(method="DELETE", path=path, status=409, reason="another uid")
        return await super().delete(path, check_lease=check_lease)

    def under(self, collection: str) -> list[str]:
        return [each for each in self.documents if each.startswith(f"{collection}/")]


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
        self.told: list[Mapping[WorkloadKey, NodesAsked]] = []
        self.loop = ProvisioningLoop(
            self.api,  # type: ignore[arg-type]
            lambda: None,
            self.world,
            now=lambda: self.now,
            tell=self.told.append,
        )

    def waits(self, code: ReasonCode | None, key: WorkloadKey = VOLCANO) -> None:
        reasons = {} if code is None else {key: Reason(code=code, message="")}
        self.world.ledger.put_reasons(reasons, (key,) if code is None else ())

    async def look(self) -> tuple[int, int]:
        """Requests and templates after one look."""
        await self.loop._contained_look()
        return len(self.api.under(REQUESTS)), len(self.api.under(TEMPLATES))


async def asking() -> Looks:
    """A gang waits for nodes, and they were asked for."""
    looks = Looks()
    looks.waits(ReasonCode.NO_FIT)
    await looks.look()
    return looks


async def test_a_gang_that_waits_for_nodes_only_has_a_request_until_it_does_not() -> None:
    looks = Looks()
    looks.waits(ReasonCode.QUEUE_LIMIT)
    assert await looks.look() == (0, 0)
    looks.waits(ReasonCode.NO_FIT)
    assert await looks.look() == (1, 1)
    assert await looks.look() == (1, 1)
    looks.waits(ReasonCode.MAKING_ROOM)
    assert await looks.look() == (1, 1), "it may go on waiting for nodes"
    looks.waits(ReasonCode.RESERVED)
    assert await looks.look() == (0, 0)


async def test_a_gang_that_was_refused_nodes_for_good_goes_on_asking() -> None:
    looks = Looks()
    looks.waits(ReasonCode.NO_FIT)
    told = ToldRequests({})
    for attempt in range(1, 6):
        await looks.look()
        [path] = looks.api.under(REQUESTS)
        assert path.endswith(f"-{attempt}")
        condition = {"type": "Failed", "status": "True", "lastTransitionTime": rfc3339(looks.now)}
        looks.api.documents[path]["status"] = {"conditions": [condition]}
        await looks.look()
        told.put(looks.told[-1])
        assert told.refused == ({VOLCANO} if attempt >= MOST_REFUSALS else set())
        if told.refused:
            facts = {NODES_REFUSED: True}
            never = Reason(code=ReasonCode.NEVER_FITS, message="", facts=facts)
            looks.world.ledger.put_reasons({VOLCANO: never}, ())
        looks.now += pause_after(attempt)
    # What its limits make impossible asks for nothing.
    looks.waits(ReasonCode.NEVER_FITS)
    assert await looks.look() == (0, 0)


async def test_each_look_tells_how_far_requests_are() -> None:
    looks = await asking()
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
    looks = await asking()
    looks.world.observe([seen(queue(TEAM, provisioning=ProvisioningRules(class_name="")))])
    assert await looks.look() == (0, 0)
    await looks.look()
    before = looks.api.lists
    await looks.look()
    assert looks.api.lists == before, "none is left"


async def test_without_such_a_queue_a_definition_that_is_removed_is_no_trouble(
    caplog: pytest.LogCaptureFixture,
) -> None:
    looks = await asking()
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
    looks = await asking()
    successor = Looks()
    successor.api = looks.api
    successor.loop._client = looks.api  # type: ignore[assignment]
    successor.waits(ReasonCode.NO_FIT)
    writes = len(looks.api.writes)
    assert await successor.look() == (1, 1)
    assert looks.api.writes[writes:] == []


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
    for _ in range(2):
        said = looks.told[-1][VOLCANO].told(Reason(code=ReasonCode.NO_FIT, message="0 of 4 pods fit")).message
        assert said.startswith("0 of 4 pods fit; nodes are not asked for yet: the API server refuses")
        assert "no quota" in said
        assert await looks.look() == (0, 1)
    looks.now += 2
    # The template is there already.
    assert await looks.look() == (1, 1)
    assert "refuses" not in str(looks.told[-1])


async def test_a_gang_that_is_gone_takes_its_request_with_it() -> None:
    looks = await asking()
    fact = volcano_job(4)
    change = seen(fact)
    looks.world.observe([Change(change.kind, change.key, None, change.workload_kind)])
    looks.world.refresh(NOW)
    looks.waits(None)
    assert await looks.look() == (0, 0)


def forged(name: str, template: str, **metadata: Any) -> dict[str, Any]:
    """A request of a user who writes Muster's label on it."""
    labelled = {"name": name, "namespace": "ns", "uid": f"uid-{name}", **metadata}
    labelled.setdefault("labels", {"muster.dev/provisioning-for": "job.x"})
    return {"metadata": labelled, "spec": {"podSets": [{"count": 1, "podTemplateRef": {"name": template}}]}}


async def test_requests_and_templates_that_muster_did_not_make_are_left_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    looks = Looks()
    looks.api.documents[f"{TEMPLATES}/nightly-base"] = {"metadata": {"name": "nightly-base", "uid": "theirs"}}
    looks.api.documents[f"{REQUESTS}/nightly"] = forged("nightly", "nightly-base")
    looks.waits(ReasonCode.NO_FIT)
    assert await looks.look() == (2, 2)
    real = next(each for each in looks.api.under(REQUESTS) if "nightly" not in each).rpartition("/")[2]
    looks.api.documents[f"{REQUESTS}/muster"] = forged("muster", f"{real}-0")
    # With all that a user can copy, but for a template of another request.
    copied = {
        **looks.api.documents[f"{REQUESTS}/{real}"]["metadata"],
        "name": "muster-0123456789ab-1",
        "uid": "u",
    }
    looks.api.documents[f"{REQUESTS}/muster-0123456789ab-1"] = forged(template=f"{real}-0", **copied)
    for _ in range(3):
        assert await looks.look() == (4, 2)
    told = [each for each in caplog.records if "did not make" in each.message]
    assert [each.__dict__["object"] for each in told] == ["ns/nightly"], "once"


async def test_who_finds_the_name_of_a_request_taken_is_told() -> None:
    looks = await asking()
    [path] = looks.api.under(REQUESTS)
    looks.api.documents[path]["metadata"]["ownerReferences"] = []
    assert await looks.look() == (1, 1)
    assert "Muster did not make it" in str(looks.told[-1][VOLCANO])


async def test_a_template_of_a_requests_name_goes_only_if_it_was_made_for_it() -> None:
    looks = await asking()
    [template] = looks.api.under(TEMPLATES)
    looks.api.documents[template]["metadata"]["ownerReferences"] = []
    looks.waits(ReasonCode.RESERVED)
    assert await looks.look() == (0, 1)


async def test_a_template_that_was_made_anew_since_it_was_read_stays() -> None:
    looks = await asking()
    [template] = looks.api.under(TEMPLATES)
    read = looks.api.get

    async def made_anew(path: str, **query: Any) -> bytes:
        answer = await read(path, **query)
        if path == template:
            looks.api.documents[template]["metadata"]["uid"] = "another"
        return answer

    looks.api.get = made_anew  # type: ignore[method-assign]
    looks.waits(ReasonCode.RESERVED)
    assert await looks.look() == (0, 1)


async def test_requests_of_others_hide_none_of_musters() -> None:
    looks = Looks()
    for number in range(350):
        looks.api.documents[f"{REQUESTS}/f{number}"] = forged(f"f{number}", "zz")
    looks.waits(ReasonCode.NO_FIT)
    assert await looks.look() == (351, 1)
    writes = len(looks.api.writes)
    await looks.look()
    assert looks.api.writes[writes:] == [], "it is found, and not made again"
    assert (
        looks.told[-1][VOLCANO].told(Reason(code=ReasonCode.NO_FIT, message="")).code
        is ReasonCode.PROVISIONING
    )
    looks.waits(ReasonCode.RESERVED)
    assert await looks.look() == (350, 0)


async def test_gangs_that_do_not_ask_are_told_why_and_those_of_a_namespace_hide_no_other() -> None:
    looks = Looks(ProvisioningRules(class_name="check-capacity", max_open=1))
    keys = [WorkloadKey(kind_names.JOB, f"uid-{number}") for number in range(5)]
    jobs = [replace(volcano_job(4), key=key, name=key.uid) for key in keys[:4]]
    late = replace(volcano_job(4), key=keys[4], name="late", namespace="theirs")
    looks.world.observe([seen(each) for each in (*jobs, late)])
    looks.world.number({key: number for number, key in enumerate(keys, 2)})
    looks.world.refresh(NOW)
    for key in (VOLCANO, *keys):
        looks.waits(ReasonCode.NO_FIT, key)
    assert await looks.look() == (1, 1)
    # The earliest one asks; the next ones of each namespace are told.
    assert set(looks.told[0]) == {keys[4]}
    reason = looks.told[0][keys[4]].told(Reason(code=ReasonCode.NO_FIT, message="0 of 4 pods fit"))
    assert reason.code is ReasonCode.NO_FIT
    expected = (
        "0 of 4 pods fit; nodes are not asked for yet: its queue has as many open requests as it may have"
    )
    assert reason.message == f"{expected} (maxOpen 1)"
    await looks.look()
    assert set(looks.told[1]) == {VOLCANO, keys[0], keys[4]}
