"""Settings of an administrator, read once at start-up: flags over environment over file over defaults.

One field has one name in three spellings: ``leaseSeconds`` in the YAML file, ``MUSTER_LEASE_SECONDS`` in the
environment, ``--lease-seconds`` as a flag. Units are part of the name. See docs/reference/settings.md.
"""

import os
import re
import secrets
import socket
from collections.abc import Mapping
from difflib import get_close_matches
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple, Self
from urllib.parse import urlsplit

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel

from queues.api.schedules.cron import UnknownTimeZone, zone_of
from queues.errors import InvalidSettings
from queues.sql.dsn import Dsn, UnusableDsnFile, dsn_text
from queues.sql.lease_times import LEASE_SECONDS, RETRY_SECONDS
from queues.text_format import host_and_port

#: A lease and one retry together stay below this, so that a dead leader is replaced in time.
TAKEOVER_LIMIT_SECONDS: Final = 15

#: Grace periods of evicted pods end below this: claims outlast no longer ones (``admission.engine.claims``).
LONGEST_EVICTION_GRACE_SECONDS: Final = 3600

#: History leaves by the week.
LEAST_RETENTION_DAYS: Final = 7

#: A variable of every container that Kubernetes runs.
IN_CLUSTER: Final = "KUBERNETES_SERVICE_HOST"

#: In the home folder: where an administrator's tools look for what Muster leaves on disk.
STATE: Final = Path(".local") / "state" / "muster"

#: Settings that say where the ledger is, but for an embedded one.
_LEDGERS: Final = frozenset({"dsn", "dsnFile"})

_PREFIX: Final = "MUSTER_"
#: Variables of Muster that are no settings: the path of the file, variables of the command line, the folder of
#: Postgres' programs, and a variable of tests.
_NOT_SETTINGS: Final = frozenset(
    {
        *("MUSTER_CONFIG", "MUSTER_SERVER", "MUSTER_SERVER_CA", "MUSTER_TOKEN", "MUSTER_TRACEBACK"),
        *("MUSTER_PG_BIN", "MUSTER_FAULT"),
    }
)
#: Variables that Kubernetes sets in every container of a namespace with a Service called muster or muster-….
_SERVICE_LINK: Final = re.compile(
    r"MUSTER_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)


class Address(NamedTuple):
    """An address to listen on. Host None for every interface, port 0 for any free port."""

    host: str | None
    port: int

    @classmethod
    def parse(cls, text: str) -> "Address":
        """From ``host:port``, ``[v6]:port`` or ``:port``. Raises ValueError."""
        if (found := host_and_port(text)) is None:
            raise ValueError(
                "expected host:port or :port (0 to 65535), such as 127.0.0.1:8080 or [::1]:8080; "
                f"found {text!r}"
            )
        host, port = found
        return cls(host or None, port)


def _listen(text: str) -> str:
    Address.parse(text)
    return text


def _url(text: str) -> str:
    try:
        address = urlsplit(text)
        is_complete = bool(address.hostname) and address.port != 0
    except ValueError:  # brackets that do not match, or a port that is no number up to 65535
        is_complete = False
    if not is_complete or not re.fullmatch(r"https://[^/\s]+(/\S*)?", text):
        raise ValueError(
            "expected https://host:port, the only scheme the API server calls, with an IPv6 address in brackets "
            f"(https://[fd00::1]:8443); found {text!r}"
        )
    return text.rstrip("/")


def _ip(text: str) -> str:
    try:
        return str(ip_address(text))
    except ValueError:
        raise ValueError(f"expected an IPv4 or IPv6 address without port; found {text!r}") from None


def _retention_days(days: int) -> int:
    if days != 0 and days < LEAST_RETENTION_DAYS:
        raise ValueError(
            f"expected 0 (kept for ever) or at least {LEAST_RETENTION_DAYS}, for history is dropped by the week; "
            f"found {days}"
        )
    return days


def _time_zone(name: str) -> str:
    try:
        zone_of(name)
    except UnknownTimeZone as error:
        raise ValueError(str(error)) from error
    return name


def _words(found: Any) -> Any:
    """A comma-separated text becomes a list."""
    if isinstance(found, str):
        return [word for word in re.split(r"[,\s]+", found) if word]
    return found


Listen = Annotated[str, AfterValidator(_listen)]
HttpsUrl = Annotated[str, AfterValidator(_url)]
IpAddress = Annotated[str, AfterValidator(_ip)]
TimeZone = Annotated[str, AfterValidator(_time_zone)]
Words = Annotated[tuple[str, ...], BeforeValidator(_words)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
RetentionDays = Annotated[
    int,
    # For the schema of the chart's values; the message about a wrong one is the validator's.
    Field(le=36_500, json_schema_extra={"anyOf": [{"const": 0}, {"minimum": LEAST_RETENTION_DAYS}]}),
    AfterValidator(_retention_days),
]


def own_identity() -> str:
    """A unique name of this process; the next process on the same host gets another one."""
    return f"{socket.gethostname()}-{secrets.token_hex(3)}"


class Settings(BaseModel):
    """All settings of ``muster run``. Frozen; ``dsn`` is never shown."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, validate_by_name=True)

    kubeconfig: Path | None = Field(
        None, description="Kubeconfig file. Unset: KUBECONFIG, ~/.kube/config, or the pod's service account."
    )
    context: str | None = Field(None, description="Context of the kubeconfig. Unset: its current one.")
    namespace: str = Field(
        "muster-system",
        min_length=1,
        description="Namespace Muster itself lives in: its Service and secrets.",
    )
    username: str = Field(
        "system:serviceaccount:muster-system:muster",
        min_length=1,
        description="The name the API server knows Muster by; only this one may open gates.",
    )
    dsn: SecretStr | None = Field(
        None,
        description="Postgres (secret): postgresql://user:password@host/database. Unset: an embedded one.",
    )
    dsn_file: Path | None = Field(
        None,
        description="File with the dsn, in place of it, read again for each connection: a new password needs no "
        "restart.",
    )
    data_dir: Path | None = Field(
        None, description="Folder of the embedded Postgres. Unset: in the user's state folder."
    )
    embedded_postgres: bool = Field(
        False,
        description="Start an embedded Postgres inside a cluster too, if no dsn is set: for a trial, one replica.",
    )
    identity: str = Field(
        default_factory=own_identity,
        min_length=1,
        description="Name of this replica as holder of the lease. Unset: host name and a random part.",
    )
    lease_seconds: Seconds = Field(
        LEASE_SECONDS, description="Seconds a leader may go on without renewing its lease."
    )
    retry_seconds: Seconds = Field(
        RETRY_SECONDS, description="Seconds between two attempts to get or renew the lease."
    )
    http_listen: Listen = Field(
        ":8080", description="Address of health and metrics, host:port; :port is every interface."
    )
    read_listen: Listen = Field(":8443", description="Address of the read API (TLS), host:port.")
    read_url: HttpsUrl | None = Field(
        None,
        description="Where other replicas and, without a Service, the API server reach the read API: "
        "https://host:port. Unset: by its Service, and replicas by podIp.",
    )
    pod_ip: IpAddress | None = Field(
        None,
        description="Address of this pod, at which other replicas reach the read API if there is no readUrl.",
    )
    metrics_access: Literal["open", "authorized"] = Field(
        "open",
        description="open: whoever reaches httpListen reads /metrics; authorized: only on readListen, "
        "with the right to get /metrics.",
    )
    webhook_listen: Listen = Field(":9443", description="Address of the admission webhook (TLS), host:port.")
    webhook_url: HttpsUrl | None = Field(
        None,
        description="Where the API server calls the webhook: https://host:port. Unset: its Service.",
    )
    certificates_dir: Path | None = Field(
        None,
        description="Folder with tls.crt, tls.key and ca.crt that others make and renew, such as cert-manager. Unset: "
        "Muster makes its own.",
    )
    scheduler_name: str = Field(
        "default-scheduler", min_length=1, description="The stock scheduler that released pods are handed to."
    )
    scheduler_aliases: Words = Field(
        ("volcano",),
        description="Values of schedulerName that mean the stock scheduler here, comma-separated.",
    )
    turn_at_least_every_seconds: Seconds = Field(
        5.0, description="Longest time between two turns, in seconds, when nothing happens."
    )
    refusal_grace_seconds: Seconds = Field(
        10.0, description="Seconds before a refusal by the stock scheduler counts against an admission."
    )
    dead_node_seconds: float = Field(
        360.0,
        ge=0,
        allow_inf_nan=False,
        description="Seconds a node is not ready before a pod that is being deleted there counts as gone; 0: never.",
    )
    eviction_grace_seconds: Annotated[Seconds, Field(le=LONGEST_EVICTION_GRACE_SECONDS)] = Field(
        600.0,
        description="Longest grace period of a pod that is evicted, in seconds, whatever its spec says.",
    )
    backoff_seconds: Seconds = Field(
        5.0, description="Seconds a workload waits after its first rollback; doubled each time."
    )
    backoff_max_seconds: Seconds = Field(300.0, description="Longest wait after a rollback, in seconds.")
    dry_runs: bool = Field(
        True,
        description="Ask the API server by dry runs what pods of a template will ask, before a Job is admitted.",
    )
    api_server_lost_seconds: Seconds = Field(
        60.0,
        description="Seconds without an answer of the API server after which a leader resigns, until it answers.",
    )
    decision_limit_seconds: Seconds = Field(
        60.0,
        description="Longest time of one decision, in seconds; a leader whose decision takes longer resigns.",
    )
    retention_decisions_days: RetentionDays = Field(
        90, description="Days for which decisions are kept; 0: for ever."
    )
    retention_ended_work_days: RetentionDays = Field(
        90, description="Days for which ended workloads and closed admissions are kept; 0: for ever."
    )
    retention_postings_days: RetentionDays = Field(
        400, description="Days for which postings are kept, of which reports of use are made; 0: for ever."
    )
    budget_time_zone: TimeZone = Field(
        "UTC", description="Time zone of the calendar months of queues' budgets, such as Europe/Berlin."
    )
    failed_turns_dir: Path | None = Field(
        None,
        description="Folder of the last turns that could not be decided. Unset: in the user's state folder.",
    )
    api_concurrency: int = Field(
        64, ge=1, le=1024, description="Most writes to the API server under way at a time."
    )
    log_format: Literal["json", "console"] = Field(
        "json", description="json: one object a line; console: for people."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Least level that is logged."
    )

    @model_validator(mode="after")
    def _has_a_ledger(self) -> Self:
        if self.dsn is not None and not self.dsn.get_secret_value().strip():
            raise ValueError(
                "dsn: found an empty text, expected postgresql://user:password@host/database. Is the secret filled in? "
                "Without any dsn, and outside a cluster, an embedded Postgres is started"
            )
        ways = {"dsn": self.dsn, "dsnFile": self.dsn_file, "embeddedPostgres": self.embedded_postgres or None}
        given = [name for name, value in ways.items() if value is not None]
        if len(given) > 1:
            raise ValueError(
                f"found {' and '.join(given)}, expected one of them: they are {len(given)} ledgers"
            )
        return self

    @model_validator(mode="after")
    def _times_fit(self) -> Self:
        if self.lease_seconds + self.retry_seconds >= TAKEOVER_LIMIT_SECONDS:
            raise ValueError(
                f"leaseSeconds + retrySeconds: found {self.lease_seconds:g} + {self.retry_seconds:g}, "
                f"expected below {TAKEOVER_LIMIT_SECONDS} together, so that a dead leader is replaced in time"
            )
        if self.retry_seconds * 2 > self.lease_seconds:
            raise ValueError(
                f"retrySeconds: found {self.retry_seconds:g}, expected at most half of leaseSeconds "
                f"({self.lease_seconds:g}), so that one failed renewal does not lose the lease"
            )
        if self.backoff_max_seconds < self.backoff_seconds:
            raise ValueError(
                f"backoffMaxSeconds: found {self.backoff_max_seconds:g}, "
                f"expected at least backoffSeconds ({self.backoff_seconds:g})"
            )
        return self

    @property
    def failed_turns_folder(self) -> Path:
        """Folder of the last turns that could not be decided."""
        return self.failed_turns_dir or Path.home() / STATE / "failed-turns"

    @property
    def http_address(self) -> Address:
        """Address of health, metrics and the read API."""
        return Address.parse(self.http_listen)

    @property
    def read_address(self) -> Address:
        """Address of the read API."""
        return Address.parse(self.read_listen)

    @property
    def announced_url(self) -> str:
        """Where other replicas reach the read API of this one; "": nowhere but by the Service of all."""
        port = self.read_address.port
        if self.read_url is not None or self.pod_ip is None or port == 0:
            return self.read_url or ""
        return f"https://[{self.pod_ip}]:{port}" if ":" in self.pod_ip else f"https://{self.pod_ip}:{port}"

    @property
    def webhook_address(self) -> Address:
        """Address of the admission webhook."""
        return Address.parse(self.webhook_listen)


def read(
    *,
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> Settings:
    """The settings of this process.

    ``flags`` by field name, None meaning "not given"; ``environment`` defaults to the process's own; ``file``
    defaults to ``MUSTER_CONFIG``. Raises InvalidSettings, naming every wrong value and where it came from.
    """
    variables = os.environ if environment is None else environment
    path = file or (Path(variables["MUSTER_CONFIG"]) if variables.get("MUSTER_CONFIG") else None)
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for origin, found in (
        (str(path), _from_file(path) if path else {}),
        ("environment", _from_environment(variables)),
        ("flag", {to_camel(name): value for name, value in (flags or {}).items() if value not in (None, ())}),
    ):
        if _LEDGERS & found.keys():  # the one of a file does not count besides that of a flag
            values = {name: value for name, value in values.items() if name not in _LEDGERS}
        values.update(found)
        origins.update(dict.fromkeys(found, origin))
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        raise InvalidSettings(
            problems="; ".join(_problem(item, origins) for item in error.errors())
        ) from None


def given_dsn(settings: Settings) -> Dsn | None:
    """The DSN that is set, or the file that has it; None if neither. Raises InvalidSettings: the file has none."""
    if settings.dsn_file is not None:
        try:
            dsn_text(settings.dsn_file)
        except UnusableDsnFile as error:
            raise InvalidSettings(problems=f"dsnFile: {error}. Is the secret filled in?") from error
        return settings.dsn_file
    return None if settings.dsn is None else settings.dsn.get_secret_value()


def ledger_dsn(settings: Settings, environment: Mapping[str, str] | None = None) -> Dsn | None:
    """DSN of the ledger; None for that of an embedded Postgres, which inside a cluster has to be asked for.

    Each replica would start one of its own there, and each would lead. Raises InvalidSettings.
    """
    if (dsn := given_dsn(settings)) is not None:
        return dsn
    if IN_CLUSTER in (os.environ if environment is None else environment) and not settings.embedded_postgres:
        raise InvalidSettings(
            problems=f"found no dsn inside a cluster ({IN_CLUSTER} is set), expected the Postgres that all replicas "
            "share: set MUSTER_DSN or MUSTER_DSN_FILE. To try Muster out with one replica and a ledger that goes with "
            "its pod: MUSTER_EMBEDDED_POSTGRES=true"
        )
    return None


def _from_file(path: Path) -> dict[str, Any]:
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidSettings(problems=f"{path} cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidSettings(problems=f"{path} is not YAML: {' '.join(str(error).split())}") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise InvalidSettings(
            problems=f"{path}: found a {type(document).__name__}, expected a mapping of settings"
        )
    known = {field.alias or name for name, field in Settings.model_fields.items()}
    unknown = [str(key) for key in document if key not in known]
    if unknown:
        raise InvalidSettings(problems="; ".join(f"{path}: {_unknown(key, known)}" for key in unknown))
    return document


def _from_environment(variables: Mapping[str, str]) -> dict[str, str]:
    by_variable = {
        _PREFIX + name.upper(): field.alias or name for name, field in Settings.model_fields.items()
    }
    found: dict[str, str] = {}
    unknown: list[str] = []
    for variable, text in variables.items():
        if not variable.startswith(_PREFIX) or variable in _NOT_SETTINGS:
            continue
        if variable in by_variable:
            # An empty DSN is a secret that was not filled in, and not the wish for another ledger.
            if text or variable == _PREFIX + "DSN":
                found[by_variable[variable]] = text
        elif not _SERVICE_LINK.fullmatch(variable):
            unknown.append(variable)
    if unknown:
        raise InvalidSettings(
            problems="; ".join(f"environment: {_unknown(name, set(by_variable))}" for name in sorted(unknown))
        )
    return found


def _unknown(found: str, known: set[str]) -> str:
    plain = found.lower().replace("_", "").removeprefix("muster")
    if plain == "tracing":
        return (
            f"{found} is not a setting any more: no spans are sent. `kubectl muster explain` shows the stages of a "
            "gang, and the metric muster_gang_stage_seconds those of all"
        )
    if plain.startswith("turnhistory"):
        return f"{found} is not a setting any more: no turns are kept. `muster snapshot` saves the last one"
    near = get_close_matches(to_camel(found) if found.islower() else found, sorted(known), n=1)
    return f"{found} is not a setting" + (f"; did you mean {near[0]}?" if near else "")


def _problem(item: Any, origins: Mapping[str, str]) -> str:
    """One pydantic error as a sentence, without the value of a secret."""
    text = str(item["msg"]).removeprefix("Value error, ")
    if not item["loc"]:
        return text
    name = str(item["loc"][0])
    found = "" if name == "dsn" or "found " in text else f" found {item['input']!r},"
    return f"{name} ({origins.get(name, 'default')}):{found} {text[:1].lower()}{text[1:]}"
