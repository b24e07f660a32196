"""Lines of users, as the read API shows them."""

from collections.abc import Sequence

from queues.read_api import bodies
from queues.resources import amount, show
from queues.sql.read.rows import UserLine


def share_of(queue: bodies.QueueBody) -> str:
    """What shares of users in a queue are of: what it deserves, else what it may use; "": it has no limit."""
    for name in ("deserved", "capability"):
        if any(_limit(each, name) for each in queue.accounts):
            return name
    return ""


def _limit(account: bodies.AccountBody, name: str) -> int:
    text = getattr(account, name)
    return 0 if account.flavor or text is None else amount(account.resource, text)


def user_bodies(
    lines: Sequence[UserLine],
    queue: bodies.QueueBody | None,
    *,
    you: str,
    whole: bool,
) -> tuple[bodies.UserBody, ...]:
    """The lines, with the user who uses most first. ``queue``: what shares are of. None if the asker may not see it.

    ``you``: the user who asks. ``whole``: the lines have all work, so that they can be ranked.
    """
    limits: dict[str, int] = {}
    if queue is not None and (of := share_of(queue)):
        limits = {each.resource: units for each in queue.accounts if (units := _limit(each, of))}
    by_name = {line.user: line for line in lines}
    by_name.setdefault(you, UserLine(user=you, used={}, pending=0, admitted=0))
    shares = {
        name: max((line.used.get(each, 0) / limit for each, limit in limits.items()), default=None)
        for name, line in by_name.items()
    }

    def order(name: str) -> tuple[float, int, int, str]:
        line = by_name[name]
        devices = sum(units for each, units in line.used.items() if "/" in each)
        return (-(shares[name] or 0.0), -devices, -line.admitted, name)

    names = sorted(by_name, key=order)
    return tuple(
        bodies.UserBody(
            user=name,
            you=name == you,
            used={each: show(each, units) for each, units in sorted(by_name[name].used.items())},
            pending=by_name[name].pending,
            admitted=by_name[name].admitted,
            share=None if (share := shares[name]) is None else round(share, 4),
            rank=rank if whole else None,
        )
        for rank, name in enumerate(names, start=1)
    )
