"""The page for platform administrators is followed, command by command, by somebody with the two roles it names."""

import re
import subprocess
from pathlib import Path
from typing import Final

from tests.cluster_faults import plugin
from tests.e2e.support.manifests import batch_job
from tests.e2e.support.sandbox import GPU, Sandbox

PAGE: Final = Path(__file__).parents[3] / "docs/how-to/run-the-platform.md"


def test_who_has_the_roles_of_the_page_can_follow_it(sandbox: Sandbox) -> None:
    first, *_ = nodes = sandbox.add_nodes(2, nodes_per_rack=1)
    rack = min(sandbox.racks(nodes[:1]))
    one = sandbox.add_queue("a", deserved={GPU: 16}, capability={GPU: 16})
    other = sandbox.add_queue("b", deserved={GPU: 8}, capability={GPU: 8})
    waits = batch_job(sandbox, "waits", 1, 8)
    waits["metadata"]["labels"] = {"muster.dev/queue-name": other}
    waits["spec"]["template"]["spec"]["nodeSelector"] = {"nowhere": "true"}
    sandbox.add(waits)
    sandbox.wait_reason("waits", "NeverFits")
    user = f"pat-{sandbox.name}"
    kubeconfig = sandbox.stack.cluster.kubeconfig_for(user)
    names = {
        r"tune-3 -n ml": f"waits -n {sandbox.name}",
        r"\bteam-a\b": one,
        r"\bteam-b\b": other,
        r"\br7\b": rack,
        r"\bgpu-1\b": first,
        r"\bpat\b": user,
        r"2026-12-01T08:00": "6h",
    }

    def run(command: str, who: Path) -> "subprocess.CompletedProcess[str]":
        for written, name in names.items():
            command = re.sub(written, name, command)
        _, *words = (word.strip('"') for word in re.findall(r'"[^"]*"|\S+', command))
        if words[0] == "muster":
            return plugin(who, *words[1:])
        return sandbox.stack.kubectl(*words, user=who, check=False)

    bindings, commands = _bindings(), _commands()
    assert len(bindings) == 2
    assert len(commands) > 12
    try:
        for each in bindings:
            assert run(each, sandbox.stack.cluster.kubeconfig).returncode == 0, each
        sandbox.wait(lambda: run("kubectl muster nodes --faulty", kubeconfig).returncode == 0, "the bindings")
        for each in commands:
            # It asks first, and here is no terminal.
            done = run(f"{each} --yes" if " quota set " in each else each, kubeconfig)
            assert done.returncode == 0, (each, done)
            told = done.stdout + done.stderr
            assert not re.search("may not|are unknown|not told|not known", told), (each, told)
    finally:
        for each in bindings:
            run(f"kubectl delete clusterrolebinding {each.split()[3]}", sandbox.stack.cluster.kubeconfig)


def _lines() -> list[str]:
    blocks = re.findall(r"^```(?:sh|console)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    lines = (
        line.removeprefix("$ ").partition(" #")[0].strip() for block in blocks for line in block.splitlines()
    )
    return [line for line in lines if line]


def _commands() -> list[str]:
    return [line for line in _lines() if line.startswith("kubectl muster ")]


def _bindings() -> list[str]:
    """What makes somebody an administrator of the platform."""
    return [line for line in _lines() if re.match(r"kubectl create clusterrolebinding .* --user pat$", line)]
