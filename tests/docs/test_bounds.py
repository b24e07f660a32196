"""The bounds of what is read of objects, as the reference tells them."""

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PAGE = Path("docs/reference/names.md")
#: Modules and packages that read what users write.
READERS = (
    "queues/api",
    "queues/resources.py",
    "admission/decode",
    "admission/kube/writers/dry_runs.py",
    "admission/kube/watch/store.py",
    "admission/volcano_jobs",
    "admission/workloads",
    "admission/world",
)
_CONSTANT = re.compile(r"^(_?(?:MOST|LARGEST|LONGEST|DEEPEST)(?:_[A-Z_]+)?)\b[^=\n]*= ", re.MULTILINE)


class Row(NamedTuple):
    """The second cell of a row, with a place for each of the constants, which are counted in a unit."""

    cell: str
    constants: tuple[str, ...]
    unit: int = 1


#: By the first cell. A constant is named by its module and its name.
ROWS = {
    "the name of a queue": Row(
        "a DNS name of {} characters, as a label takes it", ("user_values.LONGEST_LABEL_VALUE",)
    ),
    "the name of a PodGroup, a priority class": Row(
        "a DNS name of {} characters", ("user_values.LONGEST_NAME",)
    ),
    "the name of a task": Row("a DNS label of 63 characters", ()),
    "the key of a label": Row(
        "{} characters, 63 of them after the `/`",
        ("user_values.LONGEST_KEY",),
    ),
    "the name of a resource": Row(
        "{} characters, 63 of them after the `/`",
        ("resources._LONGEST_NAME",),
    ),
    "pods of one workload": Row("{}", ("user_values.MOST_PODS",)),
    "tasks of a Volcano Job, names in `dependsOn`, different shapes of a PodGroup's pods": Row(
        "{}", ("user_values.MOST_POD_SETS",)
    ),
    "volumes, plugins and policies of a Volcano Job, flags of one plugin, events of one policy": Row(
        "{} of each", ("user_values.MOST_ENTRIES",)
    ),
    "values of a selector of a Queue or HyperNode, all expressions together": Row(
        "{}", ("user_values.MOST_LISTED",)
    ),
    "flows of a JobFlow, targets and probes of one flow": Row("{} of each", ("job_flow.MOST_FLOWS",)),
    "characters of a CronJob's name, of its schedule": Row(
        "{}, {}", ("cron_job_rules.LONGEST_CRON_NAME", "cron.LONGEST_SCHEDULE")
    ),
    "containers of one pod, init containers included": Row("{}", ("user_values.MOST_CONTAINERS",)),
    "a pod that is tried by a [dry run](../how-to/troubleshoot.md#pods-that-ask-more-than-their-template),"
    " as JSON": Row(
        "{} KiB; the template of a larger one is not tried, and its workload is decided on as it is written",
        ("dry_runs.LARGEST",),
        unit=1024,
    ),
    "affinity of one pod, or of all templates of one workload, as JSON": Row(
        "{} KiB; four times as much where Muster wrote nodes into it",
        ("user_values.LARGEST_AFFINITY",),
        unit=1024,
    ),
    "one pod template, or another part of free form, as JSON": Row(
        "{} KiB", ("bounds.LARGEST_PART",), unit=1024
    ),
    "flavors of a queue, its `admins`, resources in one map of amounts": Row(
        "{}, {}, {}", ("queue.MOST_FLAVORS", "queue.MOST_ADMINS", "model.MOST_AMOUNTS")
    ),
    "hosts of one task in `VC_<TASK>_HOSTS`, of all tasks in the ConfigMap of plugin `svc`": Row(
        "{} KiB; a longer variable is left out, {} KiB",
        ("host_rules.LONGEST_VARIABLE", "host_rules.LARGEST_CONFIG_MAP"),
        unit=1024,
    ),
    "members of a HyperNode": Row("{}", ("hypernode.MOST_MEMBERS",)),
    "any other list, text, value of a map": Row(
        "{} entries, {} characters, {} characters",
        ("bounds.MOST_ITEMS", "bounds.LONGEST_TEXT", "bounds.LONGEST_VALUE"),
    ),
    "different resources of one pod": Row("{}", ("user_values.MOST_RESOURCES",)),
    "an amount that one pod asks for": Row(
        "{} TiB of memory, as many thousandths of anything else as this has bytes",
        ("resources.MOST_ON_NODE",),
        unit=2**40,
    ),
    "tolerations of one pod": Row("{}", ("user_values.MOST_TOLERATIONS",)),
    "labels in `nodeSelector` and expressions in node affinity of one pod": Row(
        "{}", ("user_values.MOST_EXPRESSIONS",)
    ),
    "values in the expressions of one pod, or of a label selector in `subGroupPolicy`": Row(
        "{}", ("user_values.MOST_LISTED",)
    ),
    "labels of one pod that selectors are compared with, expressions of such a selector": Row(
        "{} of each; further labels are not looked at, and a budget with a larger selector counts as one of all pods",
        ("user_values.MOST_LABELS",),
    ),
    "labels or annotations of one object or pod template": Row("{}", ("model.MOST_PAIRS",)),
    "host ports of one pod": Row("{}", ("user_values.MOST_PORTS",)),
    "rules of one pod about other pods (spread constraints, terms of pod affinity), namespaces of one term": Row(
        "{} of each", ("pod_rules.MOST_RULES",)
    ),
    "entries in `resourceClaims` of one pod, devices of one claim": Row(
        "{}, {}", ("resource_claims.MOST_CLAIMS", "resource_claims.MOST_DEVICES")
    ),
    "devices of which one pod takes parts": Row("{}", ("device_shares._MOST_DEVICES",)),
    "pod sets of an AppWrapper": Row("{}", ("app_wrapper._MOST_SETS",)),
    "entries of `subGroupPolicy`, keys of one entry": Row(
        "{}, {}", ("user_values.MOST_SUBGROUPS", "user_values.MOST_KEYS")
    ),
    "characters of a duration, of a quantity": Row(
        "{}, {}", ("model._LONGEST_DURATION", "bounds.LONGEST_QUANTITY")
    ),
    "the image by which [run times are learned](../explanation/expected-start.md)": Row(
        "{} characters; the rest as a digest", ("interruption.LONGEST_IMAGE",)
    ),
    "entries in `volumes` of one pod": Row(
        "the first {}; Muster does not place by others", ("volumes.MOST_VOLUMES",)
    ),
    "a duration": Row("{} years; a longer one counts as this", ("model.LONGEST_SECONDS",), unit=365 * 86_400),
    "`muster.dev/hold-min-resources`": Row("{} hour", ("user_values.LONGEST_HOLD",), unit=3600),
    "the time until `muster.dev/adopt-until` of a Namespace": Row(
        "{} days; nothing is adopted while it is longer", ("adoption.LONGEST_ADOPTION",), unit=86_400
    ),
    "levels of nesting in a document": Row("{}, where it has more than a thousand", ("store._DEEPEST",)),
    "limits of one Queue": Row("{}; a Queue with more is broken", ("user_values.MOST_LIMITS",)),
    "loans of one Queue": Row("{}", ("quota_loans.MOST_LOANS",)),
    "an amount in a Queue": Row(
        "{} EiB of memory, as many thousandths of anything else as this has bytes",
        ("resources.MOST",),
        unit=2**60,
    ),
    "PodDisruptionBudgets of one namespace": Row(
        "{}; Muster does not reckon with others, by which Kubernetes still refuses evictions",
        ("disruption_budgets.MOST_BUDGETS",),
    ),
    "Reservations, NodeDrains, nodes that one of them names": Row(
        "{} of each kind that have not ended, {}; of one tenant's queues {} Reservations, unless platform "
        "administrators make more",
        ("closure_rules.MOST_CLOSURES", "node_closures.MOST_NODES", "reservation_rights.MOST_OF_TENANT"),
    ),
    "the window of a Reservation or NodeDrain, its `leadTime`": Row(
        "{} days, {} days", ("closure_rules._LONGEST", "closure_rules._LONGEST_LEAD"), unit=86_400
    ),
    "tiers of HyperNodes": Row("the {} lowest; higher ones make no level", ("hypernodes.MOST_TIERS",)),
    "the pattern of a HyperNode's member": Row(
        "{} MiB of memory, once it is compiled; a larger one matches no node",
        ("name_patterns.LARGEST",),
        unit=2**20,
    ),
}

#: Constants of the same form that bound nothing that a user writes: what controllers, drivers and kubelets write,
#: what Muster says, how much of Muster's own is kept, pauses, and files for ``muster check``.
OTHERS = {
    "volumes.MOST_DRIVERS",
    "volumes.MOST_VOLUME_TERMS",
    "admin_documents._MOST_SHOWN",
    "check.MOST_ANNOTATION_BYTES",
    "check.MOST_BYTES",
    "cron.MOST_MISSED",
    "document.MOST_DEPTH",
    "document.MOST_VALUES",
    "device_faults._LONGEST",
    "dry_runs.LONGEST_PAUSE",
    "ended_pods._MOST",
    "fields._LONGEST_TIME",
    "fields._MOST_GATES",
    "job_syncs.MOST_PODS_OF_A_SYNC",
    "name_patterns.LARGEST_SET",
    "name_patterns._MOST_REASON",
    "ignored_values.MOST_IGNORED",
    "ignored_values._LONGEST",
    "namespaces._LONGEST_LABEL",
    "node_devices._LONGEST",
    "node_devices._MOST_DEVICES",
    "node_devices._MOST_ENTRIES",
    "pod_changes.MOST_CREATES",
    "pod_readiness._LONGEST",
    "pods._LONGEST_POD_SET",
    "state.MOST_COMMANDS",
    "reported_devices._MOST_NUMBERS",
    "resource_slices._LONGEST_NAME",
    "resources._LONGEST_QUANTITY",
    "resource_slices._LONGEST_TERM",
    "resource_slices._LONGEST_VALUE",
    "resource_slices._MOST_ATTRIBUTES",
    "resource_slices._MOST_DEVICES",
    "members._LONGEST_MEMBER",
    "tenant_rules.MOST_LEVELS",
    "tenant_rules._DEEPEST",
    "user_values.LONGEST_MESSAGE",
    "user_values._LONGEST_NUMBER",
    "user_values._LONGEST_UID",
    "validation._MOST_REPORTED",
}


def bounds() -> Iterator[tuple[str, int]]:
    """Constants of the modules that read what users write, with their values."""
    for reader in map(Path, READERS):
        for path in (reader,) if reader.suffix else sorted(reader.rglob("*.py")):
            module = importlib.import_module(".".join(path.with_suffix("").parts))
            for name in _CONSTANT.findall(path.read_text(encoding="utf-8")):
                yield f"{path.stem}.{name}", getattr(module, name)


def test_the_bounds_of_values_are_the_documented_ones() -> None:
    found = dict(bounds())
    told = {constant for row in ROWS.values() for constant in row.constants}
    assert found.keys() == told | OTHERS, "each bound has a row, or is none of what users write"
    section = PAGE.read_text(encoding="utf-8").partition("## How much of an object is read")[2]
    lines = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("|")][2:]
    assert dict(lines) == {
        first: row.cell.format(*(found[constant] // row.unit for constant in row.constants))
        for first, row in ROWS.items()
    }
