"""Asks cluster autoscalers for nodes: a loop of the leader beside its turns. It decides about no admission.

While no queue wants it nothing is asked of the API server, and Muster needs no rights for it. A look lists the
requests, plans (``admission.provisioning.plan``) and carries out. What fails is left alone for a while.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from time import time_ns
from typing import Any, Final, NoReturn

import msgspec

from admission.kube.client.client import Client
from admission.kube.node_recovery.retry_pauses import RetryPauses
from admission.kube.provisioning.waiting_gangs import asking_queues, waiting_gangs
from admission.kube.writers.events import event
from admission.provisioning.found_requests import FoundRequest, found_request
from admission.provisioning.plan import CreateRequest, DeleteRequest, Effect, TellOwner, plan
from admission.provisioning.request_progress import RequestProgress, progress_of
from admission.provisioning.wishes import pod_templates, request_document
from admission.reconcile.named_workloads import told_in
from admission.reconcile.status import EventNote
from admission.world.world import World
from queues.api.api_resources import EVENTS, POD_TEMPLATES, PROVISIONING_REQUESTS, ObjectRef
from queues.api.names import PROVISIONING_FOR
from queues.errors import ApiRefused, Conflict, Fenced, NotFound
from queues.workload import WorkloadKey

_log = logging.getLogger(__name__)

#: Seconds between two looks.
PERIOD: Final = 5.0
#: Requests that are read in one look. Muster makes fewer; users may write the label on theirs.
_MOST_READ: Final = 1000
_HINT: Final = (
    "a queue states policy.provisioning: install the definition of ProvisioningRequests that your autoscaler has, and "
    "give Muster the rights with `muster install --provisioning`"
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
        instance: str,
        tell: Callable[[Mapping[WorkloadKey, RequestProgress]], None],
    ) -> None:
        """``now``: seconds since the epoch; ``instance``: the replica, as events name it; ``tell``: is given after each
        look how far the requests of gangs are."""
        self._client = client
        self._check_lease = check_lease
        self._world = world
        self._now = now
        self._instance = instance
        self._tell_progress = tell
        self._looks = RetryPauses("requests for nodes")
        self._put_off = RetryPauses("request for nodes")
        #: What was told in this term (``TellOwner.about``), of requests that are there.
        self._told: set[str] = set()
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
        effects = plan(gangs.wishes, gangs.undecided, found, now)
        self._any = bool(found)
        self._told = {each for each in self._told if each.partition("/")[0] in {one.uid for one in found}}
        for effect in effects:
            await self._carry_out(effect, now)
        # What was made in this look is seen in the next one.
        self._tell_progress(progress_of(gangs.wishes, found, now))

    async def _found(self) -> list[FoundRequest]:
        path = PROVISIONING_REQUESTS.path()
        content = await self._client.get(path, labelSelector=PROVISIONING_FOR, limit=_MOST_READ)
        items: list[dict[str, Any]] = msgspec.json.decode(content)["items"]
        return [found_request(each) for each in items if "deletionTimestamp" not in each["metadata"]]

    async def _carry_out(self, effect: Effect, now: int) -> None:
        match effect:
            case TellOwner():
                await self._tell(effect)
                return
            case CreateRequest():
                name = effect.wish.owner
            case DeleteRequest():
                name = effect.request.uid
        if self._put_off.holds(name, now):
            return
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
                await self._tell(_refused(effect, str(error)))
        else:
            self._put_off.succeeded(name)

    async def _create(self, effect: CreateRequest) -> None:
        """The templates first: an autoscaler that sees the request finds them."""
        wish, attempt = effect.wish, effect.attempt
        self._any = True
        namespace = wish.ref.namespace
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
        # The templates of a request that Muster made have its name; those that a user names are left alone.
        for template in request.templates:
            if template.startswith(f"{request.name}-"):
                await self._remove(POD_TEMPLATES.path(request.namespace, template))
        _log.info("request for nodes deleted", extra={"request": request.name, "phase": str(request.phase)})

    async def _remove(self, path: str, uid: str | None = None) -> None:
        try:
            await self._client.delete(path, uid=uid, check_lease=self._check_lease)
        except (NotFound, Conflict):
            return  # gone, or another one has its name

    async def _tell(self, told: TellOwner) -> None:
        """An event of the workload. That it cannot be written stops nothing."""
        if told.about in self._told:
            return
        self._told.add(told.about)
        ref: ObjectRef = told.ref
        note = EventNote(
            ref=ref,
            reason=told.reason,
            message=told_in(ref.namespace, told.message),
            action="Provision",
            warning=told.warning,
        )
        try:
            body = event(note, time_ns(), self._instance)
            path = EVENTS.path(body["metadata"]["namespace"])
            await self._client.create(path, body, brief=True, check_lease=self._check_lease)
        except Fenced:
            raise
        except Exception as error:
            _log.info("event not written", extra={"object": ref.path, "why": str(error)})


def _refused(effect: CreateRequest, why: str) -> TellOwner:
    return TellOwner(
        ref=effect.wish.ref,
        about=f"{effect.wish.key.uid}/refused",
        reason="ProvisioningRefused",
        message=f"the API server refuses a request for nodes: {why}",
        warning=True,
    )
