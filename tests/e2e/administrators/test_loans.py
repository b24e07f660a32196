"""A tenant's administrator lends quota between queues of the tenant, until a time that is given."""

import time

import pytest

from queues.errors import ApiError
from queues.text_format import rfc3339
from tests.e2e.support.manifests import batch_job
from tests.e2e.support.people import Person
from tests.e2e.support.sandbox import GPU, Sandbox


@pytest.fixture
def lea(sandbox: Sandbox) -> Person:
    """The administrator of a tenant, with the role for it and no other right."""
    return Person(sandbox, f"lea-{sandbox.name}", "muster-tenant-admin")


@pytest.fixture
def tenant(sandbox: Sandbox, lea: Person) -> tuple[str, str]:
    """Two queues of her tenant, of 8 GPUs each."""
    lab = sandbox.add_queue(deserved={GPU: 16}, access={"admins": [{"user": lea.name}]})
    return tuple(sandbox.add_queue(name, parent=lab, deserved={GPU: 8}) for name in ("a", "b"))  # type: ignore[return-value]


def deserved(sandbox: Sandbox, queue: str) -> str:
    """What counts, as the read API tells; "": it does not know the queue yet, or has no time to answer."""
    try:
        items = sandbox.api.get("/apis/read.muster.dev/v1/queues")["items"]
    except ApiError:
        return ""
    accounts = [line for each in items if each["name"] == queue for line in each["accounts"]]
    plain = (line["deserved"] for line in accounts if (line["flavor"], line["resource"]) == ("", GPU))
    return str(next(plain, ""))


def add_work(sandbox: Sandbox, name: str, queue: str) -> None:
    """Half of what the nodes have."""
    document = batch_job(sandbox, name, 1, 8)
    document["metadata"]["labels"]["muster.dev/queue-name"] = queue
    sandbox.add(document)


def test_what_was_lent_is_reclaimed_once_the_loan_has_ended(
    sandbox: Sandbox, tenant: tuple[str, str], lea: Person
) -> None:
    sandbox.add_nodes(2)
    one, other = tenant
    sandbox.wait(lambda: deserved(sandbox, one) == "8", "the queues to be known")
    until = rfc3339(int(time.time()) + 3600)
    lend = ("quota", "lend", one, other, "8", "--until", until, "--reason", "a deadline", "--no-trial")

    assert "(server dry run)" in lea.does(*lend, "--dry-run=server")
    told = lea.does(*lend, "--yes")
    assert f"8 {GPU} from {one} to {other} until " in told
    sandbox.wait(lambda: deserved(sandbox, other) == "16", "the loan to count")
    assert deserved(sandbox, one) == "0"
    # Views of the last decision may be a second older than the ledger.
    row = [one, other, GPU, "8"]
    sandbox.wait(
        lambda: row in [line.split()[:4] for line in lea.does("quota", "show", other).splitlines()],
        "the loan to be shown",
    )

    for name, queue in (("first", other), ("second", other)):
        add_work(sandbox, name, queue)
        sandbox.wait_running(name, 1)
    add_work(sandbox, "owner", one)
    sandbox.wait_reason("owner", "NoFit")
    for ahead in (2, 20, 200):  # a busy machine may hear of the change when the loan is over
        ends = end_loan(sandbox, one, ahead)
        sandbox.wait(
            lambda: time.time() > ends and is_now(sandbox, tenant, ("8", "8")),  # noqa: B023
            "both to have what they had",
        )
        history = lea.does("quota", "history", one, "--no-headers").splitlines()
        if f"loan to {other} ended" in history[0]:
            break
    assert f"loan to {other} ended" in history[0]
    sandbox.wait_running("owner", 1)
    [lent] = [line for line in history if lea.name in line]
    assert lent.split()[1:3] == [lea.name, f"loans[{other}].deserved[{GPU}]"]
    assert lent.rstrip().endswith("a deadline")


def end_loan(sandbox: Sandbox, lender: str, ahead: int = 0) -> float:
    """The only loan of a queue ends so many seconds from now. When that is."""
    [loan] = sandbox.get("Queue", lender)["spec"]["loans"]
    ends = int(time.time()) + ahead
    sandbox.merge("Queue", lender, {"spec": {"loans": [{**loan, "until": rfc3339(ends)}]}})
    return ends


def is_now(sandbox: Sandbox, queues: tuple[str, str], amounts: tuple[str, str]) -> bool:
    """Whether queues deserve these amounts; false as long as nobody answers."""
    return tuple(deserved(sandbox, each) for each in queues) == amounts
