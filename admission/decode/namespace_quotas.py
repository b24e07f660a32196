"""ResourceQuotas of Kubernetes → what the pods of a namespace may ask together. Pure."""

from admission.wire import WireResourceQuota
from queues.errors import InvalidQuantity
from queues.quota.namespace_quota import NamespaceQuota, QuotaLimit
from queues.resources import PODS, amount


def namespace_quota(quota: WireResourceQuota) -> NamespaceQuota | None:
    """A ResourceQuota; None if it counts no pods, or only those of a scope, which are not distinguished here."""
    if quota.spec.scopes or quota.spec.scope_selector:
        return None
    used, limits = quota.status.used or {}, []
    for name, hard in (quota.status.hard or {}).items():
        resource = _limited_by(name)
        if resource is None:
            continue
        try:
            units = amount(resource, hard), amount(resource, used.get(name, 0))
        except InvalidQuantity:
            continue
        limits.append(QuotaLimit(name, resource, *units))
    meta = quota.metadata
    return NamespaceQuota(namespace=meta.namespace, name=meta.name, limits=tuple(limits)) if limits else None


def _limited_by(name: str) -> str | None:
    """The resource of pods that a line of a ResourceQuota limits; None if it limits something else."""
    if name in ("pods", "count/pods"):
        return PODS
    if name in ("cpu", "memory", "ephemeral-storage") or name.startswith("hugepages-"):
        return name
    resource = name.removeprefix("requests.")
    return None if resource in (name, "storage") else resource
