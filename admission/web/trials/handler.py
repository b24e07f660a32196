"""``POST /trials`` of the read API: what would become of objects if they were submitted now. Nothing changes.

A question that needs a body, as a SubjectAccessReview does: docs/decisions/read-api.md.
"""

from collections.abc import Iterable
from typing import Any, Final, NoReturn

import msgspec
from aiohttp import web
from msgspec import structs

from admission.kube.access_reviews import AccessRequest, Caller
from admission.trials.quota_changes import MOST_CHANGES
from admission.trials.submitted import MOST_DOCUMENTS, asked_of, resources_of
from admission.web.access.redaction import redacted
from admission.web.access.rights import Rights
from admission.web.http import OTHER_NAMESPACE, BadQuery, encode
from admission.web.leader.asking import asker_in
from admission.web.leader.forwarding import ASKER, FORWARDED, LeaderQuestions
from admission.web.reader import EVERYTHING, NotAllowed, Sight, TrialRefused, UnknownName, together
from admission.web.trials.hidden_queues import without_queues
from queues.api.reading.user_values import is_dns_name
from queues.read_api.trials import TrialRequestBody
from queues.sql.read.rows import KindIn

#: Bytes of a question.
LARGEST_TRIAL: Final = 256 * 1024
#: Mappings and lists inside one another, of a document or a spec. Those that are in use have about twenty.
DEEPEST_DOCUMENT: Final = 100
_BODY: Final = msgspec.json.Decoder(TrialRequestBody)
_FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
#: Fields that a question had, and what is asked instead.
_REMOVED: Final = {
    "drain": "documents or quota; /nodes tells whose work is on a node",
    "addNodes": "documents or quota; an Outlook tells which nodes would let a workload in",
}
_HIDDEN: Final = {"kind": None, "namespace": None, "name": None}


async def answer(request: web.Request, caller: Caller, rights: Rights, leader: LeaderQuestions) -> bytes:
    """The answer for a user.

    Raises BadQuery, NothingToTry, UnusableDocument, TrialRefused, Forbidden, UnknownName, and the errors of the leader.
    """
    asked = await _question(request)
    sight = await rights.sight(caller)
    await _check(asked, caller, sight, rights)
    if FORWARDED in request.headers and sight == EVERYTHING:
        # The replica that passes it on says who asks, and leaves out what that user may not see.
        return await _told(asked, await asker_in(request, caller, rights), request, leader)
    asked = structs.replace(
        asked,
        user=asked.user or caller.name,
        groups=() if asked.user else caller.groups,
        administers_all=await _administers_all(asked, caller, sight, rights),
    )
    document = msgspec.json.decode(await _told(asked, caller.name, request, leader))
    if "failure" in document:
        _raise(document, sight)
    return encode(await _shown(document, caller, sight, rights))


async def _told(asked: TrialRequestBody, asker: str, request: web.Request, leader: LeaderQuestions) -> bytes:
    return await leader.ask(
        "/trials",
        {ASKER: asker},
        public=request.path_qs,
        forwarded=FORWARDED in request.headers,
        body=encode(asked),
    )


async def _administers_all(asked: TrialRequestBody, caller: Caller, sight: Sight, rights: Rights) -> bool:
    """Whether the user may try other quota of every queue."""
    if sight == EVERYTHING or not (asked.quota or asked.quota_patches):
        return sight == EVERYTHING
    return await rights.administers_all(caller)


async def _check(asked: TrialRequestBody, caller: Caller, sight: Sight, rights: Rights) -> None:
    """Raises Forbidden: the user may not ask that; NothingToTry, UnusableDocument."""
    if asked.documents or not (asked.quota or asked.quota_patches):
        found, _ = asked_of(asked)
        for support, namespace in resources_of(found):
            access = AccessRequest(verb="list", resource=support.resource, namespace=namespace)
            await rights.require(
                caller, access, f"list {support.resource.plural} in namespace {namespace}", OTHER_NAMESPACE
            )
    if sight == EVERYTHING:
        return
    if asked.user:
        await rights.require_everything(caller, "only who sees everything may try as another user")


async def _question(request: web.Request) -> TrialRequestBody:
    for name in request.query:
        raise BadQuery(f"{name} is not a parameter of {request.path}", expected="a body, and no parameters")
    try:
        content = await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        raise BadQuery(
            "the body is too large",
            expected=f"at most {LARGEST_TRIAL // 1024} KiB, or fewer documents at a time",
        ) from error
    try:
        asked = _BODY.decode(content)
        removed = sorted(_REMOVED.keys() & _FIELDS.decode(content).keys())
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise BadQuery(
            f"the body cannot be read ({str(error)[:200]})",
            expected="documents, namespace and queue, as JSON",
        ) from error
    for name in removed:
        raise BadQuery(f"{name} was removed", expected=_REMOVED[name])
    if len(asked.documents) > MOST_DOCUMENTS:
        raise BadQuery(
            f"there are {len(asked.documents)} documents", expected=f"at most {MOST_DOCUMENTS} at a time"
        )
    for what, changes, most in (
        ("quota", asked.quota, MOST_CHANGES),
        ("quotaPatches", asked.quota_patches, MOST_CHANGES),
    ):
        if len(changes) > most:
            raise BadQuery(f"{what} has {len(changes)} entries", expected=f"at most {most}")
    nested = [(f"document {number}", each) for number, each in enumerate(asked.documents, 1)]
    nested += [
        (f"the spec of quotaPatches {number}", each.spec)
        for number, each in enumerate(asked.quota_patches, 1)
    ]
    for what, document in nested:
        if _is_deeper(document, DEEPEST_DOCUMENT):
            raise BadQuery(f"{what} is nested too deep", expected=f"at most {DEEPEST_DOCUMENT} levels")
    for what, value in (("namespace", asked.namespace), ("queue", asked.queue)):
        if (value or what == "namespace") and not is_dns_name(value):
            raise BadQuery(f"{what} is {value[:100]!r}", expected="a name that there can be")
    return asked


def _is_deeper(value: Any, most: int) -> bool:
    """Whether more than so many mappings and lists are inside one another."""
    level = [value]
    for _ in range(most):
        level = [inner for each in level for inner in _inside(each) if isinstance(inner, dict | list)]
        if not level:
            return False
    return True


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _raise(document: dict[str, Any], sight: Sight) -> NoReturn:
    status, queue = document["status"], document["queue"]
    # The answer does not say whether there is a queue that the user may not see.
    if status == 404 or (status == 403 and queue and not sight.shows_queue(queue)):
        near = tuple(filter(sight.shows_queue, document["near"]))
        place = "" if sight.queues is None else " that you may see"
        raise UnknownName(what="queue", name=queue, place=place, near=near)
    if status == 403:
        raise NotAllowed(failure=document["failure"])
    raise TrialRefused(failure=document["failure"])


async def _shown(document: dict[str, Any], caller: Caller, sight: Sight, rights: Rights) -> Any:
    """The answer without what the user may not see."""
    named, above = document.pop("namedQueues", ()), document.pop("above", {})
    if sight == EVERYTHING:
        return document
    hidden = frozenset(each for each in named if not sight.shows_queue(each))
    comparison = document["comparison"]
    victims = [victim for item in document["items"] for victim in item["victims"]]
    workloads = [] if comparison is None else comparison["workloads"]
    of_sight = (*victims, *workloads, *document["items"])
    kinds = {KindIn(each["kind"], each["namespace"]) for each in of_sight}
    seen = together(sight, await rights.sight_in(caller, sorted(kinds)))
    if comparison is not None:
        comparison["workloads"] = [_named(each, seen, hidden) for each in workloads]
        for each in ("changes", "warnings"):
            comparison[each] = without_queues(comparison[each], hidden)
    for item in document["items"]:
        item["nearestQueues"] = list(filter(sight.shows_queue, item["nearestQueues"]))
        item["victims"] = [_named(victim, seen, hidden) for victim in item["victims"]]
        # Of the queues of its own path explain tells as well, once it waits.
        others = hidden - {item["queue"], *above.get(item["queue"], ())}
        for each in ("reason", "behind", "changes"):
            item[each] = without_queues(item[each], others)
    return redacted(document, seen)


def _named(each: dict[str, Any], seen: Sight, hidden: frozenset[str]) -> dict[str, Any]:
    """What is shown of a workload, without its names and queue if the user may not see it."""
    told: dict[str, Any] = without_queues(each, hidden)
    if seen.shows(each["kind"], each["namespace"]):
        return {**told, "queue": each["queue"]}
    return {**told, **_HIDDEN}
