"""Other quota than the queues have: the very writes of Queues that administrators have in mind, with all that follows.

A change is refused as the write would be, in the same words. What queues deserve by loans is worked out anew. Pure.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from admission.engine.snapshot import Snapshot
from admission.facts.cluster import QueueFact
from queues.api.names import SCHEDULING_VOLCANO
from queues.api.quota.quota_document import (
    LIMITS,
    ROOT_HAS_NO_LIMITS,
    Changes,
    QuotaField,
    limit_asked,
    merged,
    patch_for,
    quota_of,
    with_whole_names,
)
from queues.api.resource_names import NoSuchResource, usual_name
from queues.api.types.queue import QueueDocument
from queues.api.validation.known import Known
from queues.api.validation.tenant_rules import ObjectWrite, Requester, TenantTree, change_refusals
from queues.api.validation.validation import violations_of
from queues.errors import InvalidDocument, MusterError
from queues.quota.accounts import Account
from queues.quota.budgets import BudgetUse, HoursBudget, hours_text
from queues.quota.loans import loans_in_force
from queues.quota.queue import ROOT, Limits, Queue
from queues.read_api.trials import QueuePatchBody, TrialRequestBody
from queues.workload import NO_FLAVOR, FlavorName, QueueName

#: Limits, and writes of Queues, in one question.
MOST_CHANGES: Final = 64
#: Reasons that a refusal names; more would bury the first.
_MOST_REFUSALS: Final = 10
#: What a merge patch of a spec may change in a trial.
PATCHED_FIELDS: Final = frozenset((*LIMITS, "flavors", "loans", "budget"))
_OPTION: Final = "--quota"
_EXPECTED: Final = "QUEUE.[LIMIT.]RESOURCE=AMOUNT: team-a.gpu=64; team-a.gpu= removes the limit"

#: The Queues that there are, by name, as their objects say.
QueueFacts = Mapping[QueueName, QueueFact]


class UnusableChange(MusterError):
    """{option}: found {found}, expected {expected}."""


class RefusedChange(MusterError):
    """{why}"""


class NoQueueToChange(MusterError):
    """There is no queue {queue}."""


class NotAdministered(MusterError):
    """{user} does not administer queue {queue}. {whose} Ask one of them to try it, or try a queue of yours."""


class OwnTenantChange(NotAdministered):
    """access.admins of queue {queue} lets {user} change the queues below it, not {queue} itself: {whose}"""


@dataclass(frozen=True, slots=True)
class ChangedQuota:
    """The engine's input with other quota."""

    snapshot: Snapshot
    #: The changes in words.
    notes: tuple[str, ...]
    #: What the API server would warn of.
    warnings: tuple[str, ...]


# ── what is asked ───────────────────────────────────────────────────────────────────────────────────────────


def _patches_of(asked: TrialRequestBody, by: Requester | None, facts: QueueFacts) -> list[QueuePatchBody]:
    """Limits as people write them, as writes of Queues, one of each queue; then the other writes.

    Raises UnusableChange, RefusedChange, NoQueueToChange, NotAdministered.
    """
    changes: dict[QueueName, dict[QuotaField, str | None]] = {}
    for text in asked.quota:
        queue, field, quantity = _read(text, asked.flavor, facts)
        _require_administrator(queue, facts, by)
        try:
            limit, amount = limit_asked(_OPTION, field, quantity)
        except NoSuchResource as error:
            raise RefusedChange(why=str(error)) from error
        changes.setdefault(queue, {})[limit] = amount
    try:
        found = [
            QueuePatchBody(queue=name, spec=_patch(facts[name], limits)) for name, limits in changes.items()
        ]
    except NoSuchResource as error:
        raise RefusedChange(why=str(error)) from error
    return [*found, *asked.quota_patches]


def _patch(fact: QueueFact, changes: Changes) -> dict[str, Any]:
    spec = _document(fact)["spec"]
    return patch_for(spec, with_whole_names(spec, changes, _OPTION))


def _read(text: str, flavor: str, facts: QueueFacts) -> tuple[QueueName, QuotaField, str]:
    left, sign, quantity = text.partition("=")
    if not sign and left.endswith("-"):  # as kubectl removes labels
        left, sign, quantity = left[:-1], "=", ""
    quantity = quantity.strip()
    if not sign or "." not in left or quantity.startswith("+"):
        raise UnusableChange(option=_OPTION, found=repr(text[:100]), expected=_EXPECTED)
    found = [name for name in facts if left.startswith(f"{name}.")]
    if not found:
        raise NoQueueToChange(queue=_queue_part(left)[:100])
    queue = max(found, key=len)
    rest, limit = left[len(queue) + 1 :], "deserved"
    first, dot, others = rest.partition(".")
    if dot and first in LIMITS:
        limit, rest = first, others
    if not rest:
        raise UnusableChange(option=_OPTION, found=repr(text[:100]), expected=_EXPECTED)
    if dot and limit != first and usual_name(rest) is None and usual_name(others) is not None:
        raise UnusableChange(option=_OPTION, found=f"limit {first[:60]!r}", expected=" or ".join(LIMITS))
    return queue, QuotaField(flavor, limit, rest), quantity


def _queue_part(left: str) -> str:
    """The part of a text that was meant as the name of a queue."""
    for limit in LIMITS:
        name, found, _ = left.partition(f".{limit}.")
        if found:
            return name
    return left.partition(".")[0]


# ── what follows ────────────────────────────────────────────────────────────────────────────────────────────


def with_quota(
    snapshot: Snapshot, asked: TrialRequestBody, facts: QueueFacts, use: BudgetUse | None = None
) -> ChangedQuota:
    """The engine's input as if the Queues were written, all of them: their order makes no difference.

    ``facts``: the Queues that there are. ``use``: of budgets; None if no queue has one. A queue that gets its first
    counts as if it had used nothing. Raises UnusableChange, NoQueueToChange, NotAdministered; RefusedChange: the
    API server would refuse one next to the others.
    """
    by = None if asked.administers_all else Requester(asked.user, frozenset(asked.groups))
    patches = _patches_of(asked, by, facts)
    later, warnings = _all_written(patches, facts, by), list[str]()
    before_each = dict(facts)
    for patch in patches:
        name = QueueName(patch.queue)
        warnings += _checked(patch, {**later, name: before_each[name]}, by, snapshot.now)
        before_each[name] = _written(name, before_each[name], patch)
    counted = [_counted(each, facts, snapshot.now) for each in (facts, later)]
    names = dict.fromkeys((*(QueueName(each.queue) for each in patches), *sorted(counted[0])))
    queues, notes = dict(snapshot.queues), list[str]()
    budgets = {name: queue.budget for name, queue in counted[1].items()}
    spent = {} if use is None else use.spent(budgets, snapshot.now)
    for name in names:
        before, after = (each[name] for each in counted)
        told = list(_notes(before, after))
        notes += told
        if told and name in queues:
            queues[name] = replace(
                queues[name],
                limits=after.limits,
                flavors=after.flavors,
                broken=after.broken,
                budget=after.budget,
                spent=spent.get(name),
            )
    warnings += _unknown_resources(snapshot, facts, later)
    if not notes:
        notes = [f"queue {each.queue}: it has these limits already" for each in patches]
    return ChangedQuota(replace(snapshot, queues=queues), tuple(notes), tuple(dict.fromkeys(warnings)))


def _all_written(
    patches: Sequence[QueuePatchBody], facts: QueueFacts, by: Requester | None
) -> dict[QueueName, QueueFact]:
    """The queues with all that is asked, but for what cannot be written: its own check says why.

    Raises NoQueueToChange, NotAdministered; RefusedChange: it is no change of quota.
    """
    later = dict(facts)
    for patch in patches:
        name = QueueName(patch.queue)
        if name not in facts:
            raise NoQueueToChange(queue=patch.queue[:100])
        _require_administrator(name, facts, by)
        if unknown := sorted(patch.spec.keys() - PATCHED_FIELDS):
            raise RefusedChange(
                why=f"A trial of queue {patch.queue} changes quota: found {unknown[0][:60]!r}, expected "
                f"{', '.join(sorted(PATCHED_FIELDS))}."
            )
        with suppress(RefusedChange):
            later[name] = _written(name, later[name], patch)
    return later


def _document(fact: QueueFact) -> dict[str, Any]:
    spec = fact.document.get("spec")
    return {
        "apiVersion": SCHEDULING_VOLCANO,
        "kind": "Queue",
        "metadata": {"name": str(fact.queue.name)},
        "spec": spec if isinstance(spec, Mapping) else {},
    }


def _require_administrator(name: QueueName, facts: QueueFacts, by: Requester | None) -> None:
    """Raises NotAdministered; RefusedChange: root cannot be changed."""
    if by is not None:
        tree = TenantTree({str(each): _document(fact) for each, fact in facts.items()})
        parent = _document(facts[name])["spec"].get("parent")
        if tree.administered(parent if isinstance(parent, str) else "", by) is None:
            above = (
                ""
                if parent in (None, "", ROOT)
                else f"those named in access.admins of queue {parent} or one above it"
            )
            who = f"{above}, and platform" if above else "platform"
            whose = f"it is changed by {who} administrators (role muster-queue-admin)."
            if tree.administered(str(name), by) is not None:
                raise OwnTenantChange(user=by.name, queue=str(name), whose=whose)
            raise NotAdministered(user=by.name, queue=str(name), whose=f"I{whose[1:]}")
    if name == ROOT:
        raise RefusedChange(why=ROOT_HAS_NO_LIMITS)


def _checked(patch: QueuePatchBody, facts: QueueFacts, by: Requester | None, now: int) -> list[str]:
    """What the API server would warn of. ``facts``: with the other changes. Raises RefusedChange."""
    document = _document(facts[QueueName(patch.queue)])
    if by is not None:
        documents = {str(name): _document(fact) for name, fact in facts.items()}
        change = ObjectWrite(patch.queue, document, merged(document, {"spec": patch.spec}))
        if why := change_refusals(change, by, documents, now):
            told = "; ".join(each.removeprefix(f"queue {patch.queue}: ") for each in why[:_MOST_REFUSALS])
            raise RefusedChange(why=f"Change of queue {patch.queue}: {told.rstrip('.')}.")
    known = Known(queues={str(name): fact.queue for name, fact in facts.items()})
    found = violations_of(merged(document, {"spec": patch.spec}), known, old=document)
    if refusals := [each.message for each in found if not each.tolerable]:
        told = "; ".join(refusals[:_MOST_REFUSALS]).rstrip(".")
        raise RefusedChange(why=f"Change of queue {patch.queue}: {told}.")
    return [each.message for each in found if each.tolerable]


def _written(name: QueueName, fact: QueueFact, patch: QueuePatchBody) -> QueueFact:
    """The Queue as it is after a write that is not refused."""
    document = merged(_document(fact), {"spec": patch.spec})
    try:
        queue = QueueDocument.read(document).to_domain()
    except InvalidDocument as error:
        raise RefusedChange(why=f"Change of queue {name}: {error}") from error
    return replace(
        fact,
        queue=replace(
            fact.queue,
            limits=queue.limits,
            flavors=queue.flavors,
            loans=queue.loans,
            broken=queue.broken,
            budget=queue.budget,
        ),
        document={**fact.document, "spec": document["spec"]},
    )


def _counted(facts: QueueFacts, before: QueueFacts, now: int) -> dict[QueueName, Queue]:
    """The queues as they count. Raises RefusedChange: a loan that is new since ``before`` does not count in full."""
    stated = {name: fact.queue for name, fact in facts.items()}
    lent = loans_in_force(stated, now)
    for each in lent.loans:
        lender, loan = each.lender, each.loan
        if each.problem and stated[lender].loans.count(loan) > before[lender].queue.loans.count(loan):
            raise RefusedChange(
                why=f"A loan of {loan.account.amount(loan.units)} from {lender} to {loan.to} would not count in "
                f"full: {each.problem}."
            )
    return stated | dict(lent.queues)


def _unknown_resources(snapshot: Snapshot, before: QueueFacts, after: QueueFacts) -> Iterator[str]:
    """Resources of new limits that no node has."""
    there = dict(snapshot.nodes.capacity().items())
    for name, fact in after.items():
        if fact is before[name]:
            continue
        stated = quota_of(_document(before[name])["spec"])
        for field, text in quota_of(_document(fact)["spec"]).items():
            if stated.get(field) != text and there and field.resource not in there:
                yield f"no usable node has {field.resource} now."


def _notes(before: Queue, after: Queue) -> Iterator[str]:
    """The limits that are others, in words."""
    pairs = [(NO_FLAVOR, before.limits, after.limits)]
    for flavor in dict.fromkeys((*before.flavors, *after.flavors)):
        pairs.append((flavor, before.flavors.get(flavor, Limits()), after.flavors.get(flavor, Limits())))
    for flavor, old, new in pairs:
        for limit in ("deserved", "guarantee", "capability"):
            yield from _note(after.name, limit, flavor, getattr(old, limit), getattr(new, limit))
    if before.budget != after.budget:
        yield f"queue {after.name}: budget {_budget(before.budget)} → {_budget(after.budget)}"


def _budget(budget: HoursBudget | None) -> str:
    """``1000 hours of nvidia.com/gpu (hold)``."""
    if budget is None:
        return "none"
    hours = (f"{hours_text(name, budget.amount(name))} hours of {name}" for name in sorted(budget.hours))
    return f"{', '.join(hours)} ({'hold' if budget.holds else 'report'})"


def _note(
    name: QueueName, limit: str, flavor: FlavorName, old: Mapping[str, int], new: Mapping[str, int]
) -> Iterator[str]:
    were, are = dict(old.items()), dict(new.items())
    for resource in sorted({*were, *are}):
        account, units = Account(flavor, resource), (were.get(resource), are.get(resource))
        if units[0] != units[1]:
            yield f"queue {name}: {limit} {account} {account.show(units[0])} → {account.show(units[1])}"
