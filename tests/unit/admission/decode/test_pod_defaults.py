"""When the API server may make something else of a template than before."""

from typing import Any

import msgspec

from admission.decode.admin_documents import pod_defaults_fact
from admission.facts.pods import PodDefaultsFact
from admission.wire import Bare
from tests.tables import with_rows


def read(meta: dict[str, Any] | None = None, **content: Any) -> PodDefaultsFact | None:
    raw = msgspec.json.encode({"metadata": {"name": "a", "resourceVersion": "1", **(meta or {})}, **content})
    return pod_defaults_fact(msgspec.json.decode(raw, type=Bare), raw)


def limits(cpu: str) -> dict[str, Any]:
    return {"spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": cpu}}]}}


def test_a_limit_range_is_about_its_namespace_and_changes_with_its_limits_only() -> None:
    fact = read({"namespace": "ns"}, **limits("1"))
    assert fact.namespace == "ns"
    assert read({"namespace": "ns", "resourceVersion": "2", "labels": {"a": "b"}}, **limits("1")) == fact
    assert read({"namespace": "ns"}, **limits("2")) != fact


def test_a_runtime_class_is_about_all_namespaces() -> None:
    fact = read(handler="kata", overhead={"podFixed": {"cpu": "250m"}})
    assert fact.namespace == ""
    assert read(handler="kata", overhead={"podFixed": {"cpu": "500m"}}) != fact


@with_rows("resources", "counts")
def test_webhooks_count_if_they_are_about_pods(resources: list[str], counts: bool) -> None:
    rules = [{"resources": ["services"]}, {"resources": resources}]
    webhooks = [{"name": "a", "rules": rules}, {"name": "b"}]
    assert (read(webhooks=webhooks) is not None) == counts
