"""Writes the files of the Helm chart that follow from the code: templates, definitions, the schema of its values.

    python -m deploy.manifests

The templates are what ``muster install`` applies, with values in place of what differs from cluster to cluster. A test
compares them. Templates written by hand (Deployment, node agents, Services, queues) lie next to them in
``deploy/chart/templates``. The schema of the values refuses unknown keys; of it only the settings follow from the code,
they are those of ``muster run``.
"""

import json
from pathlib import Path
from typing import Any, Final

import yaml

from admission.kube.install.install import AGENTS_MAY, Installation
from admission.kube.install.rbac import (
    AGENT,
    CONTROLLER,
    PROVISIONING,
    PolicyRule,
    agent_identity,
    agent_rbac,
    people,
    provisioning_rbac,
    rbac,
)
from admission.kube.install.read_api import read_api
from admission.kube.policies.policy_documents import agent_policies, mutating_policies, validating_policies
from admission.kube.webhook.configuration import webhook_configurations
from admission.settings import Settings
from queues.api.api_resources import NAMESPACES, Document
from queues.api.crd import PlainDumper, crd_files
from queues.api.names import AGENT_NAMESPACE, DEFAULT_SCHEDULER, VOLCANO_SCHEDULER

CHART: Final = Path(__file__).with_name("chart")
#: Muster in its usual namespace, reached by its Service.
INSTALLATION: Final = Installation()
_HEADER: Final = "# Written by `python -m deploy.manifests`; do not edit.\n"
#: Of the policies that name schedulers, and what stands there in the template. Inside of quotes YAML doubles a quote.
_SCHEDULERS: Final = (
    (DEFAULT_SCHEDULER, '{{ include "muster.schedulerName" . }}'),
    (f"[''{VOLCANO_SCHEDULER}'']", """[{{ include "muster.schedulerAliases" (list "''" .) }}]"""),
    (f"['{VOLCANO_SCHEDULER}']", """[{{ include "muster.schedulerAliases" (list "'" .) }}]"""),
)
#: Settings that follow from the Deployment or from other values.
OF_THE_CHART: Final = frozenset(
    {
        *("kubeconfig", "context", "namespace", "username", "identity", "podIp"),
        *("dsn", "dsnFile", "dataDir", "embeddedPostgres", "certificatesDir", "failedTurnsDir"),
        *("httpListen", "readListen", "readUrl", "webhookListen", "webhookUrl"),
    }
)
#: Of the schema of a setting, what the schema of the values says too.
_SAID_OF_A_SETTING: Final = (
    *("type", "enum", "anyOf", "minimum", "maximum", "exclusiveMinimum", "description", "default"),
)
#: They are written into expressions of the admission policies.
_SCHEDULER: Final = {"type": "string", "pattern": "^[A-Za-z0-9]([-A-Za-z0-9._]*[A-Za-z0-9])?$"}
#: Stricter than what Muster itself takes.
_STRICTER: Final[dict[str, Document]] = {
    "schedulerName": _SCHEDULER,
    "schedulerAliases": {"type": "array", "minItems": 1, "items": _SCHEDULER},
}
#: What metadata ends with.
_LABELS: Final = "  labels:\n    app.kubernetes.io/part-of: muster\n"


class NotInManifest(ValueError):
    """A part of a manifest that values of the chart replace is not there exactly once."""


class _BlockDumper(PlainDumper):
    """Writes expressions as blocks."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_BlockDumper.add_representer(str, _text)


def objects() -> dict[str, list[Document]]:
    """What ``muster install`` applies with all its options, by the name of the template that makes it."""
    namespace, identity = INSTALLATION.namespace, INSTALLATION.identity
    options = INSTALLATION.policy_options
    for_people = people()
    webhooks = webhook_configurations(INSTALLATION.callee, b"", identity)
    for configuration in webhooks:
        for webhook in configuration["webhooks"]:
            # Muster writes it as soon as it has made its certificates.
            del webhook["clientConfig"]["caBundle"]
    guard = [*validating_policies(options), *agent_policies(agent_identity(), AGENT_NAMESPACE)]
    return {
        "rbac-controller": [role for role in rbac(namespace, identity) if role not in for_people],
        "rbac-people": for_people,
        "rbac-agent": [NAMESPACES.document(AGENT_NAMESPACE, labels=AGENTS_MAY), *agent_rbac()],
        "provisioning": provisioning_rbac(identity),
        "policies-gate": mutating_policies(options),
        "policies-guard": guard,
        "policies-webhooks": webhooks,
        "read-api": read_api(namespace, b""),
    }


def files() -> dict[str, str]:
    """Path below ``deploy/chart`` → content. Raises NotInManifest."""
    plain = objects()
    agent_rights = _template(plain["rbac-agent"], _purposes(AGENT))
    provisioning = _template(plain["provisioning"], _purposes(PROVISIONING))
    texts = {
        "rbac-controller": _template(plain["rbac-controller"], _purposes(CONTROLLER)),
        "rbac-people": _template(plain["rbac-people"]),
        "rbac-agent": _only_if(".Values.agent.enabled", agent_rights),
        "provisioning": _only_if(".Values.provisioning.enabled", provisioning),
        "policies-gate": _with_schedulers(_template(plain["policies-gate"])),
        "policies-guard": _template(plain["policies-guard"]),
        "policies-webhooks": _with_ca_injection(_template(plain["policies-webhooks"])),
        "read-api": _with_ca_injection(_template(plain["read-api"])),
    }
    return {
        **{f"crds/{name}": text for name, text in crd_files().items()},
        **{f"templates/{name}.yaml": text for name, text in texts.items()},
        "values.schema.json": json.dumps(values_schema(), indent=2) + "\n",
    }


def values_schema() -> Any:
    """The schema of the values as the file has it, with the settings that Muster has now."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    schema["properties"]["settings"]["properties"] = {
        name: {key: setting[key] for key in _SAID_OF_A_SETTING if key in setting} | _STRICTER.get(name, {})
        for name, setting in Settings.model_json_schema()["properties"].items()
        if name not in OF_THE_CHART
    }
    return schema


def _only_if(condition: str, text: str) -> str:
    """A part of a template that is rendered under a condition."""
    return f"{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n"


def _template(documents: list[Document], comment: str = "") -> str:
    """Objects as a template: braces of expressions stay as they are, the namespace is that of the release."""
    body = yaml.dump_all(documents, Dumper=_BlockDumper, sort_keys=False, width=110, allow_unicode=True)
    text = (_HEADER + comment + body).replace("{{", '{{ "{{" }}')
    return text.replace(INSTALLATION.namespace, "{{ .Release.Namespace }}")


def _purposes(rules: tuple[PolicyRule, ...]) -> str:
    """The purpose of each rule, in their order."""
    return "".join(f"# {number:2}. {rule.purpose}: {rule.why}\n" for number, rule in enumerate(rules, 1))


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


def main() -> None:
    """Write all files."""
    for path, content in files().items():
        file = CHART / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)


if __name__ == "__main__":
    main()
