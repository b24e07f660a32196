"""What one seed does: the cluster, what users do in it and what goes wrong, and when. A pure function of the seed."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from admission.failpoints import POINTS, RECREATION_POINTS
from tests.chaos.cluster.line_faults import Trouble
from tests.chaos.drawn import documents
from tests.chaos.drawn.combinations import combination
from tests.chaos.drawn.pace import PACE
from tests.chaos.drawn.steps import FAULTS_END, HEALED, LEADER, USERS_END, PlannedFault, UserAction
from tests.chaos.history import Document
from tests.chaos.network.link import Line

#: Of one run.
MOST_REPLICAS: Final = 3
#: Seconds after which everything heals.
HEALS_AT: Final = HEALED * PACE
#: Seconds. The connection of a watch that was silent for longer breaks in the end, with all that it has not told.
_LONG_SILENCE: Final = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One run."""

    seed: int
    replicas: tuple[str, ...]
    prepared: tuple[Document, ...]
    actions: tuple[UserAction, ...]
    faults: tuple[PlannedFault, ...]

    def timeline(self) -> str:
        """Everything that is planned, a line each, in order."""
        lines = [(each.at, f"user: {each}") for each in self.actions]
        lines += [(each.at, f"fault: {each}") for each in self.faults]
        lines.append((HEALS_AT, "everything heals"))
        told = "\n".join(f"{at:7.2f} s  {line}" for at, line in sorted(lines))
        return f"seed {self.seed}, {len(self.replicas)} replica(s), pace {PACE:g}\n{told}"


def plan(seed: int) -> Plan:
    """What a seed does, at this process's pace."""
    draw = random.Random(f"chaos {seed}")
    count = draw.choices((1, 2, 3), (2, 5, 3))[0]
    cluster = documents.Cluster.drawn(draw)
    added = combination(seed, cluster)
    replicas = tuple(f"replica-{number + 1}" for number in range(max(count, added.replicas)))
    moments = random.Random(f"chaos moments {seed}")
    actions = [*_actions(draw, cluster), *_at_bad_moments(moments, cluster)]
    faults = [*_faults(draw, replicas), *_failpoint_everywhere(moments, replicas)]
    actions = [*([] if added.has_only_its_work else actions), *added.actions]
    faults = [*([] if added.is_alone else faults), *added.faults, *_watches_fail(seed, replicas)]
    return Plan(
        seed=seed,
        replicas=replicas,
        prepared=tuple(cluster.documents()),
        actions=tuple(
            replace(action, at=action.at * PACE) for action in sorted(actions, key=lambda action: action.at)
        ),
        faults=tuple(
            replace(fault, at=fault.at * PACE, seconds=fault.seconds * PACE)
            for fault in sorted(faults, key=lambda fault: fault.at)
        ),
    )


# ── users ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _actions(draw: random.Random, cluster: documents.Cluster) -> list[UserAction]:
    actions = []
    for number in range(draw.randint(6, 12)):
        at = draw.uniform(0.0, USERS_END) if number > 2 else 0.0
        workload = documents.workload(draw, number, cluster)
        actions.append(UserAction(at=at, verb="create", documents=workload.documents))
        if draw.random() < 0.12:
            gone = draw.uniform(at + 0.1, USERS_END + 0.2)
            actions.append(UserAction(at=gone, verb="delete", kind=workload.kind, name=workload.name))
    if draw.random() < 0.3:
        actions.append(UserAction(at=draw.uniform(0.5, USERS_END), verb="delete-pod"))
    if draw.random() < 0.25:
        at, node = draw.uniform(0.3, 2.0), draw.choice(cluster.nodes)
        actions.append(UserAction(at=at, verb="cordon", name=node))
        actions.append(UserAction(at=at + draw.uniform(0.3, 1.2), verb="uncordon", name=node))
    if draw.random() < 0.2:
        at, node = draw.uniform(0.5, 2.0), draw.choice(cluster.nodes)
        actions.append(UserAction(at=at, verb="node-down", name=node))
        actions.append(UserAction(at=at + draw.uniform(0.2, 1.0), verb="node-up", name=node))
    if draw.random() < 0.25:
        queue = draw.choice(cluster.queues)
        patch = {"spec": {"capability": {documents.GPU: str(draw.randint(4, 16))}}}
        actions.append(
            UserAction(at=draw.uniform(0.3, 2.5), verb="patch", kind="Queue", name=queue, patch=patch)
        )
    return actions


def _at_bad_moments(draw: random.Random, cluster: documents.Cluster) -> list[UserAction]:
    """What people and controllers do just when Muster is about something else."""
    actions = []
    for number in range(draw.choice((0, 0, 1, 2))):
        pod = documents.foreign_pod(draw, number, cluster)
        actions.append(UserAction(at=draw.uniform(0.5, USERS_END), verb="create", documents=(pod,)))
    for verb, share, times in (("delete-newest", 0.4, 2), ("collect-ended", 0.4, 4)):
        if draw.random() < share:
            actions += [UserAction(at=draw.uniform(0.8, USERS_END), verb=verb) for _ in range(times)]
    if draw.random() < 0.4:
        actions.append(UserAction(at=0.0, verb="forestall"))
    return actions


# ── faults ──────────────────────────────────────────────────────────────────────────────────────────────────────

_Draw = Callable[[random.Random, Sequence[str]], PlannedFault]


def _faults(draw: random.Random, replicas: Sequence[str]) -> list[PlannedFault]:
    """Two to six, and sometimes none."""
    count = draw.choices((0, 2, 3, 4, 6), (1, 4, 6, 5, 3))[0]
    kinds, weights = zip(*_KINDS, strict=True)
    return [draw.choices(kinds, weights)[0](draw, replicas) for _ in range(count)]


def _failpoint_everywhere(draw: random.Random, replicas: Sequence[str]) -> list[PlannedFault]:
    """Every replica stops at one point of its first terms: the one that leads does."""
    if draw.random() > 0.3:
        return []
    point, number, seconds = draw.choice(POINTS), draw.randint(1, 4), _stopped(draw)
    how = draw.choice(("KILL", "STOP", "STOP"))
    return [
        PlannedFault(
            at=0.0,
            name="failpoint",
            target=replica,
            seconds=seconds if how == "STOP" else 0.0,
            detail={"point": f"{point}:{how}:{number}", "start": 1},
        )
        for replica in replicas
    ]


def _watches_fail(seed: int, replicas: Sequence[str]) -> list[PlannedFault]:
    """In most runs watches end once or twice, whatever else goes wrong."""
    draw = random.Random(f"chaos watches {seed}")
    return [_watch_fault(draw, replicas) for _ in range(draw.choice((0, 1, 1, 2)))]


def _at(draw: random.Random) -> float:
    return round(draw.uniform(0.3, FAULTS_END), 2)


def _whom(draw: random.Random, replicas: Sequence[str]) -> str:
    return LEADER if draw.random() < 0.75 else draw.choice(replicas)


def _kill(draw: random.Random, replicas: Sequence[str]) -> PlannedFault:
    return PlannedFault(
        at=_at(draw), name="kill", target=_whom(draw, replicas), detail={"back_after": _pause(draw)}
    )


def _stop(draw: random.Random, replicas: Sequence[str]) -> PlannedFault:
    return PlannedFault(at=_at(draw), name="stop", target=_whom(draw, replicas), seconds=_stopped(draw))


def _failpoint(draw: random.Random, replicas: Sequence[str]) -> PlannedFault:
    point = draw.choice((*POINTS, *POINTS, *RECREATION_POINTS))
    how = draw.choice(("KILL", "STOP"))
    return PlannedFault(
        at=0.0,
        name="failpoint",
        target=draw.choice(replicas),
        seconds=_stopped(draw) if how == "STOP" else 0.0,
        detail={"point": f"{point}:{how}:{draw.randint(1, 4)}", "start": draw.randint(1, 2)},
    )


def _struck_write(draw: random.Random, replicas: Sequence[str]) -> PlannedFault:
    how = draw.choice(("kill", "stop"))
    return PlannedFault(
        at=_at(draw),
        name="strike-write",
        seconds=_stopped(draw) if how == "stop" else 0.0,
        detail={"how": how, "before": draw.random() < 0.5, "passes": draw.randint(0, 12)},
    )


def _struck_commit(draw: random.Random, replicas: Sequence[str]) -> PlannedFault:
    how = draw.choice(("kill", "stop", "break", "break"))
    return PlannedFault(
        at=_at(draw),
        name="strike-commit",
        target=_whom(draw, replicas),
        seconds=_stopped(draw) if how == "stop" else 0.0,
        detail={"how": how, "before": draw.random() < 0.5, "passes": draw.randint(0, 5)},
    )


def _line(name: str, longest: float, draw: random.Random, replicas: Sequence[str]) -> PlannedFault:
    """The way to a server is cut or held up for at most so many seconds."""
    line = draw.choice((Line.CUT, Line.NO_REQUESTS, Line.NO_ANSWERS))
    return PlannedFault(
        at=_at(draw),
        name=name,
        target=_whom(draw, replicas),
        seconds=draw.uniform(0.3, longest),
        detail={"line": line.value},
    )


def _postgres_slow(draw: random.Random, replicas: Sequence[str]) -> PlannedFault:
    return PlannedFault(
        at=_at(draw),
        name="postgres-slow",
        target=_whom(draw, replicas),
        seconds=draw.uniform(0.5, 2.0),
        detail={"delay": round(draw.choice((0.02, 0.1, 0.3)), 2)},
    )


def _postgres_killed(draw: random.Random, replicas: Sequence[str]) -> PlannedFault:
    return PlannedFault(at=_at(draw), name="postgres-killed", seconds=draw.uniform(0.0, 1.0))


def _postgres_state(draw: random.Random, replicas: Sequence[str]) -> PlannedFault:
    name = draw.choice(("postgres-read-only", "postgres-full"))
    return PlannedFault(at=_at(draw), name=name, seconds=draw.uniform(0.3, 2.0))


def _failed_over(draw: random.Random, replicas: Sequence[str]) -> PlannedFault:
    return PlannedFault(at=_at(draw), name="postgres-failed-over", seconds=draw.uniform(0.2, 1.0))


def _sessions(draw: random.Random, replicas: Sequence[str]) -> PlannedFault:
    return PlannedFault(at=_at(draw), name="postgres-sessions-ended")


def _spell(draw: random.Random, replicas: Sequence[str]) -> PlannedFault:
    trouble = draw.choice(tuple(Trouble))
    return PlannedFault(
        at=_at(draw),
        name="api-server-trouble",
        seconds=draw.uniform(0.3, 2.0),
        detail={"trouble": trouble.value, "share": round(draw.uniform(0.1, 0.7), 2)},
    )


def _watch_fault(draw: random.Random, replicas: Sequence[str]) -> PlannedFault:
    kinds = draw.choice(([], ["pods"], ["jobs"], ["nodes", "queues"], ["podgroups", "pods"]))
    name = draw.choice(("watches-cut", "past-forgotten", "watches-silent"))
    seconds = draw.uniform(0.3, 1.5) if name == "watches-silent" else 0.0
    if name == "watches-silent" and not kinds:
        kinds = ["pods", "jobs"]
    detail: dict[str, Any] = {"kinds": kinds}
    if seconds > _LONG_SILENCE:
        detail["breaks"] = True
    return PlannedFault(at=_at(draw), name=name, seconds=seconds, detail=detail)


def _api_restart(draw: random.Random, replicas: Sequence[str]) -> PlannedFault:
    return PlannedFault(at=_at(draw), name="api-server-restarted", seconds=draw.uniform(0.1, 1.0))


def _clock(draw: random.Random, replicas: Sequence[str]) -> PlannedFault:
    offset = draw.choice((-3600.0, -30.0, -2.0, 2.0, 30.0, 3600.0))
    return PlannedFault(
        at=_at(draw), name="clock-set", target=_whom(draw, replicas), detail={"offset": offset}
    )


#: Kinds, and how often each is drawn.
_KINDS: Final[tuple[tuple[_Draw, int], ...]] = (
    (_kill, 4),
    (_stop, 4),
    (_failpoint, 5),
    (_struck_write, 5),
    (_struck_commit, 5),
    (partial(_line, "api-server-line", 2.5), 3),
    (partial(_line, "postgres-line", 3.0), 3),
    (_postgres_slow, 2),
    (_postgres_killed, 2),
    (_postgres_state, 2),
    (_failed_over, 1),
    (_sessions, 1),
    (_spell, 6),
    (_watch_fault, 5),
    (_api_restart, 2),
    (_clock, 2),
)


def _pause(draw: random.Random) -> float:
    return round(draw.choice((0.05, 0.3, 1.0)), 2)


def _stopped(draw: random.Random) -> float:
    """Shorter than a lease, or longer."""
    return round(draw.choice((0.3, 1.0, 2.7, 3.4)), 2)
