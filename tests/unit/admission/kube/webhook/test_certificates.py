"""The webhook's certificates over the years, without waiting for them."""

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store

from admission.kube.webhook.certificates import (
    Keyring,
    Lifetimes,
    UnreadableKeyring,
    decoded,
    encoded,
    renewed,
)

LIFETIMES = Lifetimes(
    authority=timedelta(days=90),
    serving=timedelta(days=30),
    settling=timedelta(hours=1),
    skew=timedelta(minutes=5),
)
BIRTH = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = ("muster-webhook.muster-system.svc", "127.0.0.1")


def believed(served: x509.Certificate, bundle: bytes, now: datetime, name: str = NAMES[0]) -> bool:
    store = Store(x509.load_pem_x509_certificates(bundle))
    verifier = PolicyBuilder().store(store).time(now).build_server_verifier(x509.DNSName(name))
    try:
        verifier.verify(served, [])
    except x509.verification.VerificationError:
        return False
    return True


def test_the_first_keyring_is_believed_at_once() -> None:
    keyring = renewed(None, NAMES, BIRTH, LIFETIMES)
    assert believed(keyring.serving.certificate, keyring.bundle, BIRTH)
    assert keyring.names() == set(NAMES)


def test_a_fresh_keyring_stays_as_it_is() -> None:
    keyring = renewed(None, NAMES, BIRTH, LIFETIMES)
    assert renewed(keyring, NAMES, BIRTH + timedelta(days=10), LIFETIMES) is keyring


def test_a_serving_certificate_is_replaced_when_two_thirds_of_its_life_are_over() -> None:
    keyring = renewed(None, NAMES, BIRTH, LIFETIMES)
    assert renewed(keyring, NAMES, BIRTH + timedelta(days=19), LIFETIMES) is keyring
    later = BIRTH + timedelta(days=21)
    replaced = renewed(keyring, NAMES, later, LIFETIMES)
    assert replaced.serving != keyring.serving
    assert replaced.authorities == keyring.authorities
    assert believed(replaced.serving.certificate, replaced.bundle, later)


def test_at_every_hour_of_three_years_what_replicas_serve_is_believed_by_what_the_api_server_has() -> None:
    """A replica and an API server may be up to half the settling time behind the Secret."""
    behind = LIFETIMES.settling / 2
    history = [(BIRTH, renewed(None, NAMES, BIRTH, LIFETIMES))]
    now = BIRTH
    while now < BIRTH + timedelta(days=3 * 365):
        # Few looks where nothing happens, many around a change.
        now += timedelta(hours=12) if len(history[-1][1].authorities) == 1 else timedelta(minutes=20)
        keyring = renewed(history[-1][1], NAMES, now, LIFETIMES)
        if keyring is not history[-1][1]:
            history.append((now, keyring))
        current = history[-1][1]
        past = next(one for at, one in reversed(history) if at <= max(now - behind, BIRTH))
        assert believed(current.serving.certificate, past.bundle, now)
        assert believed(past.serving.certificate, current.bundle, now)
        if len(history[-1][1].authorities) > 1 and now - history[-1][0] > timedelta(hours=2):
            now += timedelta(hours=6)
    authorities = {one for _, keyring in history for one in keyring.authorities}
    assert len(authorities) > 10


def test_a_keyring_that_was_made_by_a_clock_ahead_is_replaced_at_once() -> None:
    ahead = renewed(None, NAMES, BIRTH + timedelta(days=30), LIFETIMES)
    assert not believed(ahead.serving.certificate, ahead.bundle, BIRTH)
    keyring = renewed(ahead, NAMES, BIRTH, LIFETIMES)
    assert believed(keyring.serving.certificate, keyring.bundle, BIRTH)
    assert renewed(keyring, NAMES, BIRTH + timedelta(minutes=1), LIFETIMES) is keyring
    assert renewed(keyring, NAMES, BIRTH - LIFETIMES.skew / 2, LIFETIMES) is keyring, "clocks differ"


def test_an_authority_that_is_over_leaves_the_bundle() -> None:
    keyring = renewed(None, NAMES, BIRTH, LIFETIMES)
    keyring = renewed(keyring, NAMES, BIRTH + timedelta(days=61), LIFETIMES)
    assert len(keyring.authorities) == 2
    keyring = renewed(keyring, NAMES, BIRTH + timedelta(days=91), LIFETIMES)
    assert len(keyring.authorities) == 1


def test_a_keyring_that_nobody_looked_after_for_years_starts_anew() -> None:
    keyring = renewed(None, NAMES, BIRTH, LIFETIMES)
    now = BIRTH + timedelta(days=1000)
    fresh = renewed(keyring, NAMES, now, LIFETIMES)
    assert believed(fresh.serving.certificate, fresh.bundle, now)


def test_replicas_with_different_names_agree_on_a_certificate_with_all_of_them() -> None:
    one = renewed(None, ["a.example"], BIRTH, LIFETIMES)
    both = renewed(one, ["b.example"], BIRTH, LIFETIMES)
    assert both.names() == {"a.example", "b.example"}
    assert renewed(both, ["a.example"], BIRTH, LIFETIMES) is both


def test_a_keyring_survives_being_stored() -> None:
    keyring = renewed(None, NAMES, BIRTH, LIFETIMES)
    keyring = renewed(keyring, NAMES, BIRTH + timedelta(days=61), LIFETIMES)
    assert [one.certificate for one in decoded(encoded(keyring)).authorities] == [
        one.certificate for one in keyring.authorities
    ]
    assert encoded(decoded(encoded(keyring))) == encoded(keyring)


def _other(keyring: Keyring) -> dict[str, bytes]:
    return encoded(renewed(None, NAMES, BIRTH, LIFETIMES)) | {"tls.crt": keyring.serving.certificate_pem}


@pytest.mark.parametrize("field", ["ca.crt", "ca.key", "tls.crt", "tls.key"])
@pytest.mark.parametrize(
    "content", [b"", b"nonsense", b"-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"]
)
def test_a_damaged_secret_is_said_to_be_so(field: str, content: bytes) -> None:
    fields = encoded(renewed(None, NAMES, BIRTH, LIFETIMES)) | {field: content}
    with pytest.raises(UnreadableKeyring):
        decoded(fields)


def test_a_key_of_another_certificate_is_noticed() -> None:
    with pytest.raises(UnreadableKeyring, match="does not belong"):
        decoded(_other(renewed(None, NAMES, BIRTH, LIFETIMES)))
