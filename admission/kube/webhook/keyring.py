"""Keeps the webhook's keyring in a Secret, in the TLS context that serves, and in the webhook configurations.

Replicas converge without talking: the replica that writes second fails on the Secret's version and reads again.
"""

import asyncio
import base64
import logging
import random
import ssl
import tempfile
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Final, NoReturn

import msgspec

from admission.kube.client.client import Client
from admission.kube.webhook.certificates import (
    LIFETIMES,
    Keyring,
    Lifetimes,
    UnreadableKeyring,
    decoded,
    encoded,
    renewed,
)
from admission.kube.webhook.configuration import CONFIGURATION, SECRET, TENANT_CONFIGURATION
from admission.kube.webhook.validity import CertificatesLoaded, tell_nobody
from queues.api.api_resources import API_SERVICES, SECRETS, WEBHOOK_CONFIGURATIONS, api_service_name
from queues.api.names import READ_API
from queues.errors import ApiError, ApiRefused, Conflict, NotFound

_log = logging.getLogger(__name__)

CONFIGURATIONS: Final = (
    *(resource.path(name=CONFIGURATION) for resource in WEBHOOK_CONFIGURATIONS),
    WEBHOOK_CONFIGURATIONS[1].path(name=TENANT_CONFIGURATION),
)
#: Where the read API is registered at the API server.
READ_API_SERVICE: Final = API_SERVICES.path(name=api_service_name(READ_API))
#: Seconds between two looks at the Secret, and after a failure.
CHECK_EVERY: Final = 300.0
RETRY_AFTER: Final = 10.0
#: Writers that lose against others this often in a row do not meet each other by chance.
_ATTEMPTS: Final = 8


def utc_now() -> datetime:
    """The clock that certificates are made by."""
    return datetime.fromtimestamp(time.time(), UTC)


class KeyringStore:
    """The keyring of one webhook. ``names``: what its URL or Service is reached by."""

    def __init__(
        self,
        client: Client,
        *,
        namespace: str,
        names: Iterable[str],
        lifetimes: Lifetimes = LIFETIMES,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self._client = client
        self.namespace = namespace
        self._secret = SECRETS.path(namespace, SECRET)
        self.names = frozenset(names)
        self._lifetimes = lifetimes
        self._clock = clock
        self._loaded: bytes | None = None
        self._keyring: Keyring | None = None
        #: An object that should believe the bundle was not there.
        self._lacks_believers = False
        #: Called after each look.
        self.loaded: CertificatesLoaded = tell_nobody
        #: Serve with this one; new connections get the new certificate as soon as there is one.
        self.tls = tls_context()

    async def run(self) -> NoReturn:
        """Keep everything current, for ever. A failure is logged and tried again: serving goes on meanwhile."""
        began = time.monotonic()
        while True:
            pause = CHECK_EVERY
            try:
                await self.keep()
                # An installation that goes on may not have come to these objects yet.
                if self._lacks_believers and time.monotonic() - began < CHECK_EVERY:
                    pause = RETRY_AFTER
            except ApiError as error:
                pause = RETRY_AFTER
                _log.warning("the webhook's certificates could not be checked: %s", error)
            # Replicas started together do not ask together.
            await asyncio.sleep(pause * random.uniform(0.8, 1.2))

    async def keep(self) -> Keyring:
        """One look: agree on a keyring, serve with it, and have the API server believe it. Raises ApiError."""
        keyring = self._keyring = await self.agree()
        certificate = keyring.serving.certificate_pem
        if certificate != self._loaded:
            load(self.tls, certificate + keyring.serving.key_pem)
            self._loaded = certificate
            until = keyring.serving.certificate.not_valid_after_utc
            _log.info("serving certificate loaded", extra={"valid_until": until.isoformat()})
        self.loaded(keyring.serving.validity, keyring.authorities[-1].validity)
        await self.publish(keyring)
        return keyring

    def bundle(self) -> bytes:
        """The authorities that clients of any replica believe, as PEM; empty before the first look."""
        return b"" if self._keyring is None else self._keyring.bundle

    async def agree(self) -> Keyring:
        """The keyring that all replicas share, renewed if due. Raises ApiError."""
        for _ in range(_ATTEMPTS):
            stored, version = await self._read()
            keyring = renewed(stored, self.names, self._clock(), self._lifetimes)
            if keyring is stored:
                return keyring
            try:
                await self._write(keyring, version)
            except Conflict:
                continue
            _log.info("certificates renewed", extra={"authorities": len(keyring.authorities)})
            return keyring
        raise Conflict(method="PUT", path=self._secret, status=409, reason=f"{_ATTEMPTS} times in a row")

    async def publish(self, keyring: Keyring) -> None:
        """Put the bundle into the webhook configurations and the APIService, where these exist. Raises ApiError."""
        bundle = base64.b64encode(keyring.bundle).decode()
        self._lacks_believers = False
        for path, patch_of in _BELIEVERS.items():
            try:
                patch = patch_of(msgspec.json.decode(await self._client.get(path)), bundle)
                if patch:
                    await self._client.patch(path, patch, kind="json")
            except NotFound:
                self._lacks_believers = True  # installed without a webhook, or not yet
            except (Conflict, ApiRefused) as error:
                # Another replica changed it meanwhile: the next look finds what is left to do.
                _log.warning("bundle of certificates not published: %s", error)

    async def _read(self) -> tuple[Keyring | None, str]:
        """The stored keyring with its version; None if there is none that can be used."""
        try:
            secret = msgspec.json.decode(await self._client.get(self._secret))
        except NotFound:
            return None, ""
        version = str(secret["metadata"]["resourceVersion"])
        try:
            fields = {name: base64.b64decode(value) for name, value in (secret.get("data") or {}).items()}
            return decoded(fields), version
        except UnreadableKeyring as error:
            _log.warning("secret %s/%s: %s", self.namespace, SECRET, error)
            return None, version

    async def _write(self, keyring: Keyring, version: str) -> None:
        data = {name: base64.b64encode(value).decode() for name, value in encoded(keyring).items()}
        secret = SECRETS.document(SECRET, self.namespace, type="Opaque", data=data)
        if version:
            secret["metadata"]["resourceVersion"] = version
            await self._client.replace(self._secret, secret)
        else:
            await self._client.create(SECRETS.path(self.namespace), secret)


def _bundle_patch(configuration: dict[str, Any], bundle: str) -> list[dict[str, Any]]:
    """Steps that make every webhook of a configuration believe the bundle; none if they do."""
    stale = [
        index
        for index, webhook in enumerate(configuration.get("webhooks") or [])
        if webhook["clientConfig"].get("caBundle") != bundle
    ]
    if not stale:
        return []
    version = configuration["metadata"]["resourceVersion"]
    return [
        {"op": "test", "path": "/metadata/resourceVersion", "value": version},
        *(
            {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": bundle}
            for index in stale
        ),
    ]


def _service_patch(service: dict[str, Any], bundle: str) -> list[dict[str, Any]]:
    """Steps that make the API server believe the bundle when it passes requests on; none if it does."""
    if service["spec"].get("caBundle") == bundle:
        return []
    version = service["metadata"]["resourceVersion"]
    return [
        {"op": "test", "path": "/metadata/resourceVersion", "value": version},
        {"op": "add", "path": "/spec/caBundle", "value": bundle},
    ]


#: Objects that say which certificates the API server believes, and the steps that make it believe a bundle.
_BELIEVERS: Final = {**dict.fromkeys(CONFIGURATIONS, _bundle_patch), READ_API_SERVICE: _service_patch}


def tls_context() -> ssl.SSLContext:
    """One that serves, without a certificate yet."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def load(context: ssl.SSLContext, pem: bytes) -> None:
    """Serve with a certificate and its key. Raises ssl.SSLError.

    OpenSSL reads certificates from files only; this one is ours alone and lives for a moment."""
    with tempfile.NamedTemporaryFile(prefix="muster-") as file:
        file.write(pem)
        file.flush()
        context.load_cert_chain(file.name)
