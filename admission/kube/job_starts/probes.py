"""Asks pods whether they answer, for flows that start when others are ready. Nothing waits for it but those flows.

Every attempt has a time limit, redirects are not followed, and what is answered is not read.
"""

import asyncio
import logging
from collections.abc import Collection
from ipaddress import ip_address
from typing import Final

import aiohttp
import msgspec

from admission.job_starts.job_flow import NetworkProbe
from admission.kube.client.client import Client
from admission.wire import Bare
from queues.api.api_resources import PODS
from queues.api.names import JOB_NAME, TASK_SPEC
from queues.errors import ApiError

_log = logging.getLogger(__name__)

#: Seconds between two rounds of probes of one JobFlow.
PROBE_EVERY: Final = 5.0
#: Seconds for one answer, and for all that is asked at a time.
ANSWER_SECONDS: Final = 2.0
ROUND_SECONDS: Final = 20.0
#: Pods that are asked at a time.
_AT_A_TIME: Final = 32


class _PodStatus(msgspec.Struct, gc=False):
    phase: str = ""
    podIP: str = ""  # noqa: N815 - Kubernetes' key


class _Pod(Bare):
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)

    def runs_for(self, job: str) -> bool:
        """Whether it runs, and is of the Job with this uid: labels are written by users as well."""
        owners = self.metadata.owner_references or ()
        stays = self.metadata.deletion_timestamp is None and self.status.phase == "Running"
        return stays and bool(self.status.podIP) and any(owner.uid == job for owner in owners)


class _Pods(msgspec.Struct, gc=False):
    items: tuple[_Pod, ...] | None = None


_PODS: Final = msgspec.json.Decoder(_Pods)


async def passing(
    client: Client, namespace: str, probes: Collection[NetworkProbe]
) -> frozenset[NetworkProbe]:
    """Those of the probes that pass now. Pods that cannot be listed or asked in time do not pass."""
    slots = asyncio.Semaphore(_AT_A_TIME)
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
    async with aiohttp.ClientSession(
        connector=connector, timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()
    ) as session:
        asked = {
            probe: asyncio.create_task(_passes(client, session, slots, namespace, probe), name="probe")
            for probe in probes
        }
        if not asked:
            return frozenset()
        done, late = await asyncio.wait(asked.values(), timeout=ROUND_SECONDS)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
    return frozenset(probe for probe, task in asked.items() if task in done and task.result())


async def _passes(
    client: Client,
    session: aiohttp.ClientSession,
    slots: asyncio.Semaphore,
    namespace: str,
    probe: NetworkProbe,
) -> bool:
    selector = f"{JOB_NAME}={probe.job},{TASK_SPEC}={probe.task}"
    try:
        pods = _PODS.decode(await client.get(PODS.path(namespace), labelSelector=selector)).items or ()
    except (ApiError, msgspec.DecodeError) as error:
        _log.info("pods to be probed cannot be listed", extra={"job": probe.job, "why": str(error)})
        return False
    addresses = [pod.status.podIP for pod in pods if pod.runs_for(probe.uid)]
    if len(addresses) < probe.needed:
        return False
    answers = await asyncio.gather(*(_answers(session, slots, address, probe) for address in addresses))
    return sum(answers) >= probe.needed


async def _answers(
    session: aiohttp.ClientSession, slots: asyncio.Semaphore, address: str, probe: NetworkProbe
) -> bool:
    """Whether one pod answers as it should."""
    try:
        host = ip_address(address)
        if host.is_link_local or host.is_multicast:
            return False
        async with slots:
            if not probe.path:
                return await _connects(str(host), probe.port)
            shown = f"[{host}]" if host.version == 6 else str(host)
            url = f"http://{shown}:{probe.port}{probe.path}"
            headers = dict([probe.header]) if probe.header else {}
            async with session.get(url, headers=headers, allow_redirects=False) as answer:
                return 200 <= answer.status < 400
    except (OSError, ValueError, TimeoutError, aiohttp.ClientError):
        return False


async def _connects(host: str, port: int) -> bool:
    async with asyncio.timeout(ANSWER_SECONDS):
        _, writer = await asyncio.open_connection(host, port)
    writer.close()
    return True
