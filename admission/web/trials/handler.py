"""``POST /trials`` of the read API: what would become of objects if they were submitted now. Nothing changes.

A question that needs a body, as a SubjectAccessReview does: docs/decisions/0049-a-trial-is-a-question-with-a-body.md.
"""

from collections.abc import Iterable
from typing import Any, Final, Protocol

import msgspec
from aiohttp import web

from admission.kube.access_reviews import AccessRequest, Caller
from admission.trials.submitted import MOST_DOCUMENTS, Question, asked_of, resources_of
from admission.web.access.redaction import redacted
from admission.web.access.rights import Forbidden
from admission.web.http import BadQuery, encode
from admission.web.leader.forwarding import FORWARDED
from admission.web.reader import EVERYTHING, Sight, UnknownName, together
from admission.web.trials.bodies import TrialRequestBody
from queues.api.reading.user_values import is_dns_name
from queues.errors import MusterError

#: Bytes of a question.
LARGEST_TRIAL: Final = 256 * 1024
_BODY: Final = msgspec.json.Decoder(TrialRequestBody)
_HIDDEN: Final = {"kind": None, "namespace": None, "name": None}


class Rights(Protocol):
    """See ``admission.web.access.rights.Rights``."""

    async def sight(self, caller: Caller, namespace: str | None = None) -> Sight:
        """What the user may see."""
        ...

    async def sight_in(self, caller: Caller, namespaces: Iterable[str]) -> Sight:
        """What the user may see, of these namespaces."""
        ...

    async def require(self, caller: Caller, access: AccessRequest, what: str) -> None:
        """Raises Forbidden unless the user may do it."""
        ...


class Leader(Protocol):
    """See ``LeaderQuestions``."""

    async def ask(
        self,
        path: str,
        query: dict[str, str | None],
        *,
        public: str,
        forwarded: bool,
        body: bytes | None = None,
    ) -> bytes:
        """The leader's answer."""
        ...


class TrialRefused(MusterError):
    """{failure}"""


async def answer(request: web.Request, caller: Caller, rights: Rights, leader: Leader) -> bytes:
    """The answer for a user.

    Raises BadQuery, NothingToTry, UnusableDocument, Forbidden, UnknownName, and the errors of the leader.
    """
    asked = await _question(request)
    question = Question(
        documents=asked.documents, namespace=asked.namespace, queue=asked.queue, user=asked.user
    )
    found, _ = asked_of(question)
    sight = await rights.sight(caller)
    if asked.user and sight != EVERYTHING:
        raise Forbidden(user=caller.name, what="try as another user: that is for those who see everything")
    for support, namespace in resources_of(found):
        access = AccessRequest(verb="list", resource=support.resource, namespace=namespace)
        await rights.require(caller, access, f"list {support.resource.plural} in namespace {namespace}")
    passed_on = encode(msgspec.structs.replace(asked, user=asked.user or caller.name))
    told = await leader.ask(
        "/trials",
        {},
        public=request.path_qs,
        forwarded=FORWARDED in request.headers,
        body=passed_on,
    )
    document = msgspec.json.decode(told)
    if FORWARDED in request.headers:
        return told  # the replica that passed it on leaves out what its user may not see
    if "failure" in document:
        _raise(document)
    return encode(await _shown(document, caller, sight, rights))


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
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise BadQuery(
            f"the body cannot be read ({str(error)[:200]})",
            expected="documents, namespace and queue, as JSON",
        ) from error
    if len(asked.documents) > MOST_DOCUMENTS:
        raise BadQuery(
            f"there are {len(asked.documents)} documents", expected=f"at most {MOST_DOCUMENTS} at a time"
        )
    for what, value in (("namespace", asked.namespace), ("queue", asked.queue)):
        if (value or what == "namespace") and not is_dns_name(value):
            raise BadQuery(f"{what} is {value[:100]!r}", expected="a name that there can be")
    return asked


def _raise(document: dict[str, Any]) -> None:
    if document["status"] == 404:
        raise UnknownName(what="queue", name=document["failure"])
    raise TrialRefused(failure=document["failure"])


async def _shown(document: dict[str, Any], caller: Caller, sight: Sight, rights: Rights) -> Any:
    """The answer without what the user may not see."""
    if sight.workloads is None:
        return document
    victims = [victim for item in document["items"] for victim in item["victims"]]
    names = {each["namespace"] for each in (*victims, *document["items"])}
    seen = together(sight, await rights.sight_in(caller, sorted(names)))
    for item in document["items"]:
        item["victims"] = [
            victim if seen.shows(victim["kind"], victim["namespace"]) else {**victim, **_HIDDEN}
            for victim in item["victims"]
        ]
    return redacted(document, seen)
