"""The command line of every program of the control plane, by ``components.yaml``."""

import json
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Final

import yaml

#: Nodes with this label are simulated by KWOK; a node without it is dead.
ALIVE = ("kwok.muster.dev/node", "alive")
#: Name of the API server as a proxy.
FRONT_PROXY = "front-proxy-client"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """Options of a local cluster. The defaults suit tests."""

    #: KWOK renews a node's lease every quarter of this. 0: no leases, all nodes die after the grace below.
    node_lease_seconds: int = 40
    #: Seconds without a lease after which a node counts as dead.
    node_grace_seconds: int = 50
    #: Seconds that pods stay on a dead node without a toleration of their own (stock: 300).
    toleration_seconds: int = 300
    #: Level of the API server's audit log, ``log/audit.jsonl``: Metadata, Request (what was sent, too); "": none.
    audit: str = ""
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

    def kubeconfig(self, name: str) -> Path:
        """Kubeconfig of a component."""
        return self.pki / f"{name}.kubeconfig"


_TEXT: Final = Path(__file__).with_name("components.yaml").read_text(encoding="utf-8")
#: Names of the programs, in the order in which they start; they stop in the reverse one.
COMPONENTS: Final = tuple(yaml.safe_load(_TEXT))


def command(name: str, places: Places, options: ClusterOptions) -> list[str | Path]:
    """The command line of a program. The configuration files that it reads are written."""
    values = {
        "root": places.root,
        "pki": places.pki,
        "api_port": places.api_port,
        "front_proxy": FRONT_PROXY,
        "alive": "=".join(ALIVE),
        "toleration_seconds": options.toleration_seconds,
        "audit": options.audit,
        "node_grace_seconds": options.node_grace_seconds,
        "node_lease_seconds": options.node_lease_seconds,
    }
    component = yaml.safe_load(Template(_TEXT).substitute(values))[name]
    for file, content in component.get("files", {}).items():
        (places.root / file).write_text(json.dumps(content))
    flags = [f"--{flag}={value}" for flag, value in component["flags"].items()]
    flags += component.get("switches", ())
    if name == "kube-apiserver":
        flags += [f"--{flag}={value}" for flag, value in component["audit"].items() if options.audit]
        flags += options.api_server_flags
    if name == "kwok":
        with (places.root / "kwok.yaml").open("a") as file:
            file.write("\n---\n" + _stages(options))
    return [places.binaries[name], *flags]


def _stages(options: ClusterOptions) -> str:
    """What nodes with the label do, and their pods if they are played."""
    stages = Path(__file__).with_name("stages.yaml").read_text()
    if options.plays_pods:
        return stages
    return "\n---\n".join(each for each in stages.split("\n---\n") if "kind: Node}" in each)
