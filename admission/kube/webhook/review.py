"""The admission webhook: answers what needs knowledge of other objects than the one in the request.

``mutate`` fills in the defaults of Queues, ``validate`` refuses what could never run. Any replica answers. A review
that cannot be read is answered with 400 and a sentence; should an answer fail, 500 leaves the decision to the
configuration's ``failurePolicy`` (Ignore: the controller checks every object again).

``authorize`` says whether a user who is no platform administrator may change a Queue. It is asked by a webhook of its
own that fails closed: see docs/decisions/quota-and-tenants.md.
"""

import asyncio
import base64
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from itertools import islice
from time import time
from typing import Any, Final

import msgspec
from aiohttp import web

from admission.kube.watch.store import TOO_DEEP, without_depths
from admission.kube.webhook.dependencies import dependency_violations
from admission.kube.webhook.watched_objects import WatchedObjects
from queues.api.api_resources import COMMANDS, QUEUES, RESERVATIONS, Document
from queues.api.types.job_flow import JobFlow
from queues.api.types.queue import QueueDocument
from queues.api.types.volcano_job import VolcanoJob
from queues.api.validation.closures.reservation_rights import reservation_refusals
from queues.api.validation.known import Known
from queues.api.validation.pod_fields import pod_problems
from queues.api.validation.queue_rules import queue_deletion_violations
from queues.api.validation.size_rules import late_gang_warnings
from queues.api.validation.tenant_rules import (
    ObjectWrite,
    Requester,
    change_refusals,
    command_refusals,
    status_refusals,
)
from queues.api.validation.validation import NAMESPACE, defaulted, kind_of, unknown_fields, violations_of
from queues.api.validation.violations import Violation
from queues.errors import MusterError
from queues.json_values import list_at, text_at, value_at

_log = logging.getLogger(__name__)

#: Bytes: an object before and after a change, each of at most 1.5 MiB as etcd takes them, and what comes with them.
LARGEST_REVIEW: Final = 4 * 1024 * 1024
#: Reviews that are received and answered at a time: they bound the memory of it. Others wait, up to so many.
MOST_REVIEWS: Final = 16
MOST_WAITING: Final = 512
#: Seconds to send a review. The API server sends it in one piece.
RECEIVE_SECONDS: Final = 1.0
#: The API server shows a user warnings up to this length.
_LONGEST_WARNING: Final = 256
#: A refusal names so many violations; more would bury the first.
_MOST_VIOLATIONS: Final = 10
#: JobTemplates that are read for one JobFlow: each may be as large as an object can be.
_MOST_TEMPLATES: Final = 4


class InvalidReview(MusterError):
    """Expected an AdmissionReview of admission.k8s.io/v1 with a request; found {found}."""


# -- reviews -------------------------------------------------------------------------------------------------


class _UserInfo(msgspec.Struct, gc=False, frozen=True):
    username: str = ""
    groups: tuple[str, ...] = ()


class _Request(msgspec.Struct, gc=False):
    uid: str
    operation: str
    name: str = ""
    namespace: str = ""
    subResource: str = ""  # noqa: N815 - Kubernetes' key
    userInfo: _UserInfo = _UserInfo()  # noqa: N815 - Kubernetes' key
    object: msgspec.Raw = msgspec.Raw(b"null")
    oldObject: msgspec.Raw = msgspec.Raw(b"null")  # noqa: N815 - Kubernetes' key


class _Review(msgspec.Struct, gc=False):
    request: _Request
    apiVersion: str = ""  # noqa: N815 - Kubernetes' key
    kind: str = ""


_REVIEW: Final = msgspec.json.Decoder(_Review)
_encode: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewAnswer:
    """The answer to one review."""

    uid: str
    #: Why not; empty: allowed.
    refusals: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    #: JSON patch.
    patch: Sequence[Mapping[str, Any]] = ()
    #: Refused because of who asks, not because of what is asked.
    is_forbidden: bool = False

    def encoded(self) -> bytes:
        """As an AdmissionReview."""
        response: Document = {"uid": self.uid, "allowed": not self.refusals}
        if self.refusals:
            message = "; ".join(text.strip().rstrip(";") for text in self.refusals)
            code, reason = (403, "Forbidden") if self.is_forbidden else (422, "Invalid")
            response["status"] = {"code": code, "reason": reason, "message": message}
        if self.warnings:
            response["warnings"] = [text[:_LONGEST_WARNING] for text in self.warnings]
        if self.patch:
            response["patchType"] = "JSONPatch"
            response["patch"] = base64.b64encode(_encode(self.patch)).decode()
        return _encode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})


def mutate(body: bytes) -> ReviewAnswer:
    """The defaults of a Queue, as a patch. Refuses nothing. Raises InvalidReview."""
    request, _ = _request(body)
    document = _document(request.object)
    if document is None or kind_of(document) is not QueueDocument:
        return ReviewAnswer(uid=request.uid)
    spec = defaulted(document).get("spec")
    if spec == document.get("spec"):
        return ReviewAnswer(uid=request.uid)
    return ReviewAnswer(uid=request.uid, patch=[{"op": "add", "path": "/spec", "value": spec}])


async def validate(body: bytes, surroundings: WatchedObjects) -> ReviewAnswer:
    """Whether the object may be stored, or a Queue deleted. Raises InvalidReview, ApiError."""
    request, cut = _request(body)
    if cut:
        return ReviewAnswer(uid=request.uid, refusals=(TOO_DEEP,))
    document, old = _document(request.object), _document(request.oldObject)
    known = surroundings.known(request.namespace)
    kind = kind_of(document or old or {})
    if kind is QueueDocument:
        return _verdict(request, await _queue_violations(request.name, document, old, known, surroundings))
    if document is None:
        return ReviewAnswer(uid=request.uid)
    if kind is None and old is not None:
        return _verdict(request, list(late_gang_warnings(document)))
    if kind is JobFlow:
        templates = await _patched_templates(document, request.namespace, surroundings)
        known = replace(known, job_templates=templates)
    found = violations_of(document, known, old=old)
    missing = {one.missing for one in found if one.missing and not one.tolerable}
    for name in sorted(missing):
        # Just created, perhaps by the same `kubectl apply`, and not watched yet.
        queue = await surroundings.find_queue(name)
        if queue is not None:
            known = replace(known, queues={**(known.queues or {}), queue.name: queue})
    in_no_right = any(one.path == NAMESPACE and not one.tolerable for one in found)
    if in_no_right:
        known = replace(known, namespace_labels=await surroundings.find_labels(request.namespace))
    if missing or in_no_right:
        found = violations_of(document, known, old=old)
    if old is None:
        expected = "a field of the kind (misspelt?)"
        unknown = islice(unknown_fields(document), _MOST_VIOLATIONS)
        problems = pod_problems(document) if kind is VolcanoJob else ()
        found += [each for each in problems if each.tolerable]
        found += [Violation(path, "a field that is not known", expected, tolerable=True) for path in unknown]
    return _verdict(request, found)


async def warn(body: bytes, surroundings: WatchedObjects) -> ReviewAnswer:
    """The same of an object that is stored whatever it says: it waits, and says why. An older replica, which would
    refuse it, does not know the question."""
    answer = await validate(body, surroundings)
    return replace(answer, refusals=(), warnings=(*answer.refusals, *answer.warnings))


async def _patched_templates(
    flow: Document, namespace: str, surroundings: WatchedObjects
) -> Mapping[str, Document]:
    """Specs of the first JobTemplates that a JobFlow patches, by name; those that do not exist yet are left out."""
    patched = (text_at(each, "name") for each in list_at(flow, "spec", "flows") if value_at(each, "patch"))
    found = {
        name: await surroundings.find_job_template(namespace, name)
        for name in islice(dict.fromkeys(patched), _MOST_TEMPLATES)
    }
    return {name: spec for name, spec in found.items() if spec is not None}


async def review_dependencies(body: bytes, surroundings: WatchedObjects) -> ReviewAnswer:
    """Whether an object may come after those that it names (``muster.dev/after``). Raises InvalidReview, ApiError."""
    request, _ = _request(body)
    document, old = _document(request.object), _document(request.oldObject)
    if document is None:
        return ReviewAnswer(uid=request.uid)
    find = surroundings.find_document
    return _verdict(request, await dependency_violations(document, old, request.namespace, find))


async def authorize(body: bytes, surroundings: WatchedObjects) -> ReviewAnswer:
    """Whether a user who is no platform administrator may change a Queue, open or close it by a Command, or reserve
    nodes for it.

    Raises InvalidReview, ApiError.
    """
    request, cut = _request(body)
    if cut:
        return ReviewAnswer(uid=request.uid, refusals=(TOO_DEEP,), is_forbidden=True)
    document, old = _document(request.object), _document(request.oldObject)
    written = document or old or {}
    by = Requester(request.userInfo.username, frozenset(request.userInfo.groups))
    name = request.name or text_at(written, "metadata", "name")
    change = ObjectWrite(name, old, document, is_status=bool(request.subResource))
    if written.get("kind") == COMMANDS.kind:
        target = text_at(written, "target", "name")
        refusals = command_refusals(target, by, await surroundings.list_documents(QUEUES))
    elif written.get("kind") == RESERVATIONS.kind:
        queues = await surroundings.list_documents(QUEUES)
        others = await surroundings.list_documents(RESERVATIONS)
        refusals = await asyncio.to_thread(
            reservation_refusals, change, by, queues, others, surroundings.node_shapes(), time()
        )
    elif written.get("kind") != QUEUES.kind:
        raise InvalidReview(found=f"an object of kind {written.get('kind')!r:.60}")
    elif change.is_status:
        refusals = status_refusals(name, by)
    else:
        queues = await surroundings.list_documents(QUEUES)
        # Of thousands of queues it takes a while, in which other reviews are answered.
        refusals = await asyncio.to_thread(change_refusals, change, by, queues, time())
    return ReviewAnswer(uid=request.uid, refusals=_first(refusals), is_forbidden=True)


async def _queue_violations(
    name: str, document: Document | None, old: Document | None, known: Known, surroundings: WatchedObjects
) -> list[Violation]:
    """What is wrong with a Queue, or with its deletion if ``document`` is None.

    It depends on other Queues, and `kubectl apply -f` or `delete -f` changes several one right after the other, before
    the first change is watched. So nothing is refused for what they were.
    """

    def violations(known: Known) -> list[Violation]:
        if document is None:
            return queue_deletion_violations(name, known.queues or {})
        return violations_of(document, known, old=old)

    found = violations(known)
    if all(one.tolerable for one in found):
        return found
    return violations(replace(known, queues=await surroundings.list_queues()))


def _verdict(request: _Request, found: Sequence[Violation]) -> ReviewAnswer:
    refusals = [one.message for one in found if not one.tolerable]
    warnings = tuple(one.message for one in found if one.tolerable)
    return ReviewAnswer(uid=request.uid, refusals=_first(refusals), warnings=warnings)


def _first(refusals: Sequence[str]) -> tuple[str, ...]:
    more = len(refusals) - _MOST_VIOLATIONS
    return tuple(refusals) if more <= 0 else (*refusals[:_MOST_VIOLATIONS], f"and {more} more")


def _request(body: bytes) -> tuple[_Request, bool]:
    """The request, and whether what is nested too deeply in its objects had to be left out."""
    cut = False
    try:
        try:
            review = _REVIEW.decode(body)
        except RecursionError:
            cut = True
            review = _REVIEW.decode(without_depths(body))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidReview(found=f"{_beginning(body)} ({error})") from error
    if (review.apiVersion, review.kind) != ("admission.k8s.io/v1", "AdmissionReview"):
        raise InvalidReview(found=f"{review.kind or 'no kind'} of {review.apiVersion or 'no apiVersion'}")
    return review.request, cut


def _document(raw: msgspec.Raw) -> Document | None:
    try:
        found = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidReview(found=f"an object that cannot be read ({error})") from error
    if found is not None and not isinstance(found, dict):
        raise InvalidReview(found=f"an object that is no mapping: {_beginning(bytes(raw))}")
    return found


def _beginning(body: bytes) -> str:
    return repr(body[:60].decode(errors="replace")) if body else "an empty body"


# -- HTTP ----------------------------------------------------------------------------------------------------


def app(surroundings: WatchedObjects) -> web.Application:
    """``POST /mutate``, ``/validate``, ``/warn``, ``/dependencies`` and ``/authorize``.

    A client that reaches the port may send anything, so size, time and number of reviews are bounded.
    """

    limit = _ReviewLimit()

    async def mutating(body: bytes) -> ReviewAnswer:
        return mutate(body)

    def answering(answer: Any) -> Any:
        async def handle(request: web.Request) -> web.Response:
            try:
                async with limit.body_of(request) as body:
                    verdict: ReviewAnswer = await answer(body)
            except web.HTTPException:
                raise
            except ConnectionError as error:
                # The answer is not waited for any more: the API server has decided without it, by failurePolicy.
                _log.info(
                    "the API server gave a review up before it was received", extra={"why": repr(error)}
                )
                raise web.HTTPRequestTimeout(text="The review was given up.\n") from error
            except InvalidReview as error:
                return web.Response(status=400, text=f"{error}\n")
            except Exception as error:
                _log.exception("a review could not be answered")
                reason = str(error) if isinstance(error, MusterError) else type(error).__name__
                return web.Response(status=500, text=f"The review could not be answered: {reason}\n")
            return web.Response(body=verdict.encoded(), content_type="application/json")

        return handle

    application = web.Application(client_max_size=LARGEST_REVIEW)
    application.router.add_post("/mutate", answering(mutating))
    application.router.add_post("/validate", answering(lambda body: validate(body, surroundings)))
    application.router.add_post("/warn", answering(lambda body: warn(body, surroundings)))
    application.router.add_post("/authorize", answering(lambda body: authorize(body, surroundings)))
    application.router.add_post(
        "/dependencies", answering(lambda body: review_dependencies(body, surroundings))
    )
    return application


class _ReviewLimit:
    """Lets so many requests in at a time, each with the body that it has sent in time."""

    def __init__(self) -> None:
        self._slots = asyncio.Semaphore(MOST_REVIEWS)
        self._waiting = 0

    @asynccontextmanager
    async def body_of(self, request: web.Request) -> AsyncIterator[bytes]:
        """The body of a request, while it may be answered. Raises HTTPTooManyRequests, HTTPRequestTimeout."""
        if self._waiting >= MOST_WAITING:
            raise web.HTTPTooManyRequests(text="Too many reviews wait for an answer.\n")
        self._waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self._waiting -= 1
        try:
            try:
                async with asyncio.timeout(RECEIVE_SECONDS):
                    body = await request.read()
            except TimeoutError as error:
                raise web.HTTPRequestTimeout(
                    text=f"No review within {RECEIVE_SECONDS:g} seconds.\n"
                ) from error
            yield body
        finally:
            self._slots.release()
