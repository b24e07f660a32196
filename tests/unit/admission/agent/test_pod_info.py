"""What is read of a pod's document, and that no document of a tenant breaks the agent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.agent.pod_info import PodInfo, pod_info
from queues.api import names
from tests.tables import with_rows

UID = "5f0c8a4e-0000-4000-8000-000000000001"
STATIC = "0123456789abcdef0123456789abcdef"


def document(*, labels=None, annotations=None, spec=None, status=None, **metadata):
    return {
        "metadata": {
            "uid": UID,
            "namespace": "team-a",
            "name": "train-0",
            "labels": labels,
            "annotations": annotations,
            **metadata,
        },
        "spec": spec,
        "status": status,
    }


def test_a_pod_that_muster_admitted_has_its_queue_gang_and_user():
    pod = pod_info(
        document(
            labels={names.QUEUE_LABEL: "research"},
            annotations={
                names.GROUP_ANNOTATION: "train",
                names.USER: "ada",
            },
            status={"phase": "Running"},
        )
    )
    assert pod == PodInfo(
        uid=UID,
        namespace="team-a",
        name="train-0",
        queue="research",
        group="train",
        user="ada",
        kubelet_uid=UID,
    )


def test_a_pod_of_nobody_has_no_names():
    pod = pod_info(document())
    assert pod == PodInfo(uid=UID, namespace="team-a", name="train-0", kubelet_uid=UID)


@pytest.mark.parametrize(
    ("labels", "annotations", "queue", "group"),
    [
        ({}, {names.QUEUE_ANNOTATION: "q"}, "q", ""),
        ({names.QUEUE_ANNOTATION: "q"}, {}, "q", ""),
        ({names.VOLCANO_QUEUE: "q"}, {names.VOLCANO_QUEUE: "r"}, "r", ""),
        ({names.QUEUE_LABEL: "a"}, {names.QUEUE_ANNOTATION: "b"}, "a", ""),
        ({}, {names.GROUP_ANNOTATION_VOLCANO: "g", names.JOB_NAME: "j"}, "", "g"),
        ({names.JOB_NAME: "j"}, {}, "", "j"),
        ({"batch.kubernetes.io/job-name": "sweep"}, {}, "", "sweep"),
        ({names.QUEUE_LABEL: "q" * 254}, {}, "", ""),
    ],
)
def test_names_are_taken_from_where_the_field_writes_them(labels, annotations, queue, group):
    pod = pod_info(document(labels=labels, annotations=annotations))
    assert pod is not None
    assert (pod.queue, pod.group) == (queue, group)


@pytest.mark.parametrize("missing", ["uid", "namespace", "name"])
def test_what_has_no_name_or_uid_is_no_pod(missing):
    assert pod_info(document(**{missing: ""})) is None
    assert pod_info(document(**{missing: None})) is None


def test_a_static_pod_is_known_to_the_kubelet_by_the_hash_of_its_manifest():
    annotations = {"kubernetes.io/config.mirror": STATIC, "kubernetes.io/config.hash": STATIC}
    pod = pod_info(document(annotations=annotations, ownerReferences=[{"kind": "Node", "name": "n1"}]))
    assert pod is not None
    assert (pod.uid, pod.kubelet_uid) == (UID, STATIC)


@with_rows("annotations", "owners")
def test_a_pod_cannot_take_the_uid_of_another_one_by_annotations(annotations, owners):
    pod = pod_info(document(annotations=annotations, ownerReferences=owners))
    assert pod is not None
    assert pod.kubelet_uid == UID


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)


@given(
    st.fixed_dictionaries(
        {
            "metadata": st.fixed_dictionaries(
                {"uid": st.just(UID), "namespace": st.just("n"), "name": st.just("p")},
                optional={
                    "labels": JSON | st.dictionaries(st.sampled_from([names.QUEUE_LABEL]), JSON),
                    "annotations": JSON
                    | st.dictionaries(
                        st.sampled_from(
                            [names.DEVICES, names.ADMISSION_ID, names.USER, "kubernetes.io/config.hash"]
                        ),
                        JSON,
                    ),
                    "ownerReferences": JSON,
                },
            )
        },
        optional={"spec": JSON, "status": JSON},
    )
)
def test_any_document_of_a_named_pod_gives_a_pod(found):
    pod = pod_info(found)
    assert isinstance(pod, PodInfo)
    assert pod.kubelet_uid == UID


@given(JSON | st.builds(lambda found: {"metadata": found}, JSON))
def test_any_other_document_gives_none(found):
    assert pod_info(found) is None
