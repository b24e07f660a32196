"""The command line of every program of the control plane."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

#: Nodes with this label are simulated by KWOK; a node without it is dead.
ALIVE = ("kwok.muster.dev/node", "alive")
#: Name of the API server as a proxy.
FRONT_PROXY = "front-proxy-client"
#: Limit of requests per second of scheduler and controllers (stock: 50 and 20).
_QPS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """Options of a local cluster. The defaults suit tests."""

    #: KWOK renews a node's lease every quarter of this. 0: no leases, all nodes die after the grace below.
    node_lease_seconds: int = 40
    #: Seconds without a lease after which a node counts as dead.
    node_grace_seconds: int = 50
    #: Seconds that pods stay on a dead node without a toleration of their own (stock: 300).
    toleration_seconds: int = 300
    #: Write the API server's audit log (metadata only), which ``LocalCluster.requests`` counts.
    audit: bool = False
    #: KWOK starts, ends and stops pods. False: another program does, and KWOK only keeps nodes alive.
    plays_pods: bool = True
    api_server_flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Files, sockets and ports of one cluster."""

    root: Path
    binaries: dict[str, Path]
    api_port: int

    @property
    def pki(self) -> Path:
        """Keys and certificates."""
        return self.root / "pki"

    @property
    def etcd_socket(self) -> Path:
        """A socket, not a port: other users of the host cannot reach the store past the API server."""
        return self.root / "etcd.sock"

    @property
    def audit_log(self) -> Path:
        """One JSON line per request."""
        return self.root / "log" / "audit.jsonl"

    def kubeconfig(self, name: str) -> Path:
        """Kubeconfig of a component."""
        return self.pki / f"{name}.kubeconfig"


Argv = list[str | Path]


def etcd(places: Places, _: ClusterOptions) -> Argv:
    """One member, without fsync: the data lives as long as the host does not crash."""
    return [
        places.binaries["etcd"],
        "--name=local",
        f"--data-dir={places.root / 'etcd'}",
        f"--listen-client-urls=unix://{places.etcd_socket}",
        "--advertise-client-urls=http://127.0.0.1:2379",
        f"--listen-peer-urls=unix://{places.root / 'peer.sock'}",
        "--initial-advertise-peer-urls=http://127.0.0.1:2380",
        "--initial-cluster=local=http://127.0.0.1:2380",
        "--unsafe-no-fsync",
        "--auto-compaction-mode=periodic",
        "--auto-compaction-retention=5m",
        f"--quota-backend-bytes={8 << 30}",
        "--log-level=warn",
    ]


def api_server(places: Places, options: ClusterOptions) -> Argv:
    """RBAC on, the admission plugins that are on by default, room for bursts."""
    pki = places.pki
    argv: Argv = [
        places.binaries["kube-apiserver"],
        f"--etcd-servers=unix://{places.etcd_socket}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={places.api_port}",
        "--endpoint-reconciler-type=none",
        f"--tls-cert-file={pki / 'api-server.crt'}",
        f"--tls-private-key-file={pki / 'api-server.key'}",
        f"--client-ca-file={pki / 'ca.crt'}",
        # Its proxy: an API behind it learns the user's name, and believes it because of this certificate.
        f"--requestheader-client-ca-file={pki / 'front-proxy' / 'ca.crt'}",
        f"--requestheader-allowed-names={FRONT_PROXY}",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={pki / 'front-proxy.crt'}",
        f"--proxy-client-key-file={pki / 'front-proxy.key'}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={pki / 'service-accounts.pub'}",
        f"--service-account-signing-key-file={pki / 'service-accounts.key'}",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--authorization-mode=RBAC",
        "--allow-privileged=true",
        "--max-requests-inflight=3000",
        "--max-mutating-requests-inflight=3000",
        f"--default-not-ready-toleration-seconds={options.toleration_seconds}",
        f"--default-unreachable-toleration-seconds={options.toleration_seconds}",
    ]
    if options.audit:
        policy = places.root / "audit-policy.yaml"
        policy.write_text(
            json.dumps(
                {
                    "apiVersion": "audit.k8s.io/v1",
                    "kind": "Policy",
                    "omitStages": ["RequestReceived", "ResponseStarted"],
                    "rules": [{"level": "Metadata"}],
                }
            )
        )
        # One file, never rotated (the size is in MiB): it is counted from its beginning.
        argv += [f"--audit-policy-file={policy}", f"--audit-log-path={places.audit_log}"]
        argv += ["--audit-log-maxsize=1000000"]
    return [*argv, *options.api_server_flags]


def controller_manager(places: Places, options: ClusterOptions) -> Argv:
    """The default controllers but one, each with its own service account, as in real clusters."""
    return [
        places.binaries["kube-controller-manager"],
        f"--kubeconfig={places.kubeconfig('kube-controller-manager')}",
        "--bind-address=127.0.0.1",
        "--secure-port=0",
        "--leader-elect=false",
        "--use-service-account-credentials=true",
        # Its status of a policy is read by nobody here, and it takes longer than all else of an installation.
        "--controllers=*,-validatingadmissionpolicy-status-controller",
        f"--service-account-private-key-file={places.pki / 'service-accounts.key'}",
        f"--root-ca-file={places.pki / 'ca.crt'}",
        f"--kube-api-qps={_QPS}",
        f"--kube-api-burst={_QPS * 2}",
        "--node-monitor-period=2s",
        f"--node-monitor-grace-period={options.node_grace_seconds}s",
        # Simulated racks fail whole; evictions must not slow down because of it.
        "--node-eviction-rate=1000",
        "--secondary-node-eviction-rate=1000",
    ]


def scheduler(places: Places, _: ClusterOptions) -> Argv:
    """The stock scheduler with its stock plugins."""
    config = places.root / "scheduler.yaml"
    config.write_text(
        json.dumps(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "parallelism": 16,
                "leaderElection": {"leaderElect": False},
                "clientConnection": {
                    "kubeconfig": str(places.kubeconfig("kube-scheduler")),
                    "qps": _QPS,
                    "burst": _QPS * 2,
                },
            }
        )
    )
    return [
        places.binaries["kube-scheduler"],
        f"--config={config}",
        "--bind-address=127.0.0.1",
        "--secure-port=0",
    ]


def kwok(places: Places, options: ClusterOptions) -> Argv:
    """Simulates the nodes with the label, and their pods, by the stages next to this file."""
    config = places.root / "kwok.yaml"
    stages = Path(__file__).with_name("stages.yaml").read_text()
    if not options.plays_pods:
        stages = "\n---\n".join(each for each in stages.split("\n---\n") if "kind: Node}" in each)
    settings = {
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokConfiguration",
        "options": {
            "manageNodesWithLabelSelector": "=".join(ALIVE),
            "cidr": "10.128.0.0/9",
            "nodeIP": "127.0.0.1",
            "nodeLeaseDurationSeconds": options.node_lease_seconds,
            "nodeLeaseParallelism": 8,
            "podPlayStageParallelism": 16,
            "nodePlayStageParallelism": 8,
            "podsOnNodeSyncParallelism": 8,
        },
    }
    config.write_text(json.dumps(settings) + "\n---\n" + stages)
    return [places.binaries["kwok"], f"--kubeconfig={places.kubeconfig('kwok')}", f"--config={config}"]


#: In the order they start; they stop in the reverse one.
COMMANDS: dict[str, Callable[[Places, ClusterOptions], Argv]] = {
    "etcd": etcd,
    "kube-apiserver": api_server,
    "kube-controller-manager": controller_manager,
    "kube-scheduler": scheduler,
    "kwok": kwok,
}
