"""What a user may see, and how many questions to the API server it takes to find out."""

from typing import Any, cast

import pytest

from admission.kube.access_reviews import AccessRequest, Caller
from admission.kube.client.client import Client
from admission.kube.install.rbac import people
from admission.web.access.rights import Forbidden, Rights
from admission.workloads.kinds import known_kinds
from queues.api.api_resources import DEVICES, LEASES, NODES, QUEUES, RESOURCE_SLICES
from queues.sql.read.rows import KindIn

ALICE = Caller("alice")
#: Of fifteen kinds, each namespace has one or two.
KINDS = [*(KindIn("vcjob", f"team-{number}") for number in range(40)), KindIn("pod", "team-3")]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[AccessRequest]:
    """What the API server was asked. Alice may list what is in team-3, and get queue a."""
    questions: list[AccessRequest] = []

    async def may(_: object, caller: Caller, access: AccessRequest) -> bool:
        assert caller == ALICE
        questions.append(access)
        return access.namespace == "team-3" or access.name == "a"

    monkeypatch.setattr("admission.web.access.rights.may", may)
    return questions


async def kinds(limit: int) -> list[KindIn]:
    return KINDS[:limit]


async def queues(limit: int) -> list[str]:
    return ["root", "a", "b"][:limit]


def rights() -> Rights:
    return Rights(cast(Client, None), kinds=kinds, queues=queues)


async def test_only_kinds_that_a_namespace_has_are_asked_about(asked: list[AccessRequest]) -> None:
    sight = await rights().sight(ALICE)

    assert sight.shows("vcjob", "team-3")
    assert sight.shows("pod", "team-3")
    assert not sight.shows("vcjob", "team-4")
    # Nobody looked whether she may, since there are none.
    assert not sight.shows("job", "team-3")
    assert sight.queues == frozenset({"a"})
    assert sum(1 for each in asked if each.namespace) == len(KINDS)


async def test_every_kind_counts_in_a_namespace_that_is_named(asked: list[AccessRequest]) -> None:
    sight = await rights().sight(ALICE, "team-3")

    assert all(sight.shows(kind, "team-3") for kind in ("job", "vcjob", "pod", "podgroup"))
    assert not sight.shows("vcjob", "team-4")
    assert {each.namespace for each in asked} == {"", "team-3"}


async def test_who_needs_to_see_everything_is_told_which_rights_are_missing(
    golden: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lacks = {"pytorchjobs", "queues"}

    async def may(_: object, _caller: Caller, access: AccessRequest) -> bool:
        assert access.resource is not None
        assert (access.verb, access.namespace) == ("list", "")
        return access.resource.plural not in lacks

    monkeypatch.setattr("admission.web.access.rights.may", may)
    with pytest.raises(Forbidden) as refused:
        await rights().require_everything(ALICE, "only who sees everything may try as another user")
    assert str(refused.value) == golden
    assert "muster-viewer" in refused.value.hint
    assert await rights().unlisted(ALICE, DEVICES, QUEUES) == ("queues",)
    lacks.clear()
    await rights().require_everything(ALICE, "")


def test_the_roles_of_the_platform_see_everything_and_the_hardware() -> None:
    """What docs/how-to/run-the-platform.md binds is enough for the questions that need to see everything."""
    roles = {
        each["metadata"]["name"]: each.get("rules", []) for each in people() if each["kind"] == "ClusterRole"
    }

    def listed(role: str) -> set[tuple[str, str]]:
        return {
            (group, plural)
            for rule in roles[role]
            for group in rule["apiGroups"]
            for plural in rule["resources"]
            if "list" in rule["verbs"]
        }

    kinds = {(support.resource.group, support.resource.plural) for support in known_kinds().supports}
    assert kinds | {(QUEUES.group, QUEUES.plural)} <= listed("muster-viewer")
    hardware = {(each.group, each.plural) for each in (NODES, DEVICES, RESOURCE_SLICES, LEASES)}
    assert hardware <= listed("muster-queue-admin")
