"""kubectl, for what it does better: to show what pods print, and to be at their terminals."""

import subprocess
import sys

from admission.cli.access.requests import Route
from admission.cli.command_line import CommandFailed


def call_kubectl(route: Route, namespace: str, verb: str, *words: str) -> int:
    """Its exit code. It reads and writes where this process does. Raises CommandFailed if there is none."""
    called = ["kubectl", verb, "-n", namespace, *words]
    called += [f"--kubeconfig={route.kubeconfig}"] if route.kubeconfig else []
    called += [f"--context={route.context}"] if route.context else []
    sys.stdout.flush()
    try:
        return subprocess.call(called)
    except FileNotFoundError as error:
        raise CommandFailed(tried=f"Running kubectl {verb}", found="there is no kubectl on PATH") from error
