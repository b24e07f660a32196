"""Requests to the local API server by the standard library: enough to set up a cluster and to read it."""

import http.client
import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from admission.api_connection import Connection, tls_context
from admission.kube.client.kubeconfig import load
from queues.errors import ApiError, ApiUnavailable


class LocalClient:
    """One connection, one thread at a time, as the identity of a kubeconfig."""

    def __init__(self, kubeconfig: Path, *, timeout: float = 120.0) -> None:
        self._access = load(str(kubeconfig), None)
        self._tls = tls_context(self._access)
        self._timeout = timeout
        self._connection: Connection | None = None

    def __enter__(self) -> "LocalClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the next request opens a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def get(self, path: str) -> Any:
        """The object or list at a path."""
        return self.request("GET", path)

    def create(self, path: str, document: dict[str, Any]) -> Any:
        """POST a new object to its collection."""
        return self.request("POST", path, document)

    def merge(self, path: str, document: dict[str, Any]) -> Any:
        """Merge-patch an object."""
        return self.request("PATCH", path, document, content_type="application/merge-patch+json")

    def delete(self, path: str) -> Any:
        """Delete an object."""
        return self.request("DELETE", path)

    def watch(self, path: str) -> Iterator[Any]:
        """The events of a watch, until it ends. Silence longer than the timeout raises ApiUnavailable."""
        try:
            response = self.send("GET", path)
            if response.status >= 400:
                reason = response.read().decode()
                raise ApiError(method="WATCH", path=path, status=response.status, reason=reason)
            for line in response:
                yield json.loads(line)
        except (OSError, http.client.HTTPException) as error:
            raise ApiUnavailable(method="WATCH", path=path, status="no answer", reason=error) from error
        finally:
            self.close()

    def request(
        self, method: str, path: str, document: Any = None, *, content_type: str = "application/json"
    ) -> Any:
        """Send one request; the answer's JSON, or its text where it is none. Refusals are raised."""
        body = None if document is None else json.dumps(document)
        try:
            response = self.send(method, path, body, content_type)
            answer = response.read().decode()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise ApiUnavailable(method=method, path=path, status="no answer", reason=error) from error
        is_json = (response.headers["Content-Type"] or "").startswith("application/json")
        parsed = json.loads(answer) if is_json else answer
        if response.status >= 400:
            reason = parsed.get("message", answer) if isinstance(parsed, dict) else answer
            raise ApiError(method=method, path=path, status=response.status, reason=reason)
        return parsed

    def send(
        self, method: str, path: str, body: str | None = None, content_type: str = "application/json"
    ) -> http.client.HTTPResponse:
        """The answer to one request, whatever it says; the caller reads it."""
        headers = {"Accept": "application/json", "Content-Type": content_type, "User-Agent": "muster-local"}
        content = None if body is None else body.encode()
        if self._connection is not None:
            try:
                return self._connection.send_request(method, path, headers=headers, body=content)
            except (ssl.SSLEOFError, http.client.RemoteDisconnected, ConnectionError):
                # The server may have closed an idle connection; then it has read nothing of the request.
                self.close()
        self._connection = Connection(self._access, timeout=self._timeout, tls=self._tls)
        return self._connection.send_request(method, path, headers=headers, body=content)
