"""Victims on nodes whose devices are shared: what they free lies on one device, where the beneficiary needs it.

Each world has more candidates than the few for which several orders are tried.
"""

from collections.abc import Sequence
from dataclasses import replace

from admission.engine.nodes.devices import taken
from admission.engine.nodes.table import Node
from queues.admissions import Admission
from queues.quota.queue import Queue, QueuePolicy
from queues.resources import CPU, GPU, PODS, WHOLE, Resources, device, total
from queues.workload import DeviceShare, NodeName, PodSet, QueueName, Workload
from tests.builders.decided_work import a_snapshot, an_admission, plan_of, seats_on
from tests.builders.running_work import NOW, workload
from tests.tables import named_rows

#: Thousandths of one device that a pod has, and the seconds that it has run: the longer, the dearer.
Part = tuple[int, int]
CHEAP, DEAR = 100, 5000
#: Of a pod that may not be evicted.
STAYS = 0
#: A device with many small pods.
CROWDED = [(50, CHEAP)] * 10


def asking(milli: int, devices: int = 1, **more: object) -> Workload:
    """A pod that asks for so much of each of so many devices: of whole ones, or of parts."""
    share = DeviceShare(devices=devices, milli=milli) if milli < WHOLE else None
    takes = Resources({CPU: 1000, PODS: 1, GPU: devices * milli})
    pods = PodSet(name="main", count=1, takes=takes, share=share)
    return replace(workload("asks"), pod_sets=(pods,), **more)  # type: ignore[arg-type]


def held(number: int, node: str, device_number: int, part: Part) -> tuple[Workload, Admission]:
    """A pod that has a part of one device; its name says of which one."""
    milli, seconds = part
    name = f"{device_number}/{milli}/{number}"
    plain = workload(name)
    mine = replace(asking(milli), key=plain.key, name=name, priority=0 if seconds else 100)
    (pods,) = mine.pod_sets
    takes = taken(pods.takes, pods.share, milli, (device_number,))
    seats = seats_on(node, replace(pods, takes=takes))
    return mine, an_admission(number, mine, *seats, opened_at=NOW - seconds)


def victims(asks: Workload, *parts: Sequence[Part], nodes: int = 40) -> list[str]:
    """Device and part of the victims for an urgent pod, on equal nodes with pods that have these parts of devices."""
    works, admissions, tables = [], [], []
    rows = {device(GPU, number): WHOLE for number in range(len(parts))}
    offered = Resources({CPU: 64_000, PODS: 110, GPU: len(parts) * WHOLE, **rows})
    for node in (f"n{number:02}" for number in range(nodes)):
        first = len(admissions)
        for number, of_device in enumerate(parts):
            for part in of_device:
                work, admission = held(len(admissions) + 1, node, number, part)
                works.append(work)
                admissions.append(admission)
        used = total(seat.takes for each in admissions[first:] for seat in each.seats)
        tables.append(Node(name=NodeName(node), allocatable=offered, used=used))
    assert len(admissions) > 64
    urgent, name = replace(asks, priority=10), QueueName("q")
    queue = Queue(name=name, policy=QueuePolicy(within_queue="lower-priority"))
    given = {"admissions": admissions, "holders": {each.key: each for each in works}}
    snapshot = a_snapshot(urgent, queues=[queue], nodes=tables, now=NOW, **given)
    plan = plan_of(snapshot)
    freed = [snapshot.admissions[each.admission] for each in plan.evicts]
    assert len({each.seats[0].node for each in freed}) <= 1
    assert len(plan.claims) == bool(freed)
    return sorted(each.name.rpartition("/")[0] for each in freed)


MIXED = [(400, CHEAP), (300, DEAR), (300, DEAR)]


@named_rows(
    ("asks", "parts", "expected"),
    {
        "the cheapest lie on two devices": (asking(600), (MIXED, MIXED), ["0/300", "0/400"]),
        "amounts have room already": (asking(600), (CROWDED, CROWDED), ["0/50", "0/50"]),
        "amounts have room for all that could ever fit": (
            asking(500),
            ([(500, STAYS), (200, STAYS)], [(500, STAYS), (100, CHEAP), (100, CHEAP)]),
            ["1/100", "1/100"],
        ),
        "parts of two devices": (
            asking(600, devices=2),
            (MIXED, MIXED, [(900, DEAR)]),
            ["0/300", "0/400", "1/300", "1/400"],
        ),
        "halves of two devices": (
            asking(500, devices=2),
            ([(400, STAYS), (200, CHEAP)], [(400, STAYS), (200, DEAR)]),
            ["0/200", "1/200"],
        ),
        "a whole device": (
            asking(WHOLE),
            ([(500, CHEAP), (500, DEAR)], [(500, CHEAP), (500, DEAR)]),
            ["0/500", "0/500"],
        ),
        "one victim leaves a whole device": (
            asking(WHOLE),
            ([(500, DEAR)], [(500, CHEAP), (500, CHEAP)]),
            ["0/500"],
        ),
        "more than there is": (asking(900, devices=3), (MIXED, MIXED), []),
    },
)
def test_victims_free_enough_on_the_devices_that_the_pod_gets(
    asks: Workload, parts: tuple[Sequence[Part], ...], expected: list[str]
) -> None:
    assert victims(asks, *parts) == expected
