"""Pod templates are checked as the API server reads them, and owners of pods by what their pods do."""

from typing import Any

import pytest
import yaml

from queues.api.check.check import check_documents
from queues.api.check.finding import Finding
from queues.api.check.summary import summary_lines
from queues.api.validation.pod_fields import pod_types
from tests.builders.valid_documents import of_kind
from tests.tables import with_rows

CONTAINER = {"name": "main", "image": "busybox"}


def main(**fields: Any) -> dict[str, Any]:
    """A change of the only container."""
    return {"containers": [{**CONTAINER, **fields}]}


#: Misspelt fields, and what was meant.
UNKNOWN = [
    (main(volumMounts=[]), "containers[0].volumMounts", "volumeMounts (misspelt?)"),
    ({"contaners": []}, "contaners", "containers (misspelt?)"),
    ({"gpus": 3}, "gpus", "a field of PodSpec in Kubernetes 1.36"),
]


def pod_spec(change: dict[str, Any]) -> dict[str, Any]:
    return {"restartPolicy": "Never", "containers": [CONTAINER], **change}


def documents(change: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The same pod in each kind that Muster reads, with the path of its spec."""
    template = {"spec": pod_spec(change)}
    kinds = (
        ("spec", "Pod", template["spec"]),
        ("spec.template.spec", "batch/v1 Job", {"template": template}),
        ("spec.template.spec", "apps/v1 Deployment", {"template": template}),
        ("spec.tasks[0].template.spec", "Job", {"tasks": [{"name": "t", "template": template}]}),
    )
    labels = {"muster.dev/queue-name": "q"}
    return [(where, of_kind(kind, spec, labels=labels)) for where, kind, spec in kinds]


def checked(*documents: dict[str, Any]) -> list[Finding]:
    return list(check_documents([("file.yaml", yaml.safe_dump_all(documents))]))


def findings(document: dict[str, Any], severity: str) -> list[str]:
    return [str(each) for each in checked(document) if each.severity == severity]


@with_rows("change", "path", "found")
def test_what_the_api_server_refuses_is_an_error_in_every_kind_and_told_once(
    change: dict[str, Any], path: str, found: str
) -> None:
    for where, document in documents(change):
        if document["kind"] == "Deployment" and not is_of_the_schema(found):
            continue
        told = findings(document, "error")
        assert len([each for each in told if f" {where}.{path}: found {found}" in each]) == 1, told


def is_of_the_schema(found: str) -> bool:
    """Rules beyond types are not checked in owners."""
    return not any(words in found for words in ("no other container", "an image", "one of Always, OnFailure"))


@pytest.mark.parametrize(("change", "path", "expected"), UNKNOWN)
def test_a_field_that_kubernetes_does_not_know_is_a_warning(
    change: dict[str, Any], path: str, expected: str
) -> None:
    for where, document in documents(change):
        (told,) = [each for each in findings(document, "warning") if f" {where}.{path}: " in each]
        assert told.endswith(f"found a field that Kubernetes does not know, expected {expected}")


def test_what_the_api_server_accepts_is_no_finding() -> None:
    change = {
        "volumes": [
            {"name": "data", "hostPath": {"path": "/d", "type": ""}},
            {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
        ],
        "containers": [
            {
                **CONTAINER,
                "command": ["sh", "-c", "true"],
                "env": [
                    {"name": "A"},
                    {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                ],
                "livenessProbe": {"httpGet": {"port": "http", "httpHeaders": [{"name": "a"}]}},
                "resources": {"requests": {"cpu": 0.5, "memory": "1Gi"}, "limits": {"cpu": 1}},
                "volumeMounts": [{"name": "data", "mountPath": "/d"}, {"name": "token", "mountPath": "/t"}],
                "stdin": None,
            }
        ],
        "tolerations": [{"operator": "Exists"}],
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": "b"}}}
                ]
            }
        },
        "hostNetwork": True,
        "dnsPolicy": "",
    }
    for where, document in documents(change):
        assert [each for each in findings(document, "error") if where in each] == []
        assert [each for each in findings(document, "warning") if where in each] == []


def test_claims_of_a_stateful_set_are_volumes_of_its_pods() -> None:
    mounts = [{"name": "data", "mountPath": "/d"}]
    spec = {"template": {"spec": main(volumeMounts=mounts)}}
    document = of_kind("apps/v1 StatefulSet", spec)
    assert len(findings(document, "error")) == 1
    document["spec"] = {**spec, "volumeClaimTemplates": [{"metadata": {"name": "data"}}]}
    assert findings(document, "error") == []


@with_rows("metadata", "told")
def test_what_becomes_of_the_pods_of_a_deployment(metadata: dict[str, Any], told: str) -> None:
    template = {"metadata": metadata, "spec": main()}
    spec = {"strategy": {"type": "Recreate"}, "template": template}
    (found,) = findings(of_kind("apps/v1 Deployment", spec), "note")
    assert told in found


def test_an_unknown_queue_in_a_template_is_a_warning_where_queues_are_defined() -> None:
    queue = of_kind("Queue", {})
    template = {"metadata": {"labels": {"muster.dev/queue-name": "team"}}, "spec": main()}
    found = checked(queue, of_kind("apps/v1 Deployment", {"template": template}))
    assert [each.found for each in found if each.severity == "warning"] == ["'team'"]


def test_a_job_that_names_no_queue_is_noted() -> None:
    spec = {"template": {"spec": pod_spec({})}}
    (found,) = findings(of_kind("batch/v1 Job", spec), "note")
    assert "found no queue, expected the label muster.dev/queue-name" in found
    named = of_kind("batch/v1 Job", spec, annotations={"scheduling.volcano.sh/queue-name": "q"})
    assert findings(named, "note") == []


@with_rows("labels", "warned")
def test_a_suspended_job_that_nobody_would_resume_is_a_warning(labels: dict[str, str], warned: bool) -> None:
    spec = {"suspend": True, "template": {"spec": pod_spec({})}}
    document = of_kind("batch/v1 Job", spec, namespace="ns", labels=labels)
    assert any("spec.suspend: found true" in each for each in findings(document, "warning")) == warned
    namespace = {"name": "ns", "annotations": {"muster.dev/queue-name": "q"}}
    known = {"apiVersion": "v1", "kind": "Namespace", "metadata": namespace}
    assert not [each for each in checked(document, known) if each.path == "spec.suspend"]


def test_one_wrong_field_of_a_queue_hides_no_other(golden: Any) -> None:
    spec = {
        "policy": {"order": "last in"},
        "capability": {"cpu": "eight"},
        "deserverd": {},
        "dequeueStrategy": "fifo",
    }
    queue = of_kind("Queue", spec)
    assert sorted(each.path for each in checked(queue)) == golden


def objects(*each: tuple[str, str, str, str]) -> str:
    """Objects by API version, kind, name and further lines."""
    return "---\n".join(
        f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: {name}}}\n{more}\n"
        for version, kind, name, more in each
    )


def test_a_summary_has_a_line_for_each_file(golden: Any) -> None:
    queue, core = "scheduling.volcano.sh/v1beta1", "v1"
    files = {
        "good.yaml": objects((queue, "Queue", "a", "")),
        "wrong.yaml": objects((queue, "Queue", "b", "spec: {weight: x, type: other}")),
        "later.yaml": objects(("nodeinfo.volcano.sh/v1alpha1", "Numatopology", "a", "")),
        "kueue.yaml": objects(("kueue.x-k8s.io/v1beta2", "ClusterQueue", "a", "")),
        "others.yaml": objects((core, "ConfigMap", "a", ""), (core, "Secret", "a", "")),
        "mixed.yaml": objects((core, "ConfigMap", "b", ""), (core, "Namespace", "a", "")),
        "empty.yaml": "# nothing\n",
    }
    assert summary_lines(files.items(), check_documents(files.items())) == golden


def test_every_type_of_the_table_is_in_it() -> None:
    known = {"string", "boolean", "quantity", "int-or-string", "time", "object"}
    known |= {"integer:int32", "integer:int64"}
    named = {field.type.strip("[]{}") for fields in pod_types().values() for field in fields.values()}
    assert {name for name in named if "|" not in name} - known - pod_types().keys() == set()
