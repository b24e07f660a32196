"""Certificates that others make are served, and renewed ones without a restart."""

import logging
import ssl
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509

from admission.kube.webhook.certificates import LIFETIMES, Keyring, encoded, renewed
from admission.kube.webhook.configuration import Callee
from admission.kube.webhook.keyring import KeyringStore, utc_now
from admission.kube.webhook.mounted_certificates import (
    CertificatesUnusable,
    MountedCertificates,
    serving_certificates,
)
from admission.kube.webhook.validity import Validity

CALLEE = Callee(namespace="muster-system")
NOW = utc_now()
HOST = "muster-webhook.muster-system.svc"


def keyring(days_ago: int = 0) -> Keyring:
    return renewed(None, CALLEE.names(), NOW - timedelta(days=days_ago))


def mount(folder: Path, found: Keyring, *names: str) -> None:
    for name, content in encoded(found).items():
        if not names or name in names:
            (folder / name).write_bytes(content)


def served(mounted: MountedCertificates, bundle: bytes) -> int:
    """The serial number of the certificate that a client gets who believes a bundle."""
    believes = ssl.create_default_context(cadata=bundle.decode())
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = believes.wrap_bio(to_client, to_server, server_hostname=HOST)
    server = mounted.tls.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    der = client.getpeercert(binary_form=True)
    assert der is not None
    return x509.load_der_x509_certificate(der).serial_number


@pytest.fixture
def mounted(tmp_path: Path) -> MountedCertificates:
    return MountedCertificates(tmp_path, CALLEE.names())


async def test_a_renewed_certificate_is_served_without_a_restart(
    tmp_path: Path, mounted: MountedCertificates
) -> None:
    told: list[tuple[Validity, Validity]] = []
    mounted.loaded = lambda serving, authority: told.append((serving, authority))
    assert mounted.bundle() == b""
    first, second = keyring(10), keyring()
    mount(tmp_path, first)
    await mounted.keep()
    assert served(mounted, first.bundle) == first.serving.certificate.serial_number
    mount(tmp_path, second)
    await mounted.keep()
    assert served(mounted, second.bundle) == second.serving.certificate.serial_number
    assert mounted.bundle() == second.bundle
    assert told == [(each.serving.validity, each.authorities[0].validity) for each in (first, second)]
    lived = [valid.ends - valid.begins for valid in told[1]]
    assert lived == [
        (LIFETIMES.serving + LIFETIMES.skew).total_seconds(),
        (LIFETIMES.authority + LIFETIMES.skew).total_seconds(),
    ]


async def test_half_a_renewal_is_not_served(tmp_path: Path, mounted: MountedCertificates) -> None:
    """As a reader sees it between the kubelet's writes, or where a Secret was made by hand."""
    first, second = keyring(10), keyring()
    mount(tmp_path, first)
    await mounted.keep()
    mount(tmp_path, second, "tls.crt")
    with pytest.raises(CertificatesUnusable, match=r"tls\.key does not belong to tls\.crt"):
        await mounted.keep()
    assert served(mounted, first.bundle) == first.serving.certificate.serial_number
    assert mounted.bundle() == first.bundle
    mount(tmp_path, second)
    await mounted.keep()
    assert served(mounted, second.bundle) == second.serving.certificate.serial_number


@pytest.mark.parametrize("name", ["tls.crt", "tls.key", "ca.crt"])
async def test_what_is_missing_is_named(tmp_path: Path, mounted: MountedCertificates, name: str) -> None:
    mount(tmp_path, keyring())
    (tmp_path / name).unlink()
    with pytest.raises(CertificatesUnusable, match=f"{name}: No such file") as error:
        await mounted.keep()
    assert str(tmp_path) in str(error.value)
    (tmp_path / name).write_bytes(b"\n")
    with pytest.raises(CertificatesUnusable, match=f"{name} is empty"):
        await mounted.keep()
    (tmp_path / name).write_bytes(b"nonsense")
    with pytest.raises(CertificatesUnusable, match=name):
        await mounted.keep()


async def test_a_certificate_for_other_names_is_served_and_told(
    tmp_path: Path, mounted: MountedCertificates, caplog: pytest.LogCaptureFixture
) -> None:
    mount(tmp_path, renewed(None, {HOST}, NOW))
    await mounted.keep()
    assert [each.levelname for each in caplog.records if "not good for" in each.message] == ["WARNING"]
    assert "muster.muster-system.svc" in caplog.text


async def test_a_failure_is_logged_once_until_it_is_over(
    tmp_path: Path,
    mounted: MountedCertificates,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = iter(("missing", "missing", "there", "missing"))

    async def next_look(_: float) -> None:
        match next(looks, None):
            case "missing":
                (tmp_path / "tls.key").unlink(missing_ok=True)
            case "there":
                mount(tmp_path, keyring())
            case None:
                raise StopAsyncIteration

    mount(tmp_path, keyring())
    await mounted.keep()
    monkeypatch.setattr("admission.kube.webhook.mounted_certificates.asyncio.sleep", next_look)
    with caplog.at_level(logging.WARNING), pytest.raises((RuntimeError, StopAsyncIteration)):
        await mounted.run()
    assert caplog.text.count("could not be loaded") == 2


def test_without_a_folder_muster_makes_its_own(tmp_path: Path) -> None:
    client: object = object()
    assert isinstance(serving_certificates(client, CALLEE, None), KeyringStore)  # type: ignore[arg-type]
    assert isinstance(serving_certificates(client, CALLEE, tmp_path), MountedCertificates)  # type: ignore[arg-type]
