"""Jobs that people make, stop and remove with kubectl muster."""

from tests.e2e.support.api_paths import path
from tests.e2e.support.gang_kinds import finish_all
from tests.e2e.support.manifests import batch_job
from tests.e2e.support.people import Person
from tests.e2e.support.sandbox import Sandbox


def add_cards(sandbox: Sandbox) -> None:
    """Four on each node. The nodes of other tests are no place for what asks for them."""
    cards = {"example.com/cards": "4"}
    for node in sandbox.nodes:
        status = {"status": {"allocatable": cards, "capacity": cards}}
        sandbox.api.merge(path("Node", "", node) + "/status", status)


def test_a_member_of_a_team_runs_suspends_resumes_and_cancels_a_job(sandbox: Sandbox) -> None:
    sandbox.add_nodes(1)
    queue = sandbox.add_queue()
    alice, here = Person(sandbox, "alice", edits=(sandbox.name,)), ("-n", sandbox.name)
    add_cards(sandbox)
    asked = ("-i", "train:1", "-r", "2", "-L", "example.com/cards=2,cpu=1", "-q", queue)
    made = alice.does("run", "train", *asked, *here)
    assert made.startswith("vcjob/train created; `kubectl muster explain train -n ")
    sandbox.wait_running("train-", 2)
    assert " running " in alice.does("jobs", "--state", "running", *here)

    assert alice.does("suspend", "train", *here) == "vcjob/train is being suspended\n"
    sandbox.wait_phase("Job", "train", "Aborted")

    def listed() -> str:
        return alice.does("jobs", "--state", "suspended", *here)

    sandbox.wait(lambda: " suspended " in listed(), "the Job to be listed as suspended")
    assert alice.does("resume", "train", *here) == "vcjob/train is being resumed\n"
    sandbox.wait_running("train-", 2)
    assert alice.does("cancel", "train", *here) == "vcjob/train is cancelled\n"
    sandbox.wait_free()

    again = alice.complaint("suspend", "train", *here)
    assert f"There is no workload train in namespace {sandbox.name}." in again
    forbidden = alice.complaint("queue", "close", queue)
    assert forbidden.startswith(f"Error: Reading queue {queue}: ")
    assert "you (alice) may not get queues.scheduling.volcano.sh" in forbidden


def test_an_array_starts_pod_by_pod_and_a_job_of_a_queue_of_arrays_too(sandbox: Sandbox) -> None:
    sandbox.add_nodes(1, gpus=4)
    add_cards(sandbox)
    queue = sandbox.add_queue(capability={"example.com/cards": 2}, policy={"jobs": "array"})
    alice, here = Person(sandbox, "alice", edits=(sandbox.name,)), ("-n", sandbox.name)
    asked = ("-i", "train:1", "--array", "4", "--at-a-time", "3", "-L", "example.com/cards=1", "--time", "2h")
    made = alice.does("run", "sweep", *asked, "-q", queue, *here)
    assert made.startswith("job/sweep created; ")
    first = sandbox.wait_running("sweep-", 2)
    sandbox.wait_reason("sweep", "QueueLimit")
    assert {pod["spec"]["activeDeadlineSeconds"] for pod in first} == {7200}
    finish_all(sandbox, "sweep-")
    sandbox.wait_running("sweep-", 2)
    finish_all(sandbox, "sweep-")
    sandbox.wait(lambda: sandbox.job_is("sweep", "Complete"), "the array to end")

    sandbox.add(batch_job(sandbox, "usual", 3, gpus=2))
    sandbox.wait_running("usual-", 2)
