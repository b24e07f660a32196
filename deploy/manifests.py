"""Writes the objects of ``muster install`` as files, for administrators who install by kubectl or GitOps.

    python -m deploy.manifests

They follow from the code, and a test compares them. Objects that only the files have are in ``controller.yaml``. What
the Helm chart has in common with them is written with them (``deploy.chart_files``).
"""

from pathlib import Path

import yaml

from admission.kube.install.agent_pods import agent_namespace, agent_pods
from admission.kube.install.install import Installation
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
from admission.kube.policies.agents import agent_policies
from admission.kube.policies.mutating import mutating_policies
from admission.kube.policies.validating import validating_policies
from admission.kube.webhook.configuration import webhook_configurations
from deploy.chart_files import chart_files
from queues.api.api_resources import Document
from queues.api.crd import PlainDumper
from queues.api.names import AGENT_NAMESPACE

DEPLOY = Path(__file__).parent
#: The installation of the files: Muster in its own namespace, reached by its Service.
INSTALLATION = Installation()
#: As in ``controller.yaml``; an administrator's kustomization puts the one of a registry in its place.
_IMAGE = "muster:0.1.0"
_HEADER = "# Written by `python -m deploy.manifests`; do not edit.\n"


class _BlockDumper(PlainDumper):
    """Writes expressions as blocks."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_BlockDumper.add_representer(str, _text)


def files() -> dict[str, str]:
    """Path below ``deploy`` → content."""
    namespace, identity = INSTALLATION.namespace, INSTALLATION.identity
    options = INSTALLATION.policy_options
    for_people = people()
    for_muster = [role for role in rbac(namespace, identity) if role not in for_people]
    webhooks = webhook_configurations(INSTALLATION.callee, b"", identity)
    for configuration in webhooks:
        for webhook in configuration["webhooks"]:
            # Muster writes it as soon as it has made its certificates.
            del webhook["clientConfig"]["caBundle"]
    return {
        "rbac/controller.yaml": _yaml(for_muster, _purposes(CONTROLLER)),
        "rbac/agent.yaml": _yaml([agent_namespace(), *agent_rbac()], _purposes(AGENT)),
        "rbac/people.yaml": _yaml(for_people),
        "provisioning.yaml": _yaml(provisioning_rbac(identity), _purposes(PROVISIONING)),
        "policies/gate.yaml": _yaml(mutating_policies(options)),
        "policies/guard.yaml": _yaml(
            [*validating_policies(options), *agent_policies(agent_identity(), AGENT_NAMESPACE)]
        ),
        "policies/webhooks.yaml": _yaml(webhooks),
        "read-api.yaml": _yaml(read_api(namespace, b"")),
        "agent.yaml": _yaml(agent_pods(_IMAGE)),
    }


def _yaml(documents: list[Document], comment: str = "") -> str:
    body = yaml.dump_all(documents, Dumper=_BlockDumper, sort_keys=False, width=110, allow_unicode=True)
    return _HEADER + comment + body


def _purposes(rules: tuple[PolicyRule, ...]) -> str:
    """The purpose of each rule, in their order."""
    return "".join(f"# {number:2}. {rule.purpose}: {rule.why}\n" for number, rule in enumerate(rules, 1))


def main() -> None:
    """Write all files."""
    manifests = files()
    for path, content in {**manifests, **chart_files(manifests, DEPLOY)}.items():
        file = DEPLOY / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)


if __name__ == "__main__":
    main()
