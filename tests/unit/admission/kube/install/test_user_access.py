"""Installing reads a kubeconfig by kubernetes_asyncio: the same access as the own reader's, and providers besides."""

import base64
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from admission.api_connection import UnusableAccess
from admission.kube.client.kubeconfig import load
from admission.kube.install.user_access import user_access
from tests.fakes.kubeconfigs import write_kubeconfig


def config(folder: Path, user: dict[str, Any], **cluster: Any) -> Path:
    return write_kubeconfig(folder / "config", "https://one:6443", user, **cluster)


def plugin(folder: Path, status: dict[str, Any]) -> dict[str, Any]:
    answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    script = folder / "plugin.py"
    script.write_text(f"print({json.dumps(json.dumps(answer))})", encoding="utf-8")
    command = {"command": sys.executable, "args": [str(script)], "interactiveMode": "Never"}
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", **command}}


def test_both_readers_find_the_same_access(tmp_path: Path) -> None:
    certificate = {
        "client-certificate-data": base64.b64encode(b"CERT").decode(),
        "client-key-data": base64.b64encode(b"KEY").decode(),
    }
    (tmp_path / "ca.pem").write_text("PEM", encoding="ascii")
    trusted = {"certificate-authority": str(tmp_path / "ca.pem"), "tls-server-name": "other"}
    for user, cluster in (
        ({"token": "abc"}, {}),
        ({"token": "abc"}, {"insecure-skip-tls-verify": True}),
        (certificate, trusted),
        (plugin(tmp_path, {"token": "from-a-plugin"}), {"proxy-url": "http://proxy:3128"}),
    ):
        file = config(tmp_path, user, **cluster)
        own, theirs = load(str(file), None), user_access(file, None)
        for field in (
            "server",
            "authority",
            "certificate",
            "key",
            "insecure",
            "server_name",
            "proxy",
            "headers",
        ):
            assert getattr(own, field) == getattr(theirs, field), (field, user)


def test_what_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UnusableAccess, match=r"^Reading the kubeconfig \S*/none: no such file\.$"):
        user_access(tmp_path / "none", None)
    file = config(
        tmp_path, {"exec": {"command": "no-such-plugin", "apiVersion": "client.authentication.k8s.io/v1"}}
    )
    with pytest.raises(UnusableAccess, match="Reading the kubeconfig"):
        user_access(file, None)
    with pytest.raises(UnusableAccess, match="another"):
        user_access(config(tmp_path, {"token": "abc"}), "another")
