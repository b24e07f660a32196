"""The page in the cluster: each request is answered with the rights of the bearer token that it brings.

An authenticating proxy in the same pod signs people in and passes each one's own token on. The page has no rights, no
sessions and no cookies: the API server says whose the token is, at every question. Of a request only the token counts.
Headers that name a user or ask to impersonate one are never passed on.
"""

import hashlib
import re
import threading
from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from http import HTTPStatus
from types import MappingProxyType
from typing import Final

from admission.api_connection import Access
from admission.cli.access.change_feed import ChangeFeed
from admission.cli.access.requests import Route, Unanswered, ask
from admission.cli.page.server import Answer, PageRequest, ViewServer, Visitor
from admission.cli.page.views import Views
from queues.errors import MusterError
from queues.read_api.bodies import VersionBody

#: The characters of a bearer token (RFC 6750).
_BEARER: Final = re.compile(r"bearer ([A-Za-z0-9._~+/-]{1,16384}={0,4})", re.IGNORECASE)
#: Path that says that the process serves, without a token.
_HEALTH: Final = ("healthz",)
#: People whose tokens are remembered: for the streams that their tabs share, and for nothing else.
_REMEMBERED: Final = 256
#: Streams at a time: of all, and of one token. A browser has one for all its tabs.
_STREAMS: Final = 200
_STREAMS_OF_ONE: Final = 8
_UNSIGNED: Final = (
    "Nobody is signed in: this page needs your own token, which the authenticating proxy before it passes on in "
    "the header Authorization (Bearer).\n"
)


class SharedPageServer(ViewServer):
    """Serves every user who brings a token. The API server says whose it is, and whether it is valid."""

    def __init__(
        self,
        address: tuple[str, int],
        api_server: Access,
        *,
        timeout: float,
        cluster: str = "",
        prices: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        """``api_server``: how it is reached; whose credentials it has does not matter. ``timeout`` in seconds.
        ``prices``: of an hour, by resource.

        Raises OSError: the port is taken.
        """
        super().__init__(address, cluster=cluster)
        self._api_server = api_server
        self._patience = timeout
        self._prices = prices
        self._lock = threading.Lock()
        self._visitors: OrderedDict[bytes, Visitor] = OrderedDict()
        self._streams: Counter[Visitor] = Counter()

    def before(self, asked: PageRequest) -> Answer | None:
        """Pages of other sites may link here, and not ask for anything in the background."""
        if asked.parts == _HEALTH:
            return Answer(status=HTTPStatus.OK, sentence="ok\n")
        site = asked.headers.get("Sec-Fetch-Site", "same-origin")
        if site in ("same-origin", "none") or asked.headers.get("Sec-Fetch-Mode") == "navigate":
            return None
        return Answer(status=HTTPStatus.FORBIDDEN, sentence="This was asked by a page of another site.\n")

    def admit(self, asked: PageRequest) -> Visitor | Answer:
        """By the one bearer token of the request."""
        given = asked.headers.get_all("Authorization", [])
        found = _BEARER.fullmatch(given[0]) if len(given) == 1 else None
        if found is None:
            headers = {"WWW-Authenticate": "Bearer"}
            return Answer(status=HTTPStatus.UNAUTHORIZED, sentence=_UNSIGNED, headers=headers)
        return self._visitor(found[1])

    def begin_stream(self, visitor: Visitor) -> Answer | None:
        """A token that is not valid gets no stream, and one person does not get all of them."""
        try:
            visitor.check()
        except Unanswered as error:
            return Answer(status=error.status, sentence=f"{error}\n")
        except MusterError as error:
            return Answer(status=HTTPStatus.BAD_GATEWAY, sentence=f"{error}\n")
        with self._lock:
            if self._streams[visitor] >= _STREAMS_OF_ONE or self._streams.total() >= _STREAMS:
                sentence = "Too many streams of changes are open.\n"
                return Answer(
                    status=HTTPStatus.TOO_MANY_REQUESTS, sentence=sentence, headers={"Retry-After": "30"}
                )
            self._streams[visitor] += 1
        return None

    def end_stream(self, visitor: Visitor) -> None:
        """One less."""
        with self._lock:
            self._streams[visitor] -= 1
            if not self._streams[visitor]:
                del self._streams[visitor]

    def _visitor(self, token: str) -> Visitor:
        key = hashlib.sha256(token.encode()).digest()
        with self._lock:
            found = self._visitors.get(key)
            if found is None:
                found = self._visitors[key] = self._visitor_of(token)
            self._visitors.move_to_end(key)
            while len(self._visitors) > _REMEMBERED:
                self._visitors.popitem(last=False)
            return found

    def _visitor_of(self, token: str) -> Visitor:
        """Who asks the API server with a token, and with nothing else."""
        headers = (("Authorization", f"Bearer {token}"),)
        access = replace(self._api_server, certificate=None, key=None, headers=headers)
        route = Route(access=access, timeout=self._patience)

        def check() -> None:
            """Raises Unanswered: the token is not valid, or its user may not ask."""
            ask(route, "version", VersionBody)

        return Visitor(
            views=Views(route=route, prices=self._prices).show, changes=ChangeFeed(route), check=check
        )
