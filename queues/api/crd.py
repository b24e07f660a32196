"""CustomResourceDefinitions, generated from the models of ``queues.api.types``: the schema is what Muster reads.

PodGroup has a status subresource here, unlike Volcano's. So a client that writes a PodGroup changes its spec only and
cannot overwrite a newer status, and ``metadata.generation`` counts changes of the spec.
Schemas are structural and small (pod templates are kept whole), so client-side ``kubectl apply`` works.
"""

from functools import cache
from importlib.resources import files
from typing import Any, Final

import msgspec
import yaml

from queues.api.api_resources import ApiResource, resource_of
from queues.api.bounds import bounded, structural
from queues.api.descriptions import with_descriptions
from queues.api.model import Model
from queues.api.names import MANAGED_BY_LABEL
from queues.api.validation.validation import KINDS

#: Label of every definition of Muster. An existing definition without it belongs to another product (Volcano).
OWNER_LABEL = {MANAGED_BY_LABEL: "muster"}


class CrdResource(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A custom resource, and how the API server serves it: an entry of ``crds.toml``."""

    api_version: str
    kind: str
    short: tuple[str, ...] = ()
    status: bool = False
    #: Of ``kubectl get``, as a definition has them. Above priority 0: shown only with ``-o wide``.
    columns: tuple[dict[str, str | int], ...] = ()
    #: Whether a definition of the kind that another product has installed does as well, and is left as it is.
    shared: bool = False

    @property
    def served(self) -> ApiResource:
        """Where the API server has its objects."""
        served = resource_of(self.api_version, self.kind)
        assert served is not None
        return served

    def schema(self) -> dict[str, Any]:
        """The structural schema of its objects: that of the model by which they are read. A Device has none."""
        model = KINDS.get((self.api_version, self.kind))
        if model is not None:
            return schema_of(model)
        text = files(__package__).joinpath(f"{self.kind.lower()}_schema.yaml").read_text(encoding="utf-8")
        schema: dict[str, Any] = yaml.safe_load(text)
        return schema


RESOURCES: Final = msgspec.toml.decode(
    files(__package__).joinpath("crds.toml").read_bytes(), type=dict[str, tuple[CrdResource, ...]]
)["resources"]
#: Names of the definitions that may be another product's.
SHARED = frozenset(f"{each.served.plural}.{each.served.group}" for each in RESOURCES if each.shared)


class PlainDumper(yaml.SafeDumper):
    """Writes a value out at every occurrence, without YAML anchors and aliases."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: D102 - of the base class
        return True


def crds() -> list[dict[str, Any]]:
    """Every CustomResourceDefinition of Muster, ready for the API server."""
    definitions: list[dict[str, Any]] = msgspec.json.decode(_definitions())
    return definitions


@cache
def _definitions() -> bytes:
    return msgspec.json.encode([_definition(resource) for resource in RESOURCES])


def crd_files() -> dict[str, str]:
    """The definitions as YAML, by their file names in ``deploy/chart/crds``."""
    head = "# Written by `muster crds` from queues/api/types; do not edit.\n"
    return {
        f"{definition['spec']['group']}_{definition['spec']['names']['plural']}.yaml": head
        + yaml.dump(definition, Dumper=PlainDumper, sort_keys=False, width=100, allow_unicode=True)
        for definition in crds()
    }


def _definition(resource: CrdResource) -> dict[str, Any]:
    served = resource.served
    version: dict[str, Any] = {"name": served.version, "served": True, "storage": True}
    if resource.columns:
        version["additionalPrinterColumns"] = list(resource.columns)
    if resource.status:
        version["subresources"] = {"status": {}}
    version["schema"] = {"openAPIV3Schema": resource.schema()}
    names: dict[str, Any] = {
        "kind": served.kind,
        "listKind": f"{served.kind}List",
        "plural": served.plural,
        "singular": served.kind.lower(),
    }
    if resource.short:
        names["shortNames"] = list(resource.short)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{served.plural}.{served.group}", "labels": dict(OWNER_LABEL)},
        "spec": {
            "group": served.group,
            "names": names,
            "scope": "Namespaced" if served.namespaced else "Cluster",
            "versions": [version],
        },
    }


def schema_of(model: type[Model]) -> dict[str, Any]:
    """The structural schema of a document kind."""
    json_schema = with_descriptions(model.model_json_schema(by_alias=True), model)
    schema = bounded(structural(json_schema, json_schema.get("$defs", {})))
    for field in ("apiVersion", "kind"):
        schema["properties"][field] = {"type": "string"}
    schema["properties"]["metadata"] = {"type": "object"}
    return schema
