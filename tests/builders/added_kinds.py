"""A kind that no project has: its definition, its WorkloadKind, and objects of it."""

from copy import deepcopy
from typing import Any

from queues.api.names import QUEUE_LABEL

_FREE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}

WIDGET: dict[str, Any] = {
    "apiVersion": "muster.dev/v1alpha1",
    "kind": "WorkloadKind",
    "metadata": {"name": "widget"},
    "spec": {
        "resource": {"apiVersion": "example.com/v1", "plural": "widgets", "kind": "Widget"},
        "suspend": "spec.suspend",
        "templates": [
            {"at": "spec.lead", "template": "template", "name": "lead"},
            {
                "at": "spec.groups",
                "each": "element",
                "template": "template",
                "counts": [{"at": "replicas"}],
            },
        ],
        "ended": {"fields": [{"at": "status.phase", "values": ["Done", "Failed"]}]},
    },
}


def definition() -> dict[str, Any]:
    """The CustomResourceDefinition of widgets."""
    spec = {
        "type": "object",
        "properties": {
            "suspend": {"type": "boolean"},
            "lead": {"type": "object", "properties": {"template": _FREE}},
            "groups": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "name": {"type": "string"},
                        "replicas": {"type": "integer"},
                        "template": _FREE,
                    },
                },
            },
        },
    }
    status = {
        "type": "object",
        "properties": {
            "phase": {"type": "string"},
            "conditions": {"type": "array", "items": _FREE},
        },
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}},
    }
    return deepcopy(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com",
                "names": {
                    "kind": "Widget",
                    "listKind": "WidgetList",
                    "plural": "widgets",
                    "singular": "widget",
                },
                "scope": "Namespaced",
                "versions": [version],
            },
        }
    )


def widget(name: str, queue: str, *, workers: int = 2, gpus: int = 1) -> dict[str, Any]:
    """A widget: a lead without GPUs, and so many workers."""

    def template(amounts: dict[str, str]) -> dict[str, Any]:
        container = {"name": "main", "image": "none", "resources": {"requests": amounts, "limits": amounts}}
        return {"spec": {"restartPolicy": "Never", "containers": [container]}}

    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name, "labels": {QUEUE_LABEL: queue}},
        "spec": {
            "lead": {"template": template({"cpu": "1"})},
            "groups": [
                {"name": "worker", "replicas": workers, "template": template({"nvidia.com/gpu": str(gpus)})}
            ],
        },
    }
