"""The page in the cluster: people are known to the API server by their own tokens, and see what RBAC lets them see."""

import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from admission.kube.client.kubeconfig import load
from tests.e2e.support.manifests import volcano_job
from tests.e2e.support.sandbox import Sandbox
from tests.waiting import LIMIT

RBAC = "rbac.authorization.k8s.io"
MANIFEST = Path(__file__).parents[3] / "deploy/examples/page.yaml"

#: Status and text of a view, by its path, a token and further headers.
Ask = Callable[..., tuple[int, str]]


@contextmanager
def served(sandbox: Sandbox, folder: Path) -> Iterator[Ask]:
    """``muster page``, as its Deployment starts it. SIGTERM ends it."""
    api = load(str(sandbox.stack.cluster.kubeconfig), None)
    authorities = folder / "ca.crt"
    authorities.write_text(api.authority or "", encoding="ascii")
    words = ["page", "--listen", "127.0.0.1:0", "--api-server", api.server, "--ca-file", str(authorities)]
    command = [sys.executable, "-m", "admission.cli.muster", *words]
    with subprocess.Popen(command, env={"HOME": str(folder)}, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            address = process.stdout.readline().split()[4].rstrip(",")

            def ask(path: str, token: str = "", **headers: str) -> tuple[int, str]:
                given = {name.replace("_", "-"): text for name, text in headers.items()}
                if token:
                    given["Authorization"] = f"Bearer {token}"
                request = urllib.request.Request(f"{address}/{path}", headers=given)
                try:
                    with urllib.request.urlopen(request, timeout=LIMIT) as answer:
                        return answer.status, answer.read().decode()
                except urllib.error.HTTPError as error:
                    return error.code, error.read().decode()

            yield ask
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                assert process.wait(LIMIT) == 0
            finally:
                process.kill()


def person(sandbox: Sandbox, name: str, *roles: tuple[str, str]) -> str:
    """The token of somebody with these roles: (namespace or "", ClusterRole)."""
    accounts = f"/api/v1/namespaces/{sandbox.name}/serviceaccounts"
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
    sandbox.api.create(accounts, account)
    for namespace, role in roles:
        where = f"namespaces/{namespace}/rolebindings" if namespace else "clusterrolebindings"
        binding = {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
            "metadata": {"name": f"{sandbox.name}-{name}-{role}"},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": sandbox.name}],
        }
        sandbox.api.create(f"/apis/{RBAC}/v1/{where}", binding)
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = sandbox.api.create(f"{accounts}/{name}/token", asked)
    return str(answer["status"]["token"])


def test_everybody_sees_what_the_own_token_may_see(sandbox: Sandbox, tmp_path: Path) -> None:
    [node] = sandbox.add_nodes(1)
    queue = sandbox.add_queue()
    sandbox.add(volcano_job(sandbox, "runs", 2, 4))
    sandbox.wait_running("runs-", 2)
    member = person(sandbox, "member", (sandbox.name, "edit"))
    looker = person(sandbox, "looker", ("", "muster-queue-viewer"))
    stranger = person(sandbox, "stranger")
    drain = {
        "apiVersion": "muster.dev/v1alpha1",
        "kind": "NodeDrain",
        "metadata": {"name": sandbox.name},
        "spec": {
            "nodes": [node],
            "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 30 * 86_400)),
        },
    }
    sandbox.api.create("/apis/muster.dev/v1alpha1/nodedrains", drain)
    try:
        with served(sandbox, tmp_path) as ask:
            work = f"workloads?namespace={sandbox.name}"
            status, shown = ask(work, member)
            assert (status, f"/workloads/{sandbox.name}/runs" in shown) == (200, True)
            assert "state-running" in shown

            status, shown = ask(work, stranger)
            assert (status, "You may not see this" in shown) == (403, True)
            status, shown = ask(f"queues/{queue}", looker)
            assert status == 200
            assert sandbox.name in shown
            assert "You may not list" not in shown
            status, shown = ask("reservations", looker)
            assert (status, f">{sandbox.name}<" in shown) == (200, True)
            by = sandbox.api.get(f"/apis/muster.dev/v1alpha1/nodedrains/{sandbox.name}")["metadata"]
            assert by["annotations"]["muster.dev/changed-by"] in shown
            assert "You may not list nodedrains" in ask("reservations", member)[1]
            status, shown = ask("nodes", member)
            assert (
                status,
                "may not list nodes.<br>Ask a cluster administrator for that right" in shown,
                node in shown,
            ) == (403, True, False)

            for token, headers in (
                ("", {}),
                ("", {"X_Forwarded_User": "admin", "X_Remote_User": "admin"}),
                ("nobody-s", {}),
            ):
                status, shown = ask(work, token, **headers)
                assert (status, sandbox.name in shown) == (401, False)
            # Not passed on: who asks is still the stranger.
            as_admin = {"Impersonate_User": "admin", "Impersonate_Group": "system:masters"}
            assert ask(work, stranger, **as_admin)[0] == 403
            assert ask("changes", "nobody-s")[0] == 401
    finally:
        sandbox.api.delete(f"/apis/muster.dev/v1alpha1/nodedrains/{sandbox.name}")
        for name, role in (("looker", "muster-queue-viewer"),):
            sandbox.api.delete(f"/apis/{RBAC}/v1/clusterrolebindings/{sandbox.name}-{name}-{role}")


def test_the_api_server_takes_the_manifest(sandbox: Sandbox) -> None:
    plurals = {
        "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
        "Service": "/api/v1/namespaces/{}/services",
        "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    }
    documents = list(yaml.safe_load_all(MANIFEST.read_text(encoding="utf-8")))
    assert {each["kind"] for each in documents} == set(plurals)
    for each in documents:
        each["metadata"]["namespace"] = sandbox.name
        path = plurals[each["kind"]].format(sandbox.name) + "?dryRun=All&fieldValidation=Strict"
        sandbox.api.create(path, each)
