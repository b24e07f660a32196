"""The Lease by which others see that the agent of a node lives: its name is the node's, and the Node owns it.

It says that the agent runs and reaches the API server, and no more. While a library hangs the lease is renewed all the
same: the agent knows of the hanging and reports the devices as not answering, which says more than a lease that ends.
"""

import random
import threading
from collections.abc import Callable
from typing import Final

from admission.agent.cluster.api_client import ApiClient
from admission.agent.cluster.backoff import RetryBackoff
from queues.api.api_resources import LEASES, NODES, Document
from queues.api.names import AGENT_LEASE_SECONDS
from queues.errors import ApiError, Conflict, NotFound
from queues.text_format import rfc3339

#: Seconds between two renewals (two may be missed), and how far each may lie from that, as a part of it.
INTERVAL: Final = 60.0
_JITTER: Final = 0.1
#: Seconds until the next look for a Node that is not known.
_UNKNOWN: Final = 0.5


class LeaseHeartbeat:
    """Renews the lease of one agent."""

    def __init__(
        self, client: ApiClient, *, namespace: str, node: str, holder: str, rng: random.Random
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._node = node
        self._holder = holder
        self._rng = rng
        self._backoff = RetryBackoff(f"renewing the lease {namespace}/{node}", rng)
        #: Renewals so far: for the metrics.
        self.renewals = 0

    def run(
        self, clock: Callable[[], float], node_uid: Callable[[], str | None], stop: threading.Event
    ) -> None:
        """Renew until ``stop``. ``node_uid``: None while the Node is not known; then there is no lease yet."""
        while not stop.is_set():
            uid = node_uid()
            stop.wait(_UNKNOWN if uid is None else self.beat(clock(), uid))

    def beat(self, now: float, node_uid: str) -> float:
        """Renew the lease; seconds until the next time. Never raises for an answer of the API server, or none.

        ``now``: seconds since the epoch; ``node_uid``: of the Node, with which the lease goes.
        """
        try:
            self._renew(now, node_uid)
        except ApiError as error:
            return self._backoff.failed(error)
        self.renewals += 1
        self._backoff.succeeded()
        return INTERVAL * self._rng.uniform(1 - _JITTER, 1 + _JITTER)

    def _renew(self, now: float, node_uid: str) -> None:
        # One request: a merge patch needs no version of what it changes, and no other program writes this lease.
        said = {"holderIdentity": self._holder, "renewTime": rfc3339(now, "microseconds")}
        try:
            self._client.merge(LEASES.path(self._namespace, self._node), {"spec": said})
        except NotFound:
            try:
                self._client.create(LEASES.path(self._namespace), self._document(said, node_uid))
            except Conflict:  # a request that was answered too late had created it
                return

    def _document(self, said: Document, node_uid: str) -> Document:
        owner = {"apiVersion": NODES.api_version, "kind": NODES.kind, "name": self._node, "uid": node_uid}
        spec = {**said, "leaseDurationSeconds": AGENT_LEASE_SECONDS}
        document = LEASES.document(self._node, self._namespace, spec=spec)
        document["metadata"]["ownerReferences"] = [owner]
        return document
