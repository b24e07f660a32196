"""Devices that pods claim and that nodes have, counted in whatever order the objects come."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

import msgspec
import pytest

from admission.decode.admin_documents import flavor_fact
from admission.decode.devices.resource_claims import (
    WireResourceClaim,
    WireResourceClaimTemplate,
    resource_claim_fact,
    resource_claim_template_fact,
)
from admission.decode.devices.resource_slices import (
    WireDeviceClass,
    device_class_fact,
    resource_slice_fact,
)
from admission.facts.changes import Change, Fact, FactKind
from admission.facts.devices import PodResourceClaim
from admission.facts.pods import PodFact
from admission.facts.workloads import WorkloadFact
from admission.wire import WireResourceSlice
from admission.world.devices.device_facts import DeviceFacts
from queues.reason_codes import ReasonCode
from queues.resources import Resources
from queues.workload import NodeName
from tests.builders import devices
from tests.builders.devices import CLASS, RESOURCE, Document
from tests.builders.facts import JOB, admission, gated, job, node, pod, released, see, seen, world
from tests.builders.node_agents.node_devices import node_devices
from tests.tables import named_rows

ONE_GPU = (PodResourceClaim("gpu", "one-gpu"),)
#: The claim of a pod that was made of the template, and one that pods share.
OWN, SHARED = (PodResourceClaim("gpu", "one-gpu", "p-gpu"),), (PodResourceClaim("gpu", "", "p-gpu"),)
TWO_EACH = Resources({RESOURCE: 2000, "pods": 1})
NO_GPU = Resources({"pods": 1})

_READ: dict[str, tuple[FactKind, Any]] = {
    "ResourceFlavor": (FactKind.FLAVOR, flavor_fact),
    "DeviceClass": (FactKind.DEVICE_CLASS, lambda raw: device_class_fact(_as(raw, WireDeviceClass))),
    "ResourceSlice": (FactKind.RESOURCE_SLICE, lambda raw: resource_slice_fact(_as(raw, WireResourceSlice))),
    "ResourceClaimTemplate": (
        FactKind.CLAIM_TEMPLATE,
        lambda raw: resource_claim_template_fact(_as(raw, WireResourceClaimTemplate)),
    ),
    "ResourceClaim": (
        FactKind.RESOURCE_CLAIM,
        lambda raw: resource_claim_fact(_as(raw, WireResourceClaim)),
    ),
}


def _as(raw: bytes, struct: Any) -> Any:
    return msgspec.json.decode(raw, type=struct)


def shows(document: Document) -> Change:
    """The object is there."""
    kind, read = _READ[document["kind"]]
    metadata = document["metadata"]
    key = metadata["uid"] if "namespace" in metadata else metadata["name"]
    return Change(kind, key, read(msgspec.json.encode(document)))


def without(document: Document) -> Change:
    """The object is gone."""
    return replace(shows(document), fact=None)


def waiting(**facts: Any) -> WorkloadFact:
    """Two pods that claim what the template says."""
    fact = job(2, suspended=True, claims={"main": ONE_GPU}, generation="1", **facts)
    return replace(fact, pod_sets=(replace(fact.pod_sets[0], takes=NO_GPU),))


FLAVOR, CLASSES = devices.flavor(), devices.device_class()
TWO = devices.claim_template(devices.request(2))
SLICE = devices.gpus_of("n1", 4)
NODE = replace(node("n1"), allocatable=Resources({"pods": 110_000}))
COUNTED = [shows(FLAVOR), shows(CLASSES), shows(TWO), shows(SLICE)]


def last(changes: Iterable[Change]) -> dict[str, Fact]:
    """What is known of each object after these changes."""
    found: dict[str, Fact] = {}
    for change in changes:
        found.pop(change.key, None)
        if change.fact is not None:
            found[change.key] = change.fact
    return found


def known(*changes: Change) -> dict[str, Any]:
    return last(DeviceFacts().resolved(changes))


def problem_of(fact: WorkloadFact | PodFact) -> str:
    assert fact.obstacle.code is ReasonCode.INVALID_SPEC
    return fact.obstacle.message


def test_devices_are_counted_in_whatever_order_the_objects_come() -> None:
    changes = [*COUNTED, seen(waiting()), seen(NODE)]
    for order in list(permutations(range(6)))[::7]:
        facts = known(*(changes[index] for index in order))
        assert facts[JOB.uid].pod_sets[0].takes == TWO_EACH, order
        assert facts[JOB.uid].obstacle is None, order
        assert facts["n1"].allocatable[RESOURCE] == 4000, order


@pytest.mark.parametrize("missing", range(4))
def test_what_is_taken_away_counts_no_more(missing: int) -> None:
    objects = [FLAVOR, CLASSES, TWO, SLICE]
    gone = without(objects[missing])
    facts = known(*COUNTED, seen(waiting()), seen(NODE), gone)
    others = [each for index, each in enumerate(COUNTED) if index != missing]
    assert facts == known(*others, seen(waiting()), seen(NODE))


# ── what cannot be counted ──────────────────────────────────────────────────────────────────────────────────────


def test_a_missing_template_is_told_and_no_device_is_counted(golden: Any) -> None:
    found = known(shows(FLAVOR), shows(CLASSES), seen(waiting()))[JOB.uid]
    assert problem_of(found) == golden
    assert found.pod_sets[0].takes == NO_GPU


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([shows(CLASSES)], "found no ResourceFlavor that names it, expected one with deviceClasses"),
        ([shows(FLAVOR)], "found none of that name, expected the one that a ResourceFlavor names"),
        (
            [shows(FLAVOR), shows(CLASSES), shows(devices.flavor("z", **{CLASS: "example.com/other"}))],
            "found ResourceFlavors that count it as example.com/gpu and as example.com/other, expected one",
        ),
        (
            [shows(FLAVOR), shows(devices.device_class(CLASS, "device.driver.endsWith('x')"))],
            "found selector \"device.driver.endsWith('x')\", expected device.driver ==",
        ),
    ],
)
def test_a_class_that_cannot_be_counted_is_told(changes: list[Change], expected: str) -> None:
    message = problem_of(known(*changes, shows(TWO), seen(waiting()))[JOB.uid])
    assert message.startswith(f"pods of main: DeviceClass {CLASS}: {expected}")


def test_a_template_that_asks_more_than_a_number_is_told() -> None:
    every = devices.claim_template(devices.request(allocationMode="All"))
    message = problem_of(known(shows(FLAVOR), shows(CLASSES), shows(every), seen(waiting()))[JOB.uid])
    assert message.startswith(
        "pods of main: ResourceClaimTemplate one-gpu: request gpu: found allocationMode All"
    )


# ── pods ────────────────────────────────────────────────────────────────────────────────────────────────────────


def one_pod(*changes: Change, **facts: Any) -> PodFact:
    given = {"takes": NO_GPU, "claims": ONE_GPU, **facts}
    return known(*COUNTED, *changes, seen(pod("p", "n1", **given)))["p"]


def made(*requests: Document, **status: Any) -> Change:
    return shows(devices.claim(*requests, name="p-gpu", **status))


def test_the_claim_of_a_pod_counts_and_not_what_its_template_says_now() -> None:
    assert one_pod(claims=OWN).shape.takes == TWO_EACH, "the claim is not seen yet"
    four = made(devices.request(4))
    assert one_pod(four, claims=OWN).shape.takes[RESOURCE] == 4000
    gone = one_pod(four, without(TWO), claims=OWN)
    assert (gone.shape.takes[RESOURCE], gone.obstacle) == (4000, None)


def test_a_claim_that_appears_late_changes_its_pod() -> None:
    changes = [*COUNTED, seen(pod("p", takes=NO_GPU, claims=OWN))]
    found = known(*changes, made(devices.request(3)))["p"]
    assert found.shape.takes[RESOURCE] == 3000


def test_a_shared_claim_counts_once_for_the_first_pod_that_has_it() -> None:
    taken = made(devices.request(2), **devices.reserved("p", "gpu", "gpu"))
    first = one_pod(taken, claims=SHARED)
    assert (first.shape.takes[RESOURCE], first.claims_uncounted) == (2000, False)
    other = known(*COUNTED, taken, seen(pod("q", "n1", takes=NO_GPU, claims=SHARED)))["q"]
    assert (other.shape.takes[RESOURCE], other.claims_uncounted) == (0, True)


def test_a_pod_whose_claim_cannot_be_counted_may_have_devices_all_the_same() -> None:
    change = seen(pod("p", "n1", takes=NO_GPU, claims=OWN))
    for objects in ((), (made(devices.request(1)),)):
        assert known(*objects, change)["p"].claims_uncounted
    assert not known(*COUNTED, made(devices.request(1)), change)["p"].claims_uncounted


# ── nodes ───────────────────────────────────────────────────────────────────────────────────────────────────────


def devices_on_node(*changes: Change, **allocatable: int) -> int:
    offers = replace(NODE, allocatable=Resources({"pods": 110_000, **allocatable}))
    return known(shows(FLAVOR), shows(CLASSES), seen(offers), *changes)["n1"].allocatable[RESOURCE]


def test_a_node_has_the_devices_that_a_class_selects() -> None:
    mixed = devices.resource_slice("n1", devices.device(0), devices.device(1, "mig"), devices.device(2))
    assert devices_on_node(shows(mixed)) == 2000
    assert devices_on_node(shows(devices.gpus_of("n2", 4))) == 0
    assert devices_on_node(shows(mixed), without(mixed)) == 0


def test_slices_of_older_generations_count_no_more() -> None:
    old = devices.resource_slice("n1", *map(devices.device, range(8)), name="old", generation=1)
    new = devices.resource_slice("n1", *map(devices.device, range(3)), name="new", generation=2)
    more = devices.resource_slice("n1", devices.device(9), name="more", generation=2)
    assert devices_on_node(shows(old), shows(new), shows(more)) == 4000


def test_devices_that_a_node_announces_itself_as_well_count_once() -> None:
    assert devices_on_node(shows(SLICE), **{RESOURCE: 4000}) == 4000
    assert devices_on_node(shows(SLICE), **{RESOURCE: 8000}) == 8000


# ── devices that are unhealthy ──────────────────────────────────────────────────────────────────────────────────

UUIDS = [f"gpu-{index}-0123456789" for index in range(8)]
TAINTED = {"taints": [{"key": "gpu.example.com/health", "effect": "NoExecute"}]}


def report(*faulty: int, count: int = 4, known_by: str = "id", **fields: Any) -> Change:
    """What the agent of the node tells. ``known_by``: the field that tells which device of the slice it is."""
    devices = []
    for each in node_devices("n1", count, faulty=faulty).devices:
        name = {known_by: UUIDS[each.number]} if known_by else {}
        devices.append(replace(each, **{"resource": "nvidia.com/gpu", **name, **fields}))
    return Change(FactKind.NODE_DEVICES, "n1", replace(node_devices("n1", 0), devices=tuple(devices)))


def published(*tainted: int, count: int = 4) -> Change:
    """The slice of the node, with some devices that their driver calls unhealthy."""
    found = (devices.device(index, **(TAINTED if index in tainted else {})) for index in range(count))
    return shows(devices.resource_slice("n1", *found))


@pytest.mark.parametrize(("tainted", "expected"), [((), 3), ((2,), 3), ((2, 3), 2)])
def test_devices_that_the_driver_does_not_name_are_counted_by_their_resource(
    tainted: tuple[int, ...], expected: int
) -> None:
    """One that both call unhealthy may be the same one."""
    found = published(*tainted)
    assert devices_on_node(found, report(1, known_by="", resource=RESOURCE)) == expected * 1000
    assert devices_on_node(found, report(1, resource=RESOURCE)) == (4 - len({1, *tainted})) * 1000


def test_where_the_driver_names_only_some_devices_of_a_resource_all_are_counted_by_it() -> None:
    unnamed = devices.device(1)
    del unnamed["attributes"]["uuid"]
    found = shows(devices.resource_slice("n1", devices.device(0), unnamed))
    assert devices_on_node(found, report(1, count=2, resource=RESOURCE)) == 1000


def test_an_unhealthy_device_that_is_known_goes_though_the_agent_tells_of_no_other_one() -> None:
    only = report(1).fact
    found = Change(FactKind.NODE_DEVICES, "n1", replace(only, devices=only.devices[1:2]))
    assert devices_on_node(shows(SLICE), found) == 3000


def test_of_devices_that_the_driver_does_not_name_as_many_are_left_as_the_agent_calls_healthy() -> None:
    assert devices_on_node(published(3), report(0, 1, known_by="", resource=RESOURCE)) == 2000


def test_a_node_that_announces_more_than_its_slices_loses_only_what_is_unhealthy() -> None:
    other = [shows(devices.flavor("o", o="example.com/other")), shows(devices.device_class("o"))]
    found = *other, shows(SLICE), report(1, count=8, resource=RESOURCE)
    assert devices_on_node(*found, **{RESOURCE: 8000}) == 7000


def test_a_device_of_a_plugin_that_slices_tell_of_as_well_counts_once() -> None:
    found = shows(SLICE), report(1, resource=RESOURCE)
    assert devices_on_node(*found, **{RESOURCE: 4000}) == 3000


def test_parts_of_a_device_that_is_not_well_are_not_offered() -> None:
    parent = {"parentUUID": {"string": UUIDS[0]}, "uuid": {"string": "MIG-1"}, "type": {"string": "gpu"}}
    parts = [devices.device(9) | {"attributes": parent} for _ in range(3)]
    found = shows(devices.resource_slice("n1", *parts, devices.device(1)))
    assert devices_on_node(found, report(0)) == 1000


def test_a_node_is_told_anew_when_the_agent_calls_a_claimed_device_unhealthy() -> None:
    facts = DeviceFacts()
    list(facts.resolved([*COUNTED, seen(NODE)]))
    assert list(facts.resolved([report()])) == []
    [change] = facts.resolved([report(1)])
    assert change.fact.allocatable[RESOURCE] == 3000
    assert change.fact.offers_faulty_devices, "the driver may still give it to a pod"
    [change] = facts.resolved([published(1)])
    assert not change.fact.offers_faulty_devices


# ── pods with unhealthy devices ─────────────────────────────────────────────────────────────────────────────────

HOLDER = seen(pod("p", "n1", takes=NO_GPU, claims=OWN))
#: The claim of the pod, which has the devices 0 and 1.
ALLOCATED = made(devices.request(2), **devices.reserved("p", "gpu", "gpu"))


def held(*changes: Change) -> dict[str, int]:
    """Numbers of the unhealthy devices that pods have, by the pod's uid."""
    found = known(*changes)["n1"]
    return {uid: each.number for uid, each in found.faulty_pods.items()}


@pytest.mark.parametrize("known_by", ["id", "bus_id"])
@pytest.mark.parametrize("order", list(permutations(range(5)))[::5])
def test_a_pod_has_the_unhealthy_device_that_was_allocated_to_its_claim(
    order: Sequence[int], known_by: str
) -> None:
    changes = [shows(SLICE), seen(NODE), HOLDER, ALLOCATED, report(1, 2, known_by=known_by)]
    assert held(*(changes[index] for index in order)) == {"p": 1}


@named_rows(
    "gone",
    {
        "pod": replace(HOLDER, fact=None),
        "claim": replace(ALLOCATED, fact=None),
        "allocation": made(devices.request(2)),
        "slice": without(SLICE),
        "fault": report(2),
    },
)
def test_a_pod_has_an_unhealthy_device_no_longer_than_it_is_told(gone: Change) -> None:
    assert held(shows(SLICE), seen(NODE), HOLDER, ALLOCATED, report(1), gone) == {}


def test_pods_that_share_a_claim_all_have_its_unhealthy_device() -> None:
    sharers = [seen(pod(uid, "n1", takes=NO_GPU, claims=SHARED)) for uid in ("p", "q")]
    assert held(shows(SLICE), seen(NODE), *sharers, ALLOCATED, report(1)) == {"p": 1, "q": 1}


def test_a_pod_with_a_part_of_an_unhealthy_device_has_that_device() -> None:
    parts = [devices.device(index) for index in range(2)]
    for index, each in enumerate(parts):
        each["attributes"] = {"parentUUID": {"string": UUIDS[3]}, "uuid": {"string": f"MIG-{index}"}}
    cut = shows(devices.resource_slice("n1", *parts))
    assert held(cut, seen(NODE), HOLDER, ALLOCATED, report(3)) == {"p": 3}


def test_of_a_claim_with_a_device_that_its_driver_took_out_nothing_is_known() -> None:
    left = shows(devices.resource_slice("n1", devices.device(0), generation=2, name="left"))
    changes = [shows(SLICE), left, seen(NODE), HOLDER, ALLOCATED, report(1)]
    assert held(*changes) == {}
    facts = DeviceFacts()
    list(facts.resolved(changes))
    assert facts.reported(NodeName("n1")).holders == {}, "not only the device 0"


def test_what_the_agent_tells_of_a_pod_and_what_its_claims_tell_are_joined() -> None:
    told = report(1, 2)
    told = replace(told, fact=replace(told.fact, holders={"p": frozenset((3,)), "q": frozenset((2,))}))
    assert held(shows(SLICE), seen(NODE), HOLDER, ALLOCATED, told) == {"p": 1, "q": 2}


def test_claims_tell_no_node_anew_of_which_all_devices_are_healthy() -> None:
    facts = DeviceFacts()
    list(facts.resolved([*COUNTED, seen(NODE), report()]))
    assert [each.kind for each in facts.resolved([HOLDER, ALLOCATED])] == [FactKind.POD] * 2


# ── what follows in the world ───────────────────────────────────────────────────────────────────────────────────


def test_a_gang_waits_for_devices_of_nodes_and_foreign_pods_take_some() -> None:
    foreign = pod("foreign", "n1", takes=NO_GPU, claims=ONE_GPU)
    known = world([*COUNTED, NODE, waiting(), foreign])
    assert known.states[JOB].workload.pod_sets[0].takes == TWO_EACH
    assert known.node_inventory.room(NodeName("n1"))[RESOURCE] == 2000


def test_a_suspended_job_goes_back_if_its_template_claims_more_than_was_admitted() -> None:
    taken = admission(JOB, "n1 n1")
    taken = replace(taken, seats=tuple(replace(seat, takes=TWO_EACH) for seat in taken.seats))
    known = world([*COUNTED, NODE, waiting()], [taken])
    assert not known.states[JOB].evictable
    see(known, without(TWO), shows(devices.claim_template(devices.request(3))))
    (rollback,) = known.states[JOB].evictable.values()
    assert rollback.code is ReasonCode.REQUEST_CHANGED
    assert "3 example.com/gpu, expected at most 2" in rollback.message


def test_a_pod_with_a_larger_claim_than_its_seat_sends_its_gang_back() -> None:
    taken = admission(JOB, "n1", pod_set="main")
    taken = replace(taken, seats=tuple(replace(seat, takes=TWO_EACH) for seat in taken.seats))
    mine = released("p", "main/0", takes=NO_GPU, owner=JOB, claims=OWN)
    known = world([*COUNTED, NODE, replace(waiting(), suspended=False), mine], [taken])
    assert not known.states[JOB].evictable
    see(known, made(devices.request(8)))
    (rollback,) = known.states[JOB].evictable.values()
    assert rollback.code is ReasonCode.SEAT_MISMATCH


def test_the_world_is_the_same_however_it_came_about() -> None:
    member = gated("m", takes=NO_GPU, claims=ONE_GPU)
    changes = [*COUNTED, NODE, waiting(), member]
    ahead, behind = world(changes), world(reversed(changes))
    assert ahead.pods == behind.pods
    assert ahead.facts == behind.facts
    assert ahead.node_inventory.nodes == behind.node_inventory.nodes
