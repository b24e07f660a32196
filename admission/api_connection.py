"""How a program reaches one API server as one user, and a connection of a short or small program to it: command line,
node agent and the local cluster ask by it.

Standard library only: a call of the plugin should take no longer than its answer, and an agent no more memory than its
devices need.
"""

import http.client
import os
import socket
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Self
from urllib.parse import urlsplit

from queues.errors import MusterError

#: Where Kubernetes mounts the token and the authority of a pod's service account.
SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class UnusableAccess(MusterError):
    """{tried}: {found}. {hint}"""

    def __init__(self, *, tried: str, found: str, hint: str = "") -> None:
        super().__init__(f"{tried}: {found}".rstrip(".") + "." + (f"\n{hint}" if hint else ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How to reach one API server as one user."""

    #: https://host:port, perhaps with a path.
    server: str
    #: Namespace of the context.
    namespace: str = "default"
    #: PEM texts. None for the system's authorities, or for no certificate.
    authority: str | None = None
    certificate: str | None = field(default=None, repr=False)
    key: str | None = field(default=None, repr=False)
    insecure: bool = False
    server_name: str | None = None
    proxy: str | None = None
    #: File of a bearer token, read for each request: whoever writes it replaces it before the token expires. None for
    #: no token, or one among the headers.
    token_file: Path | None = None
    #: Authorization and impersonation.
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    #: Whether a credential plugin gave token or certificate, and when they end (seconds since the epoch). None if it
    #: names no end.
    by_plugin: bool = False
    expires: float | None = None

    @classmethod
    def in_pod(cls, environment: Mapping[str, str], account: Path | None = None) -> Self:
        """The access of a container, by the service account of its pod. Raises UnusableAccess outside of one.

        ``account``: None for the usual folder.
        """
        account = account or SERVICE_ACCOUNT
        host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT")
        token_file, namespace = account / "token", account / "namespace"
        if not host or not token_file.is_file():
            raise UnusableAccess(
                tried="Looking for the service account of a pod",
                found=f"none, expected KUBERNETES_SERVICE_HOST and {token_file}",
                hint="Outside of a cluster name a kubeconfig by --kubeconfig.",
            )
        return cls(
            server=f"https://{f'[{host}]' if ':' in host else host}:{port or 443}",
            namespace=namespace.read_text(encoding="utf-8").strip() if namespace.is_file() else "default",
            authority=(account / "ca.crt").read_text(encoding="ascii"),
            token_file=token_file,
        )

    def with_token(self) -> Self:
        """The same with the token that the file has now among the headers. Raises OSError."""
        if self.token_file is None:
            return self
        token = self.token_file.read_text(encoding="utf-8").strip()
        headers = (("Authorization", f"Bearer {token}"), *self.headers)
        return replace(self, token_file=None, headers=headers)


#: An idle connection is probed after so many seconds, then so often, and is lost after so many probes.
_KEEP_ALIVE: Final = (30, 10, 3)


def tls_context(access: Access, tls: ssl.SSLContext | None = None) -> ssl.SSLContext:
    """The settings of TLS for an API server. ``tls``: earlier ones, which get the certificate of now.

    Raises UnusableAccess.
    """
    if tls is None:
        tls = ssl.create_default_context(cadata=access.authority)
        # Clusters' own authorities often lack the key identifiers that Python ≥ 3.13 insists on.
        tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if access.insecure:
            tls.check_hostname = False
            tls.verify_mode = ssl.CERT_NONE
    if access.certificate:
        # OpenSSL reads certificates from files only; the file exists only during the call and only for this user.
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            file.write(access.certificate + os.linesep + (access.key or ""))
            file.flush()
            try:
                tls.load_cert_chain(file.name)
            except ssl.SSLError as error:
                raise UnusableAccess(
                    tried="Reading the user's certificate and key of the kubeconfig",
                    found=f"they cannot be used together ({error.reason})",
                ) from error
    return tls


class Connection(http.client.HTTPConnection):
    """A connection to an API server, which notices after a minute that the other side is gone."""

    def __init__(self, access: Access, *, timeout: float, tls: ssl.SSLContext | None = None) -> None:
        """``timeout``: seconds for connecting, and for each read; ``tls``: None for those of ``tls_context``.

        Raises UnusableAccess.
        """
        scheme, host, port = _parts(access.server, "the server's")
        first = _parts(access.proxy, "the proxy's")[1:] if access.proxy else (host, port)
        super().__init__(*first, timeout=timeout)
        if access.proxy:
            self.set_tunnel(host, port)
        self._access = access
        self._name = access.server_name or host
        self._tls = (tls or tls_context(access)) if scheme == "https" else None
        self.default_port = http.client.HTTP_PORT if self._tls is None else http.client.HTTPS_PORT
        self._answer: http.client.HTTPResponse | None = None

    def connect(self) -> None:
        """Connect."""
        super().connect()
        _probe(self.sock)
        if self._tls is not None:
            self.sock = self._tls.wrap_socket(self.sock, server_hostname=self._name)

    def send_request(
        self, method: str, target: str, *, headers: Mapping[str, str], body: bytes | None = None
    ) -> http.client.HTTPResponse:
        """Send one request as the user; its answer, which is to be read. Raises OSError, HTTPException."""
        self.putrequest(method, urlsplit(self._access.server).path.rstrip("/") + target)
        length = {} if body is None else {"Content-Length": str(len(body))}
        for name, text in (*{**headers, **length}.items(), *self._access.with_token().headers):
            self.putheader(name, text)
        self.endheaders(body)
        self._answer = self.getresponse()
        return self._answer

    def close(self) -> None:
        """Close the connection, with an answer that was not read to its end.

        http.client lets go of an answer with which the server ends the connection; its socket would stay open.
        """
        super().close()
        if self._answer is not None:
            self._answer.close()


def _parts(url: str, whose: str) -> tuple[str, str, int]:
    """Scheme, host and port. If the URL has no port, it is that of the scheme.

    http.client would look for a missing port in an IPv6 address. Raises UnusableAccess."""
    try:
        parts = urlsplit(url)
        scheme, host, port = parts.scheme, parts.hostname, parts.port
    except ValueError:  # brackets that do not match, or a port that is none
        scheme, host, port = "", None, None
    if scheme not in ("http", "https") or not host:
        raise UnusableAccess(
            tried=f"Reading {whose} address {url!r}",
            found="expected http(s)://host:port, an IPv6 address in brackets",
        )
    return scheme, host, port or (443 if scheme == "https" else 80)


def _probe(connected: socket.socket) -> None:
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in zip(("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT"), _KEEP_ALIVE, strict=True):
        if hasattr(socket, option):  # not on every system where people try things
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
