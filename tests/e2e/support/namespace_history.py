"""Questions of tests to the history of all pods."""

from collections.abc import Callable

from tests.e2e.support.pod_history import Moment, PodHistory


class NamespaceHistory(PodHistory):
    """The watch of all pods, asked about one namespace."""

    __slots__ = ()

    def of(self, namespace: str, prefix: str = "") -> list[Moment]:
        """Events of the pods of a namespace with this prefix in their names, in order."""
        return [moment for moment in self.moments if moment.name.startswith(f"{namespace}/{prefix}")]

    def bound(self, namespace: str, prefix: str = "") -> dict[str, str]:
        """Pods that were ever bound, with their nodes."""
        return {moment.name: moment.node for moment in self.of(namespace, prefix) if moment.node}

    def ever(self, namespace: str, prefix: str, test: Callable[[Moment], bool]) -> bool:
        """True if a condition ever held."""
        return any(test(moment) for moment in self.of(namespace, prefix))


def admission_id(moment: Moment) -> str:
    """The id of the admission that holds the pod's seat. Empty: none."""
    return str(moment.pod["metadata"].get("annotations", {}).get("muster.dev/admission-id", ""))
