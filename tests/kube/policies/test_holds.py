"""What a user who suspends an object of a queue, or unsuspends it, means: written down by the API server itself."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from queues.api.api_resources import JOBS, ApiResource, Document
from queues.errors import ApiError
from tests.builders.operator_resources import JOB_SETS, PYTORCH_JOBS, RAY_JOBS
from tests.e2e.support.operators import definition
from tests.kube.support.cluster_objects import applied, batch_job, becomes
from tests.kube.support.guarded_namespace import MUSTER, QUEUED, GuardedNamespace

HOLD, CREATED_SUSPENDED = "muster.dev/hold", "muster.dev/created-suspended"


@dataclass(frozen=True)
class Kind:
    """One kind, with the field that suspends its objects and one that users may change."""

    resource: ApiResource
    spec: Document
    path: tuple[str, ...] = ("spec", "suspend")
    other: str = "other"

    def __str__(self) -> str:
        return self.resource.kind

    def suspend(self, value: bool | None) -> Document:
        found: Any = value
        for field in reversed(self.path):
            found = {field: found}
        return dict(found)

    def said(self, found: Any) -> tuple[bool, str | None]:
        suspended = reduce(lambda inner, field: inner[field], self.path, found)
        return bool(suspended), found["metadata"].get("annotations", {}).get(HOLD)


KINDS = [
    Kind(JOBS, batch_job("")["spec"], other="backoffLimit"),
    Kind(JOB_SETS, {"replicatedJobs": []}),
    Kind(RAY_JOBS, {"shutdownAfterJobFinishes": True, "rayClusterSpec": {}}),
    Kind(PYTORCH_JOBS, {"pytorchReplicaSpecs": {}}, ("spec", "runPolicy", "suspend")),
]


@dataclass(frozen=True)
class Held:
    """An object of one kind in a namespace of the test's own."""

    guarded: GuardedNamespace
    kind: Kind

    def _at(self, name: str = "") -> str:
        return self.kind.resource.path(self.guarded.namespace, name)

    async def create(
        self, *, queued: bool = True, suspended: bool | None = None, dry_run: bool = False
    ) -> Any:
        resource = self.kind.resource
        document = resource.document("a", spec=dict(self.kind.spec))
        document["metadata"]["labels"] = QUEUED if queued else {}
        if suspended is not None:
            for field, value in self.kind.suspend(suspended)["spec"].items():
                document["spec"][field] = value
        user = await self.guarded.as_user("alice")
        return msgspec.json.decode(await user.create(self._at(), document, dry_run=dry_run))

    async def patch(self, change: Document, *, by: str = "alice") -> Any:
        user = await self.guarded.as_user(by)
        return msgspec.json.decode(await user.patch(self._at("a"), change, kind="merge"))

    async def suspend(self, value: bool | None, *, by: str = "alice") -> tuple[bool, str | None]:
        return self.kind.said(await self.patch(self.kind.suspend(value), by=by))

    async def apply_server_side(self) -> Any:
        """The file of the object, by the program that created it, which takes over what it owned, as kubectl does."""
        admin, at = await self.guarded.as_user("admin"), self._at("a")
        live = msgspec.json.decode(await admin.get(at))
        owners = [
            each | {"manager": "gitops", "operation": "Apply"} if index == 0 else each
            for index, each in enumerate(live["metadata"]["managedFields"])
        ]
        await admin.patch(
            at, [{"op": "replace", "path": "/metadata/managedFields", "value": owners}], kind="json"
        )
        document = self.kind.resource.document("a", spec=dict(self.kind.spec))
        document["metadata"]["labels"] = QUEUED
        applied = await admin.patch(at, document, kind="apply", field_manager="gitops", force=True)
        return msgspec.json.decode(applied)

    async def running(self, **created: Any) -> Any:
        """It is created, and Muster resumes it."""
        await self.create(**created)
        return await self.patch(self.kind.suspend(False), by=MUSTER)


@pytest_asyncio.fixture(params=KINDS, ids=str)
async def held(guarded: GuardedNamespace, request: pytest.FixtureRequest) -> AsyncIterator[Held]:
    found = Held(guarded, request.param)

    async def waits() -> bool:
        try:
            return found.kind.said(await found.create(dry_run=True))[0]
        except KeyError:
            return False

    if request.param.resource is not JOBS:
        await applied(await guarded.as_user("admin"), definition(request.param.resource))
    await becomes(waits, despite=ApiError)
    yield found


async def test_what_its_owner_suspends_is_held_until_its_owner_resumes_it(held: Held) -> None:
    assert held.kind.said(await held.running()) == (False, None)
    assert await held.suspend(True) == (True, "suspended")
    assert await held.suspend(True) == (True, "suspended")
    # It waits again, and only Muster resumes it.
    assert await held.suspend(False) == (True, "false")
    assert await held.suspend(False) == (True, "false")
    assert await held.suspend(False, by=MUSTER) == (False, "false")
    assert await held.suspend(True) == (True, "suspended")
    # Jobs have a default, which says that they run; what other kinds leave out says nothing.
    assert await held.suspend(None) == (True, "false" if held.kind.resource is JOBS else "suspended")


async def test_a_file_that_is_applied_server_side_from_now_on_leaves_on_hold_what_never_ran(
    held: Held,
) -> None:
    """Tools that turn to server-side apply own what policies wrote at creation, and take it away."""
    await held.create()
    changed = await held.patch({"metadata": {"annotations": {HOLD: "true"}}})
    assert held.kind.said(changed) == (True, "true")
    applied_again = await held.apply_server_side()
    assert held.kind.said(applied_again) == (True, "true")
    assert await held.suspend(False) == (True, "false")


async def test_what_muster_suspends_is_not_held(held: Held) -> None:
    await held.running()
    assert await held.suspend(True, by=MUSTER) == (True, None)
    assert await held.suspend(False) == (True, None)


async def test_a_file_that_was_created_suspended_stops_nothing_when_it_is_applied_again(held: Held) -> None:
    made = await held.running(suspended=True)
    assert made["metadata"]["annotations"][CREATED_SUSPENDED] == "true"
    assert await held.suspend(True) == (False, None)
    # Its owner holds it by the annotation.
    changed = await held.patch({"metadata": {"annotations": {HOLD: "true"}}})
    assert held.kind.said(changed) == (False, "true")


async def test_another_change_of_what_is_held_leaves_it_held(held: Held) -> None:
    await held.running()
    await held.suspend(True)
    changed = await held.patch({"spec": {held.kind.other: 3}})
    assert held.kind.said(changed) == (True, "suspended")


async def test_what_is_in_no_queue_is_suspended_as_ever(held: Held) -> None:
    await held.create(queued=False)
    assert await held.suspend(True) == (True, None)
    assert await held.suspend(False) == (False, None)


async def test_what_runs_and_is_held_back_is_suspended_only_if_its_owner_suspends_it(held: Held) -> None:
    await held.running()
    changed = await held.patch({"metadata": {"annotations": {HOLD: "true"}}})
    assert held.kind.said(changed) == (False, "true")
    assert await held.suspend(True) == (True, "suspended")
    assert await held.suspend(False) == (True, "false")
