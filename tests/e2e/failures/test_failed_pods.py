"""Pods of a gang that fail or are deleted while it runs."""

from tests.e2e.support.gang_kinds import finish, finish_all
from tests.e2e.support.manifests import batch_job, volcano_job
from tests.e2e.support.sandbox import GPU, Yard


def test_a_pod_of_a_job_that_fails_is_replaced_in_a_seat_of_its_gang(yard: Yard) -> None:
    """All at once: the Job controller waits ten seconds before it replaces a failed pod."""
    yard.add_nodes(5)
    yard.add_queue()
    names = ("directed", "podwise", "indexed")
    yard.add(batch_job(yard, "directed", 2, 8))
    yard.wait_running("directed-", 2)
    yard.add(batch_job(yard, "podwise", 3, 3), batch_job(yard, "indexed", 3, 3, completionMode="Indexed"))
    yard.wait_running("", 8)
    before = yard.held()
    failing = [yard.pods(f"{name}-")[0]["metadata"]["name"] for name in names]

    finish(yard, failing, exit_code=1)
    yard.wait(
        lambda: (
            len(running := {each["metadata"]["name"] for each in yard.running()}) == 8
            and not running & set(failing)
        ),
        "replacements to run",
    )
    assert yard.held() == before
    assert [len(yard.books.admissions(yard.name, name)) for name in names] == [1, 1, 1]
    for name in names:
        finish_all(yard, f"{name}-")
    for name in names:
        yard.wait(lambda name=name: yard.job_is(name, "Complete"), f"{name} to be Complete")
    yard.wait_free()


def test_a_failed_pod_of_a_volcano_job_without_policies_stays_failed(yard: Yard) -> None:
    yard.add_nodes(1)
    yard.add_queue()
    yard.add(volcano_job(yard, "train", 2, 4))
    yard.wait_running("train-", 2)

    finish(yard, ["train-worker-0"], exit_code=3)
    yard.wait(lambda: yard.held().get(f"queue {yard.name} {GPU}") == 4_000, "its seat to come back")
    finish(yard, ["train-worker-1"])
    yard.wait_phase("Job", "train", "Failed")
    yard.wait_free()
    assert {each["metadata"]["name"]: each["status"]["phase"] for each in yard.pods()} == {
        "train-worker-0": "Failed",
        "train-worker-1": "Succeeded",
    }


def test_a_deleted_pod_of_a_volcano_job_is_made_again_in_its_seat(yard: Yard) -> None:
    yard.add_nodes(2)
    yard.add_queue()
    yard.add(volcano_job(yard, "train", 2, 8))
    yard.wait_running("train-", 2)
    nodes, uid = yard.nodes_of("train-"), yard.get("Pod", "train-worker-1")["metadata"]["uid"]

    yard.delete("Pod", "train-worker-1")
    yard.wait(
        lambda: (
            len(yard.running("train-")) == 2 and yard.get("Pod", "train-worker-1")["metadata"]["uid"] != uid
        ),
        "the pod to be made again",
    )
    assert yard.nodes_of("train-") == nodes
    assert len(yard.books.admissions(yard.name, "train")) == 1
