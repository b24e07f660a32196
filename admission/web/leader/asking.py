"""How many questions to the leader this replica has at a time, and in whose name each is asked."""

from dataclasses import dataclass, field, replace
from typing import Final

from aiohttp import web

from admission.kube.access_reviews import Caller
from admission.web.access.limits import Gate, RequestLimits, counted_as
from admission.web.access.rights import Rights
from admission.web.leader.forwarding import ASKER, FORWARDED, LeaderQuestions, asker_of
from admission.web.leader.question_line import OF_ALL, OF_ONE
from admission.web.reader import EVERYTHING

#: Places of a replica beyond those in the leader's line, for users who have no question there: the leader takes theirs
#: instead of others.
_NEWCOMERS: Final = 12
#: The leader works on one question at a time, shares its time between users, and takes few of one user and of all.
TRIAL_LIMITS: Final = RequestLimits(
    at_once=OF_ALL + _NEWCOMERS,
    newcomers=_NEWCOMERS,
    waiting=0,
    of_one=OF_ONE,
    patience=10.0,
    held_back=1.0,
)
#: Those of all users of another replica come in one name; that replica has such a gate as well.
_FORWARDED: Final = replace(TRIAL_LIMITS, of_one=TRIAL_LIMITS.at_once, newcomers=0)
#: Other questions that it has to compute the answer of: while they wait for it they hold places of questions that it
#: has no part in, so there are fewer of them.
_LIMITS: Final = RequestLimits(at_once=5, of_one=OF_ONE)
_COMPUTED: Final = ("/nodes", "/outlook", "/snapshot")


async def asker_in(request: web.Request, caller: Caller, rights: Rights) -> str:
    """The user who asks: the one that another replica names, if such a replica passes the question on."""
    if FORWARDED in request.headers and await rights.sight(caller) == EVERYTHING:
        return asker_of(request.headers.get(ASKER, "")) or caller.name
    return caller.name


@dataclass(frozen=True, slots=True)
class LeaderGates:
    """What lets questions through to the leader. Every method raises TooBusy."""

    _trials: Gate = field(default_factory=lambda: Gate(TRIAL_LIMITS))
    _forwarded_trials: Gate = field(default_factory=lambda: Gate(_FORWARDED))
    _others: Gate = field(default_factory=lambda: Gate(_LIMITS))

    def of_trials(self, request: web.Request) -> Gate:
        """The gate of trials."""
        return self._forwarded_trials if FORWARDED in request.headers else self._trials

    async def ask(
        self,
        leader: LeaderQuestions,
        request: web.Request,
        asker: str,
        path: str,
        query: dict[str, str | None],
        public: str | None = None,
    ) -> bytes:
        """The answer to another question than a trial, asked in the name of a user. ``public``: path and query of the
        same in the read API, None for those of the request."""
        named, forwarded = {**query, ASKER: asker}, FORWARDED in request.headers
        public = public or request.path_qs
        if path not in _COMPUTED:
            return await leader.ask(path, named, public=public, forwarded=forwarded)
        async with self._others.entered(counted_as(asker)):
            return await leader.ask(path, named, public=public, forwarded=forwarded)
