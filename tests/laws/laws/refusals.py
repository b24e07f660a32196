"""Laws about gangs that the stock scheduler refuses, as functions that raise. Lives: ``worlds.refusals``."""

from admission.workloads.rollback import REFUSAL_LIMIT, REFUSAL_MEMORY
from queues.reason_codes import ReasonCode
from tests.laws.worlds.refusals import DAY, WEEK, Life

#: How a gang without an allowed place waits.
_WAITS_AS = (ReasonCode.REFUSED, ReasonCode.NO_FIT, ReasonCode.BACKOFF_LIMIT_EXCEEDED, ReasonCode.BACKOFF)


def an_allowed_place_is_found(life: Life) -> None:
    """A gang starts where a place is allowed, and no attempt is made that teaches nothing: each rules out a node."""
    life.live()
    assert life.started_at is not None, (life.rollbacks, life.reason, life.attempts)
    assert life.rollbacks <= len(life.nodes), life.attempts


def what_is_refused_everywhere_comes_to_rest(life: Life) -> None:
    """Without an allowed place a gang holds nothing in the end, says so, and is tried seldom: what runs of it is not
    killed again and again. At most once an hour where causes change, else once for each time that is remembered."""
    seconds, seldom = (2 * DAY, 3600) if life.churn else (WEEK, REFUSAL_MEMORY)
    life.live(seconds)
    assert life.started_at is None
    _is_at_rest(life, seconds, seldom)


def what_nodes_take_fewer_of_starts_or_comes_to_rest(life: Life) -> None:
    """A gang whose pods the scheduler refuses where a node has some of them already starts on other nodes, or holds
    nothing in the end and is tried as seldom as one without a place."""
    seconds, seldom = (2 * DAY, 3600) if life.churn else (WEEK, REFUSAL_MEMORY)
    life.live(seconds)
    if life.started_at is None:
        _is_at_rest(life, seconds, seldom)
    else:
        assert life.rollbacks <= REFUSAL_LIMIT + seconds // seldom + 1, life.rollbacks


def _is_at_rest(life: Life, seconds: int, seldom: int) -> None:
    assert life.rollbacks <= REFUSAL_LIMIT + seconds // seldom + 1, life.rollbacks
    assert life.killed <= life.rollbacks * life.pods
    if not life.churn:
        assert not life.held_until_the_end
        assert life.reason is not None
        assert life.reason.code in _WAITS_AS, life.reason


def no_place_is_tried_twice(life: Life) -> None:
    """While nothing changes, a node that refused a pod gets none within the time that is remembered: no gang alternates
    between places."""
    life.churn = 0
    life.live(DAY)
    for node, second in life.refused_at.items():
        again = [at for at, nodes in life.attempts if node in nodes and 0 < at - second < REFUSAL_MEMORY]
        assert not again, (node, life.attempts)
