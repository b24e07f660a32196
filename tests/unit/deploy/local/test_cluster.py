"""A local control plane counts its requests, and leaves nothing behind. What it is good for, other tests show."""

import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from deploy.local.client import LocalClient
from deploy.local.cluster import LocalCluster
from queues.errors import ApiError
from tests.cluster_faults import (
    audited_requests,
)
from tests.waiting import alive, until


@pytest.fixture(scope="module")
def namespace(local_cluster: LocalCluster) -> str:
    name = f"local-{uuid.uuid4().hex[:8]}"
    with local_cluster.client() as api:
        api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    until(
        lambda: _exists(local_cluster, f"/api/v1/namespaces/{name}/serviceaccounts/default"), "the namespace"
    )
    return name


@pytest.fixture
def api(local_cluster: LocalCluster) -> Iterator[LocalClient]:
    with local_cluster.client() as api:
        yield api


def _exists(cluster: LocalCluster, path: str) -> bool:
    with cluster.client() as api:
        try:
            api.get(path)
        except ApiError:
            return False
        return True


def test_requests_are_counted(local_cluster: LocalCluster, api: LocalClient, namespace: str) -> None:
    before = len(audited_requests(local_cluster))
    api.create(f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"generateName": "counted-"}})
    [request] = [each for each in audited_requests(local_cluster)[before:] if each.resource == "configmaps"]
    assert (request.user, request.verb, request.namespace) == ("admin", "create", namespace)


def test_a_killed_run_leaves_nothing_alive_and_a_kept_directory_goes_on(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "deploy.local", "up", "--nodes", "2", "--dir", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        try:
            assert run.stdout is not None
            assert "with 2 nodes" in run.stdout.readline()
            family = _descendants(run.pid)
            assert len(family) == 10, "five components, each with its supervisor"
        finally:
            run.kill()
    until(lambda: not any(alive(pid) for pid in family), "all processes to end")
    with LocalCluster(tmp_path) as again, again.client() as api:
        assert again.ensure_nodes(2) == []
        assert len(api.get("/api/v1/nodes")["items"]) == 2


def _descendants(pid: int) -> list[int]:
    children: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError):  # this thread has ended
            children += map(int, (task / "children").read_text().split())
    return children + [below for child in children for below in _descendants(child)]
