"""What Muster makes of each field of a pod that kube-scheduler reads to compare nodes, pods, volumes or devices.

Muster binds a pod to its node by required node affinity. A plugin of kube-scheduler that looks at other nodes then sees
that node alone, and one that looks at other pods or volumes can only accept it or refuse it. So each such field is
placed by, refused before seats are held, or reported. The tables are ``scheduler_fields.toml``; a test holds them to
the fields of PodSpec.
"""

from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from importlib.resources import files
from typing import Any, Final

import msgspec

from queues.api.names import DEFAULT_SCHEDULER, VOLCANO_SCHEDULER
from queues.api.validation.violations import Violation
from queues.json_values import list_at, mapping_at
from queues.text_format import excerpt


class Handling(StrEnum):
    """What Muster makes of a field."""

    #: Placement decides by it.
    MODELLED = "modelled"
    #: A pod with it is refused with a reason, before it holds seats.
    REFUSED = "refused"
    #: Placement passes over it, and that is reported, as far as an object shows it: ``reported_violations``.
    REPORTED = "reported"


class SchedulerField(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One field, or several that are handled alike, with the plugin that reads it."""

    plugin: str
    #: Below ``spec``; ``[]`` stands for each entry of a list.
    path: str
    handling: Handling
    #: What placement does; of a field that is not modelled, what to do instead.
    says: str


class _Tables(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file of the tables."""

    fields: tuple[SchedulerField, ...]
    in_tree: frozenset[str]
    not_about_nodes: Mapping[str, frozenset[str]]


_TABLES: Final = msgspec.toml.decode(
    files(__package__).joinpath("scheduler_fields.toml").read_bytes(), type=_Tables
)
FIELDS: Final = _TABLES.fields
#: In-tree drivers whose volumes have a place or a limit.
IN_TREE: Final = _TABLES.in_tree
#: Fields of PodSpec and of its parts that say nothing about which node a pod may have.
NOT_ABOUT_NODES: Final = _TABLES.not_about_nodes

#: Names of the stock scheduler, as far as no setting says otherwise.
STOCK_SCHEDULERS: Final = frozenset((DEFAULT_SCHEDULER, VOLCANO_SCHEDULER))

_SAYS: Final = {field.path: field.says for field in FIELDS}


def reported_violations(
    spec: Any, path: str, schedulers: Collection[str] | None = None
) -> Iterator[Violation]:
    """Warnings about fields of a pod's spec that are reported only, with the words of the table.

    ``schedulers``: names of the stock scheduler; None if not known.
    """
    if not isinstance(spec, Mapping):
        return
    if spec.get("schedulingGroup"):
        yield _reported(f"{path}.schedulingGroup", "a group", "schedulingGroup")
    if (other := other_scheduler(spec, path, schedulers)) is not None:
        yield other
    for index, volume in enumerate(list_at(spec, "volumes")):
        for driver in sorted(IN_TREE & mapping_at(volume).keys()):
            at = f"{path}.volumes[{index}].{driver}"
            yield _reported(at, "a volume of an in-tree driver", "volumes[] of in-tree drivers")


def other_scheduler(
    spec: Mapping[str, Any], path: str, schedulers: Collection[str] | None = None
) -> Violation | None:
    """The warning about a scheduler that is not the stock one, in the spec of a pod or of a Volcano Job."""
    name = spec.get("schedulerName")
    if not isinstance(name, str) or name in ("", *(STOCK_SCHEDULERS if schedulers is None else schedulers)):
        return None
    return _reported(f"{path}.schedulerName", excerpt(name), "schedulerName")


def _reported(path: str, found: str, field: str) -> Violation:
    return Violation(path, found, f"none: {_SAYS[field]}", tolerable=True)
