"""What runs is what was admitted, whatever users change or forge in between."""

from tests.e2e.support.api_paths import path
from tests.e2e.support.gang_kinds import finish_all
from tests.e2e.support.manifests import batch_job, volcano_job
from tests.e2e.support.sandbox import GPU, Sandbox


def test_gangs_that_a_resource_quota_has_room_for_one_by_one_run_one_by_one(sandbox: Sandbox) -> None:
    quotas = f"/api/v1/namespaces/{sandbox.name}/resourcequotas"
    sandbox.api.create(quotas, {"metadata": {"name": "team"}, "spec": {"hard": {"pods": "6"}}})
    sandbox.wait(lambda: "hard" in sandbox.api.get(f"{quotas}/team").get("status", {}), "the quota to hold")
    sandbox.add_nodes(2)
    sandbox.add_queue()
    sandbox.add(batch_job(sandbox, "first", 4), volcano_job(sandbox, "second", 4))
    (first,) = {pod["metadata"]["name"].partition("-")[0] for pod in sandbox.wait_running("", 4)}
    (second,) = {"first", "second"} - {first}
    said = sandbox.wait_reason(second, "NamespaceQuota")
    assert said.startswith(f"ResourceQuota team of namespace {sandbox.name}: found room for ")
    assert "expected 4 for the pods that have to start together" in said
    assert sandbox.ledger.admissions(sandbox.name, second) == []
    finish_all(sandbox, f"{first}-")
    sandbox.wait_running(f"{second}-", 4)
    for name in ("first", "second"):
        assert "evict" not in [kind for kind, _, _ in sandbox.ledger.decisions(sandbox.name, name)]


def test_a_job_that_is_suspended_while_it_runs_never_has_two_pods_for_one_seat(sandbox: Sandbox) -> None:
    """Its owner resumes it at once, while its pods still end; those of a Job with its nodes come up without a gate."""
    sandbox.add_nodes(1)
    sandbox.add_queue(capability={GPU: 4})
    sandbox.add(batch_job(sandbox, "train", 2, 2, annotations={"kwok.muster.dev/stop-after": "2s"}))
    before = {pod["metadata"]["uid"] for pod in sandbox.wait_running("train-", 2)}
    with sandbox.as_user("alice") as alice:
        for suspend in (True, False):
            alice.merge(path("batch/v1 Job", sandbox.name, "train"), {"spec": {"suspend": suspend}})

    def others_run() -> bool:
        running = {pod["metadata"]["uid"] for pod in sandbox.running("train-")}
        return len(running - before) == 2

    sandbox.wait(others_run, "other pods to take the places")
    there: set[str] = set()
    for moment in sandbox.history.of(sandbox.name, "train-"):
        (there.discard if moment.kind == "DELETED" else there.add)(moment.name)
        assert len(there) <= 2, "two pods for one seat"
