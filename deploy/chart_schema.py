"""The JSON schema of the chart's values: it refuses unknown keys; settings are those of ``muster run``. Pure."""

from typing import Any, Final

from admission.settings import Settings

Schema = dict[str, Any]
#: Settings that follow from the Deployment or from the policies, which the chart writes itself.
OF_THE_CHART: Final = frozenset(
    {
        *("kubeconfig", "context", "namespace", "username", "dsn", "dataDir", "embeddedPostgres", "identity"),
        "certificatesDir",
        *("httpListen", "readListen", "readUrl", "webhookListen", "webhookUrl", "failedTurnsDir"),
        *("schedulerName", "schedulerAliases", "tracing"),
    }
)
_TEXT: Final[Schema] = {"type": "string"}
_FLAG: Final[Schema] = {"type": "boolean"}
#: Kubernetes' own objects: the API server checks them.
_OBJECT: Final[Schema] = {"type": "object"}
_LIST: Final[Schema] = {"type": "array"}
_TEXTS: Final[Schema] = {"type": "object", "additionalProperties": {"type": "string"}}
_CIDRS: Final[Schema] = {"type": "array", "items": {"type": "string", "pattern": "/[0-9]+$"}}
_COUNT: Final[Schema] = {"type": "integer", "minimum": 1}


def values_schema() -> Schema:
    """As ``values.schema.json`` has it."""
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": "Values of Muster", **_values()}


def _values() -> Schema:
    return _closed(
        image=_closed(repository=_TEXT, tag=_TEXT, pullPolicy=_pull_policy(), pullSecrets=_LIST),
        replicas=_COUNT,
        database=_database(),
        settings=_settings(),
        tracing=_closed(
            endpoint={"type": "string", "pattern": "^$|^https?://[^/]+"},
            clusterName={"type": "string", "pattern": "^[^,=]*$"},
            env=_LIST,
        ),
        webhook=_webhook(),
        resources=_OBJECT,
        priorityClassName=_TEXT,
        nodeSelector=_TEXTS,
        tolerations=_LIST,
        affinity=_OBJECT,
        podAnnotations=_TEXTS,
        podLabels=_TEXTS,
        extraVolumes=_LIST,
        extraVolumeMounts=_LIST,
        podDisruptionBudget=_closed(enabled=_FLAG, maxUnavailable={"type": ["integer", "string"]}),
        networkPolicy=_closed(
            enabled=_FLAG, monitoringNamespace=_TEXT, podCIDRs=_closed(ipv4=_CIDRS, ipv6=_CIDRS)
        ),
        agent=_closed(enabled=_FLAG, resources=_OBJECT, tolerations=_LIST),
        provisioning=_closed(enabled=_FLAG),
        firstQueues=_closed(create=_FLAG),
        tenants={"type": "array", "items": _tenant()},
        monitoring=_closed(
            podMonitors=_closed(enabled=_FLAG, labels=_TEXTS, interval=_TEXT),
            rules=_closed(enabled=_FLAG, labels=_TEXTS),
            dashboards=_closed(enabled=_FLAG, labels=_TEXTS),
        ),
        hostNetwork=_FLAG,
        backup=_backup(),
        tools=_closed(
            enabled=_FLAG,
            existingSecret=_TEXT,
            existingSecretKey=_TEXT,
            temporarySpace=_TEXT,
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


def _backup() -> Schema:
    return _closed(
        enabled=_FLAG,
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
    kept = ("type", "enum", "minimum", "maximum", "exclusiveMinimum", "description", "default")
    return _closed(
        **{
            name: {key: field[key] for key in kept if key in field}
            for name, field in fields.items()
            if name not in OF_THE_CHART
        }
    )
