"""The installation of Muster that a cluster has already: where it is, and whether Helm keeps it.

There is one in a cluster, since much of it belongs to no namespace. A second one would give its rights to
another namespace. Installing over a release of Helm would leave Helm with conflicts, and cert-manager with another
authority.
"""

from dataclasses import dataclass
from typing import Final

import msgspec

from admission.kube.client.client import Client
from admission.kube.install.rbac import ACCOUNT, PROXY_NAMESPACE
from admission.kube.install.server_side_apply import found_at
from queues.api.api_resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    PART_OF,
    PART_OF_SELECTOR,
    ROLE_BINDINGS,
    Document,
)
from queues.api.names import HELM_NAMESPACE, HELM_RELEASE
from queues.errors import MusterError

#: Objects of no namespace that every installation has. One of them may have been deleted by mistake.
_CLUSTER_WIDE: Final = (CLUSTER_ROLE_BINDINGS.path(name=ACCOUNT), CLUSTER_ROLES.path(name=ACCOUNT))


class InstalledByHelm(MusterError):
    """Muster is installed as the Helm release {release} in the namespace {namespace}, expected none of Helm's: Helm
    could not upgrade objects that this command has changed. Nothing was done. To put right what was changed or
    deleted, run `helm upgrade {release} CHART --namespace {namespace} --reset-then-reuse-values --force-conflicts`;
    to bring only the definitions up to date, `muster install --only-definitions`.
    """


class InstalledElsewhere(MusterError):
    """Muster is installed in the namespace {found}, and this command is for {wanted}: the objects that belong to no
    namespace would be taken from that installation. Nothing was done. Add --namespace {found}. To move Muster, first
    remove it there: `muster uninstall --waiting leave --namespace {found}`.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingInstallation:
    """What the objects of an installation say of it."""

    #: None if no object says it.
    namespace: str | None
    #: The name of the Helm release. None if it is none of Helm's.
    release: str | None

    def require_namespace(self, wanted: str) -> None:
        """Raises InstalledElsewhere if it is in another namespace."""
        if self.namespace is not None and self.namespace != wanted:
            raise InstalledElsewhere(found=self.namespace, wanted=wanted)


async def existing_installation(client: Client) -> ExistingInstallation:
    """Whatever there is of an installation. Raises ApiError."""
    subjects: list[Document] = []
    for path in _CLUSTER_WIDE:
        found = await found_at(client, path)
        if found is None or not PART_OF.items() <= (found["metadata"].get("labels") or {}).items():
            continue
        annotations = found["metadata"].get("annotations") or {}
        if HELM_RELEASE in annotations:
            return ExistingInstallation(
                namespace=annotations.get(HELM_NAMESPACE), release=annotations[HELM_RELEASE]
            )
        subjects += found.get("subjects") or []
    homes = await _homes(client) or [one["namespace"] for one in subjects if one.get("namespace")]
    return ExistingInstallation(namespace=homes[0] if homes else None, release=None)


async def _homes(client: Client) -> list[str]:
    """Namespaces in which Muster has rights as in its own."""
    answer = await client.get(
        ROLE_BINDINGS.path(), labelSelector=PART_OF_SELECTOR, fieldSelector=f"metadata.name={ACCOUNT}"
    )
    places = [each["metadata"]["namespace"] for each in msgspec.json.decode(answer)["items"]]
    return [place for place in places if place != PROXY_NAMESPACE]
