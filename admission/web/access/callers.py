"""Who asks the read API: the user that the API server's proxy names, or the holder of a bearer token; no other caller.

A token costs a TokenReview, and tokens can be made up. So few reviews are under way at a time, tokens beyond that
are sent away with 429, and tokens that had a holder keep places of their own: made-up ones take none of them, and push
none out of memory.
"""

from dataclasses import dataclass
from hashlib import sha256
from time import monotonic
from typing import Final

from aiohttp import web

from admission.kube.access_reviews import Caller, FrontProxy, holder_of
from admission.kube.client.client import Client
from admission.web.access.answer_cache import Kept
from admission.web.access.limits import Gate, RequestLimits
from queues.errors import MusterError

#: Seconds for which the holder of a token is remembered, and a token without a holder.
_KNOWN_SECONDS: Final = 30.0
_UNKNOWN_SECONDS: Final = 5.0
_MOST_TOKENS: Final = 4096
#: Reviews of tokens that are new here, and of those that had a holder. With reviews of access (16) they leave a quarter
#: of the connections of the process free.
_NEW: Final = RequestLimits(at_once=4, waiting=16)
_KNOWN: Final = RequestLimits(at_once=4, waiting=64)
#: The API server issues no longer ones.
_LONGEST_TOKEN: Final = 16_384


class Unauthenticated(MusterError):
    """Muster does not know who asks: {reason}."""


@dataclass(frozen=True, slots=True)
class _Holder:
    caller: Caller
    #: Of the monotonic clock: then the API server is asked again.
    until: float


class Callers:
    """Authenticates requests."""

    def __init__(self, client: Client, proxy: FrontProxy) -> None:
        self._client = client
        self._proxy = proxy
        #: Holders of tokens, by digest, also those to be asked for again. The one that was asked for first comes first.
        self._holders: dict[bytes, _Holder] = {}
        #: Tokens that are being asked for, and those without a holder.
        self._reviews: Kept[bytes, Caller | None] = Kept(
            _UNKNOWN_SECONDS,
            _MOST_TOKENS,
            lasts=lambda caller: _UNKNOWN_SECONDS if caller is None else 0.0,
        )
        self._new = Gate(_NEW)
        self._known = Gate(_KNOWN)

    async def caller(self, request: web.Request) -> Caller:
        """The user who asks. Raises Unauthenticated; TooBusy; ApiError: the API server cannot be asked."""
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
        found = await self._holder_of(token)
        if found is None:
            raise Unauthenticated(reason="the API server does not know the bearer token")
        return found

    async def _holder_of(self, token: str) -> Caller | None:
        digest = sha256(token.encode()).digest()
        known = self._holders.get(digest)
        if known is not None and monotonic() < known.until:
            return known.caller
        gate = self._new if known is None else self._known
        return await self._reviews.get(digest, lambda: self._review(digest, token, gate))

    async def _review(self, digest: bytes, token: str, gate: Gate) -> Caller | None:
        async with gate.entered(digest):
            caller = await holder_of(self._client, token)
        self._holders.pop(digest, None)
        if caller is not None:
            while len(self._holders) >= _MOST_TOKENS:
                del self._holders[next(iter(self._holders))]
            self._holders[digest] = _Holder(caller, monotonic() + _KNOWN_SECONDS)
        return caller


def _certified_name(request: web.Request) -> str | None:
    """The common name of a client certificate that the connection has proved. None if there is none."""
    certificate = request.get_extra_info("peercert")
    if not certificate:
        return None
    for part in certificate.get("subject", ()):
        for name, value in part:
            if name == "commonName":
                return str(value)
    return ""
