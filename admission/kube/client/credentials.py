"""How the controller reaches and convinces the API server: a kubeconfig or its pod's service account, read again as
credentials expire."""

import asyncio
import os
import ssl
import time
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from admission.api_connection import Access, UnusableAccess, tls_context
from admission.kube.client.kubeconfig import is_in_pod, load
from queues.errors import ApiUnavailable

#: Seconds after which files are read again: tokens in them are rotated.
REFRESH_AFTER: Final = 60.0
#: Seconds between two calls of a credential plugin, and before the end of its answer at which it is called again.
_PAUSE: Final = 1.0
_EARLY: Final = 30.0


class Credentials:
    """Address, TLS and authorization of one API server; renewed as they expire."""

    def __init__(self, access: Access, read: Callable[[], Access]) -> None:
        """``read``: the access as it is now. Raises UnusableAccess, OSError."""
        self._access = access
        self._read = read
        self._read_at = time.monotonic()
        self._lock = asyncio.Lock()
        self.server = access.server
        self.server_name = access.server_name
        self.proxy = access.proxy or _proxy_of(access.server)
        self.tls: ssl.SSLContext | None = tls_context(access) if access.server.startswith("https") else None

    @classmethod
    async def load(cls, kubeconfig: Path | None = None, context: str | None = None) -> "Credentials":
        """From a kubeconfig; without one the pod's service account, ``$KUBECONFIG`` or ``~/.kube/config``.

        Raises ApiUnavailable when there is nothing usable.
        """
        read = partial(load, None if kubeconfig is None else str(kubeconfig), context)
        if is_in_pod(kubeconfig, context):
            read = partial(Access.in_pod, os.environ)
        return await cls.by(read)

    @classmethod
    async def by(cls, read: Callable[[], Access]) -> "Credentials":
        """From what reads the access, as often as it expires. Raises ApiUnavailable when there is nothing usable."""
        return cls(await _access_now(read), read)

    async def authorization(self, *, rejected: bool = False) -> str | None:
        """The Authorization header; ``rejected`` after a 401 asks for a new one at once. Raises ApiUnavailable."""
        if rejected or self._is_due():
            async with self._lock:
                await self._renew(rejected)
        return next((text for name, text in self._access.headers if name == "Authorization"), None)

    def _is_due(self) -> bool:
        """Whether the credentials are to be read again. The answer of a plugin that names no end counts until it is
        refused."""
        if self._access.by_plugin:
            expires = self._access.expires
            return expires is not None and time.time() > expires - _EARLY
        return time.monotonic() - self._read_at > REFRESH_AFTER

    async def _renew(self, rejected: bool) -> None:
        now = time.monotonic()
        if self._access.by_plugin and now - self._read_at < _PAUSE:
            return
        if not (rejected or self._is_due()):
            return  # another request did it while this one waited for the lock
        self._read_at = now
        before, self._access = self._access, await _access_now(self._read)
        certificate = (self._access.certificate, self._access.key)
        if self.tls is not None and certificate != (before.certificate, before.key):
            tls_context(self._access, self.tls)


async def _access_now(read: Callable[[], Access]) -> Access:
    """In a thread: a plugin may take long. Raises ApiUnavailable."""
    try:
        return await asyncio.to_thread(lambda: read().with_token())
    except (UnusableAccess, OSError) as error:
        raise ApiUnavailable(method="connect", path="the API server", status=0, reason=str(error)) from error


def _proxy_of(server: str) -> str | None:
    address = urlsplit(server)
    if urllib.request.proxy_bypass(address.hostname or ""):
        return None
    return urllib.request.getproxies().get(address.scheme)
