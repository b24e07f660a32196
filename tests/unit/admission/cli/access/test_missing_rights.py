"""What RBAC refuses is one sentence: the right that is missing, and whom to ask for it."""

import pytest

from admission.cli.access.missing_rights import missing_right


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        (
            'nodes is forbidden: User "ann" cannot list resource "nodes" in API group "" at the cluster scope',
            "you (ann) may not list nodes; ask a cluster administrator for that right, which the ClusterRole "
            "muster-queue-admin has",
        ),
        (
            'queues.scheduling.volcano.sh "a" is forbidden: User "ann" cannot get resource "queues" in API group '
            '"scheduling.volcano.sh" at the cluster scope: RBAC: clusterrole "x" not found',
            "you (ann) may not get queues.scheduling.volcano.sh; ask a cluster administrator for that right, "
            "which the ClusterRole muster-queue-viewer has",
        ),
        (
            'jobs.batch.volcano.sh is forbidden: User "ann" cannot create resource "jobs" in API group '
            '"batch.volcano.sh" in the namespace "ml"',
            "you (ann) may not create jobs.batch.volcano.sh in namespace ml; ask an administrator of namespace ml "
            "for that right, which the ClusterRole edit has",
        ),
        (
            'pending.read.muster.dev is forbidden: User "ann" cannot list resource "pending" in API group '
            '"read.muster.dev" at the cluster scope',
            "you (ann) may not list pending.read.muster.dev; ask a cluster administrator for that right, which the "
            "ClusterRole muster-reader has",
        ),
        (
            'secrets is forbidden: User "ann" cannot list resource "secrets" in API group "" at the cluster scope',
            "you (ann) may not list secrets; ask a cluster administrator for that right",
        ),
    ],
)
def test_a_refusal_says_which_right_is_missing_and_whom_to_ask(message: str, sentence: str) -> None:
    lacks = missing_right(message)
    assert lacks is not None
    assert lacks.sentence == sentence


def test_what_policies_refuse_is_no_missing_right() -> None:
    denied = (
        "jobs.batch \"a\" is forbidden: ValidatingAdmissionPolicy 'muster-guard-jobs' denied request: wait"
    )
    assert missing_right(denied) is None
