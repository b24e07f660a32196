"""The part of a document that its model can read, so that one wrong field does not hide what is wrong next to it."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic import ValidationError

from queues.api.model import Model, path_of

#: So often fields are taken out; a field that is missing takes the part around it along.
_ROUNDS: Final = 20


def readable_part(model: type[Model], document: Mapping[str, Any]) -> tuple[dict[str, Any], frozenset[str]]:
    """The document without fields that cannot be read, and the paths of these fields."""
    removed: set[str] = set()
    part = dict(document)
    for _ in range(_ROUNDS):
        try:
            model.parse(part)
        except ValidationError as error:
            details = error.errors(include_url=False, include_context=False, include_input=False)
            places = {_place(each["type"], each["loc"]) for each in details}
            if () in places:
                break
            removed |= {path_of(place) for place in places}
            part = _without(part, places)
        else:
            return part, frozenset(removed)
    return {key: document[key] for key in ("apiVersion", "kind") if key in document}, frozenset(removed)


def _place(kind: str, location: Iterable[int | str]) -> tuple[int | str, ...]:
    """What to take out for an error: the field; of a missing one the part around it; of an entry the whole list."""
    place = tuple(location)
    if kind == "missing":
        place = place[:-1]
    while place and isinstance(place[-1], int):
        place = place[:-1]
    return place


def _without(value: Any, places: Iterable[tuple[int | str, ...]], at: tuple[int | str, ...] = ()) -> Any:
    wanted = set(places)
    if isinstance(value, Mapping):
        return {
            key: _without(entry, wanted, (*at, key))
            for key, entry in value.items()
            if (*at, key) not in wanted
        }
    if isinstance(value, list):
        return [_without(entry, wanted, (*at, index)) for index, entry in enumerate(value)]
    return value
