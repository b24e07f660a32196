"""How to reach and convince the API server: kubeconfig or service account, by kubernetes_asyncio.config.

Importing kubernetes_asyncio costs 75 MB and most of a second, because its packages import every generated
model. Only its configuration half is needed here, so that half is loaded below empty parent packages (2 MB,
0.1 s). If a release of the library no longer allows that, the plain import is used; a test names the releases
that do. Beyond its import only the library's public names are used.
"""

import asyncio
import importlib
import os
import ssl
import sys
import time
import urllib.request
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Final
from urllib.parse import urlsplit

from admission.kube.client.kubeconfig import files_named, uses_plugin
from queues.errors import ApiUnavailable

_LIBRARY: Final = "kubernetes_asyncio"
#: Seconds after which credentials are looked at again (a rotated token file, an exec plugin's expiry).
REFRESH_AFTER: Final = 60.0


#: Renews what has expired; True: the API server refuses what there is.
_Renew = Callable[[bool], Awaitable[None]]


class Credentials:
    """Address, TLS and authorization of one API server; renewed as they expire."""

    def __init__(self, configuration: Any, renew: _Renew, pause: float) -> None:
        self._configuration = configuration
        self._renew_configuration = renew
        #: Seconds between two renewals because of credentials that were refused.
        self._pause = pause
        self._checked = time.monotonic()
        self._lock = asyncio.Lock()
        self._certificate = (configuration.cert_file, configuration.key_file)
        self.server: str = configuration.host.rstrip("/")
        self.server_name: str | None = configuration.tls_server_name
        self.proxy: str | None = configuration.proxy or _proxy_of(self.server)
        self.tls: ssl.SSLContext | None = _tls(configuration) if self.server.startswith("https") else None

    @classmethod
    async def load(cls, kubeconfig: Path | None = None, context: str | None = None) -> "Credentials":
        """From a kubeconfig; without one the pod's service account, ``$KUBECONFIG`` or ``~/.kube/config``.

        Raises ApiUnavailable when there is nothing usable.
        """
        configuration_class, config = _library()
        configuration = configuration_class()
        in_cluster = kubeconfig is None and context is None and "KUBERNETES_SERVICE_HOST" in os.environ
        path = str(kubeconfig) if kubeconfig is not None else None
        source = "the service account"
        try:
            if in_cluster:
                load = partial(config.load_incluster_config, configuration)
                load()
                renew: _Renew = partial(_renew_account, load)
                pause = 0.0  # reading a file costs nothing
            else:
                files = files_named(path, os.environ)
                source = os.pathsep.join(map(str, files))
                if not any(file.expanduser().is_file() for file in files):
                    raise FileNotFoundError("no such file")
                loader = await config.load_kube_config(
                    config_file=source,
                    context=context,
                    client_configuration=configuration,
                    persist_config=False,
                )
                renew = partial(_renew_user, loader, configuration, uses_plugin(path, context))
                pause = 1.0
        except Exception as error:
            reason = f"cannot use {source}: {str(error) or type(error).__name__}"
            raise ApiUnavailable(method="connect", path=source, status=0, reason=reason) from error
        return cls(configuration, renew, pause)

    async def authorization(self, *, rejected: bool = False) -> str | None:
        """The Authorization header; ``rejected`` after a 401 asks for a new one at once."""
        if rejected or time.monotonic() - self._checked > REFRESH_AFTER:
            async with self._lock:
                await self._renew(rejected)
        token: str | None = self._configuration.api_key.get("BearerToken")
        return token.strip() if token else None  # files tend to end with a newline

    async def _renew(self, rejected: bool) -> None:
        now = time.monotonic()
        if now - self._checked < (self._pause if rejected else REFRESH_AFTER):
            return  # another request did it while this one waited for the lock
        self._checked = now
        await self._renew_configuration(rejected)
        certificate = (self._configuration.cert_file, self._configuration.key_file)
        if self.tls is not None and certificate != self._certificate and certificate[0]:
            self._certificate = certificate
            self.tls.load_cert_chain(*certificate)


async def _renew_account(load: Callable[[], None], rejected: bool) -> None:
    """Read the token that the kubelet mounts, and rotates."""
    load()


async def _renew_user(loader: Any, configuration: Any, by_plugin: bool, rejected: bool) -> None:
    """Renew a user of a kubeconfig: a token file, an identity provider, a credential plugin."""
    has_expiry = hasattr(loader, "exec_plugin_expiry")
    if by_plugin and not rejected and not has_expiry:
        return  # a plugin that names no expiry is asked again only when its answer is refused
    if by_plugin and rejected and has_expiry:
        del loader.exec_plugin_expiry  # else its last answer would count until then
    await loader.load_and_set(configuration)


def _proxy_of(server: str) -> str | None:
    address = urlsplit(server)
    if urllib.request.proxy_bypass(address.hostname or ""):
        return None
    return urllib.request.getproxies().get(address.scheme)


def _tls(configuration: Any) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    # Clusters' own authorities often lack the key identifiers that Python ≥ 3.13 insists on.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _library() -> tuple[Any, Any]:
    """``Configuration`` and the ``config`` package."""
    if _LIBRARY in sys.modules:
        return _whole_library()
    try:
        return _configuration_half()
    except (ImportError, AttributeError, TypeError):
        return _whole_library()


def _whole_library() -> tuple[Any, Any]:
    return importlib.import_module(f"{_LIBRARY}.client").Configuration, importlib.import_module(
        f"{_LIBRARY}.config"
    )


def _configuration_half() -> tuple[Any, Any]:
    found = importlib.machinery.PathFinder.find_spec(_LIBRARY)
    if found is None or not found.submodule_search_locations:
        raise ImportError(_LIBRARY)
    root = Path(next(iter(found.submodule_search_locations)))
    try:
        _empty_package(_LIBRARY, root)
        client: Any = _empty_package(f"{_LIBRARY}.client", root / "client")
        client.Configuration = importlib.import_module(f"{_LIBRARY}.client.configuration").Configuration
        client.ApiClient = SimpleNamespace
        config = importlib.import_module(f"{_LIBRARY}.config")
        for lazy in ("exec_provider", "google_auth", "openid"):
            importlib.import_module(f"{_LIBRARY}.config.{lazy}")
        return client.Configuration, config
    finally:
        # A later import of the library gets all of it.
        for name in [name for name in sys.modules if name.split(".")[0] == _LIBRARY]:
            del sys.modules[name]


def _empty_package(name: str, folder: Path) -> ModuleType:
    package = ModuleType(name)
    package.__path__ = [str(folder)]
    sys.modules[name] = package
    return package
