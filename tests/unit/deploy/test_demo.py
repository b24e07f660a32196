"""What the demo says, and that it fails with a sentence when a step has no result."""

from types import SimpleNamespace
from typing import Any

import pytest

from deploy.demo import examples, steps
from deploy.demo.examples import GANG, SMALL, WORKLOADS, ExampleWorkload
from deploy.demo.steps import WIDTH, DemoSteps, StepFailed


def test_every_role_has_its_documents_among_the_examples() -> None:
    for workload in WORKLOADS:
        assert [document["metadata"]["name"] for document in examples.documents(workload)] == [workload.name]
    assert len(examples.documents(examples.GROUP, file="podgroup-pods")) == examples.GROUP.pods


def test_pods_are_told_apart_by_their_workload() -> None:
    def owns(workload: ExampleWorkload, name: str) -> bool:
        return workload.owns({"namespace": workload.namespace, "name": name})

    assert owns(GANG, f"{GANG.name}-worker-0")
    assert owns(SMALL, SMALL.name)
    assert not owns(SMALL, f"{SMALL.name}-2")
    assert not GANG.owns({"namespace": "other", "name": f"{GANG.name}-worker-0"})


def demo(**answers: Any) -> DemoSteps:
    """Steps over a read API that answers so."""
    api: Any = SimpleNamespace(get=lambda path: {"items": answers[path.rpartition("/")[2]]})
    stack: Any = SimpleNamespace(replicas=[SimpleNamespace(process=SimpleNamespace(running=True), log=LOG)])
    return DemoSteps(stack=stack, api=api)


LOG: Any = SimpleNamespace(read_text=lambda errors: "the log")


def test_the_reason_of_what_waits_is_said_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    reason = {"code": "QueueLimit", "message": "6 too many " * 20}
    item = {"kind": GANG.kind, "namespace": GANG.namespace, "name": GANG.name, "reason": reason}
    demo(pending=[item]).waits(GANG, "6 too")
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"  ◌ {GANG.key} waits: QueueLimit: 6 too many")
    assert len(line) == WIDTH


def test_a_step_without_a_result_says_what_did_not_happen(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter(range(1000))
    clock = SimpleNamespace(monotonic=lambda: next(moments), sleep=lambda seconds: None)
    monkeypatch.setattr(steps, "time", clock)
    with pytest.raises(StepFailed, match=f"{GANG.key} to run[^$]*the log"):
        demo(pods=[]).runs(GANG)
