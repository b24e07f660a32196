"""The access of the person who installs, as kubernetes_asyncio reads it.

It knows every provider of tokens that users of Python's clients have. Importing it takes 75 MB and most of a second: a
process that ends after a minute may, the controller and the plugin read their access by themselves
(``admission.kube.client.kubeconfig``).
"""

import asyncio
import os
from pathlib import Path
from typing import Any

from admission.api_connection import Access, UnusableAccess
from admission.kube.client.kubeconfig import files_named, is_in_pod


def user_access(kubeconfig: Path | None, context: str | None) -> Access:
    """The access of a kubeconfig; without one that of the pod's service account, or of ``$KUBECONFIG``.

    Runs a loop of its own, so call it in a thread. Raises UnusableAccess with what was tried.
    """
    from kubernetes_asyncio.client import Configuration
    from kubernetes_asyncio.config import load_kube_config

    if is_in_pod(kubeconfig, context):
        return Access.in_pod(os.environ)
    files = files_named(None if kubeconfig is None else str(kubeconfig), os.environ)
    source, configuration = os.pathsep.join(map(str, files)), Configuration()
    try:
        if not any(file.expanduser().is_file() for file in files):
            raise FileNotFoundError("no such file")
        loading = load_kube_config(source, context, configuration, persist_config=False)
        asyncio.run(loading)
        return _access(configuration)
    except Exception as error:  # the library raises what its providers raise
        found = str(error) or type(error).__name__
        raise UnusableAccess(tried=f"Reading the kubeconfig {source}", found=found) from error


def _access(configuration: Any) -> Access:
    """What the library read, as values. Certificates are in files that it has written, or that the user has."""
    token = (configuration.api_key.get("BearerToken") or "").strip()
    return Access(
        server=configuration.host.rstrip("/"),
        authority=_text(configuration.ssl_ca_cert),
        certificate=_text(configuration.cert_file),
        key=_text(configuration.key_file),
        insecure=not configuration.verify_ssl,
        server_name=configuration.tls_server_name,
        proxy=configuration.proxy,
        headers=(("Authorization", token),) if token else (),
    )


def _text(file: str | None) -> str | None:
    return None if file is None else Path(file).read_text(encoding="ascii")
