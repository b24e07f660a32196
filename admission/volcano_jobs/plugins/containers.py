"""Environment variables and volumes in every container of a pod, init containers included."""

from collections.abc import Iterable, Mapping
from typing import Any


def containers(pod: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    """The pod's init containers, then its containers."""
    yield from pod["spec"].get("initContainers") or ()
    yield from pod["spec"].get("containers") or ()


def add_environment(pod: dict[str, Any], variables: Mapping[str, str | Mapping[str, Any]]) -> None:
    """Append variables: texts, or where their values come from.

    As in Volcano they come last and win over variables of the template of the same name.
    """
    added = [
        {"name": name, "value" if isinstance(value, str) else "valueFrom": value}
        for name, value in variables.items()
    ]
    for container in containers(pod):
        container["env"] = [*(container.get("env") or ()), *added]


def open_port(pod: Mapping[str, Any], name: str, number: int, *, only: str | None = None) -> None:
    """Declare a port of every container that does not declare it already. ``only``: of the container of that name.

    Declared ports only inform. In the network of the host they would be taken from the node, so none is declared there.
    """
    if pod["spec"].get("hostNetwork"):
        return
    for container in pod["spec"].get("containers") or ():
        ports = container.get("ports") or ()
        known = any(each.get("containerPort") == number or each.get("name") == name for each in ports)
        if only in (None, container.get("name")) and not known:
            container["ports"] = [*ports, {"name": name, "containerPort": number}]


def add_volume(
    pod: dict[str, Any], volume: dict[str, Any], mount: dict[str, Any], *, present: bool = False
) -> None:
    """Mount a volume in every container. ``present``: another mount added the volume to the pod already."""
    if not present:
        pod["spec"]["volumes"] = [*(pod["spec"].get("volumes") or ()), volume]
    for container in containers(pod):
        container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]
