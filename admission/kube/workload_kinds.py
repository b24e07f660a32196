"""The kinds that administrators have added to the cluster: which of them Muster can use, and what it says of that.

The kinds of a process are one value (``admission.workloads.kinds.Kinds``). A leader reads it before its term, and
builds everything from it. When it is another one the term ends, and the next one begins with that: so nothing has to
follow kinds that come and go.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from typing import Any, Final, NoReturn

import msgspec

from admission.kube.client.client import Client
from admission.kube.install.rbac import kind_rules
from admission.kube.watch.informer import Informer
from admission.kube.watch.store import kind_of
from admission.wire import Bare
from admission.workloads.kinds import Kinds, known_kinds, use_kinds
from queues.api.api_resources import POLICIES, POLICY_BINDINGS, WORKLOAD_KINDS, ApiResource, Document
from queues.api.json_patch import expect
from queues.api.names import KIND_DIGEST, KIND_DRAIN, KIND_FINALIZER, OF_KIND
from queues.api.types.workload_kind import WorkloadKindDocument, WorkloadKindSpec
from queues.api.validation.kind_rules import kind_violations
from queues.errors import ApiError, ApiRefused, Conflict, InvalidDocument, MusterError, NotFound
from queues.kind_names import KindName
from queues.text_format import counted, rfc3339

_log = logging.getLogger(__name__)

#: Seconds after which is looked again whether rights and policies are there, or seats are held.
LOOK_AGAIN: Final = 5.0
#: The same where all is there: somebody may take it away.
LOOK_AT_RIGHTS: Final = 600.0
#: Seconds between two looks of a process that only shows workloads.
READ_EVERY: Final = 10.0
_SELF_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
#: Rights that a message names.
_MOST_NAMED: Final = 5
#: Types of conditions.
READY: Final = "Ready"
RIGHTS_MISSING: Final = "RightsMissing"


class KindReason(StrEnum):
    """Whether Muster uses a kind, and why not: the reason of its condition."""

    IN_USE = "InUse"
    #: Its policies are not there, or Muster has no rights to its objects.
    RIGHTS_MISSING = "RightsMissing"
    INVALID = "Invalid"
    #: It is about to be changed or removed. Objects that run go on; no others are admitted.
    LEAVING = "Leaving"
    #: The cluster has no such objects any more: their definition is gone.
    NOT_SERVED = "NotServed"


class KindsChanged(MusterError):
    """The kinds that administrators have added are {now}, and were {before}. The term ends, and the next one begins
    with them.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterKind:
    """A WorkloadKind of the cluster."""

    name: str
    #: None if it cannot be read.
    spec: WorkloadKindSpec | None
    reason: KindReason
    #: The same as a sentence.
    message: str
    #: As the API server has it.
    stored: Document

    @property
    def is_used(self) -> bool:
        """Whether its objects are Muster's to suspend and resume. One that leaves is let go with its finalizer: whoever
        removes it takes Muster's rights away next."""
        if self.reason is KindReason.LEAVING:
            return KIND_FINALIZER in (self.stored["metadata"].get("finalizers") or ())
        return self.reason in (KindReason.IN_USE, KindReason.NOT_SERVED)

    @property
    def waits(self) -> bool:
        """Whether its objects wait themselves."""
        return self.spec is not None and not self.spec.passes_on

    @property
    def is_leaving(self) -> bool:
        """Whether nothing more of it is admitted: it is drained, or being deleted."""
        return is_deleted(self.stored) or is_drained(self.stored)


def is_deleted(stored: Document) -> bool:
    """Whether a WorkloadKind is gone as soon as nothing of it holds seats. Nobody can call that back."""
    return stored["metadata"].get("deletionTimestamp") is not None


def is_drained(stored: Document) -> bool:
    """Whether nothing more of a WorkloadKind is admitted, until it is deleted or called back."""
    return (stored["metadata"].get("annotations") or {}).get(KIND_DRAIN) == "true"


def digest_of(spec: WorkloadKindSpec) -> str:
    """Stands for what a WorkloadKind says. Its policies name it, so that those of another spec do not count."""
    said = spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return blake2b(msgspec.json.encode(said, order="deterministic"), digest_size=16).hexdigest()


def usable(found: Iterable[ClusterKind]) -> Kinds:
    """The kinds of the cluster whose objects wait, besides those that Muster brings."""
    used = sorted((each for each in found if each.is_used and each.waits), key=lambda each: each.name)
    return Kinds(
        added=tuple(each.spec for each in used if each.spec is not None),
        leaving=frozenset(KindName(each.name) for each in used if each.is_leaving),
    )


async def stored_kinds(client: Client) -> list[Document]:
    """The WorkloadKinds of the cluster, as they are stored; none if it has no definition of them. Raises ApiError."""
    try:
        answer = await client.get(WORKLOAD_KINDS.path())
    except NotFound:
        return []
    items: list[Document] = msgspec.json.decode(answer)["items"]
    return sorted(items, key=lambda each: str(each["metadata"]["name"]))


def spec_of(stored: Document) -> WorkloadKindSpec | str:
    """What a WorkloadKind says; or what is wrong with it."""
    try:
        document = WorkloadKindDocument.read(
            {**stored, "apiVersion": WORKLOAD_KINDS.api_version, "kind": WORKLOAD_KINDS.kind, "status": None}
        )
    except InvalidDocument as error:
        return str(error)
    wrong = next((each for each in kind_violations(document) if not each.tolerable), None)
    return document.spec if wrong is None else wrong.message


async def usable_kinds(client: Client) -> Kinds:
    """The kinds of a cluster that Muster can use, besides its own. Raises ApiError."""
    try:
        return usable(await read_kinds(client))
    except ApiRefused as error:  # its role is of an older version
        _log.warning("kinds that administrators have added are not used", extra={"why": str(error)})
        return Kinds()


async def read_kinds(client: Client) -> list[ClusterKind]:
    """All WorkloadKinds, and whether Muster can use them. Raises ApiError."""
    stored = await stored_kinds(client)
    policies = await _digests_of_policies(client) if stored else {}
    return [await _judged(client, each, policies) for each in stored]


async def _judged(client: Client, stored: Document, policies: Mapping[str, Sequence[str]]) -> ClusterKind:
    name, spec = stored["metadata"]["name"], spec_of(stored)
    if isinstance(spec, str):
        message = f"{spec}. Delete it with `muster kinds remove {name}`, and add it with another document"
        return ClusterKind(name=name, spec=None, reason=KindReason.INVALID, message=message, stored=stored)
    if lacks := await _lacking(client, name, spec, policies):
        reason = KindReason.RIGHTS_MISSING
        message = f"Missing: {lacks}. Run `kubectl get workloadkind {name} -o yaml | muster kinds add -`"
    elif is_deleted(stored):
        reason = KindReason.LEAVING
        message = "It is being deleted: what runs goes on, and nothing more is admitted"
    elif is_drained(stored):
        reason = KindReason.LEAVING
        message = (
            "It is drained: what runs goes on, and nothing more is admitted until `muster kinds add` gets the same "
            "document again"
        )
    elif not await _is_served(client, spec.resource):
        reason = KindReason.NOT_SERVED
        message = (
            f"The cluster has no definition {spec.resource.plural}.{spec.resource.group} in version "
            f"{spec.resource.version} any more. Install it again, or run `muster kinds remove {name}`"
        )
    else:
        reason, message = KindReason.IN_USE, "Objects of the kind wait in queues"
    return ClusterKind(name=name, spec=spec, reason=reason, message=message, stored=stored)


async def _is_served(client: Client, resource: ApiResource) -> bool:
    try:
        found = msgspec.json.decode(await client.get(f"/apis/{resource.api_version}"))["resources"]
    except NotFound:
        return False
    return any(each["name"] == resource.plural for each in found)


async def _digests_of_policies(client: Client) -> Mapping[str, Sequence[str]]:
    """Which specs the policies of each added kind were made of, by name: one entry for each policy and binding."""
    found: dict[str, list[str]] = defaultdict(list)
    for resource in (*POLICIES, *POLICY_BINDINGS):
        items = msgspec.json.decode(await client.get(resource.path(), labelSelector=OF_KIND))["items"]
        # One of each is enough: the pair has one policy, and one binding, of either kind.
        by_kind = {
            each["metadata"]["labels"][OF_KIND]: (each["metadata"].get("annotations") or {}).get(
                KIND_DIGEST, ""
            )
            for each in items
        }
        for name, digest in by_kind.items():
            found[name].append(digest)
    return found


async def _lacking(
    client: Client, name: str, spec: WorkloadKindSpec, policies: Mapping[str, Sequence[str]]
) -> str:
    """What there has to be for Muster to use a kind; "": it is all there."""
    digests = policies.get(name, ())
    made = " and ".join([f"muster-kind-{name}", *([] if spec.passes_on else [f"muster-guard-kind-{name}"])])
    if len(digests) < (2 if spec.passes_on else 4):
        return f"policies {made}, with their bindings"
    if set(digests) != {digest_of(spec)}:
        return f"policies made of this spec; {made} are of another one"
    missing = [
        f"{verb} {resource}.{rule.group}"
        for rule in kind_rules([spec])
        for resource in rule.resources
        for verb in rule.verbs
        if not await _may(client, rule.group, resource, verb)
    ]
    return f"Muster's right to {', '.join(missing[:_MOST_NAMED])}" if missing else ""


async def _may(client: Client, group: str, resource: str, verb: str) -> bool:
    plural, _, subresource = resource.partition("/")
    asked = {"verb": verb, "group": group, "resource": plural, "subresource": subresource}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }
    return bool(msgspec.json.decode(await client.create(_SELF_REVIEWS, review))["status"].get("allowed"))


async def keep_kinds(client: Client) -> NoReturn:
    """Keep the kinds of a process that only shows them, whether they are used or not."""
    told = ""
    while True:
        try:
            found = [spec_of(each) for each in await stored_kinds(client)]
            kinds = Kinds(added=tuple(each for each in found if isinstance(each, WorkloadKindSpec)))
            if kinds != known_kinds():
                use_kinds(kinds)
        except ApiError as error:
            if str(error) != told:
                told = str(error)
                _log.warning("kinds that administrators have added are not shown", extra={"why": told})
        await asyncio.sleep(READ_EVERY)


class KindsWatch:
    """Looks after the kinds of one term: what WorkloadKinds say of themselves, and whether others are to be used."""

    def __init__(
        self,
        client: Client,
        check_lease: Callable[[], None],
        used: Kinds,
        *,
        holding: Callable[[KindName], int],
        now: Callable[[], float],
    ) -> None:
        """``used``: by this term. ``holding``: how many workloads of a kind hold seats.
        ``now``: seconds since the epoch."""
        self._client = client
        self._check_lease = check_lease
        self._used = used
        self._used_names = frozenset(each.kind for each in used.added)
        self._holding = holding
        self._now = now
        self._changed = asyncio.Event()

    async def run(self) -> NoReturn:
        """Until others are to be used. Raises KindsChanged, Fenced."""
        kind = kind_of(
            WORKLOAD_KINDS, Bare, lambda bare, raw: bare.metadata.resource_version, may_be_absent=True
        )
        informer = Informer(self._client, kind, lambda _: self._changed.set())
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(informer.run(), name="informer workloadkinds")
            tasks.create_task(self._look_after(), name="added kinds")
        raise AssertionError("informers end by an error")

    async def _look_after(self) -> NoReturn:
        # A kind that has gone since the term read it is in no list.
        seconds = LOOK_AGAIN if self._used.added else None
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._changed.wait()
            self._changed.clear()
            try:
                seconds = await self._look()
            except ApiError as error:
                _log.warning("added kinds are not looked after", extra={"why": str(error)})
                seconds = LOOK_AGAIN

    async def _look(self) -> float | None:
        """Look at all of them. Seconds after which to look again, for what no watch shows; None: there are none. Raises
        KindsChanged, ApiError, Fenced."""
        found = await read_kinds(self._client)
        for each in found:
            with suppress(NotFound, Conflict):  # it has changed meanwhile, which the watch shows
                await self._keep(each)
        if (now := usable(found)) != self._used:
            raise KindsChanged(now=_named(now), before=_named(self._used))
        waits = any(each.is_leaving or each.reason is KindReason.RIGHTS_MISSING for each in found)
        return LOOK_AGAIN if waits else LOOK_AT_RIGHTS if found else None

    async def _keep(self, kind: ClusterKind) -> None:
        """Write the finalizer of a kind that is used, and its condition; let go of one that is not needed."""
        path = WORKLOAD_KINDS.path(name=kind.name)
        finalizers: list[str] = kind.stored["metadata"].get("finalizers") or []
        message = kind.message
        if kind.is_leaving and KIND_FINALIZER in finalizers:
            holding = self._holding(KindName(kind.name))
            if holding == 0:
                at = f"/metadata/finalizers/{finalizers.index(KIND_FINALIZER)}"
                await self._patch(path, [expect(at, KIND_FINALIZER), {"op": "remove", "path": at}], "json")
                return
            message = (
                f"{message}; {counted(holding, 'workload')} of it {'hold' if holding > 1 else 'holds'} seats"
            )
        elif kind.waits and kind.reason is KindReason.IN_USE and KIND_FINALIZER not in finalizers:
            version = expect("/metadata/resourceVersion", kind.stored["metadata"]["resourceVersion"])
            add = {"op": "add", "path": "/metadata/finalizers", "value": [*finalizers, KIND_FINALIZER]}
            await self._patch(path, [version, add], "json")
        name = KindName(kind.name)
        is_followed = name in self._used_names and (kind.is_leaving or name not in self._used.leaving)
        if not kind.waits or kind.is_used == is_followed:  # else the next term says it
            await self._tell(kind, message)

    async def _tell(self, kind: ClusterKind, message: str) -> None:
        """Write what it says of itself, where that is something else."""
        asked = {READY: "True" if kind.reason is KindReason.IN_USE else "False"}
        if kind.reason is KindReason.RIGHTS_MISSING:
            asked[RIGHTS_MISSING] = "True"
        stored = (kind.stored.get("status") or {}).get("conditions") or []
        since = {(each["type"], each["status"]): each.get("lastTransitionTime") for each in stored}
        conditions = [
            {
                "type": type_,
                "status": status,
                "reason": kind.reason,
                "message": message,
                "lastTransitionTime": since.get((type_, status)) or rfc3339(self._now()),
            }
            for type_, status in asked.items()
        ]
        if conditions != stored:
            path = WORKLOAD_KINDS.path(name=kind.name, subresource="status")
            await self._patch(path, {"status": {"conditions": conditions}}, "merge")

    async def _patch(self, path: str, body: Any, kind: Any) -> None:
        await self._client.patch(path, body, kind=kind, check_lease=self._check_lease)


def _named(kinds: Kinds) -> str:
    told = [
        f"{each.kind} (leaving)" if each.kind in kinds.leaving else str(each.kind) for each in kinds.added
    ]
    return ", ".join(told) or "none"
