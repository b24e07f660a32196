"""Small random worlds: few names, small numbers, so that limits are met and collisions happen."""

from dataclasses import replace

from hypothesis import strategies as st

from admission.engine.nodes.devices import with_numbers
from admission.engine.nodes.levels import HOST
from admission.engine.nodes.table import Node, NodeTable
from admission.engine.snapshot import Rollback, Snapshot, Unbooked, UnbookedPod
from queues import kind_names
from queues.admissions import Admission, AdmissionState, Seat
from queues.quota.queue import ROOT, Limits, Queue
from queues.reason_codes import ReasonCode
from queues.resources import Resources, device, total
from queues.workload import (
    NO_FLAVOR,
    AdmissionId,
    DevicePlaces,
    FlavorName,
    HostPort,
    NodeFilter,
    NodeName,
    Obstacle,
    Partition,
    PodSet,
    Preference,
    QueueName,
    Requirement,
    Taint,
    Toleration,
    Workload,
    WorkloadKey,
)
from tests.builders.device_numbers import places_in

NOW = 10_000

GPU, CPU = "nvidia.com/gpu", "cpu"

RACK, BLOCK = "rack", "block"

LEVELS = (BLOCK, RACK, HOST)
FLAVORS = (FlavorName("big"), FlavorName("small"))
TAINT = Taint("maintenance", "", "NoSchedule")

#: What some queues ask of the namespaces that use them.
SELECTORS = ((Requirement("tier", "In", ("gold",)),), (Requirement("floor", "In", ("1",)),))
NAMESPACES = {"team": {"tier": "gold", "floor": "1"}, "guests": {"tier": "gold"}}

#: Whole devices; large enough to matter, small enough to be met.
small = st.integers(0, 10)


def rarely(times: int) -> st.SearchStrategy[bool]:
    """True about once in so many times. Not at the end of a range: those are drawn more often."""
    return st.integers(0, times + 1).map(lambda drawn: drawn == times // 2)


@st.composite
def limits(draw: st.DrawFn) -> Limits:
    """Mostly in order; sometimes not, so that broken queues occur."""
    guarantee, deserved, capability = (draw(small) for _ in range(3))
    if not draw(rarely(9)):
        guarantee, deserved, capability = sorted((guarantee, deserved, capability))
    amounts = {GPU: 1000}
    return Limits(
        guarantee=Resources({GPU: guarantee * amounts[GPU]} if draw(st.booleans()) else {}),
        deserved={GPU: deserved * 1000} if draw(st.booleans()) else {},
        capability={GPU: capability * 1000} if draw(st.booleans()) else {},
    )


@st.composite
def trees(draw: st.DrawFn) -> dict[QueueName, Queue]:
    names = [QueueName(f"q{number}") for number in range(draw(st.integers(1, 5)))]
    queues = {}
    for number, name in enumerate(names):
        parents = [ROOT, ROOT, *names[:number]]
        queues[name] = Queue(
            name=name,
            parent=QueueName("nowhere") if draw(rarely(29)) else draw(st.sampled_from(parents)),
            weight=draw(st.integers(1, 3)),
            priority=draw(st.integers(0, 1)),
            limits=draw(limits()),
            flavors={draw(st.sampled_from(FLAVORS)): draw(limits())} if draw(rarely(3)) else {},
            order=draw(st.sampled_from([None, "priority", "fifo", "strict-fifo"])),
            ageing_per_hour=draw(st.sampled_from([None, 10])),
            placement=draw(st.sampled_from([None, None, "pack", "spread"])),
            paused=draw(rarely(19)),
            closed=draw(rarely(19)),
            max_gang=draw(st.sampled_from([None, None, 4])),
            max_pending=draw(st.sampled_from([None, None, None, 2])),
            namespace_selector=draw(st.sampled_from([*[None] * 6, *SELECTORS])),
        )
    if draw(rarely(9)):  # a cycle
        queues[names[0]] = replace(queues[names[0]], parent=names[-1])
    return queues


@st.composite
def nodes(draw: st.DrawFn) -> list[Node]:
    made = []
    for number in range(draw(st.integers(2, 6))):
        rack = draw(st.integers(0, 2))
        gpus = draw(st.sampled_from([4, 4, 2, 0]))
        allocatable = Resources({GPU: gpus * 1000, CPU: draw(st.sampled_from([8, 8, 3])) * 1000, "pods": 6})
        # Devices in pairs, or alone: pods get them by number.
        links: tuple[DevicePlaces, ...] = ()
        if gpus and draw(rarely(5)):
            pairs = [(0, 1), (2, 3)] if gpus == 4 else [(0,), (1,)]
            if draw(rarely(1)):
                pairs = [(each,) for each in range(gpus)]
            places = places_in(*pairs)
            links = (DevicePlaces(resource=GPU, each=places),)
            allocatable += Resources({device(GPU, place.number): 1000 for place in places})
        labels = {HOST: f"n{number}"}
        if not draw(rarely(7)):
            labels |= {RACK: f"r{rack}", BLOCK: f"b{rack // 2}"}
        made.append(
            Node(
                name=NodeName(f"n{number}"),
                allocatable=allocatable,
                # Other people's pods, at times more than there is room for.
                used=Resources({GPU: draw(st.integers(0, 1)) * 1000, "pods": draw(st.integers(0, 1))}),
                labels=labels,
                taints=(TAINT,) if draw(rarely(5)) else (),
                usable=not draw(rarely(7)),
                flavor=draw(st.sampled_from([NO_FLAVOR, *FLAVORS])),
                devices=links,
            )
        )
    return made


@st.composite
def pod_sets(draw: st.DrawFn, name: str) -> PodSet:
    count = draw(st.integers(1, 4))
    takes = {"pods": 1, CPU: draw(st.integers(0, 2)) * 1000, GPU: draw(st.integers(0, 2)) * 1000}
    if draw(rarely(19)):
        takes["example.com/nothing"] = 1000
    close = draw(st.sampled_from([None, None, None, (True, RACK), (True, BLOCK), (False, RACK)]))
    if draw(rarely(29)):
        close = (True, "moon")
    return PodSet(
        name=name,
        count=count,
        done=frozenset({0}) if draw(rarely(9)) else frozenset(),
        minimum=draw(st.integers(0, count)),
        takes=Resources(takes),
        nodes=NodeFilter(
            selector=((RACK, draw(st.sampled_from(["r0", "r1"]))),) if draw(rarely(5)) else (),
            tolerations=(Toleration(operator="Exists"),) if draw(st.booleans()) else (),
        ),
        required_topology=close[1] if close and close[0] else None,
        preferred_topology=close[1] if close and not close[0] else None,
        partitions=draw(st.sampled_from(PARTS)) if draw(rarely(4)) else (),
        balanced=draw(rarely(9)),
        prefers=(Preference(5, (Requirement(RACK, "In", ("r1",)),)),) if draw(rarely(9)) else (),
        ports=(HostPort(80),) if draw(rarely(9)) else (),
        in_one_island=draw(rarely(14)),
    )


#: Parts of pod sets, some of which only join whole, some nested.
PARTS = (
    (Partition(size=2, level=RACK),),
    (Partition(size=2, level=HOST, minimum=1),),
    (Partition(size=2, level=RACK, required=False),),
    (Partition(size=2, level="", required=False),),
    (Partition(size=4, level=BLOCK), Partition(size=2, level=RACK)),
)


@st.composite
def close_together(draw: st.DrawFn, sets: tuple[PodSet, ...]) -> tuple[PodSet, ...]:
    """Sometimes all sets of a workload in one domain of their level, or of one around them."""
    if draw(rarely(3)):
        level, soft = draw(st.sampled_from([None, RACK, BLOCK])), draw(st.booleans())
        sets = tuple(
            replace(
                pods,
                together="all",
                required_topology=None if soft else level,
                preferred_topology=level if soft else None,
            )
            for pods in sets
        )
    if draw(rarely(5)):
        required = draw(st.booleans())
        sets = tuple(replace(pods, within=BLOCK, within_required=required) for pods in sets)
    return sets


#: Workloads with the second count under maxPending.
_OBSTACLES = (
    Obstacle(ReasonCode.NOT_ENOUGH_PODS, "0 of 4 pods exist"),
    Obstacle(ReasonCode.WAITS_FOR_DEPENDENCY, "waits for job/a to succeed"),
)


@st.composite
def workloads(draw: st.DrawFn, number: int, queues: list[QueueName]) -> Workload:
    sets = tuple(draw(pod_sets(name)) for name in ["main", "side"][: draw(st.sampled_from([1, 1, 2]))])
    sets = draw(close_together(sets))
    pods = sum(each.count for each in sets)
    return Workload(
        key=WorkloadKey(draw(st.sampled_from([kind_names.JOB, kind_names.VOLCANO_JOB])), f"u{number}"),
        namespace=draw(st.sampled_from(["team", "team", "guests", "unseen"])),
        name=f"w{number}",
        queue=draw(st.sampled_from(queues)),
        priority=draw(st.integers(0, 2)),
        arrival=number,
        created=NOW - draw(st.sampled_from([0, 3600, 7200])),
        minimum=draw(st.integers(0, pods)),
        pod_sets=sets,
        generation="1",
        obstacle=draw(st.sampled_from(_OBSTACLES)) if draw(rarely(19)) else None,
        not_before=NOW + 60 if draw(rarely(19)) else 0,
    )


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    """A world with waiting and running work; what runs may exceed limits, as after a change of quota."""
    queues = draw(trees())
    places = draw(nodes())
    leaves = [name for name in queues if all(each.parent != name for each in queues.values())]
    names = (leaves or [ROOT]) * 8 + [*queues, ROOT, QueueName("unknown")]
    number = draw(st.integers(2, 8))
    every = [draw(workloads(each, names)) for each in range(number)]
    admissions: dict[AdmissionId, Admission] = {}
    pending = {}
    ended: dict[AdmissionId, frozenset[int]] = {}
    evictable = {}
    leaving = {}
    unbooked = []
    for workload in every:
        state = draw(st.sampled_from([*["waits"] * 6, "runs", "partly", "partly", "evicting", "unbooked"]))
        ordinals = [(pods, ordinal) for pods in workload.pod_sets for ordinal in pods.wanted()]
        if state == "waits" or not ordinals:
            pending[workload.key] = workload
            continue
        if state == "partly":
            ordinals = ordinals[: draw(st.integers(1, len(ordinals)))]
        on = [draw(st.sampled_from(places)) for _ in ordinals]
        if state == "unbooked":
            unbooked.append(_unbooked(workload, ordinals, on))
            continue
        admission = _admission(AdmissionId(workload.arrival + 1), workload, ordinals, on, state)
        admissions[admission.id] = admission
        if state in ("partly", "evicting"):
            pending[workload.key] = workload
        if draw(rarely(3)):
            ended[admission.id] = frozenset(range(draw(st.integers(1, len(on)))))
        if draw(rarely(5)):
            evictable[admission.id] = Rollback(ReasonCode.REFUSED, "the stock scheduler refused it", NOW + 30)
        if state == "runs" and draw(rarely(3)):
            leaving[admission.id] = NOW - draw(st.sampled_from([0, 30, 60]))
    return Snapshot(
        now=NOW,
        queues=queues,
        nodes=NodeTable.build(_loaded(places, admissions, unbooked), [LEVELS]),
        pending=pending,
        admissions=admissions,
        ended=ended,
        evictable=evictable,
        leaving=leaving,
        unbooked=tuple(unbooked),
        namespaces=NAMESPACES,
    )


def _admission(
    number: AdmissionId,
    workload: Workload,
    ordinals: list[tuple[PodSet, int]],
    on: list[Node],
    state: str,
) -> Admission:
    taken = dict.fromkeys((node.name for node in on), 0)

    def takes(pods: PodSet, node: Node) -> Resources:
        """With the numbers of devices, as far as the node has any left."""
        first, asked = taken[node.name], pods.takes[GPU] // 1000
        if not node.devices or not asked or first + asked > len(node.devices[0].each):
            return pods.takes
        taken[node.name] += asked
        return with_numbers(pods.takes, GPU, range(first, first + asked))

    return Admission(
        id=number,
        workload=workload.key,
        namespace=workload.namespace,
        name=workload.name,
        queue=workload.queue,
        priority=workload.priority,
        seats=tuple(
            Seat(
                pod_set=pods.name,
                ordinal=ordinal,
                node=node.name,
                flavor=node.flavor,
                takes=takes(pods, node),
            )
            for (pods, ordinal), node in zip(ordinals, on, strict=True)
        ),
        state=AdmissionState.EVICTING if state == "evicting" else AdmissionState.OPEN,
        opened_at=NOW - 100,
        generation="1",
    )


def _unbooked(workload: Workload, ordinals: list[tuple[PodSet, int]], on: list[Node]) -> Unbooked:
    return Unbooked(
        workload=workload.key,
        namespace=workload.namespace,
        name=workload.name,
        queue=workload.queue,
        priority=workload.priority,
        pods=tuple(
            UnbookedPod(
                f"{workload.key.uid}-{pods.name}-{ordinal}", pods.name, ordinal, node.name, pods.takes
            )
            for (pods, ordinal), node in zip(ordinals, on, strict=True)
        ),
    )


def _loaded(
    places: list[Node], admissions: dict[AdmissionId, Admission], unbooked: list[Unbooked]
) -> list[Node]:
    takes: dict[NodeName, list[Resources]] = {}
    for admission in admissions.values():
        for seat in admission.holding():
            takes.setdefault(seat.node, []).append(seat.takes)
    for each in unbooked:
        for pod in each.pods:
            takes.setdefault(pod.node, []).append(pod.takes)
    return [replace(node, used=node.used + total(takes.get(node.name, ()))) for node in places]
