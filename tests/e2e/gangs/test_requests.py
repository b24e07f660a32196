"""How often Muster writes to the API server for one gang over its life."""

from collections import Counter
from collections.abc import Callable

import pytest

from deploy.local.stack import USERNAME, Stack
from tests.cluster_faults import audited_requests
from tests.e2e.support.api_paths import Document
from tests.e2e.support.gang_kinds import finish_all
from tests.e2e.support.manifests import batch_job, volcano_job
from tests.e2e.support.sandbox import Sandbox


def written(stack: Stack, sandbox: Sandbox, name: str) -> Counter[str]:
    """Writes of Muster by verb and resource, of objects whose name begins so; events count by the namespace."""
    return Counter(
        f"{request.verb} {request.resource}"
        for request in audited_requests(stack.cluster)
        if request.user == USERNAME
        and request.namespace == sandbox.name
        and request.verb not in ("get", "list", "watch")
        and (request.name.startswith(name) or not request.name)
    )


@pytest.mark.parametrize("make", [volcano_job, batch_job])
def test_a_gang_that_starts_at_once_and_one_that_waits_cost_few_writes(
    whole_stack: Stack, sandbox: Sandbox, make: Callable[..., Document]
) -> None:
    sandbox.add_nodes(1)
    sandbox.add_queue()
    sandbox.add(make(sandbox, "first", 2, 4))
    sandbox.wait_running("first-", 2)
    sandbox.add(make(sandbox, "second", 2, 4))
    sandbox.wait(lambda: sandbox.reason("second")[0] == "NoFit", "second to say why it waits")
    finish_all(sandbox, "first-")
    sandbox.wait_running("second-", 2)
    finish_all(sandbox, "second-")
    is_volcano = make is volcano_job
    if is_volcano:
        sandbox.wait_phase("Job", "second", "Completed")
    sandbox.wait(
        lambda: [each[1] for each in sandbox.ledger.admissions(sandbox.name, "second")] == ["closed"],
        "second to be over",
    )

    at_once, waited = (written(whole_stack, sandbox, name) for name in ("first", "second"))
    # One more where a busy machine takes longer than two seconds to start the pods.
    assert at_once["patch jobs/status"] <= (3 if is_volcano else 0)
    assert waited["patch jobs/status"] <= (4 if is_volcano else 2)
    assert at_once["patch podgroups/status"] <= (3 if is_volcano else 0)
    assert waited["patch podgroups/status"] <= (4 if is_volcano else 0)
    assert at_once["patch jobs"] == waited["patch jobs"] == (0 if is_volcano else 1)
    assert max(at_once["patch pods"], waited["patch pods"]) <= (2 if is_volcano else 0), "one for each pod"
    assert at_once["create events"] <= 3, "an admission of each, and one reason"
