"""What is read of a pod's document, and that no document of a tenant breaks the agent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.agent.pod_info import PodInfo, device_numbers, pod_info
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


def test_a_pod_that_muster_admitted_has_its_queue_gang_user_admission_and_devices():
    pod = pod_info(
        document(
            labels={names.QUEUE_LABEL: "research"},
            annotations={
                names.GROUP_ANNOTATION: "train",
                names.USER: "ada",
                names.ADMISSION_ID: "42",
                names.DEVICES: "3,0",
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
        admission=42,
        devices=(0, 3),
        kubelet_uid=UID,
    )


def test_a_pod_of_nobody_has_no_names_and_no_devices():
    pod = pod_info(document())
    assert pod == PodInfo(uid=UID, namespace="team-a", name="train-0", kubelet_uid=UID)
    assert (pod.admission, pod.devices, pod.ended, pod.has_claims) == (None, None, False, False)


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


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ("0", (0,)),
        ("1,0,1", (0, 1)),
        ("", None),
        (" 0", None),
        ("0,", None),
        ("-1", None),
        ("٣", None),
        ("12345", None),
        (0, None),
        (None, None),
        ("0\n", None),
        (",".join(["1"] * 600), None),
    ],
)
def test_numbers_of_devices_are_read_exactly_or_not_at_all(found, expected):
    assert device_numbers(found) == expected


@pytest.mark.parametrize("value", ["", "x", "-1", "1.5", "9" * 19, 7, None])
def test_an_admission_that_is_no_number_counts_as_none(value):
    pod = pod_info(document(annotations={names.ADMISSION_ID: value}))
    assert pod is not None
    assert pod.admission is None


@pytest.mark.parametrize("missing", ["uid", "namespace", "name"])
def test_what_has_no_name_or_uid_is_no_pod(missing):
    assert pod_info(document(**{missing: ""})) is None
    assert pod_info(document(**{missing: None})) is None


@pytest.mark.parametrize("found", [None, [], "pod", 3, {}, {"metadata": []}, {"metadata": {"uid": 1}}])
def test_what_is_no_pod_document_gives_none(found):
    assert pod_info(found) is None


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


def test_a_pod_that_has_ended_or_has_claims_says_so():
    ended = pod_info(document(status={"phase": "Failed"}))
    claims = pod_info(document(spec={"resourceClaims": [{"name": "gpu"}]}))
    assert ended is not None
    assert claims is not None
    assert (ended.ended, claims.has_claims) == (True, True)


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


@given(JSON)
def test_any_document_gives_a_pod_or_none(found):
    assert pod_info(found) is None or isinstance(pod_info(found), PodInfo)
