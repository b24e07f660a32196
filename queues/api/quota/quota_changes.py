"""Changes of quota that an administrator asks for: which limits they touch, and what is left of the parent's. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from queues.api.names import ROOT_QUEUE
from queues.api.quota.quota_document import QuotaField, Spec, parent_of, quota_of, shown_amount
from queues.api.resource_names import resource_named
from queues.errors import InvalidQuantity, MusterError
from queues.resources import amount, show

#: What a change makes of limits; None removes one.
Changes = Mapping[QuotaField, str | None]
#: Limits that the queues of one parent share; a capability is an upper bound for each by itself.
_SHARED: Final = ("guarantee", "deserved")
#: Amounts that remove a limit.
_REMOVED: Final = ("", "-")
#: Why queue root is not changed.
ROOT_HAS_NO_LIMITS: Final = (
    "Queue root has what the usable nodes can allocate, and no quota to set. Set that of the queues below it."
)


class CannotMove(MusterError):
    """{why}"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remainder:
    """What the children of a queue state together for one limit, before and after a change, and what it has of it."""

    parent: str
    field: QuotaField
    #: In units of the resource; None if the parent states nothing, or if that is not known.
    has: int | None
    before: int
    after: int

    def __str__(self) -> str:
        resource, limit = self.field.resource, self.field.limit
        place = f" of flavor {self.field.flavor}" if self.field.flavor else ""
        sums = show(resource, self.after)
        if self.before != self.after:
            sums = f"{show(resource, self.before)} → {sums}"
        told = f"queues below {self.parent}: {sums} {limit} {resource}{place}"
        if self.has is None:
            return told
        left = self.has - self.after
        rest = f"{show(resource, left)} left" if left >= 0 else f"{show(resource, -left)} too many"
        return f"{told} of {show(resource, self.has)}, {rest}"


def limit_asked(option: str, field: QuotaField, quantity: str) -> tuple[QuotaField, str | None]:
    """A limit with its new amount, in its usual form; None if it is to be removed. Raises NoSuchResource.

    The name of one that is to be removed is taken as it is: see ``with_whole_names``.
    """
    if quantity in _REMOVED:
        return field, None
    resource = resource_named(option, field.resource)
    return field._replace(resource=resource), shown_amount(resource, quantity)


def with_whole_names(spec: Spec, changes: Changes, option: str | None = None) -> Changes:
    """The changes with short names written out; one that the queue states by that very name is removed by it.

    ``option``: the option that has the names; None if it is the option of their limit. Raises NoSuchResource.
    """
    stated = quota_of(spec)
    return {
        field
        if text is not None or field in stated
        else field._replace(resource=resource_named(option or f"--{field.limit}", field.resource)): text
        for field, text in changes.items()
    }


def moved(
    giver: Spec, taker: Spec, field: QuotaField, units: int, *, names: tuple[str, str]
) -> tuple[Changes, Changes]:
    """What a move of a deserved amount changes in the queue that gives and in the one that takes.

    A guarantee above the new deserved amount of the giver is lowered with it; a capability below that of the taker is
    raised with it. ``names``: of both. Raises CannotMove.
    """
    resource = field.resource
    has, gets = _deserved(giver, field, names[0]), _deserved(taker, field, names[1])
    if units > has:
        missing = (
            f"{names[0]} deserves {show(resource, has)} {resource}{_of(field)}, not {show(resource, units)}"
        )
        raise CannotMove(why=f"{missing}: nothing can be moved that it does not have.")
    lowered, raised = has - units, gets + units
    lowering: dict[QuotaField, str | None] = {field: show(resource, lowered)}
    raising: dict[QuotaField, str | None] = {field: show(resource, raised)}
    guarantee, capability = field._replace(limit="guarantee"), field._replace(limit="capability")
    if (_units(giver, guarantee) or 0) > lowered:
        lowering[guarantee] = show(resource, lowered)
    most = _units(taker, capability)
    if most is not None and most < raised:
        raising[capability] = show(resource, raised)
    return lowering, raising


def remainders(
    name: str,
    changes: Changes,
    specs: Mapping[str, Spec],
    *,
    root_has: Mapping[tuple[str, str], int] | None = None,
) -> list[Remainder]:
    """What is left of the parent's amounts when a queue is changed, and of its own for the queues below it.

    ``specs``: of the queues that are known, by name, before the change; the queue is among them. ``root_has``: what the
    usable nodes can allocate, by flavor and resource; None if that is not known.
    """
    if name == ROOT_QUEUE:
        return []
    return [*_of_parent(name, changes, specs, root_has), *_of_children(name, changes, specs)]


def _of_children(name: str, changes: Changes, specs: Mapping[str, Spec]) -> Iterator[Remainder]:
    """What the queues below a queue state of its new amounts, as far as they state any."""
    children = [spec for each, spec in specs.items() if parent_of(each, spec) == name]
    for field, text in changes.items():
        has = _readable(field.resource, text)
        if field.limit not in _SHARED or has is None:
            continue
        if stated := sum(_units(spec, field) or 0 for spec in children):
            yield Remainder(parent=name, field=field, has=has, before=stated, after=stated)


def _of_parent(
    name: str,
    changes: Changes,
    specs: Mapping[str, Spec],
    root_has: Mapping[tuple[str, str], int] | None,
) -> list[Remainder]:
    parent = parent_of(name, specs[name]) or ROOT_QUEUE
    children = {each: spec for each, spec in specs.items() if parent_of(each, spec) == parent}
    found: list[Remainder] = []
    for field, text in changes.items():
        if field.limit not in _SHARED or (parent == ROOT_QUEUE and field.limit == "guarantee"):
            continue
        others = sum(_units(spec, field) or 0 for each, spec in children.items() if each != name)
        has = _units(specs.get(parent, {}), field)
        if parent == ROOT_QUEUE:
            has = (root_has or {}).get((field.flavor, field.resource))
        found.append(
            Remainder(
                parent=parent,
                field=field,
                has=has,
                before=others + (_units(specs[name], field) or 0),
                after=others + (_readable(field.resource, text) or 0),
            )
        )
    return found


def _deserved(spec: Spec, field: QuotaField, name: str) -> int:
    found = _units(spec, field)
    if found is None:
        what = f"{name} states no {field}: it gets its part by weight"
        option = f"--deserved {field.resource}=AMOUNT" + (f" --flavor {field.flavor}" if field.flavor else "")
        raise CannotMove(why=f"{what}. State one first: `kubectl muster quota set {name} {option}`.")
    return found


def _units(spec: Spec, field: QuotaField) -> int | None:
    """The amount that a spec states; None if it states none, or one that cannot be read."""
    return _readable(field.resource, quota_of(spec).get(field))


def _readable(resource: str, text: str | None) -> int | None:
    try:
        return None if text is None else amount(resource, text)
    except InvalidQuantity:
        return None


def _of(field: QuotaField) -> str:
    return f" of flavor {field.flavor}" if field.flavor else ""
