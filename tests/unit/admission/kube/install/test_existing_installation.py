"""What a cluster has of Muster already: installing and uninstalling touch only the installation that they are for."""

import json
from copy import deepcopy
from typing import Any, cast

import pytest

from admission.kube.client.client import Client
from admission.kube.install import install as module
from admission.kube.install.crds import added_by_newer
from admission.kube.install.existing_installation import InstalledByHelm, InstalledElsewhere
from admission.kube.install.install import Installation, install
from admission.kube.install.rbac import rbac
from admission.kube.install.uninstall import Removal, uninstall
from queues.api.api_resources import Document, path_of
from queues.api.crd import crds
from queues.errors import NotFound

ROLE_BINDINGS = "/apis/rbac.authorization.k8s.io/v1/rolebindings"
HELM = {"meta.helm.sh/release-name": "batch", "meta.helm.sh/release-namespace": "queues"}
USER = "muster"


class Server:
    """An API server that has some objects, and takes no write."""

    def __init__(self, *documents: Document) -> None:
        self._objects = {path_of(each): each for each in documents}

    async def get(self, path: str, **selectors: str) -> bytes:
        if path == "/version":
            return json.dumps({"major": "1", "minor": "36"}).encode()
        if path == ROLE_BINDINGS:
            name = selectors["fieldSelector"].removeprefix("metadata.name=")
            found = [self._objects[at] for at in sorted(self._objects) if "/rolebindings/" in at]
            return json.dumps(
                {"items": [each for each in found if each["metadata"]["name"] == name]}
            ).encode()
        if path not in self._objects:
            raise NotFound(status=404, method="GET", path=path, reason="")
        return json.dumps(self._objects[path]).encode()

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name}: nothing is written before the refusal")


def objects(*kinds: str, namespace: str = "queues", identity: str = "", helm: bool = False) -> list[Document]:
    """Those of an installation; ``kinds``: only these are left."""
    account = identity or f"system:serviceaccount:{namespace}:muster"
    found = [each for each in rbac(namespace, account) if not kinds or each["kind"] in kinds]
    for each in found:
        if helm:
            each["metadata"]["annotations"] = dict(HELM)
    return found


async def installed(server: Server, **wanted: Any) -> None:
    await install(cast(Client, server), Installation(**wanted), lambda line: None)


@pytest.mark.parametrize("left", [(), ("ClusterRole",), ("ClusterRoleBinding",)])
@pytest.mark.parametrize("namespace", ["queues", "muster-system"])
async def test_a_release_of_helm_is_not_installed_over_and_the_way_is_told(
    left: tuple[str, ...], namespace: str
) -> None:
    with pytest.raises(InstalledByHelm) as refused:
        await installed(Server(*objects(*left, helm=True)), namespace=namespace)
    assert "the Helm release batch in the namespace queues" in str(refused.value)
    assert "helm upgrade batch CHART --namespace queues --reset-then-reuse-values" in str(refused.value)


@pytest.mark.parametrize(
    "found",
    [
        objects(),
        objects(identity=USER),
        objects("ClusterRoleBinding"),
        objects("RoleBinding"),
        objects("RoleBinding", identity=USER),
    ],
)
async def test_an_installation_in_another_namespace_is_left_alone_and_its_namespace_is_told(
    found: list[Document],
) -> None:
    with pytest.raises(InstalledElsewhere, match="Add --namespace queues"):
        await installed(Server(*found))
    with pytest.raises(
        InstalledElsewhere, match="in the namespace queues, and this command is for muster-system"
    ):
        await uninstall(cast(Client, Server(*found)), Removal(), lambda line: None)


async def test_a_release_of_helm_in_another_namespace_is_not_removed() -> None:
    with pytest.raises(InstalledElsewhere, match="in the namespace queues"):
        await uninstall(cast(Client, Server(*objects(helm=True))), Removal(), lambda line: None)


class Reached(Exception):
    """The refusals are passed."""


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        ([], Installation()),
        (objects(), Installation(namespace="queues")),
        (objects(identity=USER), Installation(namespace="queues")),
        (objects(helm=True), Installation(only_definitions=True)),
    ],
)
async def test_it_is_installed_where_it_is_and_only_definitions_beside_helm(
    found: list[Document], wanted: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def reach(*_: object, **__: object) -> None:
        raise Reached

    monkeypatch.setattr(module, "apply_definitions", reach)
    with pytest.raises(Reached):
        await install(cast(Client, Server(*found)), wanted, lambda line: None)


async def test_only_definitions_are_applied_if_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    applied = []

    async def definitions(*_: object, adopt: bool) -> None:
        applied.append(adopt)

    monkeypatch.setattr(module, "apply_definitions", definitions)
    await installed(Server(), only_definitions=True, adopt_crds=True)
    assert applied == [True]


async def test_a_role_of_that_name_that_is_not_musters_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    (other,) = objects("ClusterRole", helm=True)[:1]
    del other["metadata"]["labels"]

    async def reach(*_: object, **__: object) -> None:
        raise Reached

    monkeypatch.setattr(module, "apply_definitions", reach)
    with pytest.raises(Reached):
        await installed(Server(other))


# ── newer definitions ───────────────────────────────────────────────────────────────────────────────────────


QUEUE = next(each for each in crds() if each["spec"]["names"]["kind"] == "Queue")


def schema(definition: dict[str, Any]) -> Any:
    return definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


@pytest.mark.parametrize("definition", crds(), ids=lambda each: str(each["metadata"]["name"]))
def test_a_definition_has_nothing_beyond_itself(definition: dict[str, Any]) -> None:
    assert added_by_newer(definition, definition) == []


def test_a_field_that_was_added_is_told_by_its_path() -> None:
    newer = deepcopy(QUEUE)
    schema(newer)["properties"]["spec"]["properties"]["carbon"] = {"type": "string"}
    assert added_by_newer(newer, QUEUE) == ["spec.carbon"]
    assert added_by_newer(QUEUE, newer) == []


def test_a_field_of_the_entries_of_a_list_or_map_is_found() -> None:
    older = {"type": "object", "properties": {"of": {"items": {"properties": {"a": {}}}, "type": "array"}}}
    newer = deepcopy(older)
    newer["properties"]["of"]["items"]["properties"]["b"] = {}  # type: ignore[index]

    def definition(schema: dict[str, Any]) -> dict[str, Any]:
        return {"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}}

    assert added_by_newer(definition(newer), definition(older)) == ["of[].b"]
    by_name = {"additionalProperties": {"properties": {"a": {}, "c": {}}}}
    before = {"additionalProperties": {"properties": {"a": {}}}}
    assert added_by_newer(definition(by_name), definition(before)) == ["{}.c"]


def test_a_version_that_was_added_is_told() -> None:
    newer = deepcopy(QUEUE)
    newer["spec"]["versions"].append({"name": "v2", "served": True, "storage": False})
    assert added_by_newer(newer, QUEUE) == ["version v2"]
