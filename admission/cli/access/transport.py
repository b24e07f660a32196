"""One request to the API server or a replica, with the TLS settings of the kubeconfig. Standard library only."""

import http.client
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import urlsplit

from admission.cli.failures import CommandFailed
from admission.kube.client.kubeconfig import Access


def request(
    access: Access,
    target: str,
    *,
    timeout: float,
    tried: str,
    unreachable: str,
    method: str = "GET",
    body: bytes | None = None,
    headers: Mapping[str, str] = {},
) -> tuple[int, bytes]:
    """Status and body of the answer. ``timeout`` in seconds, for connecting and for each read; ``body``: JSON.
    ``headers``: in place of the usual ones, or in addition to them.

    Raises CommandFailed saying what was ``tried``; ``unreachable`` is the advice if no server answers.
    """
    connection = _connection(access, timeout)
    prefix = urlsplit(access.server).path.rstrip("/")
    try:
        connection.putrequest(method, prefix + target)
        usual = {"Accept": "application/json", "User-Agent": "kubectl-muster"}
        if body is not None:
            usual |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
        for name, text in (*{**usual, **headers}.items(), *access.headers):
            connection.putheader(name, text)
        connection.endheaders(body)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except ssl.SSLCertVerificationError as error:
        hint = "Check certificate-authority(-data) of the cluster in the kubeconfig."
        raise CommandFailed(tried=tried, found=error.verify_message, hint=hint) from error
    except TimeoutError as error:
        found = f"no answer within {timeout:g} seconds"
        raise CommandFailed(tried=tried, found=found, hint="Wait longer with --timeout SECONDS.") from error
    except (OSError, http.client.HTTPException) as error:
        raise CommandFailed(tried=tried, found=_told(error), hint=unreachable) from error
    finally:
        connection.close()


@contextmanager
def stream(access: Access, target: str, *, timeout: float) -> Iterator[http.client.HTTPResponse]:
    """An answer that is read while it comes. ``timeout`` in seconds, for each read. Raises OSError, HTTPException and
    CommandFailed."""
    connection = _connection(access, timeout)
    try:
        connection.putrequest("GET", urlsplit(access.server).path.rstrip("/") + target)
        for name, text in (
            ("Accept", "text/event-stream"),
            ("User-Agent", "kubectl-muster"),
            *access.headers,
        ):
            connection.putheader(name, text)
        connection.endheaders()
        yield connection.getresponse()
    finally:
        connection.close()


def _connection(access: Access, timeout: float) -> http.client.HTTPConnection:
    scheme, host, port = _parts(access.server, "the server's")
    first, first_port = host, port
    if access.proxy:
        _, first, first_port = _parts(access.proxy, "the proxy's")
    connection: http.client.HTTPConnection
    if scheme == "https":
        connection = _Https(first, first_port, timeout, access)
    else:
        connection = http.client.HTTPConnection(first, first_port, timeout=timeout)
    if access.proxy:
        connection.set_tunnel(host, port)
    return connection


def _parts(url: str, whose: str) -> tuple[str, str, int]:
    """Scheme, host and port. If the URL has no port, it is that of the scheme.

    http.client would look for a missing port in an IPv6 address. Raises CommandFailed."""
    try:
        parts = urlsplit(url)
        scheme, host, port = parts.scheme, parts.hostname, parts.port
    except ValueError:  # brackets that do not match, or a port that is none
        scheme, host, port = "", None, None
    if scheme not in ("http", "https") or not host:
        raise CommandFailed(
            tried=f"Reading {whose} address {url!r}",
            found="expected http(s)://host:port, an IPv6 address in brackets",
        )
    return scheme, host, port or (443 if scheme == "https" else 80)


class _Https(http.client.HTTPSConnection):
    """TLS with the kubeconfig's certificates, and its tls-server-name when it differs from the host."""

    def __init__(self, host: str, port: int | None, timeout: float, access: Access) -> None:
        self._tls = _tls(access)
        self._name = access.server_name
        super().__init__(host, port, timeout=timeout, context=self._tls)

    def connect(self) -> None:
        if self._name is None:
            super().connect()
            return
        http.client.HTTPConnection.connect(self)
        self.sock = self._tls.wrap_socket(self.sock, server_hostname=self._name)


def _tls(access: Access) -> ssl.SSLContext:
    tls = ssl.create_default_context(cadata=access.authority)
    if access.insecure:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    if access.certificate:
        # OpenSSL reads certificates from files only; the file exists only during the call and only for this user.
        import tempfile

        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            file.write(access.certificate + "\n" + (access.key or ""))
            file.flush()
            try:
                tls.load_cert_chain(file.name)
            except ssl.SSLError as error:
                raise CommandFailed(
                    tried="Reading the user's certificate and key of the kubeconfig",
                    found=f"they cannot be used together ({error.reason})",
                ) from error
    return tls


def _told(error: Exception) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return f"{type(error).__name__} {error}".strip()
