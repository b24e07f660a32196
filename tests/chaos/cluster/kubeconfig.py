"""Kubeconfigs for the model API server."""

import json
from pathlib import Path


def write_kubeconfig(path: Path, server: str) -> Path:
    """A kubeconfig for a server that authenticates nobody."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "model",
        "contexts": [{"name": "model", "context": {"cluster": "model", "user": "model"}}],
        "clusters": [{"name": "model", "cluster": {"server": server}}],
        "users": [{"name": "model", "user": {"token": "none"}}],
    }
    path.write_text(json.dumps(document))
    return path
