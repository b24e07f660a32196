"""Views of queues: the tree with what each uses, and one queue with what waits in it. Pure: answers in, HTML out."""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from admission.cli.objects.queues import account_of, below, usual_resource
from admission.cli.page.layout import Cell, bar, facts, heading, link, state, table
from admission.cli.page.waiting_views import waiting_table
from admission.cli.rendering.table import branches, short_resource
from queues.resources import amount, show

Queue = Mapping[str, Any]


def queue_tree(queues: Sequence[Queue], resource: str | None) -> Markup:
    """All queues that the user may see, with bars for one resource."""
    chosen = resource or usual_resource(queues)
    lead = Markup(
        '<p class="lead">Use of each queue with those below it. The first part of a bar, green, is within what the '
        "queue deserves; the second, orange, is borrowed. The dark mark is what it deserves, the red one its "
        "capability. A queue without limits has no bar.</p>"
    )
    return heading("Queues", 1) + lead + _resources(queues, chosen) + _tree(queues, chosen)


def one_queue(
    queues: Sequence[Queue],
    name: str,
    waiting: Mapping[str, Any],
    resource: str | None,
    planned: Markup,
    *,
    is_open: bool,
) -> Markup:
    """A queue that there is with those below it, all its amounts, its reservations and loans (``planned``), and its
    first waiting workloads. ``is_open``: any namespace may use it."""
    found = next(queue for queue in queues if queue["name"] == name)
    chosen = resource or usual_resource(queues)
    parent = link(found["parent"], "queues", found["parent"]) if found["parent"] else None
    shown: list[tuple[str, Cell]] = [
        ("State", state(found["state"])),
        ("Why", found["message"]),
        ("Parent", parent),
        ("Waiting", found["pending"]),
        ("Running", found["admitted"]),
        ("Changed by", found["changedBy"]),
        ("Used by", "every namespace: no namespaceSelector here or above" if is_open else None),
    ]
    parts = [
        heading(name, 1),
        facts(shown),
        Markup("<p>{}</p>").format(link("Over time", "charts", queue=name)),
        heading("Amounts"),
        _accounts(found),
    ]
    if len(subtree := below(queues, [name])) > 1:
        parts += [heading("Queues below"), _resources(queues, chosen, "queues", name), _tree(subtree, chosen)]
    parts += [planned, heading("Waiting"), waiting_table(waiting, everywhere=True)]
    return Markup("").join(parts)


def _resources(queues: Sequence[Queue], chosen: str, *path: str) -> Markup:
    names = sorted({line["resource"] for queue in queues for line in queue["accounts"]} | {chosen})
    if len(names) < 2:
        return Markup("")
    links = Markup(" · ").join(
        Markup("<strong>{}</strong>").format(name)
        if name == chosen
        else link(name, *(path or ("queues",)), resource=name)
        for name in names
    )
    return Markup('<p class="faint">Resource: {}</p>').format(links)


def _tree(queues: Sequence[Queue], resource: str) -> Markup:
    stems = branches({queue["name"]: queue["parent"] for queue in queues})
    rows: list[list[Cell]] = []
    for queue in queues:
        line = account_of(queue, resource)
        name = Markup('<span class="stem" aria-hidden="true">{}</span>{}').format(
            stems[queue["name"]], link(queue["name"], "queues", queue["name"], resource=resource)
        )
        note = (
            Markup('<br><span class="faint">{}</span>').format(queue["message"]) if queue["message"] else ""
        )
        rows.append(
            [
                name,
                state(queue["state"]) + note,
                _bar(line, resource, queue["name"]),
                line.get("used", "0"),
                line.get("deserved"),
                line.get("capability"),
                queue["pending"] and link(str(queue["pending"]), "pending", queue=queue["name"]),
                queue["admitted"] and link(str(queue["admitted"]), "workloads", queue=queue["name"]),
            ]
        )
    columns = [
        "Queue",
        "State",
        short_resource(resource),
        "Used",
        "Deserved",
        "Capability",
        "Waiting",
        "Running",
    ]
    return table(
        f"Queues and their {resource}", columns, rows, numbers="Used Deserved Capability Waiting Running"
    )


def _bar(line: Mapping[str, Any], resource: str, name: str) -> Markup:
    used = amount(resource, line.get("used", "0"))
    deserved, capability = (
        None if line.get(field) is None else amount(resource, line[field])
        for field in ("deserved", "capability")
    )
    told = f"{name}: {show(resource, used)} used"
    if deserved is not None:
        told += f" of {show(resource, deserved)} deserved"
        if used > deserved:
            told += f", {show(resource, used - deserved)} borrowed"
    if deserved is None and capability is None:  # a bar would be full, whatever is used
        return Markup('<span class="faint">{} used, no limit</span>').format(show(resource, used))
    return bar(used, deserved, capability, told)


def _accounts(queue: Queue) -> Markup:
    rows = [
        (
            line["resource"],
            line["flavor"] or "all",
            line["used"],
            line["guarantee"],
            line["deserved"],
            line["capability"],
            None if line["share"] is None else f"{line['share']:.2f}",
        )
        for line in queue["accounts"]
    ]
    columns = ["Resource", "Flavor", "Used", "Guarantee", "Deserved", "Capability", "Share"]
    return table(
        "Amounts by resource and flavor", columns, rows, numbers="Used Guarantee Deserved Capability Share"
    )
