"""Kueue's queues become Muster's, and what does not is told."""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from queues.api.check.check import check_documents
from queues.api.check.document import documents_of
from queues.api.convert.conversion import Conversion, comment_of
from queues.api.convert.convert import convert_documents
from tests.laws.worlds.settings import in_worlds
from tests.tables import with_rows

FLAVOR = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: %s}
spec: {nodeLabels: %s}
---
"""
NO_LABELS = FLAVOR % ("any", "{}")

QUEUE = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: research}
spec:
  namespaceSelector: {}
  %s
---
"""

GPUS = """resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors: [{name: any, resources: [{name: nvidia.com/gpu, nominalQuota: %s}]}]
"""

LOCAL = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: %s, namespace: %s}
spec: {clusterQueue: %s}
---
"""

COHORT = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: Cohort
metadata: {name: %s}
spec: {%s}
---
"""


def convert(text: str) -> Conversion:
    return convert_documents([("kueue.yaml", text)])


def named(done: Conversion, name: str, kind: str = "Queue") -> dict[str, Any]:
    (found,) = [each for each in done.documents if each["kind"] == kind and each["metadata"]["name"] == name]
    return found


def told(done: Conversion, severity: str = "warning") -> list[str]:
    return [f"{each.path}: {each.found}" for each in done.differences if each.severity == severity]


def queue_spec(more: str, *others: str) -> dict[str, Any]:
    """The Queue's spec for a ClusterQueue with these fields."""
    done = convert("".join(others) + (QUEUE % more))
    assert told(done, "error") == []
    spec: dict[str, Any] = named(done, "research")["spec"]
    return spec


def test_a_cluster_queue_alone_borrows_from_nobody() -> None:
    spec = queue_spec(GPUS % 8, NO_LABELS)
    assert spec["deserved"] == {"nvidia.com/gpu": "8"}
    assert spec["capability"] == {"nvidia.com/gpu": "8"}
    assert "guarantee" not in spec
    assert "parent" not in spec


@with_rows("version", "field")
def test_limits_of_a_queue_in_a_cohort(version: str, field: str) -> None:
    quota = "{name: cpu, nominalQuota: 10, borrowingLimit: 500m, lendingLimit: 4}"
    text = QUEUE % (
        f"{field}: all\n  resourceGroups: [{{coveredResources: [cpu], flavors: [{{name: any, resources: [{quota}]}}]}}]"
    )
    done = convert(NO_LABELS + text.replace("v1beta2", version))
    spec = named(done, "research")["spec"]
    assert spec["parent"] == "all"
    assert spec["guarantee"] == {"resource": {"cpu": "6"}}
    assert spec["deserved"] == {"cpu": "10"}
    assert spec["capability"] == {"cpu": "10500m"}
    assert named(done, "all")["spec"] == {
        "guarantee": {"resource": {"cpu": "6"}},
        "deserved": {"cpu": "10"},
        "capability": {"cpu": "10"},
    }


def test_parents_come_before_their_children() -> None:
    text = COHORT % ("inner", "parentName: outer") + QUEUE % "cohortName: inner"
    names = [each["metadata"]["name"] for each in convert(text).documents]
    assert names == ["outer", "inner", "research"]


def test_cohorts_in_a_cycle_are_an_error_and_nothing_is_converted() -> None:
    done = convert(COHORT % ("a", "parentName: b") + COHORT % ("b", "parent: a") + QUEUE % "cohort: a")
    assert told(done, "error") == ["spec.parentName: a cohort inside itself: a → b → a"]
    assert done.documents == []


def test_a_cohort_with_the_name_of_a_queue_gets_another_one() -> None:
    done = convert(COHORT % ("research", "") + QUEUE % "cohortName: research")
    assert named(done, "research")["spec"]["parent"] == "research-cohort"
    assert named(done, "research-cohort")


@pytest.mark.parametrize("name", ["root", "default"])
def test_a_cohort_does_not_take_the_place_of_musters_own_queues(name: str) -> None:
    done = convert(COHORT % (name, "") + QUEUE % f"cohortName: {name}")
    assert named(done, "research")["spec"]["parent"] == f"{name}-cohort"


def test_a_cluster_queue_called_root_gets_another_name() -> None:
    done = convert(QUEUE.replace("research", "root") % "" + LOCAL % ("lq", "ns", "root"))
    assert named(done, "root-queue")
    assert named(done, "ns", "Namespace")["metadata"]["annotations"] == {
        "muster.dev/queue-name": "root-queue"
    }


def test_flavors_with_node_labels_stay_in_their_order_and_others_are_limits_over_all() -> None:
    flavors = FLAVOR % ("spot", "{type: spot}") + FLAVOR % ("fixed", "{type: fixed}") + NO_LABELS
    groups = """resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors:
    - {name: spot, resources: [{name: nvidia.com/gpu, nominalQuota: 4}]}
    - {name: fixed, resources: [{name: nvidia.com/gpu, nominalQuota: 2}]}
  - coveredResources: [cpu]
    flavors: [{name: any, resources: [{name: cpu, nominalQuota: 100}]}]
"""
    done = convert(flavors + QUEUE % groups)
    spec = named(done, "research")["spec"]
    assert [(each["name"], each["deserved"]) for each in spec["flavors"]] == [
        ("spot", {"nvidia.com/gpu": "4"}),
        ("fixed", {"nvidia.com/gpu": "2"}),
    ]
    assert spec["deserved"] == {"cpu": "100"}
    assert spec["policy"]["flavorChoice"] == {"beforeBorrowing": "stop", "beforePreempting": "try-next"}
    assert named(done, "spot", "ResourceFlavor")["spec"] == {"nodeLabels": {"type": "spot"}}
    assert "spec.nodeLabels: nothing" in told(done, "note")
    assert any("nvidia.com/gpu only" in each for each in told(done))


def test_of_flavors_in_several_groups_those_of_devices_stay() -> None:
    flavors = FLAVOR % ("x86", "{arch: x86}") + FLAVOR % ("h100", "{gpu: h100}")
    groups = """resourceGroups:
  - {coveredResources: [cpu], flavors: [{name: x86, resources: [{name: cpu, nominalQuota: 9}]}]}
  - coveredResources: [nvidia.com/gpu]
    flavors: [{name: h100, resources: [{name: nvidia.com/gpu, nominalQuota: 4}]}]
"""
    done = convert(flavors + QUEUE % groups)
    spec = named(done, "research")["spec"]
    assert [each["name"] for each in spec["flavors"]] == ["h100"]
    assert spec["deserved"] == {"cpu": "9"}
    assert [each["metadata"]["name"] for each in done.documents if each["kind"] == "ResourceFlavor"] == [
        "h100"
    ]
    assert any("for other resources" in each for each in told(done))


def test_flavors_that_one_node_may_have_both_are_told(golden: Any) -> None:
    done = convert(
        FLAVOR % ("a", "{gpu: h100}") + FLAVOR % ("b", "{zone: east}") + FLAVOR % ("c", "{gpu: t4}")
    )
    assert told(done) == golden


def test_a_resource_that_a_queue_has_no_quota_for_is_forbidden_as_in_kueue() -> None:
    other = (QUEUE % (GPUS % 8)).replace("research", "others")
    spec = queue_spec("", NO_LABELS, other)
    assert spec["capability"] == {"nvidia.com/gpu": "0"}


@with_rows("written", "expected")
def test_preemption_policies(written: str, expected: dict[str, Any]) -> None:
    assert queue_spec(written)["policy"]["preemption"] == expected


@with_rows("written", "paused", "warns")
def test_stopped_queues_are_paused(written: str, paused: bool | None, warns: bool) -> None:
    done = convert(QUEUE % written)
    assert named(done, "research")["spec"]["policy"].get("paused") is paused
    assert ("spec.stopPolicy: HoldAndDrain" in told(done)) == warns


@with_rows("field", "path")
def test_what_has_no_counterpart_is_told_with_its_line(field: str, path: str) -> None:
    done = convert((QUEUE % field) + LOCAL % ("lq", "ns", "research"))
    (found,) = [each for each in done.differences if each.severity == "warning"]
    assert (found.path, found.line) == (path, 7)
    assert found.subject == "ClusterQueue research"
    assert f"# ClusterQueue research {path}: found" in done.as_yaml()


def test_only_namespaces_with_a_local_queue_may_use_the_queue(golden: Any) -> None:
    done = convert(
        (QUEUE % "").replace("{}", "{matchLabels: {team: a}}")
        + LOCAL % ("one", "ns-1", "research")
        + LOCAL % ("two", "ns-2", "research")
    )
    assert named(done, "research")["spec"]["access"]["namespaceSelector"] == golden


def test_a_cluster_queue_without_a_selector_is_used_by_nobody() -> None:
    done = convert((QUEUE % "").replace("namespaceSelector: {}", "cohortName: x"))
    assert told(done) == ["spec.namespaceSelector: nothing"]
    (nowhere,) = named(done, "research")["spec"]["access"]["namespaceSelector"]["matchExpressions"]
    assert nowhere == {"key": "kubernetes.io/metadata.name", "operator": "DoesNotExist"}


def test_a_queue_that_every_namespace_may_use_is_told() -> None:
    done = convert(QUEUE % "")
    assert "access" not in named(done, "research")["spec"]
    assert told(done) == [": no LocalQueue of it among the documents"]


@with_rows("queues", "metadata")
def test_a_namespace_gets_the_queue_that_its_objects_have_which_name_none(
    queues: list[tuple[str, str]], metadata: dict[str, Any] | None
) -> None:
    done = convert(QUEUE % "" + "".join(LOCAL % (name, "ns", target) for name, target in queues))
    found = [each["metadata"] for each in done.documents if each["kind"] == "Namespace"]
    assert found == ([] if metadata is None else [{"name": "ns", **metadata}])
    wording = "in jobs of this namespace write muster.dev/queue-name: research in place of kueue.x-k8s.io/queue-name: "
    assert any(each.expected == wording + queues[0][0] for each in done.differences)


def test_classes_of_priority_are_kept_up_to_what_kubernetes_allows() -> None:
    text = (
        "apiVersion: kueue.x-k8s.io/v1beta1\nkind: WorkloadPriorityClass\n"
        "metadata: {name: high}\nvalue: 2000000000\n"
    )
    done = convert(text)
    assert named(done, "high", "PriorityClass")["value"] == 1_000_000_000
    assert told(done) == ["value: 2000000000"]


def test_topologies_keep_their_levels(golden: Any) -> None:
    text = (
        "apiVersion: kueue.x-k8s.io/v1alpha1\nkind: Topology\nmetadata: {name: net}\n"
        "spec: {levels: [{nodeLabel: example.com/rack}, {nodeLabel: kubernetes.io/hostname}]}\n"
    )
    document = named(convert(text), "net", "Topology")
    assert document["apiVersion"] == "muster.dev/v1alpha1"
    assert [level["nodeLabel"] for level in document["spec"]["levels"]] == golden


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (QUEUE % (GPUS % "lots"), "spec.resourceGroups"),
        (QUEUE % (GPUS % "1500m") + NO_LABELS, "spec.deserved[nvidia.com/gpu]"),
        (QUEUE % (GPUS % "-1") + NO_LABELS, "spec.deserved[nvidia.com/gpu]"),
        (QUEUE % "stopPolicy: Wait", "spec.stopPolicy"),
        (QUEUE % "" + QUEUE % "", "metadata.name"),
        (QUEUE % "" + LOCAL % ("lq", "ns", '""'), "spec.clusterQueue"),
        ((QUEUE % "").replace("name: research", ""), "metadata.name"),
        (
            (QUEUE % "").replace("{}", "{matchExpressions: 1}"),
            "spec.access.namespaceSelector.matchExpressions",
        ),
        ("a: [", ""),
    ],
)
def test_what_is_wrong_is_an_error_and_nothing_is_converted(text: str, path: str) -> None:
    done = convert(text)
    assert done.documents == []
    assert path in [each.path for each in done.differences if each.severity == "error"]


def test_names_with_any_character_leave_the_result_readable() -> None:
    cohort = (
        (COHORT % ("all", "")).replace("name: all", 'name: "\\x7f\\u2028\\ud7ff"').replace("{}", "{x: 1}")
    )
    done = convert(cohort + (QUEUE % "fairSharing: {weight: 3}") + LOCAL % ("lq", "ns", '"\\x1f# \\x85"'))
    assert all(comment_of(each).isprintable() for each in done.differences)
    assert not [
        each for each in check_documents([("muster.yaml", done.as_yaml())]) if each.severity == "error"
    ]


def test_kinds_of_others_are_left_out_and_told() -> None:
    done = convert(
        "apiVersion: kueue.x-k8s.io/v1beta2\nkind: AdmissionCheck\nmetadata: {name: a}\n---\n"
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: b}\n"
    )
    assert done.documents == []
    assert told(done) == [": AdmissionCheck"]
    assert told(done, "note") == [": batch/v1 Job"]


def test_volcanos_queues_are_read_as_they_are() -> None:
    done = convert("apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: a}\n")
    assert done.documents == []
    assert "Muster reads Volcano's Queues as they are" in str(done.differences[0])


AMOUNTS = st.integers(min_value=0, max_value=1000)
NAMES = st.sampled_from(("a", "b", "c", "root", "default", "a-cohort"))


@st.composite
def kueue_objects(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Valid objects of a Kueue installation: every reference, limit and policy may be there or not."""
    version = "kueue.x-k8s.io/v1beta2"
    labels = {name: draw(st.booleans()) for name in ("f1", "f2", "f3")}
    objects: list[dict[str, Any]] = [
        {
            "apiVersion": version,
            "kind": "ResourceFlavor",
            "metadata": {"name": name},
            "spec": {"nodeLabels": {"kind": name}} if labelled else {},
        }
        for name, labelled in labels.items()
    ]

    def quota(resource: str) -> dict[str, Any]:
        nominal = draw(AMOUNTS)
        written: dict[str, Any] = {"name": resource, "nominalQuota": nominal}
        if draw(st.booleans()):
            written["borrowingLimit"] = draw(AMOUNTS)
        if draw(st.booleans()):
            written["lendingLimit"] = draw(st.integers(0, nominal))
        return written

    def groups() -> list[dict[str, Any]]:
        flavors = draw(st.permutations(list(labels)))
        cut = draw(st.integers(0, 3))
        parts = [(("nvidia.com/gpu",), flavors[:cut]), (("cpu", "memory"), flavors[cut:])]
        return [
            {
                "coveredResources": list(resources),
                "flavors": [
                    {"name": name, "resources": [quota(each) for each in resources]} for name in names
                ],
            }
            for resources, names in parts
            if names
        ]

    cohorts = sorted(draw(st.sets(NAMES, max_size=4)))
    for index, name in enumerate(cohorts):
        spec: dict[str, Any] = {"parentName": draw(st.sampled_from(["", *cohorts[:index], "implied"]))}
        if draw(st.booleans()):
            spec["resourceGroups"] = groups()
        objects.append({"apiVersion": version, "kind": "Cohort", "metadata": {"name": name}, "spec": spec})
    for name in sorted(draw(st.sets(NAMES, min_size=1))):
        spec = {"resourceGroups": groups(), "cohortName": draw(st.sampled_from(["", "d", *cohorts]))}
        if draw(st.booleans()):
            spec["namespaceSelector"] = {}
        if draw(st.booleans()):
            spec["fairSharing"] = {"weight": draw(st.sampled_from(["0", "1", "990m", 7]))}
        objects.append(
            {"apiVersion": version, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec}
        )
        if draw(st.booleans()):
            local = {"name": draw(st.sampled_from(("default", "lq"))), "namespace": f"ns-{name}"}
            objects.append(
                {
                    "apiVersion": version,
                    "kind": "LocalQueue",
                    "metadata": local,
                    "spec": {"clusterQueue": name},
                }
            )
    return objects


@in_worlds(50)
@given(objects=kueue_objects())
def test_whatever_kueue_accepts_becomes_documents_that_pass_the_check(objects: list[dict[str, Any]]) -> None:
    done = convert(yaml.safe_dump_all(objects))
    assert told(done, "error") == []
    findings = check_documents([("muster.yaml", done.as_yaml())])
    assert [str(each) for each in findings if each.severity == "error"] == []
    assert [each.value for each in documents_of(done.as_yaml())] == done.documents


VALUES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=5)
    | st.sampled_from(([], {}, [[]], {"a": {}}))
)


def planted(value: Any, data: st.DataObject, wrong: Any) -> Any:
    """The value with something else in one place of it, or in place of it."""
    if not isinstance(value, dict | list) or not value or data.draw(st.integers(0, 5)) == 0:
        return wrong
    copy = value.copy()
    key = data.draw(st.sampled_from(sorted(value) if isinstance(value, dict) else range(len(value))))
    copy[key] = planted(value[key], data, wrong)
    return copy


@in_worlds(50)
@given(objects=kueue_objects(), data=st.data())
def test_any_value_in_any_place_gets_an_answer(objects: list[dict[str, Any]], data: st.DataObject) -> None:
    documents = list(objects)
    place = data.draw(st.integers(0, len(documents) - 1))
    documents[place] = planted(documents[place], data, data.draw(VALUES))
    done = convert(yaml.safe_dump_all(documents))
    assert all(str(each) for each in done.differences)
    findings = check_documents([("muster.yaml", done.as_yaml())])
    assert [str(each) for each in findings if each.severity == "error"] == []


@given(text=st.text(max_size=300))
def test_no_text_raises(text: str) -> None:
    convert(text)
    convert(QUEUE % text.replace("%", ""))
