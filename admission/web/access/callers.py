"""Who asks the read API: known by the API server's proxy, or by a bearer token. Nobody else is."""

from hashlib import sha256
from typing import Final

from aiohttp import web

from admission.kube.access_reviews import Caller, FrontProxy, holder_of
from admission.kube.client.client import Client
from admission.web.access.answer_cache import Kept
from queues.errors import MusterError

#: Seconds for which the holder of a token is remembered, and a token that is nobody's.
_KNOWN_SECONDS: Final = 30.0
_UNKNOWN_SECONDS: Final = 5.0
_MOST_TOKENS: Final = 4096
#: The API server issues no longer ones.
_LONGEST_TOKEN: Final = 16_384


class Unauthenticated(MusterError):
    """Muster does not know who asks: {reason}."""


class Callers:
    """Authenticates requests."""

    def __init__(self, client: Client, proxy: FrontProxy) -> None:
        self._client = client
        self._proxy = proxy
        self._tokens: Kept[bytes, Caller | None] = Kept(
            _KNOWN_SECONDS,
            _MOST_TOKENS,
            lasts=lambda caller: _UNKNOWN_SECONDS if caller is None else _KNOWN_SECONDS,
        )

    async def caller(self, request: web.Request) -> Caller:
        """The user who asks. Raises Unauthenticated; ApiError: the API server cannot be asked."""
        name = _certified_name(request)
        if name is not None:
            caller = self._proxy.speaks_for(name, request.headers)
            if caller is not None:
                return caller
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            raise Unauthenticated(reason="the request has no bearer token")
        if len(token) > _LONGEST_TOKEN:
            raise Unauthenticated(reason="the bearer token is too long")
        found = await self._tokens.get(
            sha256(token.encode()).digest(), lambda: holder_of(self._client, token)
        )
        if found is None:
            raise Unauthenticated(reason="the API server does not know the bearer token")
        return found


def _certified_name(request: web.Request) -> str | None:
    """The common name of a client certificate that the connection has proved; None: there is none."""
    certificate = request.get_extra_info("peercert")
    if not certificate:
        return None
    for part in certificate.get("subject", ()):
        for name, value in part:
            if name == "commonName":
                return str(value)
    return ""
