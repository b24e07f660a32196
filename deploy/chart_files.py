"""Files of the Helm chart that follow from the manifests: templates, definitions, the schema of its values. Pure.

``deploy.manifests`` writes them. Templates written by hand (Deployment, Services, queues) are in ``chart/templates``.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from deploy.chart_agents import NotInManifest, agent_template, only_if
from deploy.chart_schema import settings_template, values_schema
from queues.api.names import DEFAULT_SCHEDULER, VOLCANO_SCHEDULER

_NAMESPACE: Final = "muster-system"
#: Where both the chart and the manifests have it: folder of the chart ← folder of ``deploy``.
COPIED: Final = {
    "crds": ("crds", "*.yaml"),
    "monitoring/rules": ("monitoring/rules", "*.yaml"),
    "monitoring/dashboards": ("monitoring/dashboards", "*.json"),
}
#: Of the policies that name schedulers, and what stands there in the template. Inside of quotes YAML doubles a quote.
_SCHEDULERS: Final = (
    (DEFAULT_SCHEDULER, '{{ include "muster.schedulerName" . }}'),
    (f"[''{VOLCANO_SCHEDULER}'']", """[{{ include "muster.schedulerAliases" (list "''" .) }}]"""),
    (f"['{VOLCANO_SCHEDULER}']", """[{{ include "muster.schedulerAliases" (list "'" .) }}]"""),
)
#: Templates of objects that say which certificates the API server believes.
_BELIEVERS: Final = ("policies-webhooks.yaml", "read-api.yaml")
#: What their metadata ends with.
_LABELS: Final = "  labels:\n    app.kubernetes.io/part-of: muster\n"


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
    found["chart/templates/provisioning.yaml"] = only_if(".Values.provisioning.enabled", provisioning)
    agents = agent_template(_template(manifests["agent.yaml"]))
    found["chart/templates/agent.yaml"] = only_if(".Values.agent.enabled", agents)
    found["chart/templates/rbac-agent.yaml"] = only_if(
        ".Values.agent.enabled", _template(manifests["rbac/agent.yaml"])
    )
    found["chart/templates/policies-gate.yaml"] = _with_schedulers(
        found["chart/templates/policies-gate.yaml"]
    )
    for path in _BELIEVERS:
        found[f"chart/templates/{path}"] = _with_ca_injection(found[f"chart/templates/{path}"])
    for target, (source, names) in COPIED.items():
        for file in sorted((deploy / source).glob(names)):
            found[f"chart/{target}/{file.name}"] = file.read_text()
    found["chart/templates/_settings.tpl"] = settings_template()
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


def _with_schedulers(text: str) -> str:
    """The names of schedulers are settings, which the policies have as well."""
    for there, instead in _SCHEDULERS:
        if there not in text:
            raise NotInManifest(there)
        text = text.replace(there, instead)
    return text
