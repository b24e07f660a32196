"""The DaemonSet of the node agents, with the namespace, the quota and the network policy of its pods. Pure.

Each right of the pods has a reason, in ``docs/how-to/gpu-nodes.md``; a test compares the two.
"""

from typing import Final

from admission.kube.install.rbac import AGENT_ACCOUNT
from queues.api import names
from queues.api.api_resources import DAEMON_SETS, NAMESPACES, NETWORK_POLICIES, RESOURCE_QUOTAS, Document
from queues.api.names import AGENT_NAMESPACE

#: Labels of the namespace: host paths and the host's processes are beyond the levels "baseline" and "restricted".
AGENTS_MAY: Final = {"pod-security.kubernetes.io/enforce": "privileged"}
METRICS_PORT: Final = 9402
#: Where the kubelet keeps which pod has which device.
DEVICE_PLUGINS: Final = "/var/lib/kubelet/device-plugins"
#: More agents than a cluster has nodes.
_MOST_AGENTS: Final = 100_000
#: Agents stay on nodes whose memory is short.
_PRIORITY: Final = "system-node-critical"
_NAME: Final = {"app.kubernetes.io/name": AGENT_ACCOUNT}

#: Labels, and values, by which programs and cloud providers mark nodes with accelerators; and one to set by hand.
_MARKS: Final = (
    ("nvidia.com/gpu.present", "true"),
    ("feature.node.kubernetes.io/pci-10de.present", "true"),
    ("feature.node.kubernetes.io/pci-0302_10de.present", "true"),
    ("feature.node.kubernetes.io/pci-0300_10de.present", "true"),
    ("cloud.google.com/gke-accelerator", None),
    ("k8s.amazonaws.com/accelerator", None),
    (names.RUNS_AGENT, "true"),
)


def agent_namespace() -> Document:
    """The namespace of the agents."""
    return NAMESPACES.document(AGENT_NAMESPACE, labels=AGENTS_MAY)


def agent_pods(image: str) -> list[Document]:
    """The DaemonSet, the quota that some clusters want for its priority, and who reaches its pods."""
    template = {
        "metadata": {"labels": {**_NAME, "app.kubernetes.io/part-of": "muster"}},
        "spec": _pod(image),
    }
    daemon_set = DAEMON_SETS.document(
        AGENT_ACCOUNT,
        AGENT_NAMESPACE,
        labels=_NAME,
        spec={
            "selector": {"matchLabels": _NAME},
            "updateStrategy": {"rollingUpdate": {"maxUnavailable": "10%"}},
            "template": template,
        },
    )
    return [_quota(), daemon_set, _network_policy()]


def _quota() -> Document:
    """Pods of this priority outside of ``kube-system`` need a quota that names it, where the cluster says so (GKE)."""
    scope = {"scopeName": "PriorityClass", "operator": "In", "values": [_PRIORITY]}
    spec = {"hard": {"pods": str(_MOST_AGENTS)}, "scopeSelector": {"matchExpressions": [scope]}}
    return RESOURCE_QUOTAS.document(AGENT_ACCOUNT, AGENT_NAMESPACE, spec=spec)


def _pod(image: str) -> Document:
    return {
        "serviceAccountName": AGENT_ACCOUNT,
        "enableServiceLinks": False,
        "priorityClassName": _PRIORITY,
        "terminationGracePeriodSeconds": 5,
        "hostPID": True,
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": _marked_nodes()}},
        # Also nodes that are cordoned, or tainted because a device is faulty: their agent sees the recovery.
        "tolerations": [{"operator": "Exists"}],
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [_container(image)],
        "volumes": [{"name": "device-plugins", "hostPath": {"path": DEVICE_PLUGINS, "type": "Directory"}}],
    }


def _container(image: str) -> Document:
    health = {"httpGet": {"path": "/healthz", "port": "metrics"}, "periodSeconds": 20, "failureThreshold": 3}
    return {
        "name": "agent",
        "image": image,
        "args": ["muster", "agent"],
        "env": [
            {"name": "MUSTER_AGENT_NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            # The container runtime of NVIDIA mounts the driver's library and device files for these.
            {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
            {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "utility"},
        ],
        "ports": [{"name": "metrics", "containerPort": METRICS_PORT}],
        "livenessProbe": {**health, "timeoutSeconds": 5},
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
        "securityContext": {
            "runAsUser": 0,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "device-plugins", "mountPath": DEVICE_PLUGINS, "readOnly": True}],
    }


def _marked_nodes() -> Document:
    terms = [
        {"key": key, "operator": "Exists"}
        if value is None
        else {"key": key, "operator": "In", "values": [value]}
        for key, value in _MARKS
    ]
    return {"nodeSelectorTerms": [{"matchExpressions": [term]} for term in terms]}


def _network_policy() -> Document:
    """Metrics for Prometheus, health for kubelets; no other client has anything to ask."""
    prometheus = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    kubelets = [
        {"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.244.0.0/16"]}},
        {"ipBlock": {"cidr": "::/0", "except": ["fd00::/8"]}},
    ]
    spec = {
        "podSelector": {"matchLabels": _NAME},
        "policyTypes": ["Ingress"],
        "ingress": [{"ports": [{"port": "metrics"}], "from": [prometheus, *kubelets]}],
    }
    return NETWORK_POLICIES.document(AGENT_ACCOUNT, AGENT_NAMESPACE, spec=spec)
