"""Jobs that their owner suspends and resumes."""

from tests.e2e.support.manifests import batch_job
from tests.e2e.support.sandbox import GPU, Sandbox


def test_a_job_that_its_owner_suspends_gives_its_seats_back_until_it_is_resumed(
    sandbox: Sandbox,
) -> None:
    sandbox.add_nodes(2)
    sandbox.add_queue(capability={GPU: 16})
    sandbox.add(batch_job(sandbox, "train", 2, 8))
    sandbox.wait_running("train-", 2)
    alice = sandbox.somebody("alice")

    def suspend(value: str) -> None:
        change = f'{{"spec":{{"suspend":{value}}}}}'
        sandbox.stack.kubectl(
            "patch", "job/train", "-n", sandbox.name, "--type=merge", "-p", change, user=alice
        )

    suspend("true")
    sandbox.wait(lambda: sandbox.pods("train-") == [], "its pods to go")
    message = sandbox.wait_reason("train", "OnHold")
    assert "its owner has suspended it" in message
    sandbox.wait_free()
    sandbox.add(batch_job(sandbox, "other", 2, 8))
    sandbox.wait_running("other-", 2)

    suspend("false")
    sandbox.wait_reason("train", "QueueLimit")
    suspend("false")
    assert sandbox.get("batch/v1 Job", "train")["spec"]["suspend"] is True, "only Muster resumes it"
    sandbox.delete("batch/v1 Job", "other")
    sandbox.wait_running("train-", 2)
