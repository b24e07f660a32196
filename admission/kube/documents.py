"""Objects of Kubernetes as documents: what Muster installs carries one label. Pure."""

from typing import Any, Final

Document = dict[str, Any]

#: On everything that ``muster install`` applies, so that ``muster uninstall`` finds it again.
PART_OF: Final = {"app.kubernetes.io/part-of": "muster"}

_PLURALS: Final = {
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
}


def path_of(document: Document) -> str:
    """Where the API server has it."""
    version, kind, metadata = document["apiVersion"], document["kind"], document["metadata"]
    parts = ["/apis" if "/" in version else "/api", version]
    if metadata.get("namespace"):
        parts += ["namespaces", metadata["namespace"]]
    return "/".join([*parts, _PLURALS.get(kind, f"{kind.lower()}s"), metadata["name"]])


def named(document: Document) -> str:
    """``clusterrole/muster``, as kubectl names it."""
    return f"{document['kind'].lower()}/{document['metadata']['name']}"
