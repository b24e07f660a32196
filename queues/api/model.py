"""The base of all document models: snake_case attributes, camelCase keys, frozen, unknown fields kept.

Types are as strict as the API server's: ``replicas: "2"`` is an error, not 2. As in the API server, a field that is
``null`` counts as absent.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PlainValidator,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError

from queues.errors import InvalidDocument
from queues.text_format import excerpt

Text = StrictStr
Flag = StrictBool

#: int32 of the API; nothing that counts pods or seconds needs more.
Int32 = Annotated[StrictInt, Field(ge=-(2**31), le=2**31 - 1, json_schema_extra={"format": "int32"})]
Count = Annotated[StrictInt, Field(ge=0, le=2**31 - 1, json_schema_extra={"format": "int32"})]


def _int_or_text(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise PydanticCustomError("quantity", "a quantity: a whole number, or text such as 500m or 32Gi")
    return value


#: A Kubernetes quantity. The rules (queues.api.validation.violations) check its syntax, not the model, so that an
#: object with an invalid quantity that is already in the cluster can still be read.
Quantity = Annotated[
    int | str, PlainValidator(_int_or_text), WithJsonSchema({"x-kubernetes-int-or-string": True})
]
#: Resources that a map of amounts may name. The bound is the schema's only: what is stored is read up to it.
MOST_AMOUNTS = 64
Quantities = Annotated[dict[str, Quantity], Field(json_schema_extra={"maxProperties": MOST_AMOUNTS})]

#: A Go duration: ``90s``, ``1h30m``.
DURATION_PATTERN = r"^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$|^0$"
Duration = Annotated[Text, Field(pattern=DURATION_PATTERN)]

#: Labels or annotations that are read of one object or template, each by itself.
MOST_PAIRS = 5000

#: A DNS label, and a DNS subdomain; each may be empty.
LABEL_PATTERN = r"^$|^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
SUBDOMAIN_PATTERN = r"^$|^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"


def path_of(location: Sequence[int | str]) -> str:
    """A field path as text: ``spec.tasks[0].replicas``. Empty: ``document``."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text or "document"


def _null_is_empty(values: Any) -> Any:
    """In maps of texts, ``label:`` with no value is an empty text."""
    if isinstance(values, Mapping):
        return {key: "" if value is None else value for key, value in values.items()}
    return values


class _AtMost(BeforeValidator):
    """A bound that the schema states as well."""

    most: int

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        found = handler(schema)
        found["maxItems" if found.get("type") == "array" else "maxProperties"] = self.most
        return found


def at_most(most: int) -> BeforeValidator:
    """Refuses a list or mapping of more entries before any of them is read: a document may have half a million."""

    def counted(value: Any) -> Any:
        if isinstance(value, list | tuple | Mapping) and len(value) > most:
            found = {"found": f"{len(value)} entries", "most": most}
            raise PydanticCustomError("too_many", "at most {most}", found)
        return value

    bound = _AtMost(counted)
    object.__setattr__(bound, "most", most)
    return bound


#: Labels, annotations, node selectors.
Labels = Annotated[dict[str, Text], BeforeValidator(_null_is_empty), at_most(MOST_PAIRS)]


def _text(value: Any) -> Any:
    """A timestamp that a YAML loader has parsed, as text again."""
    return value.isoformat() if hasattr(value, "isoformat") else value


#: A time as RFC 3339 text.
Time = Annotated[Text, BeforeValidator(_text), Field(json_schema_extra={"format": "date-time"})]


class Model(BaseModel):
    """Base of every part of a document."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        frozen=True,
        extra="allow",
    )

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, document: Any) -> Any:
        if isinstance(document, Mapping):
            return {key: value for key, value in document.items() if value is not None}
        return document

    @classmethod
    def parse(cls, document: Any) -> Self:
        """The model of JSON-like data with Kubernetes' keys. Raises ValidationError with all errors."""
        return cls.model_validate(document, by_alias=True, by_name=False)

    @classmethod
    def read(cls, document: Any) -> Self:
        """As ``parse``, but raises InvalidDocument with the first error."""
        try:
            return cls.parse(document)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise InvalidDocument(
                where=path_of(first["loc"]), found=excerpt(first["input"]), expected=first["msg"]
            ) from error

    def document(self) -> dict[str, Any]:
        """JSON-like data with Kubernetes' keys: the fields that were given, unknown ones included."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


class OpenModel(Model):
    """A part of Volcano's API. The API server too keeps fields that have no model here."""

    model_config = ConfigDict(json_schema_extra={"x-kubernetes-preserve-unknown-fields": True})
