"""Asks cluster autoscalers for nodes: a loop of the leader next to its turns. It decides about no admission.

While no queue wants it nothing is asked of the API server, and Muster needs no rights for it. A look lists the
requests, plans (``admission.provisioning.plan``) and carries out. What fails is left alone for a while.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, NoReturn

import msgspec

from admission.kube.client.client import Client
from admission.kube.retry_pauses import RetryPauses
from admission.provisioning.found_requests import (
    FoundRequest,
    found_request,
    is_made_by_muster,
    is_template_of,
)
from admission.provisioning.plan import CreateRequest, DeleteRequest, NotAsked, WhyNot, plan
from admission.provisioning.request_progress import NodesAsked, is_for_nodes, no_requests, progress_of
from admission.provisioning.wishes import NodeWish, owner_label, pod_templates, pod_wishes, request_document
from admission.workloads.kinds import object_ref
from admission.world.world import World
from queues.api.api_resources import POD_TEMPLATES, PROVISIONING_REQUESTS
from queues.api.names import PROVISIONING_FOR
from queues.errors import ApiRefused, Conflict, Fenced, NotFound
from queues.kind_names import KindName
from queues.quota.queue import ProvisioningRules, path_upwards, provisioning_rules
from queues.reason_codes import ReasonCode
from queues.workload import QueueName, Workload, WorkloadKey

_log = logging.getLogger(__name__)

#: Seconds between two looks.
PERIOD: Final = 5.0
#: Requests with the label that are read at a time, and how often in one look. Muster makes few of them; users may
#: write the label on theirs, and those are not kept.
_PAGE: Final = 100
_MOST_PAGES: Final = 100
_HINT: Final = (
    "a queue states policy.provisioning: install the definition of ProvisioningRequests that your autoscaler has, and "
    "give Muster the rights with `muster install --provisioning`"
)
#: It is not known whether the gang goes on waiting for nodes: it was not looked at, or victims leave.
_UNDECIDED: Final = (
    ReasonCode.BACKOFF,
    ReasonCode.DRAINING,
    ReasonCode.EVICTING,
    ReasonCode.MAKING_ROOM,
    ReasonCode.TAKES_TURNS,
)


def _explained(error: Exception) -> Exception | str:
    return f"{error} ({_HINT})" if isinstance(error, NotFound | ApiRefused) else error


class ProvisioningLoop:
    """The loop of one term."""

    def __init__(
        self,
        client: Client,
        check_lease: Callable[[], None],
        world: World,
        *,
        now: Callable[[], float],
        tell: Callable[[Mapping[WorkloadKey, NodesAsked]], None],
    ) -> None:
        """``now``: seconds since the epoch; ``tell``: is given after each look how far the requests of gangs are."""
        self._client = client
        self._check_lease = check_lease
        self._world = world
        self._now = now
        self._tell_progress = tell
        self._looks = RetryPauses("requests for nodes")
        self._put_off = RetryPauses("request for nodes")
        #: Owners whose request the API server refuses, with its words.
        self._refused: dict[str, str] = {}
        #: What was logged in this term about requests of others with the label.
        self._warned: set[str] = set()
        #: Requests of others with the label that have a name as Muster's have, by namespace and name.
        self._in_the_way: set[str] = set()
        #: Some requests may be there: the last look saw or made some.
        self._any = False

    async def run(self) -> NoReturn:
        """Until cancelled. Raises Fenced."""
        while True:
            await self._contained_look()
            await asyncio.sleep(PERIOD)

    async def _contained_look(self) -> None:
        """A look that ends no term. Raises Fenced."""
        await self._looks.contain("all", int(self._now()), self.look, _explained)

    async def look(self) -> None:
        """One round. What fails for one gang puts off that one only. Raises ApiError, Fenced."""
        asking = asking_queues(self._world)
        if not (asking or self._any):
            self._tell_progress({})
            return
        now = int(self._now())
        try:
            found = await self._found()
        except NotFound:
            if asking:
                raise
            # The definition was removed with all requests, and no queue wants any.
            self._any = False
            self._tell_progress({})
            return
        gangs = waiting_gangs(self._world, asking, {each.owner for each in found})
        put_off = {each.owner for each in gangs.wishes if self._put_off.holds(each.owner, now)}
        effects = plan(gangs.wishes, gangs.undecided, found, now, put_off)
        self._any = bool(found)
        waits = [each for each in effects if isinstance(each, NotAsked)]
        for effect in effects:
            if not isinstance(effect, NotAsked):
                await self._carry_out(effect, now)
        waits += self._refusals(gangs.wishes)
        # What was made in this look is seen in the next one.
        self._tell_progress(no_requests(waits) | progress_of(gangs.wishes, found, now))

    async def _found(self) -> list[FoundRequest]:
        """The requests that Muster made. Those of others with its label are passed over."""
        found: list[FoundRequest] = []
        others: list[str] = []
        more: str | None = None
        for _ in range(_MOST_PAGES):
            items, more = await self._page(more)
            for each in items:
                if not is_made_by_muster(each):
                    others.append(f"{each['metadata']['namespace']}/{each['metadata']['name']}")
                elif "deletionTimestamp" not in each["metadata"]:
                    found.append(found_request(each))
            if more is None:
                break
        self._in_the_way = {each for each in others if "/muster-" in each}
        if others:
            self._warn(
                "requests with Muster's label that Muster did not make are left alone", len(others), others[0]
            )
        if more is not None:
            self._warn(
                "too many requests have Muster's label: not all of them are read", len(others), others[-1]
            )
        return found

    async def _page(self, after: str | None) -> tuple[list[dict[str, Any]], str | None]:
        """Requests with the label, and what the next ones are asked for with. None if these are the last."""
        query: dict[str, str | int | None] = {
            "labelSelector": PROVISIONING_FOR,
            "limit": _PAGE,
            "continue": after,
        }
        content = await self._client.get(PROVISIONING_REQUESTS.path(), **query)
        answer = msgspec.json.decode(content)
        return answer["items"], (answer.get("metadata") or {}).get("continue") or None

    def _warn(self, text: str, count: int, example: str) -> None:
        """Once in a term, so that such requests do not fill the log."""
        if text not in self._warned:
            self._warned.add(text)
            _log.warning(text, extra={"count": count, "object": example})

    def _refusals(self, wishes: Sequence[NodeWish]) -> list[NotAsked]:
        """The gangs whose request the API server refuses."""
        wished = {wish.owner: wish for wish in wishes}
        self._refused = {owner: why for owner, why in self._refused.items() if owner in wished}
        return [
            NotAsked(wish=wished[owner], why=WhyNot.REFUSED, message=why)
            for owner, why in self._refused.items()
        ]

    async def _carry_out(self, effect: CreateRequest | DeleteRequest, now: int) -> None:
        name = effect.wish.owner if isinstance(effect, CreateRequest) else effect.request.uid
        if self._put_off.holds(name, now):
            return
        self._refused.pop(name, None)
        try:
            if isinstance(effect, CreateRequest):
                await self._create(effect)
            else:
                await self._delete(effect.request)
        except Fenced:
            raise
        except Exception as error:
            self._put_off.failed(name, error, now)
            if isinstance(effect, CreateRequest) and isinstance(error, ApiRefused):
                self._refused[name] = str(error)
        else:
            self._put_off.succeeded(name)

    async def _create(self, effect: CreateRequest) -> None:
        """The templates first: an autoscaler that sees the request finds them."""
        wish, attempt = effect.wish, effect.attempt
        self._any = True
        namespace = wish.ref.namespace
        if f"{namespace}/{wish.name(attempt)}" in self._in_the_way:
            why = (
                f"{wish.name(attempt)} is there, and Muster did not make it; whoever made it has to delete it"
            )
            raise ApiRefused(
                method="POST", path=PROVISIONING_REQUESTS.path(namespace), status=409, reason=why
            )
        for template in pod_templates(wish, attempt):
            await self._make(POD_TEMPLATES.path(namespace), template)
        await self._make(PROVISIONING_REQUESTS.path(namespace), request_document(wish, attempt))
        extra = {"workload": str(wish.key), "queue": wish.queue, "request": wish.name(attempt)}
        _log.info("nodes asked for", extra=extra)

    async def _make(self, path: str, document: dict[str, Any]) -> None:
        try:
            await self._client.create(path, document, brief=True, check_lease=self._check_lease)
        except Conflict as error:
            # An earlier leader, or the same one before an answer was lost: equal names have equal contents.
            if error.facts.get("code") != "AlreadyExists":
                raise

    async def _delete(self, request: FoundRequest) -> None:
        await self._remove(PROVISIONING_REQUESTS.path(request.namespace, request.name), request.uid)
        for template in request.templates:
            await self._delete_template(POD_TEMPLATES.path(request.namespace, template), request)
        _log.info("request for nodes deleted", extra={"request": request.name, "phase": str(request.phase)})

    async def _delete_template(self, path: str, request: FoundRequest) -> None:
        """The one that was made for the request, and no other of its name: users make PodTemplates too."""
        try:
            template = msgspec.json.decode(await self._client.get(path))
        except NotFound:
            return
        if is_template_of(template, request):
            await self._remove(path, template["metadata"]["uid"])

    async def _remove(self, path: str, uid: str) -> None:
        try:
            await self._client.delete(path, uid=uid, check_lease=self._check_lease)
        except (NotFound, Conflict):
            return  # gone, or another one has its name


# ── gangs that wait for nodes only: reads memory, and changes nothing ──


@dataclass(slots=True)
class WaitingGangs:
    """What gangs wait for now, as far as requests depend on it."""

    wishes: list[NodeWish] = field(default_factory=list)
    #: Owners of requests (``NodeWish.owner``) for which this is about to be known.
    undecided: set[str] = field(default_factory=set)


def asking_queues(world: World) -> dict[QueueName, ProvisioningRules]:
    """Queues for which nodes are asked."""
    if not any(each.queue.provisioning for each in world.queues.values()):
        return {}
    found = ((name, provisioning_rules(name, world.queue_facts.queue_of)) for name in world.queues)
    return {name: rules for name, rules in found if rules is not None}


def waiting_gangs(
    world: World, asking: dict[QueueName, ProvisioningRules], owners: Collection[str]
) -> WaitingGangs:
    """The gangs with requests, and of the others in each queue and namespace as many as may get one, the earliest.

    ``owners``: of the requests that there are (``NodeWish.owner``).
    """
    found = WaitingGangs()
    with_request = set(owners)
    # By namespace too: gangs of one never hide those of another one.
    others: defaultdict[tuple[QueueName, str], list[Workload]] = defaultdict(list)
    for workload in _for_nodes(world, asking):
        if owner_label(workload.key) in with_request:
            found.wishes += _wish_of(world, asking, workload)
        else:
            others[workload.queue, workload.namespace].append(workload)
    for (queue, _), workloads in others.items():
        in_order = sorted(workloads, key=lambda each: each.arrival)
        wishes = (wish for each in in_order for wish in _wish_of(world, asking, each))
        found.wishes += islice(wishes, asking[queue].max_open)
    found.undecided = {owner for owner in with_request if _is_undecided(world, asking, owner)}
    return found


def _wish_of(
    world: World, asking: Mapping[QueueName, ProvisioningRules], workload: Workload
) -> Iterator[NodeWish]:
    """What the gang asks for; nothing: nodes can not be asked for, or would not let it start."""
    rules = world.queue_facts.release_rules(workload.queue, world.node_inventory.tolerations)
    tolerations = [each for of_flavor in rules.tolerations.values() for each in of_flavor]
    if (pods := pod_wishes(workload, tolerations)) and _within_limits(world, workload):
        _, *above = (each.name for each in path_upwards(workload.queue, world.queue_facts.queue_of))
        yield NodeWish(
            key=workload.key,
            ref=object_ref(workload.key, workload.namespace, workload.name),
            queue=workload.queue,
            arrival=workload.arrival,
            rules=asking[workload.queue],
            pods=pods,
            above=tuple(reversed(above)),
        )


def _for_nodes(world: World, asking: Collection[QueueName]) -> Iterator[Workload]:
    for key, reason in world.ledger.reasons.items():
        if reason.code is not ReasonCode.PROVISIONING and not is_for_nodes(reason):
            continue
        state = world.states.get(key)
        if state is not None and state.needs_seats and state.workload.queue in asking and not state.seat_maps:
            yield state.workload


def _within_limits(world: World, workload: Workload) -> bool:
    """Whether the stated limits allow the workload in an idle cluster.

    What no node offers was not compared with them yet; what fits nowhere was, with all that is used.
    """
    asks = workload.asks()
    return all(
        asks.get(resource, 0) <= most
        for queue in path_upwards(workload.queue, world.queue_facts.queue_of)
        for resource, most in queue.limits.capability.items()
    )


def _is_undecided(world: World, asking: Collection[QueueName], owner: str) -> bool:
    kind, _, uid = owner.partition(".")
    key = WorkloadKey(KindName(kind), uid)
    state, reason = world.states.get(key), world.ledger.reasons.get(key)
    waits = state is not None and state.needs_seats and state.workload.queue in asking and not state.seat_maps
    return waits and (reason is None or reason.code in _UNDECIDED)
