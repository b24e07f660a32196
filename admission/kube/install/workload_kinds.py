"""Kinds that administrators add and remove: a WorkloadKind, with the role and the policies that follow from it.

They are applied with the rights of who calls, and by nobody else: Muster's own account can change neither roles nor
policies. The WorkloadKind comes last and goes first, so that Muster uses a kind only while it is guarded.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from admission.facts.workloads import WorkloadFact
from admission.kube.client.client import Client
from admission.kube.install.rbac import ACCOUNT, kind_rbac, kind_rules
from admission.kube.install.server_side_apply import (
    StillThere,
    Tell,
    apply_all,
    found_at,
    items_of,
)
from admission.kube.policies.policy_documents import PolicyOptions, kind_policies
from admission.kube.workload_kinds import READY, digest_of, is_deleted, is_drained, spec_of, stored_kinds
from admission.workloads.kinds.operators.json_parts import WireOperatorJob
from admission.workloads.kinds.operators.objects import fact_of
from queues.api.api_resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CRDS,
    POLICIES,
    POLICY_BINDINGS,
    WORKLOAD_KINDS,
    Document,
)
from queues.api.names import KIND_DIGEST, KIND_DRAIN, KIND_FINALIZER, OF_KIND, QUEUE_LABEL
from queues.api.types.workload_kind import WorkloadKindDocument, WorkloadKindSpec
from queues.api.validation.kind_rules import definition_violations, kind_violations
from queues.api.validation.violations import Violation
from queues.api.workload_kinds import SHIPPED_KINDS
from queues.errors import MusterError, NotFound
from queues.text_format import counted

#: Seconds for Muster to take a kind into use, or out of it.
_PATIENCE: Final = 60.0
_LOOK_EVERY: Final = 0.5
#: In the order in which they are deleted: nothing is made to wait any more before nothing is guarded.
_MADE: Final = (*POLICY_BINDINGS, *POLICIES, CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES)


class UnusableKind(MusterError):
    """The WorkloadKind cannot be used: {violations}. Nothing was changed."""


class NotInstalled(MusterError):
    """Muster is not installed in this cluster: there is no ClusterRoleBinding muster. Run `muster install`, or install
    the chart, first. Nothing was changed.
    """


class KindHoldsSeats(MusterError):
    """{count} objects of kind {kind} hold seats: {names}. Nothing was changed. Wait until they have ended, or suspend
    or delete them; or say --drain: nothing more of the kind is admitted, and the command waits until these have given
    their seats back.
    """


class KindLeaves(MusterError):
    """WorkloadKind {name} is being deleted, which cannot be called back: {reason}. Nothing was changed. Add it when it
    is gone, or say --drain: the command waits for that, and adds it.
    """


class KindNotInUse(MusterError):
    """WorkloadKind {name} is there with its role and policies, and Muster does not use it after {seconds:g} seconds:
    {reason}.
    """


class UnknownKind(MusterError):
    """There is no WorkloadKind {name}, and no role or policy of one. `muster kinds list` names those there are."""


@dataclass(frozen=True, slots=True)
class ListedKind:
    """A kind whose objects wait in queues, in a list."""

    name: str
    #: Its resource with the group: ``jobsets.jobset.x-k8s.io``.
    resource: str
    #: Whether Muster brings it itself.
    is_built_in: bool
    #: Why Muster does or does not use it, in one word and as a sentence; "" of those that it brings itself.
    reason: str = ""
    message: str = ""


async def add_kind(client: Client, document: WorkloadKindDocument, tell: Tell, *, drain: bool) -> None:
    """Check a kind against the cluster, and apply it with its role and its policies. Applied again, it changes nothing,
    or brings these up to date.

    Raises UnusableKind, NotInstalled, KindLeaves, KindHoldsSeats, KindNotInUse, ApiError.
    """
    name, spec = document.metadata.name, document.spec
    identity = await _identity(client)
    for warning in await _require_usable(client, document):
        tell(f"Warning: {warning}")
    path = WORKLOAD_KINDS.path(name=name)
    stored = await found_at(client, path)
    is_other = stored is not None and (is_deleted(stored) or spec_of(stored) != spec)
    if stored is not None and is_deleted(stored) and not drain:
        raise KindLeaves(name=name, reason=_condition(stored).get("message") or "it is in use still")
    made = [_of_kind(each, name, spec) for each in _made(spec, identity)]
    _announce(spec, made, tell)
    if stored is not None and is_other:
        await _drain(client, stored, tell, drain=drain)
    elif stored is not None and is_drained(stored):
        await client.patch(path, {"metadata": {"annotations": {KIND_DRAIN: None}}})
        tell(f"workloadkind/{name} called back")
    await apply_all(client, made, tell)
    if stored is not None and is_other:
        await _delete(client, stored, tell)
    annotations = {key: each for key, each in document.metadata.annotations.items() if key != KIND_DRAIN}
    kept = {"labels": document.metadata.labels, "annotations": annotations}
    metadata = {"name": name, **{key: value for key, value in kept.items() if value}}
    written = {**document.document(), "metadata": metadata}
    written.pop("status", None)
    await apply_all(client, [written], tell)
    await _in_use(client, name, tell)


async def remove_kind(client: Client, name: str, tell: Tell, *, drain: bool) -> None:
    """Remove a kind with its role and its policies. An interrupted removal goes on when called again.

    Raises UnknownKind, KindHoldsSeats, StillThere, ApiError.
    """
    stored = await found_at(client, WORKLOAD_KINDS.path(name=name))
    waiting = 0
    if stored is not None:
        await _drain(client, stored, tell, drain=drain)
        await _delete(client, stored, tell)
        spec = spec_of(stored)
        if isinstance(spec, WorkloadKindSpec):
            waiting = len([each async for each in _objects(client, spec) if each.suspended])
    deleted = 0
    async for _, path in _made_for_kinds(client, f"{OF_KIND}={name}"):
        await client.delete(path)
        tell(f"{'/'.join(path.split('/')[-2:])} deleted")
        deleted += 1
    if stored is None and not deleted:
        raise UnknownKind(name=name)
    if waiting and isinstance(spec := spec_of(stored or {}), WorkloadKindSpec):
        field = ".".join(spec.suspend)
        tell(f"{counted(waiting, 'object')} of the kind stay suspended. To start one, set {field} to false.")


async def listed_kinds(client: Client) -> list[ListedKind]:
    """All kinds that documents describe: those that Muster brings, then the site's. Raises ApiError."""
    own = [ListedKind(str(each.kind), _resource(each), is_built_in=True) for each in SHIPPED_KINDS]
    added = []
    for stored in await stored_kinds(client):
        name, spec = str(stored["metadata"]["name"]), spec_of(stored)
        said = _condition(stored)
        added.append(
            ListedKind(
                name,
                _resource(spec) if isinstance(spec, WorkloadKindSpec) else "",
                is_built_in=False,
                reason=said.get("reason") or "Unknown",
                message=said.get("message") or "Muster has not looked at it yet: see whether it runs",
            )
        )
    without = {name async for name, _ in _made_for_kinds(client)} - {each.name for each in added}
    message = "Its role or policies are there without it, and do nothing. Run `muster kinds remove {}`"
    left = [
        ListedKind(name, "", is_built_in=False, reason="LeftOver", message=message.format(name))
        for name in sorted(without)
    ]
    return [*own, *added, *left]


async def _made_for_kinds(client: Client, selector: str = OF_KIND) -> AsyncIterator[tuple[str, str]]:
    """Roles and policies of added kinds: the kind, and the path. Raises ApiError."""
    for resource in _MADE:
        answer = await client.get(resource.path(), labelSelector=selector)
        for item in msgspec.json.decode(answer)["items"]:
            metadata = item["metadata"]
            yield str(metadata["labels"][OF_KIND]), resource.path(name=metadata["name"])


async def release_kinds(client: Client, tell: Tell) -> list[WorkloadKindSpec]:
    """Take Muster's finalizer off all WorkloadKinds: nobody else would. What they say. Raises ApiError."""
    specs = []
    for stored in await stored_kinds(client):
        name, finalizers = stored["metadata"]["name"], stored["metadata"].get("finalizers") or []
        if isinstance(spec := spec_of(stored), WorkloadKindSpec):
            specs.append(spec)
        if KIND_FINALIZER in finalizers:
            left = [each for each in finalizers if each != KIND_FINALIZER]
            await client.patch(WORKLOAD_KINDS.path(name=name), {"metadata": {"finalizers": left or None}})
            tell(f"workloadkind/{name} no longer in use")
    return specs


# ── what follows from a kind ────────────────────────────────────────────────────────────────────────────────


def _made(spec: WorkloadKindSpec, identity: str) -> list[Document]:
    """The roles and policies of a kind, in the order in which they are applied."""
    return [*kind_rbac(spec, identity), *kind_policies(PolicyOptions(identity=identity), spec)]


def _of_kind(made: Document, name: str, spec: WorkloadKindSpec) -> Document:
    """A role or a policy, with the kind that it is of."""
    metadata = made["metadata"]
    labels = {**metadata["labels"], OF_KIND: name}
    return {**made, "metadata": {**metadata, "labels": labels, "annotations": {KIND_DIGEST: digest_of(spec)}}}


def _announce(spec: WorkloadKindSpec, made: Iterable[Document], tell: Tell) -> None:
    what = f"kind {spec.resource.kind} ({_resource(spec)})"
    if spec.passes_on:
        tell(f"The queue of objects of {what} is handed on to what is made of them.")
    else:
        tell(f"Objects of {what} will wait in queues. Muster gets the rights to")
    for rule in kind_rules([spec]):
        resources = ", ".join(f"{each}.{rule.group}" for each in rule.resources)
        tell(f"  {', '.join(rule.verbs)} {resources}: {rule.why}")
    policies = [each["metadata"]["name"] for each in made if each["kind"].endswith("AdmissionPolicy")]
    tell(f"Policies that do so: {', '.join(policies)}.")


def _resource(spec: WorkloadKindSpec) -> str:
    return f"{spec.resource.plural}.{spec.resource.group}"


# ── what the cluster has ────────────────────────────────────────────────────────────────────────────────────


async def _identity(client: Client) -> str:
    """Muster's user name at the API server, as its role is bound. Raises NotInstalled, ApiError."""
    binding = await found_at(client, CLUSTER_ROLE_BINDINGS.path(name=ACCOUNT))
    for subject in (binding or {}).get("subjects") or ():
        if subject["kind"] == "ServiceAccount":
            return f"system:serviceaccount:{subject['namespace']}:{subject['name']}"
        if subject["kind"] == "User":
            return str(subject["name"])
    raise NotInstalled


async def _require_usable(client: Client, document: WorkloadKindDocument) -> list[str]:
    """What to know of it. Raises UnusableKind, ApiError."""
    violations = [*kind_violations(document)]
    found = [each for each in violations if not each.tolerable]
    if not found:
        resource = document.spec.resource
        definition = await found_at(client, CRDS.path(name=f"{resource.plural}.{resource.group}"))
        found = (
            [*definition_violations(document.spec, definition)]
            if definition is not None
            else [Violation("spec.resource", _resource(document.spec), "a definition that is in the cluster")]
        )
    if found:
        raise UnusableKind(violations="; ".join(each.message for each in found))
    return [each.message for each in violations]


async def _objects(client: Client, spec: WorkloadKindSpec) -> AsyncIterator[WorkloadFact]:
    """Objects of the kind in queues that have not ended; of a kind that does not wait itself none. Those that cannot be
    read are left out. Raises ApiError."""
    if spec.passes_on:
        return
    try:
        async for item in items_of(client, spec.resource.path(), QUEUE_LABEL):
            try:
                fact = fact_of(spec, msgspec.json.decode(msgspec.json.encode(item), type=WireOperatorJob))
            except msgspec.DecodeError:
                continue
            if isinstance(fact, WorkloadFact) and not fact.finished:
                yield fact
    except NotFound:
        return


async def _drain(client: Client, stored: Document, tell: Tell, *, drain: bool) -> None:
    """Have nothing more of a kind admitted, and wait until no object of it holds seats. Without ``drain`` none may hold
    any, and what Muster does not let go soon is called back.

    Raises KindHoldsSeats, StillThere, ApiError.
    """
    name, spec = stored["metadata"]["name"], spec_of(stored)
    path = WORKLOAD_KINDS.path(name=name)
    holding: list[str] = []
    if isinstance(spec, WorkloadKindSpec):
        holding = [
            f"{each.namespace}/{each.name}" async for each in _objects(client, spec) if not each.suspended
        ]
    if holding and not drain:
        told = ", ".join(holding[:3]) + (", …" if len(holding) > 3 else "")
        raise KindHoldsSeats(count=len(holding), kind=name, names=told)
    if holding:
        tell(
            f"{counted(len(holding), 'object')} of kind {name} hold seats: waiting until these are given back"
        )
    try:
        await client.patch(path, {"metadata": {"annotations": {KIND_DRAIN: "true"}}})
        await _let_go(client, path, None if drain else _PATIENCE, tell)
    except NotFound:
        return
    except StillThere:
        await client.patch(path, {"metadata": {"annotations": {KIND_DRAIN: None}}})
        raise


async def _delete(client: Client, stored: Document, tell: Tell) -> None:
    """Delete a WorkloadKind of which nothing holds seats. Raises StillThere, ApiError."""
    name, path = stored["metadata"]["name"], WORKLOAD_KINDS.path(name=stored["metadata"]["name"])
    with suppress(NotFound):
        await client.delete(path, uid=stored["metadata"]["uid"])
        await _let_go(client, path, _PATIENCE, tell)
    tell(f"workloadkind/{name} deleted")


async def _let_go(client: Client, path: str, within: float | None, tell: Tell) -> None:
    """Wait until Muster has let a WorkloadKind go: it has no finalizer any more, or is gone. ``within``: seconds;
    None for no end. Raises StillThere."""
    told = ""
    try:
        async with asyncio.timeout(within):
            while (found := await found_at(client, path)) is not None:
                if not is_deleted(found) and KIND_FINALIZER not in (
                    found["metadata"].get("finalizers") or ()
                ):
                    return
                message = str(_condition(found).get("message") or "")
                if message != told:
                    tell(message)
                    told = message
                await asyncio.sleep(_LOOK_EVERY)
    except TimeoutError:
        raise StillThere(path=path, seconds=within or 0.0) from None


async def _in_use(client: Client, name: str, tell: Tell) -> None:
    """Wait until Muster uses a kind. Raises KindNotInUse."""
    said: Document = {}
    try:
        async with asyncio.timeout(_PATIENCE):
            while said.get("status") != "True":
                await asyncio.sleep(_LOOK_EVERY)
                said = _condition(await found_at(client, WORKLOAD_KINDS.path(name=name)) or {})
    except TimeoutError:
        reason = said.get("message") or "it says nothing of it; see whether it runs"
        raise KindNotInUse(name=name, seconds=_PATIENCE, reason=reason) from None
    tell(f"workloadkind/{name} in use")


def _condition(stored: Document) -> Document:
    conditions: Any = (stored.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each.get("type") == READY), {})
