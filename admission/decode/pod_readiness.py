"""Whether a pod is ready, and what it waits for if not, from its status. Pure."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from admission.decode.fields import condition, one, seconds
from admission.wire import WireContainerStatus, WirePodStatus
from queues.api.reading.user_values import shortened

#: Characters of what a kubelet says about one container.
_LONGEST: Final = 200

#: What every container waits for while it starts.
_STARTING: Final = frozenset(("ContainerCreating", "PodInitializing"))


class PodReadiness(NamedTuple):
    """How far a pod is on its way to be ready; the fields are those of a PodFact."""

    since: int | None
    waits_for: str
    bound_at: int


_UNKNOWN: Final = PodReadiness(None, "", 0)


def readiness_of(status: WirePodStatus) -> PodReadiness:
    """What the conditions and containers of a pod say.

    A container that has completed need not be ready: Kubernetes calls a pod with one unready, though all of it does
    what it should.
    """
    if not status.conditions:
        return _UNKNOWN
    bound, ready = condition(status.conditions, "PodScheduled"), condition(status.conditions, "Ready")
    bound_at = seconds(bound.last_transition_time) if bound is not None and bound.status == "True" else 0
    if ready is not None and (ready.status == "True" or _all_do_well(status)):
        return PodReadiness(seconds(ready.last_transition_time), "", bound_at)
    return PodReadiness(None, one(next(_obstacles(status), "")), bound_at)


def _all_do_well(status: WirePodStatus) -> bool:
    containers = status.container_statuses or ()
    return status.phase == "Running" and bool(containers) and all(map(_does_well, containers))


def _does_well(container: WireContainerStatus) -> bool:
    ended = container.state.terminated if container.state is not None else None
    return container.ready or (ended is not None and ended.exit_code == 0)


def _obstacles(status: WirePodStatus) -> Iterator[str]:
    """What its containers wait for, in the order in which they start."""
    for container in (*(status.init_container_statuses or ()), *(status.container_statuses or ())):
        waiting = container.state.waiting if container.state is not None else None
        if waiting is not None and waiting.reason and waiting.reason not in _STARTING:
            yield _told(waiting.reason, waiting.message)
        elif waiting is None and container.restart_count and not container.ready:
            yield _told(_reason_of_end(container), None)


def _reason_of_end(container: WireContainerStatus) -> str:
    """A container that ended a moment ago, or was started again and is not ready."""
    times = f"{container.restart_count} restarts"
    ended = container.state.terminated if container.state is not None else None
    if ended is None or ended.exit_code == 0:
        return times
    return f"{ended.reason or 'Error'}, exit code {ended.exit_code}, {times}"


def _told(reason: str, message: str | None) -> str:
    text = f"{reason}: {message}" if message else reason
    return shortened(" ".join(text.replace("\0", " ").split()), _LONGEST)
