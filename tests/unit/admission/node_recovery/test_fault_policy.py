"""What the Queue root says becomes the policy for nodes with faults."""

from admission.agent.health.assessment import DAMPING
from admission.agent.health.problems import QUIET
from admission.node_recovery.fault_policy import fault_policy
from admission.node_recovery.policy import BlackHoleRule, FaultPolicy
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
        "maxPercentOut": 5,
        "drainTimeout": "2h",
        "jobTimeout": "20m",
        "verifyTimeout": "90s",
        "attempts": 2,
        "attemptsWithin": "12h",
        "blackHoleGangs": 5,
    }
    assert _policy(onFault="recover", recovery=recovery) == FaultPolicy(
        recovers=True,
        recovery_job="ops/reset",
        verify_job="ops/test",
        max_nodes_out=4,
        max_percent_out=5,
        drain_timeout=7200,
        job_timeout=1200,
        verify_timeout=90,
        attempts=2,
        attempts_within=43_200,
        black_hole=BlackHoleRule(gangs=5),
    )


def test_a_device_that_is_well_after_its_job_is_called_healthy_before_the_attempt_has_failed() -> None:
    # XIDs that no reading ends are over after the quiet time, and a device that was flapping after the damping then.
    assert FaultPolicy().verify_timeout >= QUIET + DAMPING + 300


def test_pods_that_fail_are_not_looked_at_where_no_number_of_gangs_counts() -> None:
    assert _policy(recovery={"blackHoleGangs": 0}).black_hole is None
