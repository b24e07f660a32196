"""What the fields of the models mean, from the comments that begin with ``#:`` above them.

They are shown by ``kubectl explain`` and by docs/reference/kinds.md, so that each field is described once, in the code.
"""

import inspect
import re
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

from queues.api.model import Model

_CLASS = re.compile(r"class (\w+)")
_FIELD = re.compile(r"    ([a-z_0-9]+): ")
_COMMENT = "    #: "


@cache
def descriptions(model: type[Model]) -> dict[str, str]:
    """The description of each field that has one, by its key in documents (``minAvailable``)."""
    found: dict[str, str] = {}
    lines: list[str] = []
    for line in _lines_by_class(model.__module__)[model.__name__]:
        field = _FIELD.match(line)
        if line.startswith(_COMMENT):
            lines.append(line.removeprefix(_COMMENT).strip())
        elif field is not None and field[1] in model.model_fields:
            key = model.model_fields[field[1]].alias or field[1]
            if lines:
                found[key] = " ".join(lines).replace("``", "")
            lines = []
        elif not line.startswith("    # "):
            lines = []
    return found


@cache
def _lines_by_class(module: str) -> dict[str, list[str]]:
    """The lines of each class of a module, by its name. ``inspect`` would parse the module again for each of them."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in inspect.getsource(sys.modules[module]).splitlines():
        if (begins := _CLASS.match(line)) is not None:
            lines = found[begins[1]] = []
        elif line and not line[0].isspace():
            lines = []
        lines.append(line)
    return found


def with_descriptions(schema: dict[str, Any], model: type[Model]) -> dict[str, Any]:
    """pydantic's JSON schema of a model, with the descriptions of its fields and of those of all models within."""
    by_name = {each.__name__: each for each in _subclasses(Model)}
    for name, part in (*schema.get("$defs", {}).items(), (model.__name__, schema)):
        if (described := by_name.get(name)) is None:
            continue
        for key, text in descriptions(described).items():
            if key in part.get("properties", {}):
                part["properties"][key]["description"] = text
    return schema


def _subclasses(model: type[Model]) -> Iterator[type[Model]]:
    for each in model.__subclasses__():
        yield each
        yield from _subclasses(each)
