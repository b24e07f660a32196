"""The tables of labels and annotations: complete, true to the code, and what ``muster check`` says by them."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from queues.api import kueue_names, names
from queues.api.check.check import check_documents
from queues.api.metadata_keys import KNOWN_KEYS, KeyUse, known_key

ROOT = Path(__file__).parents[4]

#: API versions, and names that are no label or annotation.
OTHERS = {
    "BATCH_VOLCANO",
    "SCHEDULING_VOLCANO",
    "BUS_VOLCANO",
    "FLOW_VOLCANO",
    "TOPOLOGY_VOLCANO",
    "AUTOSCALING_REQUESTS",
    "KOORDINATOR_SCHEDULING",
    "MUSTER",
    "READ_API",
    "BATCH",
    "GATE",
    "FINALIZER",
    "KIND_FINALIZER",
    "HYPERNODE_TIER",
    "JOB_CONTROLLER",
    "JOB_TRACKING",
    "OUT_OF_SERVICE",
    "GPU_FAULT",
}

#: Volcano's names of users, operators and its own controllers, by its documentation.
OF_VOLCANO = """
scheduling.k8s.io/group-name scheduling.volcano.sh/group-name scheduling.volcano.sh/group-min-member
scheduling.volcano.sh/group-min-resources scheduling.volcano.sh/queue-name scheduling.volcano.sh/queue-allocation-gate
volcano.sh/queue-name volcano.sh/job-name volcano.sh/job-namespace volcano.sh/task-spec volcano.sh/task-index
volcano.sh/partition-id volcano.sh/job-version volcano.sh/job-type volcano.sh/job-retry-count volcano.sh/template-uid
volcano.sh/preemptable volcano.sh/cooldown-time volcano.sh/revocable-zone volcano.sh/jdb-min-available
volcano.sh/jdb-max-unavailable sla-waiting-time volcano.sh/sla-waiting-time volcano.sh/hierarchy
volcano.sh/hierarchy-weights volcano.sh/closed-by-parent volcano.sh/numa-topology-policy volcano.sh/qos-level
volcano.sh/job-forwarding volcano.sh/resource-strategy-scoring-type volcano.sh/nodegroup-name
volcano.sh/network-topology-mode volcano.sh/network-topology-highest-tier volcano.sh/controller-out-of-sync
volcano.sh/created-by-jobflow volcano.sh/created-by-jobtemplate volcano.sh/cronjob-scheduled-timestamp hccl/rankIndex
"""


def constants() -> dict[str, str]:
    """Names of labels and annotations in ``queues.api.names`` and ``kueue_names``, by constant."""
    gpu = ("GPU_FRACTION", "GPU_MEMORY", "GPU_FRACTION_DEVICES")
    return {
        constant: value
        for constant, value in {**vars(names), **vars(kueue_names)}.items()
        if constant.isupper()
        and isinstance(value, str)
        and constant not in OTHERS
        and ("/" in value or constant in gpu)
    }


def finding(document: dict[str, Any]) -> list[str]:
    found = check_documents([("file.yaml", yaml.safe_dump(document))])
    return [f"{each.severity}: {each.path}: {each.expected}" for each in found if "metadata." in each.path]


def job(**metadata: Any) -> dict[str, Any]:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}}
    named = {"name": "train", "namespace": "a", **metadata}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": named, "spec": {"template": template}}


def test_every_label_and_annotation_of_the_code_is_in_a_table() -> None:
    assert {value for value in constants().values() if known_key(value) is None} == set()


def test_every_name_of_volcano_is_in_a_table() -> None:
    assert [key for key in OF_VOLCANO.split() if key not in KNOWN_KEYS] == []


def test_what_a_table_calls_read_or_written_is_used_in_the_code() -> None:
    here = (
        "queues/api/names.py",
        "queues/api/kueue_names.py",
        "queues/api/metadata_keys",
        "queues/api/check",
    )
    sources = [
        path.read_text(encoding="utf-8")
        for folder in ("admission", "queues")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".yaml", ".jinja") and not str(path.relative_to(ROOT)).startswith(here)
    ]
    of_keys = {value: constant for constant, value in constants().items()}
    used = [row.key.removesuffix("*") for row in KNOWN_KEYS.values() if row.use is not KeyUse.WITHOUT_EFFECT]
    chart = (ROOT / "deploy/chart/templates/agent.yaml").read_text(encoding="utf-8")
    unused = [key for key in used if not any(of_keys.get(key, key) in source for source in sources)]
    assert [key for key in unused if key not in chart] == []


def test_only_musters_identity_writes_what_the_table_says() -> None:
    assert {row.key for row in KNOWN_KEYS.values() if row.use is KeyUse.OWN} == set(names.OWN_NAMES)


def test_each_key_is_in_one_table() -> None:
    assert len(set(KNOWN_KEYS)) == len(KNOWN_KEYS)
    assert known_key("kueue.x-k8s.io/something-new") is KNOWN_KEYS["kueue.x-k8s.io/*"]
    assert known_key("example.com/team") is None


@pytest.mark.parametrize(
    "key",
    [
        row.key
        for row in KNOWN_KEYS.values()
        if row.use in (KeyUse.WITHOUT_EFFECT, KeyUse.TRANSLATED) and ("/" in row.key or not row.all_places())
    ],
)
@pytest.mark.parametrize("field", ["labels", "annotations"])
def test_a_name_without_effect_is_told_wherever_it_is(key: str, field: str) -> None:
    (found,) = finding(job(**{field: {key: "a"}}))
    assert found.startswith(f"warning: metadata.{field}[{key}]: ")
    deployment = {**job(), "apiVersion": "apps/v1", "kind": "Deployment"}
    deployment["spec"]["template"]["metadata"] = {field: {key: "a"}}
    (found,) = finding(deployment)
    assert found.startswith(f"warning: spec.template.metadata.{field}[{key}]: ")


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (job(labels={names.QUEUE_LABEL: "a"}), []),
        (
            job(annotations={names.QUEUE_LABEL: "a"}),
            [f"warning: metadata.annotations[{names.QUEUE_LABEL}]: it in labels"],
        ),
        (
            {**job(labels={names.QUEUE_LABEL: "a"}), "apiVersion": "apps/v1", "kind": "DaemonSet"},
            [
                f"warning: metadata.labels[{names.QUEUE_LABEL}]: it on one of Job, Volcano Job, operator's job, "
                "owner of pods, PodGroup, Pod, pod template, Namespace"
            ],
        ),
        (
            job(annotations={names.REQUIRED_TOPOLOGY: "rack"}),
            [f"warning: metadata.annotations[{names.REQUIRED_TOPOLOGY}]: it on one of pod template, Pod"],
        ),
        (
            {**job(annotations={names.GROUP_MIN_MEMBER: "2"}), "apiVersion": "apps/v1", "kind": "DaemonSet"},
            [
                f"warning: metadata.annotations[{names.GROUP_MIN_MEMBER}]: "
                "a PodGroup with minMember, which the pods name"
            ],
        ),
        (
            job(labels={"muster.dev/que-name": "a"}),
            [f"warning: metadata.labels[muster.dev/que-name]: {names.QUEUE_LABEL} (misspelt?)"],
        ),
        (
            job(labels={"volcano.sh/zzz": "a"}),
            ["warning: metadata.labels[volcano.sh/zzz]: nothing: it has no effect"],
        ),
        (
            job(labels={names.RELEASED: "true"}),
            [f"error: metadata.labels[{names.RELEASED}]: nothing: only Muster writes it"],
        ),
        (job(labels={"example.com/team": "a"}, annotations={names.PREEMPTABLE: "true"}), []),
        (
            {
                "apiVersion": names.SCHEDULING_VOLCANO,
                "kind": "Queue",
                "metadata": {"name": "a", "annotations": {names.RETRY: "b"}},
            },
            [],
        ),
    ],
)
def test_names_count_only_where_they_are_read(document: dict[str, Any], expected: list[str]) -> None:
    assert finding(document) == expected


def test_templates_are_found_however_deep_they_are(golden: Any) -> None:
    pod_template = {
        "metadata": {"annotations": {"kueue.x-k8s.io/podset-group-name": "a"}},
        **job()["spec"]["template"],
    }
    inner = {"metadata": {"labels": {names.QUEUE_LABEL: "a"}}, "spec": {"template": pod_template}}
    document = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "a", "labels": {"kueue.x-k8s.io/queue-name": "a"}},
        "spec": {"replicatedJobs": [{"template": inner}]},
    }
    assert [each.partition(": ")[2].partition(": ")[0] for each in finding(document)] == golden
