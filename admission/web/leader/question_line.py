"""Whose question the leader works on next: its time is shared between users, not between their questions. Pure.

Start-time fair queueing. Each user has a tag: the virtual time at which the user's next question begins. A question
moves its user's tag on by the seconds that it took, and virtual time by those seconds shared among all who ask. Next
is the user with the smallest tag, so one with few short questions comes before one with many long ones. A user who
comes anew begins at the present virtual time: no user saves up time by not asking, and no user waits for ever.

In a full line a user without a question takes the place of the last question of the user with the most, so that few
users with all the places keep no other out.
"""

from collections import deque
from typing import Final, Generic, NamedTuple, TypeVar

from queues.errors import MusterError

Q = TypeVar("Q")

#: Questions of one user, that which is worked on included; and of all users.
OF_ONE: Final = 3
OF_ALL: Final = 24


class LineFull(MusterError):
    """{why}"""


class Next(NamedTuple, Generic[Q]):
    """A question whose turn it is."""

    user: str
    question: Q


class QuestionLine(Generic[Q]):
    """Questions that wait for one worker, by user."""

    def __init__(self, *, of_one: int = OF_ONE, of_all: int = OF_ALL) -> None:
        """``of_one``: questions of one user; ``of_all``: of all users. Both with the one that is worked on."""
        self._of_one = of_one
        self._of_all = of_all
        #: By user, in the order in which they came.
        self._waiting: dict[str, deque[Q]] = {}
        self._worked_on: str | None = None
        self._tags: dict[str, float] = {}
        self._now = 0.0

    def __len__(self) -> int:
        """Questions that wait, without the one that is worked on."""
        return sum(map(len, self._waiting.values()))

    def join(self, user: str, question: Q) -> Next[Q] | None:
        """A question waits from now on. Returns the question that lost its place to it, None if there was a place.

        Raises LineFull.
        """
        worked_on = self._worked_on is not None
        own = len(self._waiting.get(user, ())) + (self._worked_on == user)
        if own >= self._of_one:
            raise LineFull(
                why=f"The leader has {own} questions of {user} already, expected fewer: it takes no more of one user "
                "at a time."
            )
        lost = None
        if len(self) + worked_on >= self._of_all and (lost := self._displaced(own)) is None:
            raise LineFull(
                why=f"The leader has {len(self) + worked_on} questions already, expected fewer: it takes no more at a "
                "time."
            )
        if own == 0:
            self._tags[user] = max(self._tags.get(user, 0.0), self._now)
        self._waiting.setdefault(user, deque()).append(question)
        return lost

    def _displaced(self, own: int) -> Next[Q] | None:
        """The question that makes room for one of a user who has ``own``.

        None if that user has one already, or no user has two.
        """
        if own or not self._waiting:
            return None
        counts = {user: len(waiting) + (self._worked_on == user) for user, waiting in self._waiting.items()}
        most = max(counts, key=lambda user: (counts[user], self._tags[user]))
        if counts[most] < 2:
            return None
        question = self._waiting[most].pop()
        if not self._waiting[most]:
            del self._waiting[most]
        return Next(most, question)

    def next(self) -> Next[Q] | None:
        """The question to work on now. None if none waits. Call ``done`` after it."""
        assert self._worked_on is None, "one question at a time"
        if not self._waiting:
            return None
        user = min(self._waiting, key=self._tags.__getitem__)
        self._now = max(self._now, self._tags[user])
        question = self._waiting[user].popleft()
        if not self._waiting[user]:
            del self._waiting[user]
        self._worked_on = user
        return Next(user, question)

    def done(self, seconds: float) -> None:
        """The question was worked on for so long; 0: its user had left."""
        user = self._worked_on
        assert user is not None, "a question was worked on"
        self._worked_on = None
        self._tags[user] += seconds
        self._now += seconds / len({*self._waiting, user})
        if not self._waiting:
            self._tags.clear()  # no user was kept waiting: what was asked before does not count any more
            self._now = 0.0
        else:
            self._tags = {
                each: tag for each, tag in self._tags.items() if each in self._waiting or tag > self._now
            }
