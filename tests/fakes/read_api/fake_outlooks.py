"""What the fake leader expects of the workloads of the fake cluster."""

from admission.read_api.bodies import (
    ChangeBody,
    ExpectedLine,
    ExpectedList,
    ExpectedStartBody,
    OutlookBody,
    StandingBody,
    TakerBody,
)
from tests.fakes.read_api.fake_lists import GPU, NOW

OUTLOOK = OutlookBody(
    now=NOW,
    kind="job",
    namespace="ml",
    name="tune-3",
    uid="tune-3-uid",
    position=2,
    queue_length=2,
    ahead=("vcjob/llama-uid",),
    behind="1 before it in queue train, right before it vcjob/ml/llama-pretrain",
    changes=(
        ChangeBody(
            kind="end",
            message="rack r12 when job/ml/bert ends, at most 40m",
            facts={"admissions": [7], "domain": "rack r12", "seconds": 2400},
        ),
        ChangeBody(
            kind="capability",
            message=f"8 {GPU} more capability in team-a",
            facts={"more": [{"queue": "team-a", "resource": GPU, "units": "8"}]},
        ),
    ),
    expected=ExpectedStartBody(
        computed=NOW,
        earliest="2026-11-21T10:10:00Z",
        latest="2026-11-21T10:40:00Z",
        basis="user and shape",
        runs=214,
    ),
)
#: What the leader expects of those who wait: nothing is known of sweep.
EXPECTED = ExpectedList(
    computed=NOW,
    items=(
        ExpectedLine(
            kind="job",
            namespace="ml",
            uid="tune-3-uid",
            computed=NOW,
            earliest="2026-11-21T10:10:00Z",
            latest="2026-11-21T10:40:00Z",
            basis="user and shape",
            run_time=5400,
            runs=214,
        ),
        ExpectedLine(
            kind="vcjob",
            namespace="ml",
            uid="llama-pretrain-uid",
            computed=NOW,
            earliest="2026-11-21T16:05:00Z",
            latest=None,
            basis="queue and shape",
            runs=214,
        ),
    ),
)


#: Of a workload that runs.
RUNS = OutlookBody(
    now=NOW,
    kind="vcjob",
    namespace="ml",
    name="bert",
    uid="bert-uid",
    position=None,
    queue_length=None,
    ahead=(),
    behind="",
    changes=(),
    standing=StandingBody(
        message=f"On lent quota: queue dev uses 33 {GPU} and deserves 16",
        protected_until="2026-11-21T10:10:00Z",
        takers=(
            TakerBody(
                rule="Preempted",
                queue="dev",
                from_="2026-11-21T10:10:00Z",
                message="a workload of its own queue dev with a priority above 10 (none waits now)",
                facts={"priority": 10, "waiting": 0},
            ),
            TakerBody(
                rule="Reclaimed",
                queue="train",
                from_="2026-11-21T12:00:00Z",
                message=f"queue train may take back up to 8 {GPU} that it deserves and does not use",
                facts={"resource": GPU, "flavor": "", "units": "8", "above": "dev"},
            ),
        ),
        nobody="",
    ),
)
