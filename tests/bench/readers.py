"""Many clients that ask the read API without a pause, whatever it answers: a process of its own, below everything else.

``python -m tests.bench.readers`` reads a ``Crowd`` as JSON on its standard input, prints a line when each client has
had an answer, asks until the input ends, and prints how many answers of which status it got. The clients stand for
other machines, so they take only what nobody else wants of this one.
"""

import asyncio
import json
import ssl
import subprocess
import sys
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass

import aiohttp

from admission.web.app import PREFIX
from admission.web.process import lower_priority
from deploy.local.client import LocalClient
from deploy.local.stack import Replica, Stack
from tests.bench.documents import GANG, NAMESPACE

#: What they ask, in turn; the last name does not exist.
_PATHS = (
    f"{PREFIX}/pending?limit=1000",
    f"{PREFIX}/queues",
    f"{PREFIX}/pending?namespace={NAMESPACE}",
    f"{PREFIX}/namespaces/{NAMESPACE}/workloads/{GANG.format(0)}?kind=vcjob",
    f"{PREFIX}/namespaces/{NAMESPACE}/workloads/{GANG.format(1)}/outlook",
    f"{PREFIX}/namespaces/{NAMESPACE}/workloads/nosuchname",
)
_LOWEST = 19
_ASKING = "asking\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """Who asks what."""

    url: str
    #: PEM.
    authorities: str
    #: Name in the certificate.
    host: str
    tokens: list[str]
    clients: int


@contextmanager
def asking(stack: Stack, replica: Replica, clients: int) -> Iterator[Counter[str]]:
    """That many clients ask inside the block, as they have done for a while; afterwards the answers are counted by
    status."""
    answers: Counter[str] = Counter()
    with stack.cluster.client() as api:
        crowd = Crowd(
            url=replica.read,
            authorities=_authorities(api),
            host="muster.muster-system.svc",
            tokens=[_token(api, f"reader-{number}") for number in range(10)],
            clients=clients,
        )
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.readers"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(asdict(crowd)) + "\n")
    process.stdin.flush()
    assert process.stdout.readline() == _ASKING
    try:
        yield answers
    finally:
        out, _ = process.communicate(timeout=30)
        answers.update(json.loads(out or "{}"))


def _authorities(api: LocalClient) -> str:
    service = api.get("/apis/apiregistration.k8s.io/v1/apiservices/v1.read.muster.dev")
    return b64decode(service["spec"]["caBundle"]).decode()


def _token(api: LocalClient, name: str) -> str:
    """Of a service account that may see everything."""
    home = "/api/v1/namespaces/default/serviceaccounts"
    api.create(home, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": name}],
    }
    api.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    return str(api.create(f"{home}/{name}/token", request)["status"]["token"])


async def _crowd(crowd: Crowd) -> Counter[int]:
    tls, answers = ssl.create_default_context(cadata=crowd.authorities), Counter[int]()
    connector = aiohttp.TCPConnector(limit=0, ssl=tls)
    async with aiohttp.ClientSession(crowd.url, connector=connector) as session:
        heard: set[int] = set()

        async def client(number: int) -> None:
            headers = {"Authorization": f"Bearer {crowd.tokens[number % len(crowd.tokens)]}"}
            turn = number
            while True:
                turn += 1
                try:
                    path = _PATHS[turn % len(_PATHS)]
                    async with session.get(path, headers=headers, server_hostname=crowd.host) as answer:
                        await answer.read()
                        answers[answer.status] += 1
                except (aiohttp.ClientError, OSError, TimeoutError):
                    answers[0] += 1
                if number not in heard:
                    heard.add(number)
                    if len(heard) == crowd.clients:
                        print(_ASKING, end="", flush=True)

        clients = [asyncio.create_task(client(number)) for number in range(crowd.clients)]
        await asyncio.to_thread(sys.stdin.read)
        for task in clients:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*clients, return_exceptions=True)
    return answers


def main() -> None:
    """Ask, as the ``Crowd`` on the standard input says."""
    lower_priority(_LOWEST)
    crowd = Crowd(**json.loads(sys.stdin.readline()))
    print(json.dumps(dict(asyncio.run(_crowd(crowd)))))


if __name__ == "__main__":
    main()
