"""When a waiting gang should start, as a member of a team is told."""

import re
from datetime import datetime

import pytest

from deploy.local.stack import Stack
from queues.text_format import rfc3339
from tests.e2e.support.manifests import batch_job, grouped, pod_group, volcano_job
from tests.e2e.support.sandbox import GPU, Sandbox
from tests.e2e.users.test_lists import Asking, member


def test_a_user_is_told_when_a_waiting_gang_should_start(sandbox: Sandbox, whole_stack: Stack) -> None:
    """The gang before it has said that it runs for two hours."""
    sandbox.add_nodes(1)
    sandbox.add_queue(deserved={GPU: 8})
    alice = Asking(whole_stack, member(sandbox, "alice", sandbox.name))
    runs = volcano_job(sandbox, "runs", 2, 4)
    runs["metadata"].setdefault("annotations", {})["muster.dev/run-time"] = "2h"
    sandbox.add(runs)
    sandbox.wait_running("runs-", 2)
    sandbox.add(volcano_job(sandbox, "waits", 1, 8))
    sandbox.wait_reason("waits", "NoFit")

    def waiting() -> dict[str, object]:
        (one,) = alice.json("pending", "-n", sandbox.name)["items"]
        assert one["name"] == "waits"
        return one["expected"] or {}

    sandbox.wait(lambda: bool(waiting()), "the forecast")
    expected = waiting()
    now = datetime.fromisoformat(alice.json("pending", "-n", sandbox.name)["now"])
    earliest, latest = (datetime.fromisoformat(str(expected[end])) for end in ("earliest", "latest"))
    # Two hours, and as much before and after as forecasts of which nothing is known yet may miss.
    assert 0.25 * 3600 < (earliest - now).total_seconds() < 2 * 3600 < (latest - now).total_seconds()
    assert (latest - now).total_seconds() < 8 * 3600
    table = alice.text("pending", "-n", sandbox.name)
    assert "EXPECTED" in table.splitlines()[0]
    assert " in " in table.splitlines()[1]
    told = alice.text("explain", "waits", "-n", sandbox.name)
    assert "  Expected  start between " in told
    assert "Expected" not in alice.text("explain", "runs", "-n", sandbox.name)
    assert rfc3339(int(now.timestamp())) >= str(expected["computed"])


@pytest.mark.long
def test_the_objects_of_a_user_say_when_they_should_start_until_they_are_admitted(
    sandbox: Sandbox, whole_stack: Stack
) -> None:
    """As the user reads it: of a Volcano Job, a Job and a PodGroup, each of which waits for the same gang to end."""
    sandbox.add_nodes(1)
    sandbox.add_queue(deserved={GPU: 8})
    runs = volcano_job(sandbox, "runs", 2, 4)
    runs["metadata"].setdefault("annotations", {})["muster.dev/run-time"] = "2h"
    sandbox.add(runs)
    sandbox.wait_running("runs-", 2)
    sandbox.add(volcano_job(sandbox, "volcano", 1, 2), batch_job(sandbox, "plain", 1, 2))
    sandbox.add(pod_group(sandbox, "group", 1), grouped(sandbox, "group", "group-0", 2))
    kubeconfig = member(sandbox, "alice", sandbox.name)

    def told(*words: str) -> str:
        """What ``kubectl describe`` says of it, as its user reads it."""
        said = whole_stack.kubectl("describe", *words, "-n", sandbox.name, user=kubeconfig).stdout
        return str(said.replace("\n", " "))

    objects = (("vcjob", "volcano"), ("job", "plain"), ("podgroup", "group"))
    words = re.compile(r"expected to start between +(\S+Z) and +(\S+Z) +\(4 of 5 times\), as of +(\S+Z)")
    for each in objects:
        sandbox.wait(lambda of=each: words.search(told(*of)) is not None, f"{each} to say it")
    before = [words.findall(told(*each)) for each in objects]
    assert [len(each) for each in before] == [1, 1, 1]
    # Another forecast of the same: nothing is written for it.
    asking = Asking(whole_stack, kubeconfig)
    first = forecast_of(asking, sandbox.name)
    sandbox.wait(lambda: forecast_of(asking, sandbox.name) > first, "the next forecast")
    assert [words.findall(told(*each)) for each in objects] == before

    images = "SELECT name, image FROM workloads WHERE namespace = $1 AND name <> 'runs' ORDER BY name"
    stored = sandbox.ledger.ask(images, sandbox.name)
    assert stored == [("group", "train"), ("plain", "train"), ("volcano", "train")]

    sandbox.delete("Job", "runs")
    for each in (objects[0], objects[2]):
        sandbox.wait(lambda of=each: "expected to start" not in told(*of), f"{each} to be admitted")
    sandbox.wait(lambda: " Admitted " in told("job", "plain"), "the Job to be admitted")


def forecast_of(asking: Asking, namespace: str) -> str:
    """When the forecast was made that a user is told."""
    items = asking.json("pending", "-n", namespace)["items"]
    return max(str((one["expected"] or {}).get("computed", "")) for one in items)


def test_a_user_without_rights_is_told_nothing_of_it(sandbox: Sandbox, whole_stack: Stack) -> None:
    sandbox.add_nodes(1)
    sandbox.add_queue(deserved={GPU: 8})
    stranger = Asking(whole_stack, whole_stack.cluster.kubeconfig_for("stranger"))
    sandbox.add(volcano_job(sandbox, "too-large", 1, 16))
    sandbox.wait_reason("too-large", "NeverFits")

    assert "may not list jobs, podgroups or pods" in stranger.complaint("pending", "-n", sandbox.name)
