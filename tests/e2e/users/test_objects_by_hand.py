"""Jobs that people make, stop and remove with kubectl muster."""

from tests.e2e.support.api_paths import path
from tests.e2e.support.people import Person
from tests.e2e.support.sandbox import Sandbox


def test_a_member_of_a_team_runs_suspends_resumes_and_cancels_a_job(sandbox: Sandbox) -> None:
    sandbox.add_nodes(1)
    queue = sandbox.add_queue()
    alice, here = Person(sandbox, "alice", edits=(sandbox.name,)), ("-n", sandbox.name)
    # The nodes of other tests are no place for it: it asks for what they do not have.
    for node in sandbox.nodes:
        status = {
            "status": {"allocatable": {"example.com/cards": "4"}, "capacity": {"example.com/cards": "4"}}
        }
        sandbox.api.merge(path("Node", "", node) + "/status", status)
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
