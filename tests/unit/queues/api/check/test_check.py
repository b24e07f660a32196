"""Any text gets an answer that names file, document, line and field; none gets a traceback."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from queues.api.check.check import check_documents as all_findings
from queues.api.check.document import documents_of
from tests.laws.worlds.settings import in_worlds

EXAMPLES = [path.read_text() for path in sorted((Path(__file__).parent / "accepted_examples").glob("*"))]

JOB = """apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata:
  name: train
spec:
  queue: team
  tasks:
  - name: worker
    replicas: 2
    template:
      spec:
        containers:
        - name: main
          image: busybox
"""

QUEUE = """apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: team}
spec: {}
"""


def check_documents(files):
    """Findings, but for the note about Queues that every namespace may use."""
    return [one for one in all_findings(files) if one.path != "spec.access.namespaceSelector" or one.expected]


def check_text(text, file_name):
    return check_documents([(file_name, text)])


def told(text, severity="error"):
    return [str(one) for one in check_text(text, "file.yaml") if one.severity == severity]


def test_a_finding_names_file_line_document_object_field_and_what_was_found_and_expected(golden: Any):
    text = QUEUE + "---\n" + JOB.replace("replicas: 2", "replicas: two")
    assert told(text) == golden


def test_all_that_is_wrong_is_told_at_once():
    text = JOB.replace("name: worker", "name: Worker").replace(
        "image: busybox", "resources: {limits: {cpu: -1}}"
    )
    assert len(told(text)) == 4  # the task's name, the pod's, the image, the limit


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:\n\t- b\n", "file.yaml:2: document 1: error: found a tab in the indentation, expected spaces"),
        ("- a\n- b\n", "file.yaml:1: document 1: error: found a list, expected a mapping with apiVersion"),
        ("just words", "file.yaml:1: document 1: error: found a text, expected a mapping with apiVersion"),
        ("a: [1, 2\nb: 3\n", "file.yaml:2: document 1: error: found"),
        ("kind: Job\n", "file.yaml:1: document 1: error: Job ? apiVersion: found nothing, expected text"),
        (JOB + "kind: Job\n", "file.yaml:15: document 1: error: kind: found the key twice"),
        ("a: &x [*x]\n", "found an alias to something that contains it"),
        ("[" * 10_000, "nesting deeper than 200"),
        ("a: !!python/name:os.system x\n", "document 1: error"),
        (JOB.replace("kind: Job", "kind: job"), "kind: found 'job', expected one of Job"),
        (JOB.replace("v1alpha1", "v1"), "apiVersion: found 'batch.volcano.sh/v1', expected one of"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_line(text, expected):
    assert any(expected in one for one in told(text)), told(text)


def test_one_broken_document_does_not_hide_the_others():
    text = "a: [\n---\n" + QUEUE.replace("{}", "{weight: 0}") + "---\nb: '\n"
    found = check_text(text, "file.yaml")
    assert [(one.document, one.line) for one in found if one.severity == "error"] == [(1, 2), (2, 6), (3, 9)]


def test_aliases_that_would_fill_the_memory_are_refused():
    text = "a0: &a0 [x]\n" + "".join(
        f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]\n" for level in range(1, 9)
    )
    assert any("aliases" in one for one in told(text))


def test_scalars_are_read_as_kubectl_reads_them(golden: Any):
    text = "a: 2001-01-01\nb: 22:22\nc: 0644\nd: yes\ne: 1e3\nf: =\ng: 0x10\n1: x\nh: y\ni: N\nj: 08\nk: nO\n"
    [document] = documents_of(text)
    assert document.value == golden


@pytest.mark.parametrize("value", [".inf", "-.Inf", ".nan"])
def test_numbers_that_json_does_not_have_are_refused_as_by_kubectl(value):
    assert [f"{each.path} {each.expected}" for each in documents_of(f"a: {value}\n")[0].problems] == [
        "a a plain value"
    ]


def test_y_is_no_text_for_the_api_server():
    (error,) = told(QUEUE.replace("metadata:", "metadata: {name: a, labels: {debug: y}}\nnone:", 1))
    assert "metadata.labels.debug: found True, expected" in error


def test_an_unknown_field_is_a_warning():
    text = JOB.replace("  queue: team\n", "  minAvailble: 2\n")
    assert told(text) == []
    assert [("minAvailble" in one) for one in told(text, "warning")] == [True]


def test_a_misspelt_name_of_ours_is_a_warning_and_one_that_only_muster_writes_where_it_is_passed_over_too():
    assert told(JOB.replace("name: train", "labels: {muster.dev/queue: a}\n  name: train"), "warning")
    assert told(JOB.replace("name: train", 'labels: {muster.dev/released: "true"}\n  name: train'), "warning")


def test_of_a_kind_that_is_not_known_the_pods_of_a_template_wait_that_names_a_queue():
    text = (
        "apiVersion: agents.x-k8s.io/v1alpha1\nkind: Sandbox\nmetadata: {name: a}\n"
        "spec: {podTemplate: {metadata: {labels: {%s: team}}, spec: {containers: []}}}\n"
    )
    (waits,) = told(text % "muster.dev/queue-name", "note")
    assert "spec.podTemplate.metadata: found agents.x-k8s.io/v1alpha1 Sandbox with a template whose" in waits
    (passed_over,) = told(text % "app", "note")
    assert "passed over" in passed_over


def templated(annotation):
    metadata = f'template:\n      metadata: {{annotations: {{muster.dev/{annotation}: "1"}}}}'
    return JOB.replace("template:", metadata)


@pytest.mark.parametrize("name", ["admission-id", "seat", "devices", "recreated-from", "user"])
def test_what_only_muster_writes_is_an_error_on_a_pod_template_too(name):
    (finding,) = told(templated(name))
    assert f"spec.tasks[0].template.metadata.annotations[muster.dev/{name}]" in finding


@pytest.mark.parametrize("name", ["partitions", "together", "balanced", "required-topology", "run-time"])
def test_what_users_write_on_pod_templates_is_known(name):
    assert [one for one in told(templated(name), "warning") if "misspelt" in one] == []
    assert [one for one in told(templated(name[:-1]), "warning") if "misspelt" in one]


def test_queues_in_other_files_of_the_call_are_known():
    together = check_documents([("job.yaml", JOB), ("queue.yaml", QUEUE)])
    assert together == []
    alone = check_documents([("job.yaml", JOB), ("queue.yaml", QUEUE.replace("team", "other"))])
    assert [(one.severity, one.path) for one in alone] == [("warning", "spec.queue")]
    inner = QUEUE + "---\n" + QUEUE.replace("team", "child").replace("{}", "{parent: team}")
    assert [one.path for one in check_documents([("job.yaml", JOB), ("queue.yaml", inner)])] == ["spec.queue"]


def test_nothing_is_said_about_queues_that_may_be_in_the_cluster():
    assert check_text(JOB, "file.yaml") == []


def test_circular_parents_are_found_across_files():
    a = QUEUE.replace("{}", "{parent: b}").replace("team", "a")
    b = QUEUE.replace("{}", "{parent: a}").replace("team", "b")
    found = check_documents([("a.yaml", a), ("b.yaml", b)])
    assert [(one.file, one.path) for one in found] == [("a.yaml", "spec.parent"), ("b.yaml", "spec.parent")]


def hypernode(name, *inner):
    members = [{"type": "HyperNode", "selector": {"exactMatch": {"name": each}}} for each in inner]
    head = f"apiVersion: topology.volcano.sh/v1alpha1\nkind: HyperNode\nmetadata: {{name: {name}}}\n"
    return f"{head}spec:\n  tier: 1\n  members: {json.dumps(members)}\n"


def test_hypernodes_inside_one_another_are_an_error_wherever_they_are_written(golden: Any):
    files = [
        ("a.yaml", hypernode("top", "a") + "---\n" + hypernode("a", "leaf", "b")),
        ("b.yaml", hypernode("c", "a") + "---\n" + hypernode("b", "c")),
    ]

    assert [str(one) for one in check_documents(files)] == golden
    assert check_documents(files[:1]) == []


def test_the_namespaces_queue_stands_in_for_default():
    namespace = (
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: n, annotations: {muster.dev/queue-name: inner}}\n"
    )
    queues = (
        QUEUE.replace("team", "inner")
        + "---\n"
        + QUEUE.replace("team", "leaf").replace("{}", "{parent: inner}")
    )
    job = JOB.replace("  queue: team\n", "").replace("name: train", "name: train\n  namespace: n")
    assert told("---\n".join([namespace, queues, job])) != []
    assert told("---\n".join([namespace, queues, job.replace("namespace: n", "namespace: m")])) == []


def test_the_same_object_twice_is_a_warning():
    assert len(told(QUEUE + "---\n" + QUEUE, "warning")) == 1


def test_objects_that_the_api_server_names_are_all_different():
    nameless = JOB.replace("name: train", "generateName: train-")
    assert check_text("---\n".join([QUEUE, *[nameless] * 20]), "f.yaml") == []


def test_an_object_that_the_api_server_cannot_store_is_told():
    large = json.loads(json.dumps(yaml.safe_load(JOB)))
    large["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["args"] = ["x" * 300_000]
    assert "--server-side" in told(yaml.safe_dump(large), "warning")[0]
    large["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["args"] = ["x" * 1_600_000]
    assert "bytes" in told(yaml.safe_dump(large))[0]


# --- any text at all

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["", "0", "-1", "1e999999999", "0.5", "x", "*", "default", "a b", "\t", "é", "1Gi"])
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def deep_places(value, at=()):
    yield at
    if isinstance(value, dict):
        for key, one in value.items():
            yield from deep_places(one, (*at, key))
    if isinstance(value, list):
        for index, one in enumerate(value):
            yield from deep_places(one, (*at, index))


DOCUMENTS = [document.value for text in EXAMPLES for document in documents_of(text)]
PLACES = [(index, at) for index, document in enumerate(DOCUMENTS) for at in deep_places(document) if at]


def planted(document, at, value):
    if not at:
        return value
    copy = dict(document) if isinstance(document, dict) else list(document)
    copy[at[0]] = planted(document[at[0]], at[1:], value)
    return copy


@in_worlds(300)
@given(place=st.sampled_from(PLACES), value=VALUES)
def test_any_value_in_any_place_gets_an_answer(place, value):
    index, at = place
    document = planted(DOCUMENTS[index], at, value)
    for one in check_text(json.dumps(document), "file.yaml"):
        assert str(one)
        assert one.line >= 1


@in_worlds(200)
@given(text=st.text() | st.text(alphabet="-:[]{}&*!|>'\"%@`#,? \n\tab01"))
def test_any_text_gets_an_answer(text):
    for one in check_text(text, "file.yaml"):
        assert str(one)


@in_worlds(100)
@given(example=st.sampled_from(EXAMPLES), data=st.data())
def test_any_cut_out_of_a_real_file_gets_an_answer(example, data):
    start = data.draw(st.integers(0, len(example)))
    end = data.draw(st.integers(start, len(example)))
    for one in check_text(example[:start] + example[end:], "file.yaml"):
        assert str(one)


NAMESPACE = """apiVersion: v1
kind: Namespace
metadata: {name: ours, labels: {team: b}}
"""


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        (
            "apiVersion: muster.dev/v1alpha1\nkind: ResourceFlavor\nmetadata: {name: big}\nspec: {}\n",
            "spec.nodeLabels: found nothing, expected labels",
        ),
        (
            "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j, labels: {kueue.x-k8s.io/queue-name: team}}\n"
            "spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}\n",
            "found a name that Muster does not read (the LocalQueue of the work), expected muster.dev/queue-name",
        ),
        (
            JOB.replace("  queue: team\n", "  queue: team\n  priorityClassName: hihg\n")
            + "---\napiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 5\n",
            "found 'hihg', expected the name of a PriorityClass: it is not among these documents. Did you mean high?",
        ),
    ],
)
def test_what_would_have_no_effect_or_never_run_is_worth_a_warning(text, warning):
    assert [one for one in told(text, "warning") if warning in one] != []


def test_a_job_for_a_queue_that_its_namespace_may_not_use_is_an_error_as_the_webhook_refuses_it():
    queue = QUEUE.replace("spec: {}", "spec: {access: {namespaceSelector: {matchLabels: {team: a}}}}")
    job = JOB.replace("metadata:\n  name: train", "metadata: {name: train, namespace: ours}", 1)
    expected = "metadata.namespace: found ours, which has team=b, expected a namespace with team=a"
    assert expected in " ".join(told(f"{queue}---\n{NAMESPACE}---\n{job}"))


@pytest.mark.parametrize("name", ["high", "system-node-critical"])
def test_a_priority_class_that_is_known_is_no_finding(name):
    classes = "---\napiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 5\n"
    text = JOB.replace("  queue: team\n", f"  queue: team\n  priorityClassName: {name}\n")
    assert not any("priorityClassName" in one for one in told(text + classes, "warning"))
    assert not any("priorityClassName" in one for one in told(text, "warning")), "the cluster may have it"


@pytest.mark.parametrize(("declared", "severity"), [("73h", "error"), ("72h", "")])
def test_work_that_declares_to_run_longer_than_its_queue_allows_is_an_error(declared, severity):
    text = f"""
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {{name: team}}
spec: {{access: {{maxRunTime: 72h}}}}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {{name: train, annotations: {{muster.dev/run-time: {declared}}}}}
spec: {{minMember: 1, queue: team}}
"""
    found = [each for each in check_text(text, "team.yaml") if "run-time" in each.path]
    assert [each.severity for each in found] == ([severity] if severity else [])
