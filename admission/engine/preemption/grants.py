"""All that is granted from a time on: whose moment begins it, whether its holder can begin it anew, and how it ends.

A right that its holder can renew has no end, so each of these begins with something that only Muster, an administrator
or another tenant brings about, or ends what it has already. ``docs/explanation/preemption.md`` shows the list.
"""

from typing import Final, NamedTuple

#: A second that does not come.
NEVER: Final = 1 << 62

#: Seconds from the start of a workload for which disruption budgets keep what it was lent, if its queue says nothing
#: else (``maxProtection``).
BUDGETS_KEEP_LENT_QUOTA: Final = 4 * 3600


class Grant(NamedTuple):
    """One right that is given for a time."""

    what: str
    #: The moment from which it counts, and what brings that about.
    begins: str
    #: What becomes of it when members join, pods are replaced, or the object is changed or made anew.
    renewal: str
    ends: str
    #: The fields of ``QueuePolicy``, ``Workload`` and ``Admission`` (durations and times) that it follows from.
    fields: tuple[str, ...] = ()


GRANTS: Final = (
    Grant(
        "rest after an eviction",
        "the start of the workload after it: since then it holds seats without a break",
        "no: members that join or replace others begin it for themselves only, and on lent quota not even that",
        "after an hour, two, four and so on, a day at most",
        ("held_since",),
    ),
    Grant(
        "`policy.minRunTime`",
        "the start of the workload",
        "as the rest after an eviction; an object that is made anew is a new workload, behind those that wait",
        "after that time",
        ("min_run_time",),
    ),
    Grant(
        "what a user wishes: `preemptable`, `muster.dev/min-run-time`, `cooldown-time`",
        "the start of the workload",
        "no",
        "for lent quota it does not count; else after that time, `policy.maxProtection` at the latest",
        ("min_run_time", "cooldown", "max_protection"),
    ),
    Grant(
        "a PodDisruptionBudget",
        "the start of the workload under it",
        "no: a budget that is made later or anew counts from the same moment",
        "for lent quota after `policy.maxProtection`, or 4 hours where that is unset; else never",
        ("max_protection",),
    ),
    Grant(
        "what a gang was lent because it had waited for `clearAfter`",
        "the start of the workload",
        "no: after an eviction it waits for as long again",
        "after a day, `policy.maxProtection` at the latest; at once for a queue that has nothing of its own",
        ("clear_after", "waiting_since", "max_protection"),
    ),
    Grant(
        "clearing, and the place that is kept for a gang that waits",
        "the creation of its object, or its last eviction for others",
        "an object that is made anew waits from then on",
        "when it starts",
        ("clear_after", "created", "waiting_since"),
    ),
    Grant(
        "a claim on the place of victims",
        "the turn that evicts them",
        "no: a new one needs other victims",
        "after 10 minutes, an hour and 10 minutes at the latest while victims end",
    ),
    Grant(
        "quota that is held for pods that are being made (`muster.dev/hold-min-resources`)",
        "the turn that gives it",
        "no: once for each gang",
        "after the time that it asks for",
    ),
    Grant(
        "a run time that lets work pass (`muster.dev/run-time`)",
        "the start of the workload",
        "no: it protects from nothing; who runs for longer is expected to run for as long again",
        "after that time",
        ("run_time",),
    ),
    Grant(
        "lost work that is counted (`muster.dev/checkpoint-interval`)",
        "the opening of each admission",
        "it decides which of several victims goes, never whether one goes",
        "with the eviction",
        ("checkpoint_interval",),
    ),
    Grant(
        "`access.maxRunTime`",
        "the start of the workload",
        "no",
        "after that time it is ended and not run again",
        ("held_since",),
    ),
    Grant(
        "the time that a gang may be below its minimum (`policy.readyWithin`)",
        "the loss of the member",
        "a member that is there again and ready ends it",
        "after that time the gang goes back",
        ("ready_within",),
    ),
    Grant(
        "a reservation of nodes for a queue",
        "the time that its administrators wrote, within their quota",
        "idle nodes count as used by the queue for all of the window",
        "with its window",
    ),
)
