"""Settings: flags over environment over file over defaults, and a clear word about what is wrong."""

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic.alias_generators import to_camel

from admission.engine.claims import LONGEST_GRACE
from admission.settings import LONGEST_EVICTION_GRACE_SECONDS, Address, Settings, given_dsn, ledger_dsn, read
from queues.errors import InvalidSettings
from tests.tables import with_rows

REFERENCE = Path(__file__).parents[3] / "docs/reference/settings.md"


def test_flags_count_more_than_the_environment_and_that_more_than_the_file(tmp_path: Path) -> None:
    file = tmp_path / "muster.yaml"
    file.write_text("leaseSeconds: 5\nretrySeconds: 1\nlogLevel: debug\n", encoding="utf-8")
    environment = {"MUSTER_CONFIG": str(file), "MUSTER_LEASE_SECONDS": "6", "MUSTER_RETRY_SECONDS": "1.5"}

    settings = read(flags={"lease_seconds": "7", "retry_seconds": None}, environment=environment)

    assert (settings.lease_seconds, settings.retry_seconds, settings.log_level) == (7, 1.5, "debug")


def test_the_defaults_replace_a_dead_leader_below_fifteen_seconds() -> None:
    settings = read(environment={})

    assert settings.lease_seconds + settings.retry_seconds < 15


def test_a_claim_outlasts_every_grace_period_of_its_victims() -> None:
    assert LONGEST_EVICTION_GRACE_SECONDS <= LONGEST_GRACE


def test_two_processes_never_share_an_identity() -> None:
    assert read(environment={}).identity != read(environment={}).identity


def test_lists_are_separated_by_commas() -> None:
    settings = read(environment={"MUSTER_SCHEDULER_ALIASES": "volcano, yunikorn"})

    assert settings.scheduler_aliases == ("volcano", "yunikorn")


def test_what_kubernetes_adds_for_services_called_muster_is_no_setting() -> None:
    environment = {
        "MUSTER_SERVICE_HOST": "10.0.0.1",
        "MUSTER_SERVICE_PORT_HTTP": "8080",
        "MUSTER_PORT": "tcp://10.0.0.1:8080",
        "MUSTER_PORT_8080_TCP_ADDR": "10.0.0.1",
        "MUSTER_WEBHOOK_PORT_443_TCP": "tcp://10.0.0.2:443",
    }

    assert read(environment=environment).http_listen == ":8080"


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (
            {"environment": {"MUSTER_RETENTION_POSTINGS_DAYS": "3"}},
            r"retentionPostingsDays \(environment\): expected 0 \(kept for ever\) or at least 7.*found 3",
        ),
        ({"flags": {"retention_decisions_days": "-1"}}, "expected 0 .*found -1"),
        ({"flags": {"retention_ended_work_days": "12.5"}}, "retentionEndedWorkDays [(]flag[)]: found '12.5'"),
        ({"environment": {"MUSTER_LEASE_SECOND": "3"}}, "did you mean MUSTER_LEASE_SECONDS"),
        (
            {"flags": {"lease_seconds": "12", "retry_seconds": "4"}},
            "found 12 [+] 4, expected below 15 together",
        ),
        (
            {"flags": {"lease_seconds": "6", "retry_seconds": "4"}},
            "retrySeconds: found 4, expected at most half",
        ),
        ({"environment": {"MUSTER_LEASE_SECONDS": "soon"}}, r"leaseSeconds \(environment\): found 'soon'"),
        ({"flags": {"lease_seconds": "-1"}}, r"leaseSeconds \(flag\): found '-1'"),
        ({"flags": {"eviction_grace_seconds": "3601"}}, r"evictionGraceSeconds \(flag\): found '3601'.*3600"),
        ({"flags": {"eviction_grace_seconds": "0"}}, r"evictionGraceSeconds \(flag\): found '0'"),
        ({"flags": {"http_listen": "8080"}}, "expected host:port"),
        ({"flags": {"http_listen": "::1"}}, r"or \[::1\]:8080; found '::1'"),
        ({"flags": {"read_url": "https://fd00::1:8443"}}, r"readUrl .*\(https://\[fd00::1\]:8443\)"),
        ({"flags": {"read_url": "https://[fd00::1:8443"}}, "in brackets"),
        ({"flags": {"read_url": "https://muster:99999"}}, "found 'https://muster:99999'"),
        ({"flags": {"pod_ip": "fd00::1:8443:"}}, "expected an IPv4 or IPv6 address"),
        ({"flags": {"webhook_url": "http://host"}}, "expected https://host:port"),
        ({"flags": {"log_level": "loud"}}, "logLevel"),
        ({"flags": {"backoff_seconds": "900"}}, "backoffMaxSeconds: found 300"),
        ({"file": Path("/nowhere/muster.yaml")}, "/nowhere/muster.yaml cannot be read"),
    ],
)
def test_a_wrong_value_is_named_with_its_origin(given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidSettings, match=complaint):
        read(**{"environment": {}, **given})


@with_rows("text", "complaint")
def test_a_wrong_file_is_named(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "muster.yaml"
    file.write_text(text, encoding="utf-8")

    with pytest.raises(InvalidSettings, match=complaint):
        read(environment={}, file=file)


def test_the_password_is_shown_nowhere() -> None:
    settings = read(environment={"MUSTER_DSN": "postgresql://muster:hunter2@db/muster"})

    assert "hunter2" not in f"{settings!r} {settings} {settings.model_dump_json()}"
    with pytest.raises(InvalidSettings) as caught:
        read(
            environment={"MUSTER_DSN": "postgresql://muster:hunter2@db/muster", "MUSTER_API_CONCURRENCY": "0"}
        )
    assert "hunter2" not in str(caught.value)


def test_an_empty_dsn_is_no_wish_for_another_ledger() -> None:
    for given in ({"environment": {"MUSTER_DSN": ""}}, {"environment": {}, "flags": {"dsn": " "}}):
        with pytest.raises(InvalidSettings, match="dsn: found an empty text, expected postgresql://"):
            read(**given)  # type: ignore[arg-type]


def test_inside_a_cluster_an_embedded_postgres_has_to_be_asked_for() -> None:
    pod = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}

    assert ledger_dsn(read(environment={}), {}) is None
    with pytest.raises(InvalidSettings, match="found no dsn inside a cluster"):
        ledger_dsn(read(environment=pod), pod)
    assert ledger_dsn(read(environment={"MUSTER_EMBEDDED_POSTGRES": "true"}), pod) is None
    shared = {"MUSTER_DSN": "postgresql://db/muster"}
    assert ledger_dsn(read(environment=shared), pod) == "postgresql://db/muster"
    file = {"MUSTER_DSN_FILE": "/etc/muster/database/dsn"}
    with pytest.raises(InvalidSettings, match="found dsnFile and embeddedPostgres, expected one of them"):
        read(environment={**file, "MUSTER_EMBEDDED_POSTGRES": "true"})
    with pytest.raises(InvalidSettings, match="found dsn and dsnFile, expected one of them"):
        read(environment={**shared, **file})
    with pytest.raises(InvalidSettings, match="found dsn and embeddedPostgres, expected one of them"):
        read(environment={**shared, "MUSTER_EMBEDDED_POSTGRES": "true"})


def test_a_dsn_of_a_flag_counts_more_than_the_file_of_the_environment(tmp_path: Path) -> None:
    """As for `muster ledger adopt-cluster --dsn …` in a pod of Muster, and the other way round."""
    file, dsn = tmp_path / "dsn", "postgresql://db/restored"
    file.write_text("postgresql://db/muster\n")

    by_flag = read(environment={"MUSTER_DSN_FILE": str(file)}, flags={"dsn": dsn, "dsn_file": None})
    by_file = read(environment={"MUSTER_DSN": dsn}, flags={"dsn": None, "dsn_file": str(file)})

    assert (given_dsn(by_flag), given_dsn(by_file)) == (dsn, file)
    assert ledger_dsn(by_file, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}) == file


def test_a_file_without_a_dsn_is_told_at_the_start(tmp_path: Path) -> None:
    file = tmp_path / "dsn"
    for told in ("cannot be read [(]No such file", "is empty, expected a file with postgresql://"):
        with pytest.raises(InvalidSettings, match=f"dsnFile: {file} {told}.*Is the secret filled in"):
            ledger_dsn(read(environment={}, flags={"dsn_file": str(file)}))
        file.write_text("\n")


def test_addresses_have_a_host_or_mean_every_interface() -> None:
    assert Address.parse(":8080") == (None, 8080)
    assert Address.parse("127.0.0.1:0") == ("127.0.0.1", 0)
    assert Address.parse("[::1]:80") == ("::1", 80)


@with_rows("given", "url")
def test_replicas_are_told_a_url_of_the_pod_with_ipv6_in_brackets(given: dict[str, str], url: str) -> None:
    assert read(environment={}, flags=given).announced_url == url


def test_every_setting_is_documented_by_its_key_from_which_the_variable_and_the_flag_follow() -> None:
    documented = re.findall(r"^- `(\w+)` \(", REFERENCE.read_text(encoding="utf-8"), re.MULTILINE)

    assert documented == [field.alias for field in Settings.model_fields.values()]
    assert documented == [to_camel(name) for name in Settings.model_fields]
    assert all(field.description for field in Settings.model_fields.values())
