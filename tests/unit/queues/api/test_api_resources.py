"""The table of API resources: every object has one path, and everything that Muster installs is in it."""

from typing import Any

import pytest

from deploy.manifests import objects
from queues.api import api_resources
from queues.api.api_resources import (
    ALL,
    PODS,
    QUEUES,
    VOLCANO_JOBS,
    WEBHOOK_CONFIGURATIONS,
    ObjectRef,
    path_of,
)
from queues.errors import UnusableName


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (PODS.path(), "/api/v1/pods"),
        (PODS.path("ns"), "/api/v1/namespaces/ns/pods"),
        (PODS.path("ns", "a", "binding"), "/api/v1/namespaces/ns/pods/a/binding"),
        (VOLCANO_JOBS.path("ns", "j"), "/apis/batch.volcano.sh/v1alpha1/namespaces/ns/jobs/j"),
        (QUEUES.path(name="q"), "/apis/scheduling.volcano.sh/v1beta1/queues/q"),
        (ObjectRef(resource=QUEUES, name="q", uid="u").path, "/apis/scheduling.volcano.sh/v1beta1/queues/q"),
        (
            WEBHOOK_CONFIGURATIONS[1].path(name="muster"),
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/muster",
        ),
    ],
)
def test_a_path_names_group_namespace_object_and_subresource(path: str, expected: str) -> None:
    assert path == expected


@pytest.mark.parametrize(
    "name", ["a/b", "..", ".", "../../pods", "a%2Fb", "a?watch=true", "a#b", "a b", "a\n"]
)
def test_no_name_leads_to_another_path(name: str) -> None:
    with pytest.raises(UnusableName):
        QUEUES.path(name=name)
    with pytest.raises(UnusableName):
        PODS.path(name, "a")


@pytest.mark.parametrize("name", ["a", "a.b-c", "..a", "system:node", "x" * 253])
def test_names_of_objects_are_allowed_in_paths(name: str) -> None:
    assert QUEUES.path(name=name).endswith(f"/{name}")


def test_each_kind_and_each_plural_of_an_api_version_is_there_once() -> None:
    assert len({(each.api_version, each.kind) for each in ALL}) == len(ALL)
    assert len({(each.api_version, each.plural) for each in ALL}) == len(ALL)
    named = {each for each in vars(api_resources).values() if isinstance(each, api_resources.ApiResource)}
    assert named <= set(ALL)


def test_a_rule_names_group_version_and_plural(golden: Any) -> None:
    assert VOLCANO_JOBS.rule(["CREATE"]) == golden
    assert PODS.rule(["CREATE"])["apiGroups"] == [""]


def test_everything_that_is_installed_has_a_path() -> None:
    for name, documents in objects().items():
        for document in documents:
            assert path_of(document).endswith(f"/{document['metadata']['name']}"), name
