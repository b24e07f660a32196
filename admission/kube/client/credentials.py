"""How to reach and convince the API server: kubeconfig or service account, by kubernetes_asyncio.config.

Importing kubernetes_asyncio costs 75 MB and most of a second, because its packages import every generated
model. Only its configuration half is needed here, so that half is loaded below empty parent packages (2 MB,
0.1 s). If a release of the library no longer allows that, the plain import is used.
"""

import asyncio
import importlib
import os
import ssl
import sys
import time
import urllib.request
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Final
from urllib.parse import urlsplit

from queues.errors import ApiUnavailable

_LIBRARY: Final = "kubernetes_asyncio"

#: Seconds after which credentials are looked at again (a rotated token file, an exec plugin's expiry).
REFRESH_AFTER: Final = 60.0


class Credentials:
    """Address, TLS and authorization of one API server; refreshed as they expire."""

    def __init__(self, configuration: Any, loader: Any | None) -> None:
        self._configuration = configuration
        self._loader = loader
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
        try:
            if in_cluster:
                config.load_incluster_config(client_configuration=configuration)
                return cls(configuration, None)
            where = _existing(str(kubeconfig) if kubeconfig is not None else _default_kubeconfig())
            loader = await config.load_kube_config(
                config_file=where, context=context, client_configuration=configuration, persist_config=False
            )
        except Exception as error:
            source = "the service account" if in_cluster else str(kubeconfig or _default_kubeconfig())
            reason = f"cannot use {source}: {str(error) or type(error).__name__}"
            raise ApiUnavailable(method="connect", path=source, status=0, reason=reason) from error
        return cls(configuration, loader)

    async def authorization(self, *, rejected: bool = False) -> str | None:
        """The Authorization header; ``rejected`` after a 401 asks for a new one at once."""
        if self._configuration.refresh_api_key_hook is not None:
            if rejected:
                # The library's hook rereads the token file at most once a minute; a 401 cannot wait.
                self._forget_service_token()
            result = self._configuration.refresh_api_key_hook(self._configuration)
            if asyncio.iscoroutine(result):
                await result
        elif self._loader is not None and (rejected or time.monotonic() - self._checked > REFRESH_AFTER):
            async with self._lock:
                await self._refresh(rejected)
        token: str | None = self._configuration.api_key.get("BearerToken")
        return token.strip() if token else None  # files tend to end with a newline

    async def _refresh(self, rejected: bool) -> None:
        now = time.monotonic()
        if now - self._checked < (1.0 if rejected else REFRESH_AFTER):
            return  # somebody else did it while we waited for the lock
        self._checked = now
        loader: Any = self._loader
        user = loader._user
        if user is None:
            return
        if "exec" in user:
            if not rejected and not hasattr(loader, "exec_plugin_expiry"):
                return  # a plugin that names no expiry is asked again only when its answer is refused
            if rejected and hasattr(loader, "exec_plugin_expiry"):
                del loader.exec_plugin_expiry
        await loader._load_authentication()
        loader._set_config(self._configuration)
        certificate = (self._configuration.cert_file, self._configuration.key_file)
        if self.tls is not None and certificate != self._certificate and certificate[0]:
            self._certificate = certificate
            self.tls.load_cert_chain(*certificate)

    def _forget_service_token(self) -> None:
        hook = self._configuration.refresh_api_key_hook
        for cell in getattr(hook, "__closure__", None) or ():
            loader = cell.cell_contents
            if hasattr(loader, "token_expires_at"):
                loader._read_token_file()


def _default_kubeconfig() -> str:
    return os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")


def _existing(where: str) -> str:
    if not any(Path(part).expanduser().exists() for part in where.split(os.pathsep)):
        raise FileNotFoundError("no such file")
    return where


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
        # Whoever imports the library after this gets all of it.
        for name in [name for name in sys.modules if name.split(".")[0] == _LIBRARY]:
            del sys.modules[name]


def _empty_package(name: str, folder: Path) -> ModuleType:
    package = ModuleType(name)
    package.__path__ = [str(folder)]
    sys.modules[name] = package
    return package
