"""What a user may see: workloads where RBAC lets the user list their kind, and queues that the user may get.

Muster has no rights of its own invention: every decision is a SubjectAccessReview on the objects themselves. Who may
list every kind in all namespaces, and queues, sees everything.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from typing import Final, TypeVar

from admission.kube.access_reviews import AccessRequest, Caller, may
from admission.kube.client.client import Client
from admission.kube.policies.cel import ADMINISTER
from admission.web.access.answer_cache import Kept
from admission.web.reader import Sight
from admission.workloads.kinds import known_kinds
from queues.api.api_resources import QUEUES, ApiResource
from queues.errors import MusterError
from queues.sql.read.rows import KindIn, Seen

#: Seconds for which a decision is remembered.
_SECONDS: Final = 20.0
_MOST_DECISIONS: Final = 20_000
_MOST_SIGHTS: Final = 2_000
#: Reviews that are asked for at a time, for all users.
_AT_ONCE: Final = 16
#: Kinds in namespaces, and queues, that are asked about for one user; those beyond are not shown.
MOST_ASKED: Final = 500

Q = TypeVar("Q", bound=Hashable)
#: At most so many names, or kinds in namespaces.
Names = Callable[[int], Awaitable[Iterable[str]]]
Kinds = Callable[[int], Awaitable[Iterable[KindIn]]]


class Forbidden(MusterError):
    """{user} may not {what}."""

    def __init__(self, *, user: str, what: str, hint: str = "") -> None:
        super().__init__(user=user, what=what)
        #: What the user can do about it; "": there is nothing but to ask for the right.
        self.hint = hint


class Rights:
    """Authorizes users. Every method raises ApiError if the API server cannot be asked."""

    def __init__(self, client: Client, *, kinds: Kinds, queues: Names) -> None:
        """``kinds`` of workloads that wait, run or ended, with their namespaces, and names of ``queues``."""
        self._client = client
        self._kinds = kinds
        self._queues = queues
        self._decisions: Kept[tuple[Caller, AccessRequest], bool] = Kept(_SECONDS, _MOST_DECISIONS)
        self._sights: Kept[tuple[Caller, str | None], Sight] = Kept(_SECONDS, _MOST_SIGHTS)
        self._free = asyncio.Semaphore(_AT_ONCE)

    async def sight(self, caller: Caller, namespace: str | None = None) -> Sight:
        """What the user may see, of one namespace or of all that have workloads."""
        return await self._sights.get((caller, namespace), lambda: self._sight(caller, namespace))

    async def sight_in(self, caller: Caller, kinds: Iterable[KindIn]) -> Sight:
        """What the user may see, of these kinds in their namespaces."""
        return await self._sight_of(caller, tuple(kinds))

    async def require(self, caller: Caller, access: AccessRequest, what: str, hint: str = "") -> None:
        """Raises Forbidden, with the hint, unless the user may do it."""
        if not await self._may(caller, access):
            raise Forbidden(user=caller.name, what=what, hint=hint)

    async def administers_all(self, caller: Caller) -> bool:
        """Whether the user is a platform administrator: of every queue."""
        return await self._may(caller, AccessRequest(verb=ADMINISTER, resource=QUEUES))

    async def unlisted(self, caller: Caller, *resources: ApiResource) -> tuple[str, ...]:
        """Kinds among these that the user may not list, in the plural."""
        wanted = {each: AccessRequest(verb="list", resource=each) for each in resources}
        allowed = await self._allowed(caller, wanted)
        return tuple(each.plural for each in resources if each not in allowed)

    async def require_everything(self, caller: Caller, why: str) -> None:
        """Raises Forbidden, with the rights that are missing, unless the user sees everything."""
        needed = {
            _right(resource): AccessRequest(verb="list", resource=resource)
            for resource in (QUEUES, *resources().values())
        }
        if missing := sorted(needed.keys() - await self._allowed(caller, needed)):
            raise Forbidden(
                user=caller.name,
                what=f"list {', '.join(missing)} in the whole cluster: {why}",
                hint="A cluster administrator can grant that: the ClusterRole muster-viewer has these rights, if a "
                "ClusterRoleBinding binds it.",
            )

    async def _sight(self, caller: Caller, namespace: str | None) -> Sight:
        kinds = None if namespace is None else tuple(KindIn(kind, namespace) for kind in resources())
        return await self._sight_of(caller, kinds)

    async def _sight_of(self, caller: Caller, kinds: tuple[KindIn, ...] | None) -> Sight:
        """What the user may see of these kinds in their namespaces. ``kinds``: None for all that have workloads.

        No others are asked about: most namespaces have few of the kinds, and each right is a question to the API
        server.
        """
        workloads, queues = await asyncio.gather(
            self._visible_workloads(caller, kinds), self._visible_queues(caller)
        )
        return Sight(workloads=workloads, queues=queues)

    async def _visible_workloads(self, caller: Caller, kinds: tuple[KindIn, ...] | None) -> Seen | None:
        known = resources()
        everywhere = await self._allowed(
            caller, {kind: AccessRequest(verb="list", resource=resource) for kind, resource in known.items()}
        )
        if len(everywhere) == len(known):
            return None
        wanted = {
            each: AccessRequest(verb="list", resource=known[each.kind], namespace=each.namespace)
            for each in (await self._kinds(MOST_ASKED) if kinds is None else kinds)
            if each.kind in known and each.kind not in everywhere
        }
        allowed = await self._allowed(caller, wanted)
        return {
            kind: None
            if kind in everywhere
            else frozenset(each.namespace for each in allowed if each.kind == kind)
            for kind in known
        }

    async def _visible_queues(self, caller: Caller) -> frozenset[str] | None:
        if await self._may(caller, AccessRequest(verb="list", resource=QUEUES)):
            return None
        names = await self._queues(MOST_ASKED)
        wanted = {name: AccessRequest(verb="get", resource=QUEUES, name=name) for name in names}
        return frozenset(await self._allowed(caller, wanted))

    async def _allowed(self, caller: Caller, wanted: Mapping[Q, AccessRequest]) -> set[Q]:
        """What of it the user may do."""
        answers = await asyncio.gather(*(self._may(caller, access) for access in wanted.values()))
        return {question for question, allowed in zip(wanted, answers, strict=True) if allowed}

    async def _may(self, caller: Caller, access: AccessRequest) -> bool:
        async def ask() -> bool:
            async with self._free:
                return await may(self._client, caller, access)

        return await self._decisions.get((caller, access), ask)


def resources() -> dict[str, ApiResource]:
    """Where the API server has the objects of each kind that waits."""
    return {support.kind: support.resource for support in known_kinds().supports}


def _right(resource: ApiResource) -> str:
    """A kind of object as roles and `kubectl` name it."""
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural
