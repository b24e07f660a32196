"""Users at a terminal, with the roles that they were given and no other rights."""

import json
import subprocess
from pathlib import Path
from typing import Any

from deploy.local.client import LocalClient
from tests.cluster_faults import plugin
from tests.e2e.support.sandbox import Sandbox


class Person:
    """A user, and what ``kubectl muster`` of this checkout says to them.

    ``roles``: ClusterRoles that they have everywhere; ``edits``: namespaces whose members they are.
    """

    def __init__(self, sandbox: Sandbox, name: str, *roles: str, edits: tuple[str, ...] = ()) -> None:
        self.name = name
        self.kubeconfig = sandbox.stack.cluster.kubeconfig_for(name)
        for role in roles:
            sandbox.bind(name, role)
        for namespace in edits:
            sandbox.bind(name, "edit", namespace)

    def client(self) -> LocalClient:
        """What asks the API server in their name."""
        return LocalClient(self.kubeconfig)

    def says(self, *words: str | Path) -> "subprocess.CompletedProcess[str]":
        """What a command leads to."""
        return plugin(self.kubeconfig, *words)

    def does(self, *words: str | Path) -> str:
        """What a command prints that has to work."""
        done = self.says(*words)
        assert done.returncode == 0, done
        return done.stdout

    def json(self, *words: str | Path) -> Any:
        """As ``does``, of a command that lists something."""
        return json.loads(self.does(*words, "-o", "json"))

    def complaint(self, *words: str | Path) -> str:
        """What is said on standard error by a command that fails, and prints nothing."""
        done = self.says(*words)
        assert (done.returncode, done.stdout) == (1, ""), done
        return done.stderr
