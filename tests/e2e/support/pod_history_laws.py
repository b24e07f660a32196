"""What must hold in the history of any pods, whatever the test was about."""

from collections.abc import Iterable

from tests.e2e.support.pod_history import Moment

_ENDED = ("Succeeded", "Failed")


def breaches(moments: Iterable[Moment]) -> list[str]:
    """Each time a queued pod was bound without an admission, or two lived in one seat."""
    found: list[str] = []
    #: (admission, seat) → uid and name of the pod that lives in it.
    sitting: dict[tuple[str, str], tuple[str, str]] = {}
    for moment in moments:
        meta, admission = moment.pod["metadata"], moment.admission
        if not moment.node or "muster.dev/released" not in meta.get("labels", {}):
            continue
        if not admission:
            found.append(f"{moment.name} on {moment.node} without an admission")
            continue
        seat = meta["annotations"].get("muster.dev/seat")
        if seat is None:
            continue  # of a Job that was released by its template: by node, not by seat
        place, who = (admission, seat), (meta["uid"], moment.name)
        if moment.kind == "DELETED" or moment.phase in _ENDED:
            if sitting.get(place) == who:
                del sitting[place]
        elif sitting.setdefault(place, who) != who:
            found.append(f"{moment.name} in seat {seat} of admission {admission} beside {sitting[place][1]}")
    return found
