"""Files of the Helm chart that follow from the manifests: templates, definitions, the schema of its values. Pure.

``deploy.manifests`` writes them. Templates written by hand (Deployment, Services, queues) are in ``chart/templates``.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from deploy.chart_schema import values_schema

_NAMESPACE: Final = "muster-system"
#: Where both the chart and the manifests have it: folder of the chart ← folder of ``deploy``.
COPIED: Final = {
    "crds": ("crds", "*.yaml"),
    "monitoring/rules": ("monitoring/rules", "*.yaml"),
    "monitoring/dashboards": ("monitoring/dashboards", "*.json"),
}
#: Templates of objects that say which certificates the API server believes.
_BELIEVERS: Final = ("policies-webhooks.yaml", "read-api.yaml")
#: What their metadata ends with.
_LABELS: Final = "  labels:\n    app.kubernetes.io/part-of: muster\n"
#: In the manifest of the agents, and what stands there in the template. Lists are JSON, on the line of their key.
_AGENT_VALUES: Final = (
    ("image: muster:0.1.0\n", '{{ include "muster.image" . | printf "image: %s" }}\n'),
    (
        "tolerations:\n      - operator: Exists\n",
        "tolerations: {{ toJson .Values.agent.tolerations }}\n",
    ),
    (
        "resources:\n          requests:\n            cpu: 10m\n            memory: 64Mi\n"
        "          limits:\n            memory: 128Mi\n",
        "resources: {{ toJson .Values.agent.resources }}\n",
    ),
    (
        "metadata.name: monitoring\n",
        "metadata.name: {{ .Values.networkPolicy.monitoringNamespace }}\n",
    ),
    (
        "except:\n        - 10.244.0.0/16\n",
        "except: {{ toJson .Values.networkPolicy.podCIDRs.ipv4 }}\n",
    ),
    (
        "except:\n        - fd00::/8\n",
        "except: {{ toJson .Values.networkPolicy.podCIDRs.ipv6 }}\n",
    ),
)


class NotInManifest(ValueError):
    """A part of the agents' manifest that values of the chart replace is not there exactly once."""


def chart_files(manifests: Mapping[str, str], deploy: Path) -> dict[str, str]:
    """Path below ``deploy`` → content. ``manifests``: the written ones; ``deploy``: the folder that has the others.

    Raises NotInManifest.
    """
    found = {
        f"chart/templates/{path.replace('/', '-')}": _template(text)
        for path, text in manifests.items()
        if path not in ("agent.yaml", "rbac/agent.yaml", "provisioning.yaml")
    }
    provisioning = _template(manifests["provisioning.yaml"])
    found["chart/templates/provisioning.yaml"] = _if("provisioning.enabled", provisioning)
    agents = _with_agent_values(_template(manifests["agent.yaml"]))
    found["chart/templates/agent.yaml"] = _if("agent.enabled", agents)
    found["chart/templates/rbac-agent.yaml"] = _if("agent.enabled", _template(manifests["rbac/agent.yaml"]))
    for path in _BELIEVERS:
        found[f"chart/templates/{path}"] = _with_ca_injection(found[f"chart/templates/{path}"])
    for target, (source, names) in COPIED.items():
        for file in sorted((deploy / source).glob(names)):
            found[f"chart/{target}/{file.name}"] = file.read_text()
    found["chart/values.schema.json"] = json.dumps(values_schema(), indent=2) + "\n"
    return found


def _template(text: str) -> str:
    """A manifest as a template: braces of expressions stay as they are, the namespace is that of the release."""
    return text.replace("{{", '{{ "{{" }}').replace(_NAMESPACE, "{{ .Release.Namespace }}")


def _with_ca_injection(text: str) -> str:
    """Where cert-manager makes the certificates it also says who signed them."""
    if text.count(_LABELS) != text.count("\nmetadata:\n"):
        raise NotInManifest(_LABELS)
    return text.replace(_LABELS, _LABELS + '{{- include "muster.caInjection" . }}\n')


def _with_agent_values(text: str) -> str:
    for there, instead in _AGENT_VALUES:
        if text.count(there) != 1:
            raise NotInManifest(there)
        text = text.replace(there, instead)
    *others, network_policy = text.split("\n---\n")
    return "\n---\n".join([*others, _if("networkPolicy.enabled", network_policy)])


def _if(value: str, text: str) -> str:
    return f"{{{{- if .Values.{value} }}}}\n{text}{{{{- end }}}}\n"
