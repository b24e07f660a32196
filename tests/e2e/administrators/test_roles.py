"""What each of the ready-made roles lets its user do, asked of the API server as that user: one table.

All writes but those of the last tests are dry runs: everything is checked, and nothing is stored.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from deploy.local.client import LocalClient
from queues.errors import ApiError
from tests.console_sessions import Exchange, exchanges
from tests.e2e.support.api_paths import Document, path
from tests.e2e.support.manifests import batch_job
from tests.e2e.support.sandbox import GPU, RBAC, Sandbox
from tests.waiting import LIMIT

ROOT: Final = Path(__file__).parents[3]
DRY: Final = "?dryRun=All"
#: Identity → (ClusterRole, the sandbox's namespace only). Nobody has none.
ROLES: Final = {
    "nobody": [],
    "viewer": [("view", True), ("muster-queue-viewer", False), ("muster-node-viewer", False)],
    "submitter": [("edit", True), ("muster-queue-viewer", False)],
    "tenant-admin": [("muster-tenant-admin", False)],
    "platform-admin": [("muster-queue-admin", False)],
}


@dataclass(frozen=True)
class Tenants:
    """Two tenants in one cluster, and clients of the five identities. The first tenant is the tenant-admin's."""

    sandbox: Sandbox
    mine: str
    inner: str
    deep: str
    theirs: str
    other: str
    clients: dict[str, LocalClient]


@pytest.fixture
def tenants(sandbox: Sandbox) -> Iterator[Tenants]:
    users = {identity: f"{sandbox.name}-{identity}" for identity in ROLES}
    mine = sandbox.add_queue(
        "mine", deserved={GPU: 16}, capability={GPU: 32}, access={"admins": [{"user": users["tenant-admin"]}]}
    )
    inner = sandbox.add_queue("inner", parent=mine, deserved={GPU: 8})
    deep = sandbox.add_queue("deep", parent=inner, deserved={GPU: 4})
    theirs = sandbox.add_queue("theirs", access={"admins": [{"user": "another"}]})
    other = sandbox.add_queue("other", parent=theirs)
    for identity, roles in ROLES.items():
        for role, in_namespace in roles:
            sandbox.bind(users[identity], role, sandbox.name if in_namespace else "")
    with ExitStack() as stack:
        clients = {
            identity: stack.enter_context(LocalClient(sandbox.stack.cluster.kubeconfig_for(user)))
            for identity, user in users.items()
        }
        yield Tenants(sandbox, mine, inner, deep, theirs, other, clients)


Act = Callable[[Tenants, LocalClient], Any]


def queue(name: str, parent: str = "", **spec: Any) -> Document:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {**({"parent": parent} if parent else {}), **spec},
    }


def reads(
    kind: str, namespace: Callable[[Tenants], str], name: Callable[[Tenants], str] = lambda _: ""
) -> Act:
    return lambda here, client: client.get(path(kind, namespace(here), name(here)))


def creates(parent: Callable[[Tenants], str], **spec: Any) -> Act:
    return lambda here, client: client.create(
        path("Queue", "") + DRY, queue(f"{here.sandbox.name}-new", parent(here), **spec)
    )


def changes(name: Callable[[Tenants], str], change: Callable[[Tenants], Document], part: str = "") -> Act:
    return lambda here, client: client.merge(path("Queue", "", name(here)) + part + DRY, change(here))


def deletes(name: Callable[[Tenants], str]) -> Act:
    return lambda here, client: client.request("DELETE", path("Queue", "", name(here)) + DRY)


def closes(name: Callable[[Tenants], str]) -> Act:
    def act(here: Tenants, client: LocalClient) -> None:
        target = here.sandbox.api.get(path("Queue", "", name(here)))
        command = {
            "apiVersion": "bus.volcano.sh/v1alpha1",
            "kind": "Command",
            "metadata": {"generateName": "close-"},
            "action": "CloseQueue",
            "target": {
                "apiVersion": target["apiVersion"],
                "kind": "Queue",
                "name": target["metadata"]["name"],
                "uid": target["metadata"]["uid"],
            },
        }
        client.create(path("Command", "default") + DRY, command)

    return act


def submits(here: Tenants, client: LocalClient) -> None:
    client.create(path("batch/v1 Job", here.sandbox.name) + DRY, batch_job(here.sandbox, "work", 1, 1))


def reserves(queue_name: Callable[[Tenants], str], gpus: int) -> Act:
    def act(here: Tenants, client: LocalClient) -> None:
        start = datetime.fromtimestamp(time.time(), UTC) + timedelta(days=1)
        plan = {
            "queue": queue_name(here),
            "resources": {GPU: str(gpus)},
            "from": f"{start:%Y-%m-%dT%H:%M:%SZ}",
        }
        client.create(
            path("Reservation", "") + DRY,
            {
                "apiVersion": "muster.dev/v1alpha1",
                "kind": "Reservation",
                "metadata": {"name": f"{here.sandbox.name}-night"},
                "spec": {**plan, "for": "1h"},
            },
        )

    return act


def drains(here: Tenants, client: LocalClient) -> None:
    start = datetime.fromtimestamp(time.time(), UTC) + timedelta(days=1)
    client.create(
        path("NodeDrain", "") + DRY,
        {
            "apiVersion": "muster.dev/v1alpha1",
            "kind": "NodeDrain",
            "metadata": {"name": f"{here.sandbox.name}-fix"},
            "spec": {"nodes": here.sandbox.nodes[:1], "at": f"{start:%Y-%m-%dT%H:%M:%SZ}"},
        },
    )


def spec(**fields: Any) -> Callable[[Tenants], Document]:
    return lambda _: {"spec": fields}


def mine(here: Tenants) -> str:
    return here.mine


def inner(here: Tenants) -> str:
    return here.inner


def deep(here: Tenants) -> str:
    return here.deep


def theirs(here: Tenants) -> str:
    return here.theirs


def other(here: Tenants) -> str:
    return here.other


def root(_: Tenants) -> str:
    return "root"


def own(here: Tenants) -> str:
    return here.sandbox.name


#: What is tried → what it is, and who may: viewer, submitter, tenant admin, platform admin. Nobody may do any of it.
TABLE: Final[dict[str, tuple[Act, str]]] = {
    "list queues": (reads("Queue", own), "v s t p"),
    "read a queue of another tenant": (reads("Queue", own, other), "v s t p"),
    "read the workloads of the namespace": (reads("batch/v1 Job", own), "v s"),
    "read the workloads of another namespace": (reads("batch/v1 Job", lambda _: "default"), ""),
    "read the pods of another namespace": (reads("Pod", lambda _: "kube-system"), ""),
    "submit a job": (submits, "s"),
    "create a queue in the tenant": (creates(mine, deserved={GPU: 8}), "t p"),
    "create a queue deep in the tenant": (creates(deep), "t p"),
    "create a queue beyond the tenant's quota": (creates(mine, deserved={GPU: 9}), "p"),
    "create a queue of another tenant": (creates(theirs), "p"),
    "create a tenant": (creates(lambda _: ""), "p"),
    "resize a queue of the tenant": (changes(inner, spec(deserved={GPU: 16})), "t p"),
    "resize a queue deep in the tenant": (changes(deep, spec(deserved={GPU: 8})), "t p"),
    "resize a queue beyond the tenant's quota": (changes(inner, spec(deserved={GPU: 17})), "p"),
    "resize the tenant": (changes(mine, spec(deserved={GPU: 32})), "p"),
    "name administrators of the tenant": (changes(mine, spec(access={"admins": [{"user": "eve"}]})), "p"),
    "name administrators below the tenant": (
        changes(inner, spec(access={"admins": [{"user": "eve"}]})),
        "t p",
    ),
    "pause a queue of the tenant": (changes(inner, spec(policy={"paused": True})), "t p"),
    "pause all queues": (changes(root, spec(policy={"paused": True})), "p"),
    "keep what others lent": (changes(inner, spec(reclaimable=False)), "p"),
    "resize a queue of another tenant": (changes(other, spec(weight=2)), "p"),
    "label a queue of another tenant": (changes(other, lambda _: {"metadata": {"labels": {"a": "b"}}}), "p"),
    "move a queue out of the tenant": (changes(deep, lambda here: {"spec": {"parent": here.theirs}}), "p"),
    "move a queue to the top": (changes(deep, spec(parent="root")), "p"),
    "move a queue into the tenant": (changes(other, lambda here: {"spec": {"parent": here.mine}}), "p"),
    "write the status of a queue": (
        changes(deep, lambda _: {"status": {"state": "Closed"}}, part="/status"),
        "p",
    ),
    "close a queue of the tenant": (closes(deep), "t p"),
    "close the tenant": (closes(mine), "p"),
    "close a queue of another tenant": (closes(other), "p"),
    "delete a queue of the tenant": (deletes(deep), "t p"),
    "delete a queue with queues below it": (deletes(inner), ""),
    "delete a queue of another tenant": (deletes(other), "p"),
    "list nodes": (reads("Node", lambda _: ""), "v p"),
    "list reservations": (reads("Reservation", own), "v s t p"),
    "reserve for a queue of the tenant": (reserves(inner, 8), "t p"),
    "reserve for the tenant": (reserves(mine, 16), "t p"),
    "reserve more than a queue of the tenant deserves": (reserves(inner, 9), "p"),
    "reserve for a queue of another tenant": (reserves(other, 1), "p"),
    "drain nodes": (drains, "p"),
}
LETTERS: Final = {"v": "viewer", "s": "submitter", "t": "tenant-admin", "p": "platform-admin"}


def may(act: Act, here: Tenants, identity: str) -> bool:
    """Whether the API server lets them. A refusal is 403, but for a queue that nobody may delete (422)."""
    try:
        act(here, here.clients[identity])
    except ApiError as error:
        if error.facts["status"] not in (403, 422):
            raise
        return False
    return True


def test_each_identity_may_do_what_its_role_says_and_nothing_else(tenants: Tenants) -> None:
    sandbox = tenants.sandbox
    sandbox.add_nodes(2)  # that can be reserved
    for identity in ("viewer", "submitter", "tenant-admin", "platform-admin"):
        # Bindings are in force as soon as the API server has watched them.
        sandbox.wait(lambda who=identity: may(TABLE["list queues"][0], tenants, who), f"rights of {identity}")
    sandbox.wait(lambda: may(submits, tenants, "submitter"), "the submitter's right to submit")
    found = {
        what: " ".join(letter for letter, identity in LETTERS.items() if may(act, tenants, identity))
        for what, (act, _) in TABLE.items()
    }
    assert found == {what: who for what, (_, who) in TABLE.items()}
    assert not [what for what, (act, _) in TABLE.items() if may(act, tenants, "nobody")]


def test_while_muster_is_down_platform_administrators_alone_change_queues(
    tenants: Tenants, absent_muster: Callable[[], None]
) -> None:
    sandbox = tenants.sandbox
    resize = TABLE["resize a queue of the tenant"][0]
    for identity in ("tenant-admin", "platform-admin"):
        sandbox.wait(lambda who=identity: may(resize, tenants, who), f"rights of {identity}")
    absent_muster()
    with pytest.raises(ApiError, match=r"failed calling webhook .authorize\.queues\.muster\.dev"):
        resize(tenants, tenants.clients["tenant-admin"])
    resize(tenants, tenants.clients["platform-admin"])


# ── the page for tenants' administrators ───────────────────────────────────────────────────────────────────────

#: Says yes as soon as a binding is in force.
ALLOWED: Final = "kubectl auth can-i create queues.scheduling.volcano.sh"
PAGE: Final = ROOT / "docs/how-to/tenants.md"


def sessions(scratch: Path) -> list[list[Exchange]]:
    """The commands of the page: those of the platform's administrator, and those of the tenant's."""
    parts = PAGE.read_text(encoding="utf-8").split("## Administer a tenant")
    for number, part in enumerate(parts):
        (scratch / f"{number}.md").write_text(part, encoding="utf-8")
    return [list(exchanges(scratch / f"{number}.md")) for number in range(len(parts))]


def test_every_command_of_the_page_prints_what_it_promises(sandbox: Sandbox, tmp_path: Path) -> None:
    cluster = sandbox.stack.cluster
    [document] = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    (tmp_path / "vision.yaml").write_text(document, encoding="utf-8")
    tools = f"{Path(cluster.kubectl).parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    users = cluster.kubeconfig, cluster.kubeconfig_for("lea", ["vision-leads"])

    def printed(command: str, user: Path) -> str:
        environment = {**os.environ, "PATH": tools, "KUBECONFIG": str(user)}
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        return done.stdout

    try:
        for user, session in zip(users, sessions(tmp_path), strict=True):
            assert session
            sandbox.wait(lambda who=user: printed(ALLOWED, who).strip().endswith("yes"), "the binding")
            for each in session:
                found = printed(each.command, user)
                assert each.matches(found), f"$ {each.command}\n{found}"
    finally:
        printed("kubectl delete queue vision-train; kubectl delete queue vision", cluster.kubeconfig)
        sandbox.api.delete(f"/apis/{RBAC}/v1/clusterrolebindings/vision-admins")
