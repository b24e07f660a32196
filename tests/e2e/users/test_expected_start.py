"""When a waiting gang should start, as a member of a team is told."""

from datetime import datetime

from queues.text_format import rfc3339
from tests.e2e.support.manifests import bare_pod, volcano_job
from tests.e2e.support.people import Person
from tests.e2e.support.sandbox import GPU, Sandbox


def test_a_user_is_told_when_a_waiting_gang_should_start(sandbox: Sandbox) -> None:
    """The gang before it has said that it runs for two hours; before twenty runs have ended no time is shown."""
    sandbox.add_nodes(1)
    sandbox.add_queue(deserved={GPU: 8})
    alice = Person(sandbox, "alice", edits=(sandbox.name,))
    ended = [f"ended-{number}" for number in range(20)]
    sandbox.add(*(bare_pod(sandbox, name, gpus=0) for name in ended))
    sandbox.wait_running("ended-", len(ended))
    for name in ended:
        sandbox.delete("Pod", name, now=True)
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

    sandbox.wait(lambda: waiting().get("notYet") is False, "a forecast that is shown")
    expected = waiting()
    now = datetime.fromisoformat(alice.json("pending", "-n", sandbox.name)["now"])
    earliest, latest = (datetime.fromisoformat(str(expected[end])) for end in ("earliest", "latest"))
    # Two hours, and as much before and after as forecasts of which nothing is known yet may miss.
    assert 0.25 * 3600 < (earliest - now).total_seconds() < 2 * 3600 < (latest - now).total_seconds()
    assert (latest - now).total_seconds() < 8 * 3600
    table = alice.does("pending", "-n", sandbox.name)
    assert "EXPECTED" in table.splitlines()[0]
    assert " in " in table.splitlines()[1]
    told = alice.does("explain", "waits", "-n", sandbox.name)
    assert "  Expected  start between " in told
    assert "Expected" not in alice.does("explain", "runs", "-n", sandbox.name)
    assert rfc3339(int(now.timestamp())) >= str(expected["computed"])
