"""What the Queue root says becomes the policy for nodes with faults."""

from admission.agent.health.assessment import DAMPING
from admission.agent.health.problems import QUIET
from admission.node_recovery.policy import BlackHoleRule, FaultPolicy, fault_policy
from admission.node_recovery.step import SETTLE_TIMEOUT
from queues.api.types.queue import QueueDocument


def _policy(**health: object) -> FaultPolicy:
    document = {"metadata": {"name": "root"}, "spec": {"policy": {"health": health}}}
    return fault_policy(QueueDocument.model_validate(document).to_domain())


def test_without_a_word_of_the_administrator_the_defaults_count() -> None:
    assert fault_policy(None) == _policy() == _policy(onFault="evict") == FaultPolicy()


def test_every_field_of_the_recovery_reaches_the_policy() -> None:
    recovery = {
        "job": "ops/reset",
        "verifyJob": "ops/test",
        "maxNodesOut": 4,
        "drainTimeout": "2h",
        "blackHoleGangs": 5,
    }
    assert _policy(onFault="recover", recovery=recovery) == FaultPolicy(
        recovers=True,
        job="ops/reset",
        verify_job="ops/test",
        max_nodes_out=4,
        drain_timeout=7200,
        black_hole=BlackHoleRule(gangs=5),
    )


def test_a_device_that_is_well_after_its_job_is_called_healthy_before_the_attempt_has_failed() -> None:
    # XIDs that no reading ends are over after the quiet time, and a device that was flapping after the damping then.
    assert SETTLE_TIMEOUT >= QUIET + DAMPING + 300


def test_pods_that_fail_are_not_looked_at_where_no_number_of_gangs_counts() -> None:
    assert _policy(recovery={"blackHoleGangs": 0}).black_hole is None


def test_a_tenth_of_the_nodes_and_one_at_least_may_be_closed_unless_a_number_is_said() -> None:
    assert [FaultPolicy().most_out(nodes) for nodes in (1, 9, 19, 20, 400)] == [1, 1, 1, 2, 40]
    assert [FaultPolicy(max_nodes_out=most).most_out(400) for most in (0, 3)] == [0, 3]
