"""The chart with certificates by cert-manager: its own controllers sign and renew them, and Muster loads them.

``CERT_MANAGER`` names the folder with its programs ``controller`` and ``cainjector``, and its definitions below
``crds``: no package registry has them.
"""

import base64
import os
import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from queues.sql.embedded.supervised import Program, SupervisedProcess
from tests.e2e.installation.support.deployed import NAMESPACE, NEEDS_PODS, Deployed, deployment_cluster
from tests.e2e.installation.test_chart_installed import Guide, run_a_gang
from tests.e2e.support.api_paths import Document, path
from tests.waiting import until

FOLDER = Path(os.environ.get("CERT_MANAGER", "missing"))
pytestmark = [
    pytest.mark.long,
    NEEDS_PODS,
    pytest.mark.skipif(
        not FOLDER.is_dir(), reason="CERT_MANAGER names no folder with cert-manager's programs"
    ),
]
GROUP = "/apis/cert-manager.io/v1"
SECRET = path("Secret", NAMESPACE, "muster-certificates")
ISSUER = "company-ca"


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    """A cluster with cert-manager and an authority of the company, without Muster."""
    folder = tmp_path_factory.mktemp("cert-manager")
    with deployment_cluster(folder) as found, ExitStack() as running:
        found.kubectl("apply", "--server-side", "-f", FOLDER / "crds")
        kubeconfig = str(found.stack.cluster.kubeconfig)
        # One of them asks for the flag, the other for the variable.
        environment = {**os.environ, "KUBECONFIG": kubeconfig}
        for program, options in (
            ("controller", [f"--kubeconfig={kubeconfig}", "--cluster-resource-namespace=kube-system"]),
            ("cainjector", []),
        ):
            command = [
                *(FOLDER / program, "--leader-elect=false", "--metrics-listen-address=127.0.0.1:0"),
                *options,
            ]
            log = folder / f"{program}.log"
            process = SupervisedProcess.start(Program(argv=command, log=log, cwd=folder, env=environment))
            running.callback(process.stop)
        _make_authority(found)
        yield found


def _make_authority(deployed: Deployed) -> None:
    kind = "ClusterIssuer"
    first = {
        "apiVersion": "cert-manager.io/v1",
        "kind": kind,
        "metadata": {"name": "first"},
        "spec": {"selfSigned": {}},
    }
    root: Document = {
        "apiVersion": "cert-manager.io/v1",
        "kind": "Certificate",
        "metadata": {"name": "root", "namespace": "kube-system"},
        "spec": {
            "isCA": True,
            "commonName": "company",
            "secretName": "root",
            "issuerRef": {"name": "first", "kind": kind},
            "privateKey": {"algorithm": "ECDSA"},
        },
    }
    company = {**first, "metadata": {"name": ISSUER}, "spec": {"ca": {"secretName": "root"}}}
    deployed.api.create(f"{GROUP}/clusterissuers", first)
    deployed.api.create(f"{GROUP}/namespaces/kube-system/certificates", root)
    deployed.api.create(f"{GROUP}/clusterissuers", company)


def test_its_certificates_are_served_and_believed_and_renewed(deployed: Deployed, tmp_path: Path) -> None:
    guide = Guide(deployed, tmp_path)
    issuer = {"name": ISSUER, "kind": "ClusterIssuer"}
    guide.add({"webhook": {"certificates": "cert-manager", "certManager": {"issuerRef": issuer}}})
    guide.run(guide.blocks[0])
    deployed.roll_out()
    root = deployed.api.get(path("Secret", "kube-system", "root"))["data"]["tls.crt"]
    until(lambda: _authorities(deployed) == {root}, "the authority to be written everywhere")
    run_a_gang(deployed, "signed", tmp_path)
    assert "APIResourceList" in deployed.kubectl("get", "--raw", "/apis/read.muster.dev/v1")
    first = _certificate(deployed)
    deployed.api.request("DELETE", SECRET)
    until(lambda: _certificate(deployed) not in ("", first), "the certificate to be made again")
    renewed = {_certificate(deployed)}
    until(lambda: _served(deployed) == renewed, "every replica to serve the new certificate")
    assert _authorities(deployed) == {root}
    run_a_gang(deployed, "signed-again", tmp_path)


def _certificate(deployed: Deployed) -> str:
    found = deployed.api.get(path("Secret", NAMESPACE))["items"]
    return next(
        (
            base64.b64decode(each["data"].get("tls.crt", "")).decode()
            for each in found
            if each["metadata"]["name"] == "muster-certificates"
        ),
        "",
    )


def _served(deployed: Deployed) -> set[str]:
    """By the replicas, at the webhook and at the read API."""
    return {
        ssl.get_server_certificate((pod.interface.address, port))
        for pod in deployed.pods()
        for port in (8443, 9443)
    }


def _authorities(deployed: Deployed) -> set[str]:
    """By which the API server believes the webhooks and the read API."""
    found = {
        deployed.api.get("/apis/apiregistration.k8s.io/v1/apiservices/v1.read.muster.dev")["spec"].get(
            "caBundle", ""
        )
    }
    for kind in ("mutating", "validating"):
        at = f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/muster"
        found |= {each["clientConfig"].get("caBundle", "") for each in deployed.api.get(at)["webhooks"]}
    return found
