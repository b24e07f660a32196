"""``python -m tests.volcano_suite DIR [PACKAGE…]``: runs Volcano's end-to-end suite against Muster.

DIR has what is built from a checkout of Volcano: ``go test -c -o DIR/jobp.test ./test/e2e/jobp`` for each package, and
``go build -o DIR/vcctl ./cmd/cli``. Specs that fail wait up to ten minutes; in the checkout, ``OneMinute`` to
``TenMinute`` at the top of ``test/e2e/util/util.go`` may be shortened before. Packages of which none is named: all in
DIR. The packages share one cluster and run one after the other: jobp, jobseq, vcctl, schedulingbase, schedulingaction,
hypernode, and cronjob, which takes three quarters of an hour, for its schedules go by the minute.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from deploy.local.components import ClusterOptions
from deploy.local.nodes import NodeShape, node
from deploy.local.processes import die_with_parent
from deploy.local.stack import Stack
from tests.volcano_suite.known_differences import why_not
from tests.volcano_suite.pod_player import STORAGE_CLASS, PodPlayer

#: As in the cluster for which the suite was written. Of its packages only pods of hypernode tolerate simulated nodes.
WORKERS, SIMULATED = 4, 8
_TAINT = {"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}
#: The suite changes this configuration of Volcano's scheduler. Here nothing reads it.
_CONFIGURATION = 'actions: "enqueue, allocate, backfill, reclaim, preempt"\ntiers: []\n'
#: Specs of Kubernetes' own suite, which come with a library; and specs that run commands on nodes.
_SKIPPED = r"\[sig-.*\]|Volume Binding Test"
#: Waits that are there for real clusters' sake are short here.
_ENVIRONMENT = {"MUSTER_REFUSAL_GRACE_SECONDS": "1", "MUSTER_BACKOFF_SECONDS": "1"}


class SpecResult(NamedTuple):
    """What became of one spec."""

    package: str
    name: str
    passed: bool
    seconds: float
    #: Why it failed, in the suite's words.
    message: str


def main() -> int:
    """Exit code 0 if every spec passes that is not known to differ."""
    die_with_parent()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binaries", type=Path)
    parser.add_argument("packages", nargs="*")
    parser.add_argument("--focus", help="only specs whose names match this pattern")
    given = parser.parse_args()
    packages = given.packages or sorted(path.stem for path in given.binaries.glob("*.test"))
    if not packages:
        parser.error(f"found no PACKAGE.test in {given.binaries}, expected some built as told above")
    if missing := [name for name in packages if not (given.binaries / f"{name}.test").is_file()]:
        parser.error(f"found no {missing[0]}.test in {given.binaries}, expected it built as told above")
    results: list[SpecResult] = []
    with Stack(options=ClusterOptions(plays_pods=False), durable=False, environment=_ENVIRONMENT) as stack:
        stack.install()
        _furnish(stack)
        stack.start_muster()
        with PodPlayer(stack.cluster.kubeconfig):
            for package in packages:
                found = _run(stack, given.binaries.resolve(), package, given.focus)
                results += found
                for result in found:
                    print(_line(result), flush=True)
    print(_summary(results))
    return int(any(not result.passed and why_not(result.name) is None for result in results))


def _furnish(stack: Stack) -> None:
    with stack.cluster.client() as api:
        for index in range(WORKERS):
            api.create("/api/v1/nodes", _node(f"worker-{index}", cpu="4", memory="16Gi"))
        for index in range(SIMULATED):
            simulated = _node(f"kwok-node-{index}", cpu="8", memory="8Gi")
            api.create("/api/v1/nodes", {**simulated, "spec": {"taints": [_TAINT]}})
        api.create(
            "/apis/storage.k8s.io/v1/storageclasses",
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {
                    "name": STORAGE_CLASS,
                    "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
                },
                "provisioner": "muster.dev/simulated",
                "volumeBindingMode": "WaitForFirstConsumer",
            },
        )

        own = {"namespace": "volcano-system", "name": "integration-scheduler-configmap"}
        api.create(
            "/api/v1/namespaces",
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": own["namespace"]}},
        )
        api.create(
            f"/api/v1/namespaces/{own['namespace']}/configmaps",
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": own,
                "data": {"volcano-scheduler-ci.conf": _CONFIGURATION},
            },
        )


def _node(name: str, **resources: str) -> dict[str, Any]:
    found = node(0, NodeShape(gpus=0), name)
    has = {"pods": "110", **resources}
    labels = {key: value for key, value in found["metadata"]["labels"].items() if "topology" not in key}
    found["metadata"] = {"name": name, "labels": {**labels, "kubernetes.io/hostname": name}}
    found["status"] |= {"capacity": has, "allocatable": has}
    return found


def _run(stack: Stack, binaries: Path, package: str, focus: str | None) -> list[SpecResult]:
    folder = stack.cluster.directory / "volcano-suite"
    folder.mkdir(exist_ok=True)
    report = folder / f"{package}.json"
    flags = [f"-ginkgo.json-report={report}", f"-ginkgo.skip={_SKIPPED}", "-ginkgo.timeout=4h"]
    if focus:
        flags.append(f"-ginkgo.focus={focus}")
    environment = {
        "KUBECONFIG": str(stack.cluster.kubeconfig),
        "VC_BIN": str(binaries),
        "ARTIFACTS_PATH": str(folder),
    }
    with (folder / f"{package}.log").open("wb") as log:
        subprocess.run(
            [binaries / f"{package}.test", *flags, "-test.timeout=0"],
            cwd=folder,
            env={**os.environ, **environment},
            stdout=log,
            stderr=log,
            check=False,
        )
    specs = [spec for suite in json.loads(report.read_text()) for spec in suite["SpecReports"] or ()]
    return [
        SpecResult(
            package=package,
            name=spec["LeafNodeText"],
            passed=spec["State"] == "passed",
            seconds=spec["RunTime"] / 1e9,
            message=" ".join(spec.get("Failure", {}).get("Message", "").split()),
        )
        for spec in specs
        if spec["LeafNodeType"] == "It" and spec["State"] not in ("skipped", "pending")
    ]


def _line(result: SpecResult) -> str:
    line = f"{'pass' if result.passed else 'FAIL'} {result.seconds:4.0f} s  {result.package}: {result.name}"
    if result.passed:
        return line
    return f"{line}\n     {why_not(result.name) or 'not known'}: {result.message[:300]}"


def _summary(results: list[SpecResult]) -> str:
    lines = []
    for package in dict.fromkeys(result.package for result in results):
        own = [result for result in results if result.package == package]
        passed = sum(result.passed for result in own)
        known = sum(not result.passed and why_not(result.name) is not None for result in own)
        lines.append(f"{package}: {passed} of {len(own)} pass, {known} differ for known reasons")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
