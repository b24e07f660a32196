"""Objects with a part left out or of another type are accepted, or refused in a sentence or by their schema."""

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from deploy.local.client import LocalClient
from deploy.local.cluster import LocalCluster
from queues.api.api_resources import ApiResource, Document
from queues.api.crd import crds
from queues.errors import ApiError
from tests.e2e.support.operators import definition
from tests.kube.support.cluster_objects import applied, becomes
from tests.kube.support.guarded_namespace import GuardedNamespace
from tests.kube.support.misshapen import is_raw, misshapen, named, sound

#: The API server reads their objects into its own types first.
TYPED = ("", "apps", "batch")
SOUND = list(sound())
OWN = {each["metadata"]["name"]: each for each in crds()}


def definition_of(resource: ApiResource) -> Document | None:
    """Of a kind of Muster's, or one that accepts everything; None of Kubernetes' own."""
    if resource.group in TYPED:
        return None
    return OWN.get(f"{resource.plural}.{resource.group}") or definition(resource)


def raw_refusals(
    api: LocalClient, method: str, path: str, changes: Iterable[tuple[str, Document]], **metadata: Any
) -> Iterator[str]:
    """Nothing is written."""
    for what, document in changes:
        body = {**document, "metadata": {**document["metadata"], **metadata}}
        try:
            api.request(method, f"{path}?dryRun=All", body)
        except ApiError as error:
            if is_raw(str(error)):
                yield f"{what}: …{str(error)[-300:]}"


@pytest.mark.parametrize(
    ("resource", "document"), SOUND, ids=[f"{resource.kind} {resource.group}" for resource, _ in SOUND]
)
async def test_no_refusal_of_a_misshapen_object_is_an_error_of_an_expression(
    guarded_cluster: LocalCluster, guarded: GuardedNamespace, resource: ApiResource, document: Document
) -> None:
    admin = await guarded.as_user("admin")
    if (found := definition_of(resource)) is not None:
        await applied(admin, found)
    path = resource.path(guarded.namespace if resource.namespaced else "")
    whole = named(resource, document, f"{guarded.namespace}-sound")

    async def is_known() -> bool:
        try:
            await admin.create(path, whole, dry_run=True)
        except ApiError as error:
            return error.facts["status"] in (403, 422)
        return True

    def all_raw() -> list[str]:
        changes = list(misshapen(whole, is_typed=resource.group in TYPED))
        # Of kinds side by side one has a part so when it is created and another one when it is changed.
        first = SOUND.index((resource, document)) % 2
        created, changed = changes[first::2], changes[1 - first :: 2]
        with guarded_cluster.client() as api:
            said = list(raw_refusals(api, "POST", path, created))
            try:
                stored = api.create(path, whole)
            except ApiError:  # users create none
                return [*said, *raw_refusals(api, "POST", path, changed)]
            at = f"{path}/{whole['metadata']['name']}"
            version = stored["metadata"]["resourceVersion"]
            said += raw_refusals(api, "PUT", at, changed, resourceVersion=version)
            api.delete(at)
            return said

    await becomes(is_known)
    assert await asyncio.to_thread(all_raw) == []
