"""Pod templates as the API server reads them: types of all fields, unknown fields, values, names of volumes.

The types are in ``pod_fields.txt``, as Kubernetes serves them in its OpenAPI document; a test compares the file with a
real API server. Notation: ``Type: field=type …``; ``!`` after a field that is required; ``[T]`` a list, ``{T}`` a
mapping of text to T, ``A|B`` one of these texts.

The caller reports once what ``queues.api.validation.pod_rules`` finds as well.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Any, Final

from queues.api.validation.queued_work import pod_templates
from queues.api.validation.violations import Violation
from queues.errors import InvalidQuantity
from queues.json_values import list_at, text_at
from queues.resources import quantity
from queues.text_format import excerpt

#: The version of Kubernetes whose fields these are.
KUBERNETES: Final = "1.36"
#: Required fields whose absence the API server takes for an empty value or 0.
_MAY_BE_ABSENT: Final = frozenset(("value", "values", "lun", "seconds", "preference"))
_WORDS: Final = {"string": "text (in quotes, if it looks like a number)", "boolean": "true or false"}
_BITS: Final = {"integer:int32": 31, "integer:int64": 63}


@dataclass(frozen=True, slots=True)
class PodField:
    """A field of a part of a pod template."""

    #: In the notation of the table.
    type: str
    required: bool


@cache
def pod_types() -> Mapping[str, Mapping[str, PodField]]:
    """Fields by name, by type."""
    found: dict[str, dict[str, PodField]] = {}
    for word in files(__package__).joinpath("pod_fields.txt").read_text(encoding="utf-8").split():
        if word.endswith(":"):
            fields = found[word[:-1]] = {}
            continue
        field, _, written = word.partition("=")
        fields[field.rstrip("!")] = PodField(written, field.endswith("!"))
    return found


def type_problems(template: Any, path: str) -> Iterator[Violation]:
    """What of the fields of a PodTemplateSpec is of a wrong type, is missing, or (tolerable) is not known."""
    yield from _of_type(template, "PodTemplateSpec", path)


def template_problems(template: Any, path: str, other_volumes: Collection[str] = ()) -> Iterator[Violation]:
    """What the API server would refuse of a PodTemplateSpec, or (tolerable) drop, being unknown to it.

    ``other_volumes``: names of volumes that the object itself gives its pods.
    """
    yield from type_problems(template, path)
    if isinstance(template, Mapping):
        yield from _volume_problems(template.get("spec"), f"{path}.spec", other_volumes)


def pod_problems(document: Mapping[str, Any]) -> Iterator[Violation]:
    """Problems of a Pod, or of the pod templates of a Job or Volcano Job."""
    if document.get("kind") == "Pod":
        yield from _of_type(document.get("spec"), "PodSpec", "spec")
        yield from _volume_problems(document.get("spec"), "spec", ())
        return
    for path, template in pod_templates(document):
        yield from template_problems(template, path)


def _of_type(value: Any, written: str, path: str) -> Iterator[Violation]:
    """Problems of a value that should be of a type, in the notation of ``pod_fields.txt``."""
    if value is None:
        return
    if written.startswith("["):
        if not isinstance(value, list):
            of_texts = " of texts, one for each word: [sh, -c, …]" if written == "[string]" else ""
            yield Violation(path, excerpt(value), f"a list{of_texts}")
            return
        for index, entry in enumerate(value):
            yield from _of_type(entry, written[1:-1], f"{path}[{index}]")
    elif written.startswith("{"):
        if not isinstance(value, Mapping):
            yield Violation(path, excerpt(value), "a mapping")
            return
        for key, entry in value.items():
            yield from _of_type(entry, written[1:-1], f"{path}.{key}")
    elif written in pod_types():
        yield from _of_part(value, written, path)
    elif problem := _of_scalar(value, written):
        yield Violation(path, excerpt(value), problem)


def _of_part(value: Any, name: str, path: str) -> Iterator[Violation]:
    if not isinstance(value, Mapping):
        yield Violation(path, excerpt(value), "a mapping")
        return
    fields = pod_types()[name]
    if not fields:
        return
    for key, entry in value.items():
        field = fields.get(key)
        if field is not None:
            yield from _of_type(entry, field.type, f"{path}.{key}".removeprefix("."))
            continue
        close = get_close_matches(str(key), fields, n=1)
        expected = f"{close[0]} (misspelt?)" if close else f"a field of {name} in Kubernetes {KUBERNETES}"
        yield Violation(f"{path}.{key}", "a field that Kubernetes does not know", expected, tolerable=True)
    for key, field in fields.items():
        if field.required and key not in _MAY_BE_ABSENT and value.get(key) is None:
            yield Violation(f"{path}.{key}", "nothing", "a value (Required value)")


def _of_scalar(value: Any, written: str) -> str:
    """What is expected instead of a value; "": it is what is expected."""
    match written:
        case "string" | "time":
            return "" if isinstance(value, str) else _WORDS["string"]
        case "boolean":
            return "" if isinstance(value, bool) else _WORDS["boolean"]
        case "integer:int32" | "integer:int64":
            is_whole = isinstance(value, int) and not isinstance(value, bool)
            return "" if is_whole and abs(value) < 2 ** _BITS[written] else "a whole number"
        case "int-or-string":
            is_either = isinstance(value, int | str) and not isinstance(value, bool)
            return "" if is_either else "a whole number or text"
        case "quantity":
            return _quantity_expected(value)
        case _:  # one of several texts; most have a default, which "" stands for
            return (
                ""
                if value == "" or value in written.split("|")
                else f"one of {', '.join(written.split('|'))}"
            )


def _quantity_expected(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return "a quantity: a number, or text such as 500m or 32Gi"
    try:
        quantity(value)
    except InvalidQuantity as error:
        return str(error.facts["expected"])
    return ""


def _volume_problems(spec: Any, path: str, other_volumes: Collection[str]) -> Iterator[Violation]:
    """Volumes of the same name, and mounts of volumes that the pod does not have."""
    names = set(other_volumes)
    for index, volume in enumerate(list_at(spec, "volumes")):
        if name := text_at(volume, "name"):
            if name in names and name not in other_volumes:
                expected = "a name that no other volume has (Duplicate value)"
                yield Violation(f"{path}.volumes[{index}].name", excerpt(name), expected)
            names.add(name)
    for group in ("initContainers", "containers"):
        for index, container in enumerate(list_at(spec, group)):
            yield from _mount_problems(container, f"{path}.{group}[{index}]", names)


def _mount_problems(container: Any, path: str, names: Collection[str]) -> Iterator[Violation]:
    for field in ("volumeMounts", "volumeDevices"):
        for index, mount in enumerate(list_at(container, field)):
            name = text_at(mount, "name")
            if name and name not in names:
                known = ", ".join(sorted(names)) or "it has none"
                yield Violation(
                    f"{path}.{field}[{index}].name", excerpt(name), f"a volume of the pod ({known})"
                )
