"""Pods of a gang that fail while it runs."""

from tests.e2e.support.gang_kinds import finish, finish_all
from tests.e2e.support.manifests import batch_job
from tests.e2e.support.sandbox import Sandbox


def test_a_pod_of_a_job_that_fails_is_replaced_in_a_seat_of_its_gang(sandbox: Sandbox) -> None:
    """All at once: the Job controller waits ten seconds before it replaces a failed pod."""
    sandbox.add_nodes(5)
    sandbox.add_queue()
    names = ("directed", "podwise", "indexed")
    sandbox.add(batch_job(sandbox, "directed", 2, 8))
    sandbox.wait_running("directed-", 2)
    sandbox.add(
        batch_job(sandbox, "podwise", 3, 3), batch_job(sandbox, "indexed", 3, 3, completionMode="Indexed")
    )
    sandbox.wait_running("", 8)
    before = sandbox.held()
    failing = [sandbox.pods(f"{name}-")[0]["metadata"]["name"] for name in names]

    finish(sandbox, failing, exit_code=1)
    sandbox.wait(
        lambda: (
            len(running := {each["metadata"]["name"] for each in sandbox.running()}) == 8
            and not running & set(failing)
        ),
        "replacements to run",
    )
    assert sandbox.held() == before
    assert [len(sandbox.ledger.admissions(sandbox.name, name)) for name in names] == [1, 1, 1]
    for name in names:
        finish_all(sandbox, f"{name}-")
    for name in names:
        sandbox.wait(lambda name=name: sandbox.job_is(name, "Complete"), f"{name} to be Complete")
    sandbox.wait_free()
