"""Kubeconfigs for servers that tests play, and for users that they make up."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_kubeconfig(path: Path, server: str, user: Mapping[str, Any] | None = None, **cluster: Any) -> Path:
    """A kubeconfig of one user. ``user``: its credentials; None: of a server that authenticates nobody."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "clusters": [{"name": "test", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "test", "user": user if user is not None else {"token": "none"}}],
    }
    path.write_text(json.dumps(document))
    return path
