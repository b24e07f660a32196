"""One request to the API server or a replica, with the access of the kubeconfig."""

import http.client
import re
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple

from admission.api_access import Access
from admission.api_connection import Connection
from admission.cli.failures import CommandFailed

#: A warning of an API server in the header of that name.
_WARNING: Final = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')
_AGENT = {"User-Agent": "kubectl-muster"}


class Answer(NamedTuple):
    """What a server answered."""

    status: int
    body: bytes
    #: Of the API server.
    warnings: tuple[str, ...] = ()


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
) -> Answer:
    """The answer. ``timeout`` in seconds, for connecting and for each read; ``body``: JSON.
    ``headers``: in place of the usual ones, or in addition to them.

    Raises CommandFailed saying what was ``tried``; ``unreachable`` is the advice if no server answers. Raises
    UnusableAccess.
    """
    connection = Connection(access, timeout=timeout)
    usual = {
        "Accept": "application/json",
        **_AGENT,
        **({} if body is None else {"Content-Type": "application/json"}),
    }
    try:
        answer = connection.send_request(method, target, headers={**usual, **headers}, body=body)
        warnings = _WARNING.findall(", ".join(answer.headers.get_all("Warning", ())))
        return Answer(answer.status, answer.read(), tuple(re.sub(r"\\(.)", r"\1", text) for text in warnings))
    except ssl.SSLCertVerificationError as error:
        hint = "Check certificate-authority(-data) of the cluster in the kubeconfig."
        raise CommandFailed(tried=tried, found=error.verify_message, hint=hint) from error
    except TimeoutError as error:
        found = f"no answer within {timeout:g} seconds"
        raise CommandFailed(tried=tried, found=found, hint="Wait longer with --timeout SECONDS.") from error
    except (OSError, http.client.HTTPException) as error:
        raise CommandFailed(tried=tried, found=_sentence_of(error), hint=unreachable) from error
    finally:
        connection.close()


@contextmanager
def stream(access: Access, target: str, *, timeout: float) -> Iterator[http.client.HTTPResponse]:
    """An answer that is read while it comes. ``timeout`` in seconds, for each read. Raises OSError, HTTPException and
    UnusableAccess."""
    connection = Connection(access, timeout=timeout)
    try:
        yield connection.send_request("GET", target, headers={"Accept": "text/event-stream", **_AGENT})
    finally:
        connection.close()


def _sentence_of(error: Exception) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return f"{type(error).__name__} {error}".strip()
