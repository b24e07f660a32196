"""The page on a user's computer: it asks Muster as that user, and shows the answers to that user only.

It listens on the loopback address only. Others on the same computer, and web pages that the same browser has open,
reach that address too: so a request needs the secret of the address that the command has printed, which becomes a
cookie that other pages cannot send, and must name this server as its host.
"""

import hmac
import secrets
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import quote

from admission.cli.access.change_feed import ChangeFeed
from admission.cli.page.layout import ViewOf
from admission.cli.page.server import Answer, PageRequest, ViewServer, Visitor

_COOKIE: Final = "muster-page"


class PageServer(ViewServer):
    """Serves the views of the one user in whose browser the secret was given, until it is shut down."""

    def __init__(self, views: ViewOf, changes: ChangeFeed, *, port: int = 0, cluster: str = "") -> None:
        """``port`` 0: any free one. ``cluster``: what people call it. Raises OSError: the port is taken."""
        super().__init__(("127.0.0.1", port), cluster=cluster)
        self.secret = secrets.token_urlsafe(24)
        self._visitor = Visitor(views=views, changes=changes)

    @property
    def url(self) -> str:
        """The address with its secret."""
        return f"http://127.0.0.1:{self.server_port}/?secret={self.secret}"

    def before(self, asked: PageRequest) -> Answer | None:
        """A page of another name is none of this computer's: refused."""
        if asked.headers.get("Host", "") in {
            f"127.0.0.1:{self.server_port}",
            f"localhost:{self.server_port}",
        }:
            return None
        return Answer(status=421, sentence="This page is only served on this computer.\n")

    def admit(self, asked: PageRequest) -> Visitor | Answer:
        """By the secret of the address, which becomes a cookie, or by the cookie."""
        if self._is_secret(asked.query.pop("secret", "")):
            cookie = f"{self._cookie_name()}={self.secret}; HttpOnly; SameSite=Strict; Path=/"
            place = "/" + "/".join(quote(part, safe="") for part in asked.parts)
            return Answer(status=303, headers={"Location": place, "Set-Cookie": cookie})
        if self._is_secret(self._cookie(asked)):
            return self._visitor
        sentence = "Open the address that `kubectl muster page` has printed: it has a secret at its end.\n"
        return Answer(status=403, sentence=sentence)

    def _cookie_name(self) -> str:
        """Cookies are of all ports of a host: two pages in one browser each have their own."""
        return f"{_COOKIE}-{self.server_port}"

    def _cookie(self, asked: PageRequest) -> str:
        try:
            found = SimpleCookie(asked.headers.get("Cookie", "")).get(self._cookie_name())
        except CookieError:
            return ""
        return found.value if found is not None else ""

    def _is_secret(self, secret: str) -> bool:
        return hmac.compare_digest(secret.encode(), self.secret.encode())
