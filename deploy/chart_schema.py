"""The JSON schema of the chart's values: it refuses unknown keys; settings are those of ``muster run``. Pure."""

from typing import Any, Final

from pydantic.alias_generators import to_camel

from admission.settings import TAKEOVER_LIMIT_SECONDS, Settings

Schema = dict[str, Any]
#: Settings that follow from the Deployment or from other values.
OF_THE_CHART: Final = frozenset(
    {
        *("kubeconfig", "context", "namespace", "username", "identity", "podIp"),
        *("dsn", "dsnFile", "dataDir", "embeddedPostgres", "certificatesDir", "failedTurnsDir"),
        *("httpListen", "readListen", "readUrl", "webhookListen", "webhookUrl"),
    }
)
_TEXT: Final[Schema] = {"type": "string"}
_FLAG: Final[Schema] = {"type": "boolean"}
#: Kubernetes' own objects: the API server checks them.
_OBJECT: Final[Schema] = {"type": "object"}
_LIST: Final[Schema] = {"type": "array"}
_TEXTS: Final[Schema] = {"type": "object", "additionalProperties": {"type": "string"}}
_CIDRS: Final[Schema] = {"type": "array", "items": {"type": "string", "pattern": "/[0-9]+$"}}
_IMAGE: Final[dict[str, Schema]] = {
    "repository": _TEXT,
    "tag": _TEXT,
    "digest": {"type": "string", "pattern": "^$|^sha256:[0-9a-f]{64}$"},
}
#: Entries of a container's env.
_VARIABLES: Final[Schema] = {
    "type": "array",
    "items": {"type": "object", "required": ["name"], "properties": {"name": _TEXT}},
}
#: They are written into expressions of the admission policies.
_SCHEDULER: Final[Schema] = {"type": "string", "pattern": "^[A-Za-z0-9]([-A-Za-z0-9._]*[A-Za-z0-9])?$"}
#: Stricter than what Muster itself takes.
_STRICTER: Final[dict[str, Schema]] = {
    "schedulerName": _SCHEDULER,
    "schedulerAliases": {"type": "array", "minItems": 1, "items": _SCHEDULER},
}
_COUNT: Final[Schema] = {"type": "integer", "minimum": 1}


def values_schema() -> Schema:
    """As ``values.schema.json`` has it."""
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": "Values of Muster", **_values()}


def _values() -> Schema:
    return _closed(
        image=_closed(**_IMAGE, pullPolicy=_pull_policy(), pullSecrets=_LIST),
        # None while a backup is restored.
        replicas={**_COUNT, "minimum": 0},
        database=_database(),
        settings=_settings(),
        # Taken out: a template says what to use instead.
        tracing={},
        webhook=_webhook(),
        resources=_OBJECT,
        priorityClassName=_TEXT,
        nodeSelector=_TEXTS,
        tolerations=_LIST,
        affinity=_OBJECT,
        podAnnotations=_TEXTS,
        podLabels=_TEXTS,
        topologySpreadConstraints=_LIST,
        serviceAccount=_closed(annotations=_TEXTS),
        extraEnv=_VARIABLES,
        extraVolumes=_LIST,
        extraVolumeMounts=_LIST,
        podDisruptionBudget=_closed(enabled=_FLAG, maxUnavailable={"type": ["integer", "string"]}),
        networkPolicy=_closed(
            enabled=_FLAG, monitoringNamespace=_TEXT, podCIDRs=_closed(ipv4=_CIDRS, ipv6=_CIDRS)
        ),
        agent=_agent(),
        provisioning=_closed(enabled=_FLAG),
        firstQueues=_closed(create=_FLAG),
        tenants={"type": "array", "items": _tenant()},
        monitoring=_closed(
            podMonitors=_closed(
                enabled=_FLAG, labels=_TEXTS, interval=_TEXT, tokenSecret=_closed(name=_TEXT, key=_TEXT)
            ),
            rules=_closed(
                enabled=_FLAG, labels=_TEXTS, runbookBase={"type": "string", "pattern": "^$|^https?://[^/]+"}
            ),
            dashboards=_closed(enabled=_FLAG, labels=_TEXTS),
        ),
        hostNetwork=_FLAG,
        backup=_backup(),
        tools=_closed(
            enabled=_FLAG,
            existingSecret=_TEXT,
            existingSecretKey=_TEXT,
            resources=_OBJECT,
        ),
        # Helm's own: values of a chart that has this one as a part.
        **{"global": _OBJECT},
    )


def _closed(**properties: Schema) -> Schema:
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _pull_policy() -> Schema:
    return {"enum": ["", "Always", "IfNotPresent", "Never"]}


def _database() -> Schema:
    storage = _closed(size=_TEXT, storageClass=_TEXT)
    cluster = _closed(enabled=_FLAG, instances=_COUNT, storage=storage, spec=_OBJECT)
    dsn = {"type": "string", "pattern": "^$|^postgres(ql)?://"}
    return _closed(dsn=dsn, existingSecret=_TEXT, existingSecretKey=_TEXT, cloudNativePG=cluster)


def _agent() -> Schema:
    return _closed(
        enabled=_FLAG,
        image=_closed(**_IMAGE),
        resources=_OBJECT,
        securityContext=_OBJECT,
        priorityClassName=_TEXT,
        runtimeClassName=_TEXT,
        nodeSelector=_TEXTS,
        tolerations=_LIST,
        affinity=_OBJECT,
        podAnnotations=_TEXTS,
        podLabels=_TEXTS,
        extraEnv=_VARIABLES,
        extraVolumes=_LIST,
        extraVolumeMounts=_LIST,
    )


def _backup() -> Schema:
    return _closed(
        enabled=_FLAG,
        major={"type": ["integer", "string"], "pattern": "^[0-9]+$"},
        image=_TEXT,
        # Five fields; which numbers they may have is Kubernetes' to say.
        schedule={"type": "string", "pattern": r"^(@\w+|\S+( \S+){4})$"},
        keep=_COUNT,
        deadlineSeconds=_COUNT,
        storage=_closed(existingClaim=_TEXT, size=_TEXT, storageClass=_TEXT),
        resources=_OBJECT,
    )


def _webhook() -> Schema:
    go_duration = {"type": "string", "pattern": "^$|^([0-9]+(h|m|s))+$"}
    cert_manager = _closed(
        issuerRef=_closed(name=_TEXT, kind=_TEXT, group=_TEXT), duration=go_duration, renewBefore=go_duration
    )
    return _closed(certificates={"enum": ["own", "cert-manager"]}, certManager=cert_manager)


def _tenant() -> Schema:
    admin = {**_closed(user=_TEXT, group=_TEXT), "minProperties": 1, "maxProperties": 1}
    fields = _closed(
        name={"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"},
        namespaces=_OBJECT,
        admins={"type": "array", "items": admin},
        spec=_OBJECT,
    )
    return {**fields, "required": ["name"]}


def _settings() -> Schema:
    fields = Settings.model_json_schema()["properties"]
    kept = ("type", "enum", "anyOf", "minimum", "maximum", "exclusiveMinimum", "description", "default")
    return _closed(
        **{
            name: {key: field[key] for key in kept if key in field} | _STRICTER.get(name, {})
            for name, field in fields.items()
            if name not in OF_THE_CHART
        }
    )


def settings_template() -> str:
    """A template that refuses settings which fit one by one, and not together, as ``Settings`` does."""
    lease, retry, backoff, longest = (
        f"(float64 ((.Values.settings).{to_camel(name)} | default {Settings.model_fields[name].default:g}))"
        for name in ("lease_seconds", "retry_seconds", "backoff_seconds", "backoff_max_seconds")
    )
    limit = TAKEOVER_LIMIT_SECONDS
    return f"""\
{{{{- /* Written by `python -m deploy.manifests`; do not edit. Muster refuses these when it starts. */}}}}
{{{{- define "muster.checkSettings" -}}}}
{{{{- $lease := {lease} }}}}
{{{{- $retry := {retry} }}}}
{{{{- $backoff := {backoff} }}}}
{{{{- $longest := {longest} }}}}
{{{{- if ge (addf $lease $retry) {limit:.1f} }}}}
{{{{- fail (printf "settings: found leaseSeconds %v, retrySeconds %v, expected a sum below {limit}" $lease $retry) }}}}
{{{{- end }}}}
{{{{- if gt (mulf $retry 2.0) $lease }}}}
{{{{- fail (printf "settings.retrySeconds: found %v, expected at most half of leaseSeconds (%v)" $retry $lease) }}}}
{{{{- end }}}}
{{{{- if lt $longest $backoff }}}}
{{{{- fail (printf "settings.backoffMaxSeconds: found %v, expected at least backoffSeconds (%v)" $longest $backoff) }}}}
{{{{- end }}}}
{{{{- end }}}}
"""
