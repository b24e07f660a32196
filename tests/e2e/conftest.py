"""One whole product for all end-to-end tests, and for each test a part of the cluster of its own."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from admission.workloads.kinds import OPERATOR_KINDS
from deploy.local.client import LocalClient
from deploy.local.components import ClusterOptions
from deploy.local.stack import USERNAME, Stack
from queues.api.api_resources import CRDS, LEADER_WORKER_SETS, ApiResource
from queues.errors import ApiError
from tests.builders.operator_resources import RAY_SERVICES, TRAIN_JOBS
from tests.cluster_faults import kill_muster, pause_component, resume_component, stop_muster
from tests.e2e.support.crash_harness import CrashHarness, own_crash_harness
from tests.e2e.support.ledger_queries import LedgerQueries
from tests.e2e.support.operators import definition
from tests.e2e.support.pod_history import PodHistory
from tests.e2e.support.sandbox import Sandbox, name_from
from tests.waiting import until

EXAMPLES = Path("deploy/examples")
#: Waits that are there for real clusters' sake are short here.
IMPATIENT = {
    "MUSTER_REFUSAL_GRACE_SECONDS": "1",
    "MUSTER_BACKOFF_SECONDS": "1",
    "MUSTER_TURN_AT_LEAST_EVERY_SECONDS": "1",
}


@pytest.fixture(scope="session")
def whole_stack(kubernetes_binaries: dict[str, Path]) -> Iterator[Stack]:
    """Control plane, Postgres, and a Muster that leads, installed as a user would."""
    options = ClusterOptions(toleration_seconds=1, audit="Metadata")
    with Stack(options=options, durable=False, environment=IMPATIENT) as stack:
        stack.install()
        stack.apply(EXAMPLES / "topology.yaml")
        stack.start_muster()
        yield stack
        complaints = [
            "\n".join(lines[number : number + 60])  # with the traceback
            for log in sorted(stack.cluster.directory.glob("*.log"))
            for lines in [log.read_text(errors="replace").splitlines()]
            for number, line in enumerate(lines)
            if " ERROR " in line or f'User "{USERNAME}" cannot' in line
        ]
        assert not complaints, "what Muster could not do, or did not expect"


@pytest.fixture(scope="session")
def harness(kubernetes_binaries: dict[str, Path]) -> Iterator[CrashHarness]:
    """Another cluster, for the tests that kill Muster and servers: here none runs unless a test starts it, and Postgres
    keeps what it has promised."""
    with own_crash_harness(durable=True) as found:
        yield found


@pytest.fixture(scope="session")
def admin(whole_stack: Stack) -> Iterator[LocalClient]:
    with whole_stack.cluster.client() as api:
        yield api


@pytest.fixture(scope="session")
def pod_history(whole_stack: Stack) -> Iterator[PodHistory]:
    """Everything that happened to any pod since before the first test."""
    with PodHistory(whole_stack.cluster.kubeconfig) as history:
        yield history


@pytest.fixture(scope="session")
def ledger(whole_stack: Stack) -> Iterator[LedgerQueries]:
    ledger = LedgerQueries(whole_stack.dsn)
    yield ledger
    ledger.close()


@pytest.fixture
def sandbox(
    request: pytest.FixtureRequest,
    whole_stack: Stack,
    admin: LocalClient,
    ledger: LedgerQueries,
    pod_history: PodHistory,
) -> Iterator[Sandbox]:
    """An empty part of the cluster. When the test is over, the ledger must say that nothing of it is held."""
    sandbox = Sandbox(name_from(request.node.name), whole_stack, admin, ledger, pod_history)
    sandbox.open()
    yield sandbox
    sandbox.close()


@pytest.fixture
def idle_scheduler(whole_stack: Stack) -> Iterator[Stack]:
    """The stock scheduler hangs until it is resumed: gangs are admitted and released, and not bound."""
    pause_component(whole_stack.cluster, "kube-scheduler")
    yield whole_stack
    resume_component(whole_stack.cluster, "kube-scheduler")


@pytest.fixture
def absent_muster(whole_stack: Stack, sandbox: Sandbox) -> Iterator[Callable[[], None]]:
    """Call it to kill Muster; it is there again when the test is over, at the latest."""

    def kill() -> None:
        replica = whole_stack.replicas[0]
        kill_muster(replica)
        stop_muster(whole_stack, replica)

    yield kill
    if not whole_stack.replicas:
        whole_stack.start_muster("muster-afterwards")


@pytest.fixture(scope="session")
def operators(whole_stack: Stack) -> None:
    """The definitions of all kinds come after Muster has started. The API server's policies learn of a new kind after
    a moment, up to which it accepts no object of it."""
    resources = [*(each.resource for each in OPERATOR_KINDS), LEADER_WORKER_SETS, RAY_SERVICES, TRAIN_JOBS]
    with whole_stack.cluster.client() as api:
        for resource in resources:
            api.create(CRDS.path(), definition(resource))

        def accepts(resource: ApiResource) -> bool:
            probe = {
                "apiVersion": resource.api_version,
                "kind": resource.kind,
                "metadata": {"name": "probe", "labels": {"muster.dev/queue-name": "none"}},
                "spec": {"leaderWorkerTemplate": {"workerTemplate": {}}, "shutdownAfterJobFinishes": True},
            }
            try:
                api.create(resource.path("default") + "?dryRun=All", probe)
            except ApiError as error:
                if error.facts["status"] not in (404, 503):
                    raise
                return False
            return True

        until(lambda: all(map(accepts, resources)), "the new kinds to be accepted")
