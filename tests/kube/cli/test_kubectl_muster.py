"""``kubectl muster`` with the real kubectl, through the real API server, which tells Muster who asks; and past it."""

import asyncio
import base64
import http.client
import os
import ssl
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec
import pytest
import pytest_asyncio
import yaml

from admission.kube.access_reviews import Caller, front_proxy
from admission.kube.client.client import Client
from admission.kube.install.rbac import people
from admission.kube.install.read_api import read_api
from admission.kube.webhook.configuration import Callee
from admission.kube.webhook.keyring import READ_API_SERVICE, KeyringStore
from admission.settings import Address
from admission.web.access.callers import Callers
from admission.web.access.rights import Rights
from admission.web.app import PREFIX, ReadApi
from admission.web.http import serving
from admission.web.user_service import trust
from deploy.local.cluster import LocalCluster
from queues.api.api_resources import (
    CLUSTER_ROLE_BINDINGS,
    NAMESPACES,
    ROLE_BINDINGS,
    SERVICE_ACCOUNTS,
    Document,
    path_of,
)
from queues.errors import ApiError
from queues.sql.read.rows import KindIn
from tests.fakes.fake_reader import PENDING, QUEUES, FakeLeader, FakeReader
from tests.kube.support.cluster_objects import becomes
from tests.waiting import LIMIT

HOME = "muster-plugin"
#: Namespaces of the fake cluster, and who may see what is in them.
TENANTS = {"ml": "alice", "lab": "bob"}


@dataclass(frozen=True)
class Plugin:
    cluster: LocalCluster
    admin: Client
    #: The read API itself, past the API server.
    url: str
    authority: bytes

    async def kubectl(
        self, *words: str, kubeconfig: Path | None = None
    ) -> "subprocess.CompletedProcess[str]":
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "KUBECONFIG": str(kubeconfig or self.cluster.kubeconfig)}
        environment.pop("MUSTER_SERVER", None)
        argv = [str(self.cluster.kubectl), *words]
        return await asyncio.to_thread(
            subprocess.run, argv, env=environment, capture_output=True, text=True, timeout=LIMIT, check=False
        )

    async def token(self, account: str) -> str:
        """A token of a service account, as a pod has it."""
        path = SERVICE_ACCOUNTS.path(HOME, account, "token")
        answer = await self.admin.create(path, {"apiVersion": "authentication.k8s.io/v1", "spec": {}})
        return str(msgspec.json.decode(answer)["status"]["token"])

    async def ask(self, path: str, headers: Mapping[str, str] = {}) -> tuple[int, Any]:
        """Past the API server, as any pod can."""
        tls = ssl.create_default_context(cadata=self.authority.decode())
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.get(self.url + path, ssl=tls, server_hostname=Callee(namespace=HOME).read_host) as answer,
        ):
            return answer.status, await answer.json()


async def put(admin: Client, document: Document) -> None:
    await admin.patch(path_of(document), document, kind="apply", field_manager="test", force=True)


async def make_tenants(admin: Client) -> None:
    """alice may view namespace ml, bob namespace lab, and a service account everything."""
    for name in (HOME, *TENANTS):
        await put(admin, NAMESPACES.document(name))
    for document in people():
        await put(admin, document)
    view = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    for account in ("alice", "bob", "admin"):
        await put(admin, SERVICE_ACCOUNTS.document(account, HOME))
    for namespace, user in TENANTS.items():
        subjects = [
            {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user},
            {"kind": "ServiceAccount", "namespace": HOME, "name": user},
        ]
        await put(admin, ROLE_BINDINGS.document("tenant", namespace, roleRef=view, subjects=subjects))
    whole = CLUSTER_ROLE_BINDINGS.document(
        "muster-plugin-admin",
        roleRef={**view, "name": "cluster-admin"},
        subjects=[{"kind": "ServiceAccount", "namespace": HOME, "name": "admin"}],
    )
    await put(admin, whole)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def plugin(local_cluster: LocalCluster) -> AsyncIterator[Plugin]:
    async with await Client.connect(local_cluster.kubeconfig) as admin:
        await make_tenants(admin)
        proxy = await front_proxy(admin)
        keeper = KeyringStore(admin, namespace=HOME, names=Callee(namespace=HOME).names())
        keyring = await keeper.keep()
        trust(keeper.tls, proxy)

        async def kinds(limit: int) -> list[KindIn]:
            return sorted({KindIn(one.kind, one.namespace) for one in PENDING})

        async def queues(limit: int) -> list[str]:
            return [one.name for one in QUEUES]

        async def metrics() -> bytes:
            return b"muster_leader 1.0\n"

        application = ReadApi(
            authenticate=Callers(admin, proxy).caller,
            rights=Rights(admin, kinds=kinds, queues=queues),
            reader=FakeReader(),
            leader=FakeLeader(),
            metrics=metrics,
        ).application()
        async with serving(application, Address("127.0.0.1", 0), tls=keeper.tls) as port:
            url = f"https://127.0.0.1:{port}"
            for document in read_api(HOME, keyring.bundle, url):
                await put(admin, document)
            # The API server passes requests on after a moment.
            await becomes(lambda: admin.get(PREFIX), despite=ApiError)
            yield Plugin(local_cluster, admin, url, keyring.bundle)
        # While an API that is announced does not answer, no namespace of this cluster can be deleted.
        await admin.delete(READ_API_SERVICE)


async def test_kubectl_finds_the_plugin_and_the_plugin_finds_muster(plugin: Plugin) -> None:
    said = await plugin.kubectl("muster", "queues")

    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.splitlines()[1].split() == [
        "root",
        "open",
        "nvidia.com/gpu",
        "48",
        "64",
        "64",
        "0.75",
        "3",
        "4",
    ]


async def test_problems_of_muster_come_through_the_api_server(plugin: Plugin) -> None:
    said = await plugin.kubectl("muster", "explain", "tune-4", "-n", "ml")

    assert (said.returncode, said.stdout) == (1, "")
    assert said.stderr == "Error: There is no workload tune-4 in namespace ml.\nDid you mean tune-3?\n"


@pytest.mark.parametrize(("namespace", "other"), [("ml", "lab"), ("lab", "ml")])
async def test_users_see_their_namespace_and_no_other(plugin: Plugin, namespace: str, other: str) -> None:
    user = plugin.cluster.kubeconfig_for(TENANTS[namespace])
    own = sorted(one.name for one in PENDING if one.namespace == namespace)

    async def listed() -> list[str]:
        said = await plugin.kubectl("muster", "pending", "-A", "--no-headers", kubeconfig=user)
        return sorted(line.split()[2].partition("/")[2] for line in said.stdout.splitlines())

    # The role view is put together from Muster's by a controller, and decisions are remembered for a while.
    await becomes(lambda: equals(listed, own))
    refused = await plugin.kubectl("muster", "pending", "-n", other, kubeconfig=user)
    everything = await plugin.kubectl("muster", "pending", "-A", "--no-headers")

    assert refused.returncode == 1
    assert (
        f"{TENANTS[namespace]} may not list jobs, podgroups or pods in namespace {other}." in refused.stderr
    )
    assert len(everything.stdout.splitlines()) == len(PENDING)


async def test_users_of_the_past_are_named_by_the_rights_of_today(plugin: Plugin) -> None:
    """Whether something waits in a namespace now does not matter."""

    async def none(limit: int) -> list[Any]:
        return []

    alice, bob = Caller("alice"), Caller("bob")

    async def shown(caller: Caller) -> list[bool]:
        rights = Rights(plugin.admin, kinds=none, queues=none)
        sight = await rights.sight_in(caller, [KindIn("vcjob", "ml"), KindIn("pod", "nowhere")])
        return [sight.shows("vcjob", "ml"), sight.shows("vcjob", "lab"), sight.shows("pod", "nowhere")]

    await becomes(lambda: equals(lambda: shown(alice), [True, False, False]))
    assert await shown(bob) == [False, False, False]


async def equals(listed: Any, expected: list[Any]) -> bool:
    return bool(await listed() == expected)


async def test_users_without_a_right_on_queues_see_none(plugin: Plugin) -> None:
    said = await plugin.kubectl(
        "muster", "queues", kubeconfig=plugin.cluster.kubeconfig_for("nobody-in-particular")
    )

    assert (said.returncode, said.stdout) == (0, "")
    assert (
        said.stderr
        == "You may see no queue: you lack the ClusterRole muster-queue-viewer, or there is none yet.\n"
    )


async def test_a_pod_without_a_token_is_told_that_nobody_knows_it(plugin: Plugin) -> None:
    for headers in (
        {},
        {"Authorization": "Bearer eyJhbGciOiJSUzI1NiJ9.e30.forged"},
        {"X-Remote-User": "admin", "X-Remote-Group": "system:masters"},
    ):
        status, problem = await plugin.ask(f"{PREFIX}/pending", headers)

        assert status == 401
        assert problem["error"].startswith("Muster does not know who asks")


async def test_a_certificate_of_the_cluster_does_not_make_a_proxy(plugin: Plugin) -> None:
    """Whoever has a client certificate of the cluster could else speak for anybody."""
    config = yaml.safe_load(plugin.cluster.kubeconfig_for("mallory", ["system:masters"]).read_text())
    assert config["users"][0]["user"]["client-certificate-data"]
    status = await asyncio.to_thread(_with_certificate, plugin, config["users"][0]["user"])

    assert status in (None, 401)


def _with_certificate(plugin: Plugin, user: Mapping[str, str]) -> int | None:
    """The status of an answer to forged headers; None: the server broke the connection off."""
    tls = ssl.create_default_context(cadata=plugin.authority.decode())
    tls.check_hostname = False
    with tempfile.NamedTemporaryFile() as pem:
        for part in ("client-certificate-data", "client-key-data"):
            pem.write(base64.b64decode(user[part]))
        pem.flush()
        tls.load_cert_chain(pem.name)
    connection = http.client.HTTPSConnection(urlsplit(plugin.url).netloc, context=tls, timeout=LIMIT)
    try:
        connection.request("GET", f"{PREFIX}/pending", headers={"X-Remote-User": "admin"})
        return connection.getresponse().status
    except (ssl.SSLError, ConnectionError, http.client.HTTPException):
        return None
    finally:
        connection.close()


async def test_a_service_account_is_known_by_its_token(plugin: Plugin) -> None:
    async def pending(account: str) -> list[str]:
        _, body = await plugin.ask(
            f"{PREFIX}/pending", {"Authorization": f"Bearer {await plugin.token(account)}"}
        )
        return sorted(one["namespace"] for one in body["items"])

    await becomes(lambda: equals(lambda: pending("alice"), ["ml", "ml"]))
    await becomes(lambda: equals(lambda: pending("bob"), ["lab"]))
    assert await pending("admin") == ["lab", "ml", "ml"]


async def test_nobody_is_told_of_a_workload_in_a_namespace_of_others(plugin: Plugin) -> None:
    alice, bob = [{"Authorization": f"Bearer {await plugin.token(account)}"} for account in ("alice", "bob")]
    workload = f"{PREFIX}/namespaces/ml/workloads/tune-3"

    async def told(headers: Mapping[str, str]) -> list[int]:
        return [(await plugin.ask(path, headers))[0] for path in (workload, f"{workload}/outlook")]

    await becomes(lambda: equals(lambda: told(alice), [200, 200]))
    assert await told(bob) == [403, 403]


async def test_only_administrators_get_snapshots_and_metrics(plugin: Plugin) -> None:
    alice, admin = [
        {"Authorization": f"Bearer {await plugin.token(account)}"} for account in ("alice", "admin")
    ]

    for path in (f"{PREFIX}/snapshot", "/metrics"):
        assert (await plugin.ask(path, alice))[0] == 403
        async with aiohttp.ClientSession() as session:
            tls = ssl.create_default_context(cadata=plugin.authority.decode())
            host = Callee(namespace=HOME).read_host
            async with session.get(plugin.url + path, headers=admin, ssl=tls, server_hostname=host) as answer:
                assert answer.status == 200


async def test_flags_before_the_plugins_name_are_refused_by_kubectl(plugin: Plugin) -> None:
    said = await plugin.kubectl("-n", "ml", "muster", "pending")

    assert said.returncode == 1
    assert "flags cannot be placed before plugin name" in said.stderr


async def test_kubectl_completes_with_names_from_muster(plugin: Plugin) -> None:
    said = await plugin.kubectl("__complete", "muster", "queues", "team-")

    assert said.stdout == "team-a\topen, 2 waiting, 3 running\nteam-b\topen, 1 waiting, 1 running\n:4\n"
