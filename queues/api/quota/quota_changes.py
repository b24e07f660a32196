"""Changes of quota that an administrator asks for: which limits they touch. Pure."""

from collections.abc import Mapping
from typing import Final

from queues.api.quota.quota_document import QuotaField, Spec, quota_of, shown_amount
from queues.api.resource_names import resource_named

#: What a change makes of limits; None removes one.
Changes = Mapping[QuotaField, str | None]
#: Amounts that remove a limit.
_REMOVED: Final = ("", "-")
#: Why queue root is not changed.
ROOT_HAS_NO_LIMITS: Final = (
    "Queue root has what the usable nodes can allocate, and no quota to set. Set that of the queues below it."
)


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
