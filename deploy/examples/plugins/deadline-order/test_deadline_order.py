"""What starts first."""

from deadline_order import Deadline

from queues.kind_names import JOB
from queues.plugins.interface import QueueRules
from queues.workload import QueueName, Workload, WorkloadKey

Q = QueueName("q")


def urgency(deadline: str | None = None, run_time: int | None = 3600, created: int = 0) -> int:
    hints = () if deadline is None else (("deadline", deadline),)
    workload = Workload(
        key=WorkloadKey(JOB, "u"),
        namespace="n",
        name="w",
        queue=Q,
        arrival=1,
        created=created,
        minimum=1,
        pod_sets=(),
        run_time=run_time,
        hints=hints,
    )
    return Deadline(QueueRules(queue=Q)).urgency(workload)


def test_it_is_the_latest_start() -> None:
    assert urgency("1970-01-02T00:00:00Z") == 86_400 - 3600
    assert urgency("1970-01-02T01:00:00+01:00") == 86_400 - 3600
    assert urgency("1970-01-02T00:00:00Z", run_time=None) == 0


def test_what_states_no_deadline_that_can_be_read_has_a_month() -> None:
    assert urgency(created=5) == urgency("soon", created=5) == 5 + 720 * 3600 - 3600
