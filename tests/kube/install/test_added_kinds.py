"""Kinds that administrators add, on a real control plane: what is applied, what keeps Muster from using one, and what
goes again."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable
from dataclasses import replace
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from admission.kube import workload_kinds
from admission.kube.client.client import Client
from admission.kube.install import workload_kinds as kinds_of_the_site
from admission.kube.install.workload_kinds import (
    KindHoldsSeats,
    KindLeaves,
    KindNotInUse,
    UnknownKind,
    UnusableKind,
    add_kind,
    listed_kinds,
    remove_kind,
)
from admission.kube.workload_kinds import KindsChanged, KindsWatch, usable_kinds
from admission.workloads.kinds import Kinds
from deploy.local.cluster import LocalCluster
from queues.api.api_resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CRDS,
    POLICIES,
    POLICY_BINDINGS,
    WORKLOAD_KINDS,
    ApiResource,
)
from queues.api.types.workload_kind import WorkloadKindDocument
from queues.errors import ApiError, ApiRefused
from tests.builders.added_kinds import WIDGET, definition, widget
from tests.builders.valid_documents import changed
from tests.kube.support.cluster_objects import becomes, exists, gone
from tests.kube.support.installation import INSTALLATION, installed, of_muster, removed
from tests.waiting import eventually, in_background

LEADER = "the-leader"
WIDGETS = ApiResource("example.com/v1", "widgets", "Widget")
KIND = WORKLOAD_KINDS.path(name="widget")
PATH = WIDGETS.path("default")
OF_KIND = (*POLICIES, *POLICY_BINDINGS, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS)


def document(*changes: Any) -> WorkloadKindDocument:
    return WorkloadKindDocument.parse(changed(WIDGET, *changes))


class Leader:
    """What a leader does for kinds, term after term."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.used = Kinds()
        #: Workloads that hold seats.
        self.holding = 0

    async def lead(self) -> None:
        while True:
            self.used = await usable_kinds(self._client)
            watch = KindsWatch(
                self._client, lambda: None, self.used, holding=lambda kind: self.holding, now=time.time
            )
            try:
                await watch.run()
            except* KindsChanged:
                pass

    @property
    def names(self) -> list[str]:
        return [str(each.kind) for each in self.used.added]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload_kinds, "LOOK_AGAIN", 0.2)
    monkeypatch.setattr(kinds_of_the_site, "_LOOK_EVERY", 0.05)


@pytest_asyncio.fixture
async def site(admin: Client) -> Client:
    """An administrator of a cluster with Muster, and with widgets. It is installed anew only if need be: a kind of a
    test that failed is left, or another identity leads."""
    guard = POLICIES[1].path(name="muster-guard-kinds")
    is_installed = await exists(admin, guard) and LEADER.encode() in await admin.get(guard)
    if not is_installed or await made_for_it(admin):
        await removed(admin)
        await installed(admin, replace(INSTALLATION, identity=LEADER))
    if not await exists(admin, CRDS.path(name="widgets.example.com")):
        await admin.create(CRDS.path(), definition())
    await becomes(lambda: exists(admin, PATH))
    return admin


@pytest_asyncio.fixture
async def muster(install_cluster: LocalCluster) -> AsyncIterator[Client]:
    async with await Client.connect(install_cluster.kubeconfig_for(LEADER)) as one:
        yield one


@pytest_asyncio.fixture
async def leader(site: Client, muster: Client) -> AsyncIterator[Leader]:
    leader = Leader(muster)
    async with in_background(leader.lead()):
        yield leader


async def condition(client: Client) -> dict[str, Any]:
    found = msgspec.json.decode(await client.get(KIND))
    return next(iter((found.get("status") or {}).get("conditions") or ()), {})


async def says(client: Client, reason: str) -> None:
    async def is_said() -> bool:
        return bool((await condition(client)).get("reason") == reason)

    await becomes(is_said)


async def suspends(client: Client) -> bool:
    """Whether a widget in a queue would be suspended."""
    made = msgspec.json.decode(await client.create(PATH, widget("probe", "default"), dry_run=True))
    return made["spec"].get("suspend") is True


async def add(client: Client, *changes: Any, drain: bool = False) -> list[str]:
    lines: list[str] = []
    await add_kind(client, document(*changes), lines.append, drain=drain)
    return lines


async def remove(client: Client, *, drain: bool = False) -> list[str]:
    lines: list[str] = []
    await remove_kind(client, "widget", lines.append, drain=drain)
    return lines


async def made_for_it(client: Client) -> set[str]:
    return {path for path in await of_muster(client) if "kind-widget" in path}


async def test_a_kind_is_added_guarded_changed_and_removed(site: Client, leader: Leader) -> None:
    lines = await add(site)
    assert "  patch widgets/status.example.com: why it waits" in lines
    assert leader.names == ["widget"]
    await becomes(lambda: suspends(site), despite=ApiError)
    [listed] = [each for each in await listed_kinds(site) if not each.is_built_in]
    assert (listed.name, listed.reason) == ("widget", "InUse")

    # Once more, from what the API server has stored: nothing changes.
    stored = msgspec.json.decode(await site.get(KIND))
    lines = []
    await add_kind(site, WorkloadKindDocument.parse(stored), lines.append, drain=False)
    assert {line.rpartition(" ")[2] for line in lines if "muster-" in line and "/" in line} == {"unchanged"}

    # Users do not resume one, and nobody changes the document beside the command.
    await site.create(PATH, widget("waits", "default"))
    await site.patch(f"{PATH}/waits", {"spec": {"suspend": False}})
    assert msgspec.json.decode(await site.get(f"{PATH}/waits"))["spec"]["suspend"] is True
    with pytest.raises(ApiRefused, match='found "other" written by'):
        await site.patch(f"{PATH}/waits", {"metadata": {"annotations": {"muster.dev/user": "other"}}})
    with pytest.raises(ApiRefused, match="A kind does not change while objects of it may run"):
        await site.patch(KIND, {"spec": {"suspend": "spec.paused"}})
    lines = await add(site, ("spec", "ended", "conditions", ["Done"]))
    assert "workloadkind/widget deleted" in lines
    assert lines[-1] == "workloadkind/widget in use"

    lines = await remove(site)
    assert lines[-1] == "1 object of the kind stay suspended. To start one, set spec.suspend to false."
    assert await made_for_it(site) == set()
    await eventually(lambda: leader.names == [], "the end of its use")
    with pytest.raises(UnknownKind):
        await remove(site)
    await site.delete(f"{PATH}/waits")


async def test_a_kind_whose_objects_hold_seats_stays_until_they_have_ended(
    site: Client, leader: Leader, muster: Client
) -> None:
    await add(site)
    await becomes(lambda: suspends(site), despite=ApiError)
    await site.create(PATH, widget("runs", "default"))
    await muster.patch(
        f"{PATH}/runs", [{"op": "replace", "path": "/spec/suspend", "value": False}], kind="json"
    )
    leader.holding = 1
    for refused in (remove(site), add(site, ("spec", "ended", "conditions", ["Done"]))):
        with pytest.raises(KindHoldsSeats, match="1 objects of kind widget hold seats: default/runs"):
            await refused

    # A drain is called back by the same document.
    draining = asyncio.ensure_future(remove(site, drain=True))
    await says(site, "Leaving")
    await eventually(lambda: "widget" in leader.used.leaving, "its leave")
    draining.cancel()
    assert "workloadkind/widget called back" in await add(site)
    assert not leader.used.leaving
    assert (await condition(site))["reason"] == "InUse"

    # Whoever deletes it past the command is made to wait as well, and that is final.
    await site.delete(KIND)
    await says(site, "Leaving")
    with pytest.raises(KindLeaves, match="is being deleted, which cannot be called back"):
        await add(site)
    await eventually(lambda: "widget" in leader.used.leaving, "its leave")
    assert leader.names == ["widget"]
    removing = asyncio.ensure_future(remove(site, drain=True))

    async def is_counted() -> bool:
        return "1 workload of it holds seats" in (await condition(site)).get("message", "")

    await becomes(is_counted)
    assert not removing.done()
    await site.patch(f"{PATH}/runs/status", {"status": {"phase": "Done"}})
    leader.holding = 0
    assert "workloadkind/widget deleted" in await removing
    await eventually(lambda: leader.names == [], "the end of its use")
    await site.delete(f"{PATH}/runs")


async def test_a_kind_that_was_deleted_past_the_command_suspends_nothing_and_what_is_left_over_is_named(
    site: Client, leader: Leader
) -> None:
    await add(site)
    await becomes(lambda: suspends(site), despite=ApiError)
    await site.create(PATH, widget("waits", "default"))
    await site.delete(KIND)
    await eventually(lambda: leader.names == [], "the end of its use")
    await becomes(lambda: _not(suspends(site)))
    # What waits is its owner's to start.
    resumed = {"spec": {"suspend": False}, "metadata": {"labels": {"muster.dev/queue-name": None}}}
    await becomes(lambda: site.patch(f"{PATH}/waits", resumed), despite=ApiRefused)
    found = msgspec.json.decode(await site.get(f"{PATH}/waits"))
    assert found["spec"]["suspend"] is False
    [left] = [each for each in await listed_kinds(site) if not each.is_built_in]
    assert (left.name, left.reason) == ("widget", "LeftOver")
    assert left.message.endswith("Run `muster kinds remove widget`")
    await remove(site)
    assert await made_for_it(site) == set()
    await site.delete(f"{PATH}/waits")


async def _not(asked: Awaitable[bool]) -> bool:
    return not await asked


async def test_a_kind_whose_definition_is_gone_says_so_and_is_removed(
    site: Client, leader: Leader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workload_kinds, "LOOK_AT_RIGHTS", 0.2)
    await add(site)
    await site.delete(CRDS.path(name="widgets.example.com"))
    await says(site, "NotServed")
    assert "no definition widgets.example.com in version v1 any more" in (await condition(site))["message"]
    await remove(site)
    assert await made_for_it(site) == set()
    await becomes(lambda: gone(site, CRDS.path(name="widgets.example.com")))


async def test_a_kind_without_its_rights_and_policies_says_so_until_they_are_there(
    site: Client, leader: Leader, monkeypatch: pytest.MonkeyPatch
) -> None:
    await site.create(WORKLOAD_KINDS.path(), WIDGET)
    await says(site, "RightsMissing")
    said = (await condition(site))["message"]
    assert said.endswith("Run `kubectl get workloadkind widget -o yaml | muster kinds add -`")
    stored = msgspec.json.decode(await site.get(KIND))
    assert [(each["type"], each["status"]) for each in stored["status"]["conditions"]] == [
        ("Ready", "False"),
        ("RightsMissing", "True"),
    ]
    assert leader.names == []
    await add(site)
    assert leader.names == ["widget"]

    monkeypatch.setattr(workload_kinds, "LOOK_AT_RIGHTS", 0.2)
    await site.delete(CLUSTER_ROLE_BINDINGS.path(name="muster-kind-widget"))
    await site.patch(KIND, {"metadata": {"labels": {"seen": "again"}}})
    await says(site, "RightsMissing")
    assert "Muster's right to get widgets.example.com" in (await condition(site))["message"]
    await eventually(lambda: leader.names == [], "the end of its use")
    await add(site)
    # Policies that were made of another spec are none of this one.
    await site.patch(
        POLICIES[0].path(name="muster-kind-widget"),
        {"metadata": {"annotations": {"muster.dev/workload-kind-digest": "other"}}},
    )
    await site.patch(KIND, {"metadata": {"labels": {"seen": "once-more"}}})
    await says(site, "RightsMissing")
    await eventually(lambda: leader.names == [], "the end of its use")
    await remove(site)


async def test_musters_own_account_changes_neither_roles_nor_policies(
    site: Client, leader: Leader, muster: Client
) -> None:
    await add(site)
    for resource in OF_KIND:
        path = resource.path(name="muster-kind-widget")
        with pytest.raises(ApiRefused, match="cannot patch"):
            await muster.patch(path, {"metadata": {"labels": {"mine": "true"}}})
        with pytest.raises(ApiRefused, match="cannot create"):
            await muster.create(resource.path(), {"metadata": {"name": "other"}})
        with pytest.raises(ApiRefused, match="cannot delete"):
            await muster.delete(path)
    await remove(site)


async def test_a_document_that_the_cluster_does_not_fit_is_refused_before_anything_is_applied(
    site: Client,
) -> None:
    with pytest.raises(
        UnusableKind, match=r"spec.suspend: found spec.paused, expected a field of the definition"
    ):
        await add(site, ("spec", "suspend", "spec.paused"))
    with pytest.raises(
        UnusableKind, match=r"found gadgets.example.com, expected a definition that is in the cluster"
    ):
        await add(site, ("spec", "resource", "plural", "gadgets"))
    assert await made_for_it(site) == set()
    # The API server holds others to the form of the document.
    for changes in (
        ("spec", "suspend", "spec..paused"),
        ("spec", "templates", [{"at": "spec.a", "each": "element"}] * 33),
    ):
        with pytest.raises(ApiRefused):
            await site.create(WORKLOAD_KINDS.path(), changed(WIDGET, changes))


async def test_a_document_that_muster_cannot_use_says_why(site: Client, leader: Leader) -> None:
    wrong = changed(WIDGET, ("metadata", "name", "gadget"))
    await site.create(WORKLOAD_KINDS.path(), wrong)

    async def is_said() -> bool:
        found = msgspec.json.decode(await site.get(WORKLOAD_KINDS.path(name="gadget")))
        conditions = (found.get("status") or {}).get("conditions") or [{}]
        return (
            conditions[0].get("reason") == "Invalid"
            and "metadata.name: found 'gadget'" in conditions[0]["message"]
        )

    await becomes(is_said)
    assert leader.names == []
    await site.delete(WORKLOAD_KINDS.path(name="gadget"))


async def test_adding_a_kind_ends_with_what_is_missing_if_muster_does_not_run(
    site: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kinds_of_the_site, "_PATIENCE", 0.5)
    with pytest.raises(KindNotInUse, match="see whether it runs"):
        await add(site)
    await remove(site)


async def test_installing_leaves_the_kinds_of_a_site_alone_and_uninstalling_takes_them(
    site: Client, leader: Leader
) -> None:
    await add(site)
    before = await of_muster(site)
    assert {path.rpartition("/")[2] for path in await made_for_it(site)} == {
        "muster-kind-widget",
        "muster-guard-kind-widget",
        "muster-kind-widget-viewer",
    }
    await installed(site, replace(INSTALLATION, identity=LEADER))
    assert {path: version for path, version in before.items() if "kind-widget" in path}.items() <= (
        await of_muster(site)
    ).items()
    await site.create(PATH, widget("waits", "default"))
    lines = await removed(site)
    for plural in ("mutatingadmissionpolicies/muster-kind-widget", "clusterroles/muster-kind-widget"):
        assert f"{plural} deleted" in lines
    assert "workloadkind/widget no longer in use" in lines
    assert "freed 1 widgets" in lines
    found = msgspec.json.decode(await site.get(f"{PATH}/waits"))
    assert found["spec"]["suspend"] is False
    await site.delete(f"{PATH}/waits")
