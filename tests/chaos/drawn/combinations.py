"""Combinations of work and faults that single draws rarely bring about: one thing has to happen while another is under
way.

Each seed has one, in turn, so that a dozen seeds in a row have all of them. Moments and sizes are drawn.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from queues.api import names
from tests.chaos.drawn import documents
from tests.chaos.drawn.documents import RUN_SECONDS, Task
from tests.chaos.drawn.steps import HEALED, LEADER, USERS_END, PlannedFault, UserAction


@dataclass(frozen=True, slots=True, kw_only=True)
class Combination:
    """What is added to the plan of a seed."""

    actions: tuple[UserAction, ...] = ()
    faults: tuple[PlannedFault, ...] = ()
    #: Nothing else goes wrong: another leader would mend what is looked for.
    is_alone: bool = False
    #: Users do nothing else.
    has_only_its_work: bool = False
    #: At least so many.
    replicas: int = 1


def combination(seed: int, cluster: documents.Cluster) -> Combination:
    """The one of a seed."""
    return COMBINATIONS[seed % len(COMBINATIONS)](random.Random(f"chaos combination {seed}"), cluster)


def _gone_in_a_sync(draw: random.Random, cluster: documents.Cluster) -> Combination:
    """Pods of high priority come while the Job controller still makes those of Jobs of a low one, most of them when a
    sync begins to pause: some are evicted. Users delete others just then."""
    actions = []
    # More than fit: what is freed is taken at once, and a Job that was evicted is left alone for long.
    for number in range(len(cluster.nodes) + 3):
        task = Task(name="", replicas=2, gpus=cluster.gpus // 2, annotations=_runs(draw, 0.6, 1.2))
        low = documents.job(f"team-a/low-{number}", "team-b", "low", task)
        actions.append(_created(draw.uniform(0.0, 0.9), low))
    for number in range(6):
        task = Task(name="", replicas=1, gpus=cluster.gpus, annotations=_runs(draw, 0.2, 0.4))
        high = documents.pod(f"team-b/high-{number}", "team-b", "high", task)
        at, verb = draw.uniform(0.9, 2.4), draw.choice(("create", "create-in-sync", "create-in-sync"))
        actions.append(UserAction(at=at, verb=verb, documents=high.documents))
    is_alone = draw.random() < 0.6
    for number in range(len(cluster.nodes)):
        if draw.random() < 0.25:
            at = draw.uniform(1.2, 2.4)
            actions.append(UserAction(at=at, verb="delete", kind="Job", name=f"team-a/low-{number}"))
    return Combination(
        actions=tuple(actions),
        faults=(PlannedFault(at=0.0, name="job-syncs-pause", seconds=USERS_END),),
        is_alone=is_alone,
        has_only_its_work=is_alone,
    )


def _evictions(draw: random.Random, cluster: documents.Cluster) -> Combination:
    """Low priorities fill the cluster when a Job of a high one comes: some go back, and come again."""
    workloads = []
    for number in range(len(cluster.nodes)):
        # Only Muster makes these pods again, so that they have to say that they may be evicted.
        path, annotations = f"team-a/low-{number}", _runs(draw, 1.6, 2.2) | {names.PREEMPTABLE: "true"}
        if draw.random() < 0.4:
            task = Task(name="", replicas=1, gpus=cluster.gpus, annotations=annotations)
            workloads.append((0.0, documents.pod(path, "team-b", "low", task)))
        else:
            task = Task(name="", replicas=2, gpus=cluster.gpus // 2, annotations=annotations)
            workloads.append((0.0, documents.group(path, "team-b", "low", task, minimum=2)))
    for number in range(2):
        task = Task(name="", replicas=1, gpus=cluster.gpus, annotations=_runs(draw, 0.2, 0.4))
        one = documents.pod(f"team-b/high-{number}", "team-b", "high", task)
        workloads.append((draw.uniform(0.9, 1.5), one))
    return Combination(
        actions=tuple(_created(at, one) for at, one in workloads), is_alone=draw.random() < 0.5
    )


def _overtaken(draw: random.Random, cluster: documents.Cluster) -> Combination:
    """Workloads are deleted while their pods are being let go or made; these writes arrive afterwards."""
    pods = draw.randint(6, 8)
    task = Task(name="worker", replicas=pods, gpus=1, annotations=_runs(draw, 0.3, 0.8))
    group = documents.group("team-a/overtaken", "team-b", "high", task, minimum=pods)
    job = documents.volcano_job("team-b/overtaken", "team-b", "high", [task], minimum=pods)
    first, second = draw.sample((group, job), 2)
    how = draw.choice(("slow", "late", "late"))
    begins = draw.uniform(0.0, 0.8)
    return Combination(
        actions=(_created(begins, first), _created(begins + draw.uniform(0.5, 1.0), second)),
        faults=(PlannedFault(at=begins, name="writes-overtaken", detail={"how": how, "times": 5}),),
        is_alone=draw.random() < 0.6,
    )


def _changes_unstored(draw: random.Random, cluster: documents.Cluster) -> Combination:
    """Nodes, queues and workloads change while Postgres takes nothing, for less than a lease."""
    begins, seconds = draw.uniform(1.0, 2.2), draw.uniform(0.5, 0.9)
    name = draw.choice(("postgres-read-only", "postgres-full", "postgres-killed"))
    node, queue = draw.choice(cluster.nodes), draw.choice(cluster.queues)
    patch = {"spec": {"capability": {documents.GPU: str(draw.randint(4, 16))}}}
    task = Task(name="", replicas=1, gpus=1, annotations=_runs(draw, 0.2, 0.6))
    middle = begins + 0.15
    return Combination(
        actions=(
            UserAction(at=begins - 0.6, verb="cordon", name=node),
            UserAction(at=draw.uniform(middle, begins + seconds), verb="uncordon", name=node),
            UserAction(at=middle, verb="patch", kind="Queue", name=queue, patch=patch),
            _created(
                draw.uniform(middle, begins + seconds), documents.pod("team-a/late", "shared", "low", task)
            ),
        ),
        faults=(PlannedFault(at=begins, name=name, seconds=seconds),),
        is_alone=draw.random() < 0.6,
    )


def _half_done(draw: random.Random, cluster: documents.Cluster) -> Combination:
    """Pods of a Job have ended and are gone when the leader dies, and others of it still run."""
    workers = Task(name="worker", replicas=draw.randint(1, 3), gpus=1, annotations=_runs(draw, 0.1, 0.3))
    master = Task(name="master", replicas=1, gpus=1, annotations=_runs(draw, 1.4, 2.0))
    job = documents.volcano_job(
        "team-b/half-done", "team-b", "high", [workers, master], minimum=workers.replicas + 1
    )
    dies = draw.uniform(1.7, 2.3)
    return Combination(
        actions=(
            _created(0.0, job),
            *(UserAction(at=dies - before, verb="collect-ended") for before in (0.6, 0.4, 0.2)),
        ),
        faults=(PlannedFault(at=dies, name="kill", target=LEADER, detail={"back_after": 0.3}),),
        is_alone=draw.random() < 0.5,
    )


def _seats_unconfirmed(draw: random.Random, cluster: documents.Cluster) -> Combination:
    """Gangs get seats, and the leader does not hear so: the connection breaks after the COMMIT."""
    detail = {"how": "break", "before": False, "only_seats": True}
    moments = (draw.uniform(0.0, 0.5), draw.uniform(0.8, 2.2))
    return Combination(
        faults=tuple(
            PlannedFault(
                at=at, name="strike-commit", target=LEADER, detail={**detail, "passes": draw.randint(0, 2)}
            )
            for at in moments
        ),
        is_alone=draw.random() < 0.6,
    )


def _lease_ends_early(draw: random.Random, cluster: documents.Cluster) -> Combination:
    """The clock of Postgres is set ahead, as by a failover to another machine: a leader trusts a lease that has ended.
    The connection by which it renews it is silent just then, and pods go on to end, or nothing happens at all.

    Whatever a leader takes in tells it that its term is over, also what its successor writes to the root queue. So
    watches of queues are silent as well, and mostly little else happens: seats are given back before anything is taken
    in.
    """
    at, silent = draw.uniform(1.9, 2.4), draw.uniform(0.7, 1.0)
    workloads = []
    for number in range(draw.choice((0, 4, 4))):
        task = Task(name="", replicas=2, gpus=1, annotations=_runs(draw, 0.8, 2.0))
        workloads.append(documents.group(f"team-a/ends-{number}", "team-b", "high", task, minimum=2))
    faults = [
        PlannedFault(at=at, name="lease-connection-silent", target=LEADER, seconds=silent),
        PlannedFault(at=at, name="watches-silent", seconds=silent + 0.4, detail={"kinds": ["queues"]}),
        PlannedFault(at=at + 0.02, name="postgres-clock-set", detail={"offset": 3.0}),
    ]
    if draw.random() < 0.3:
        faults.append(PlannedFault(at=3.6, name="postgres-clock-set", detail={"offset": -0.5}))
    is_alone = draw.random() < 0.8
    return Combination(
        actions=tuple(_created(0.0, one) for one in workloads),
        faults=tuple(faults),
        is_alone=is_alone,
        has_only_its_work=is_alone,
        replicas=3,
    )


def _statuses_unwritten(draw: random.Random, cluster: documents.Cluster) -> Combination:
    """Most writes of statuses fail until everything heals, and what begins then goes on as it is."""
    begins = draw.uniform(0.6, 1.6)
    trouble = draw.choice(("500", "503", "broken", "answer-lost"))
    task = Task(name="worker", replicas=1, gpus=1, annotations={})
    workloads = (
        documents.group("team-a/stays", "shared", "high", task, minimum=1),
        documents.volcano_job("team-b/stays", "team-b", "high", [task], minimum=1),
        documents.pod("team-b/stays-too", "team-b", "high", task),
    )
    detail = {"trouble": trouble, "share": round(draw.uniform(0.5, 0.8), 2), "only": "/status"}
    spell = PlannedFault(at=begins, name="api-server-trouble", seconds=HEALED - begins, detail=detail)
    return Combination(
        actions=tuple(_created(begins + draw.uniform(0.0, 0.4), one) for one in workloads),
        faults=(spell,),
        is_alone=draw.random() < 0.6,
    )


#: In the order in which seeds have them.
COMBINATIONS: Final[Sequence[Callable[[random.Random, documents.Cluster], Combination]]] = (
    _gone_in_a_sync,
    _evictions,
    _overtaken,
    _changes_unstored,
    _half_done,
    _seats_unconfirmed,
    _lease_ends_early,
    _statuses_unwritten,
)


def _runs(draw: random.Random, least: float, most: float) -> dict[str, str]:
    """Annotations of pods that end by themselves."""
    return {RUN_SECONDS: f"{draw.uniform(least, most):.2f}"}


def _created(at: float, workload: documents.Workload) -> UserAction:
    return UserAction(at=at, verb="create", documents=workload.documents)
