"""The page: who may open it, what its views show, and that nothing that others wrote becomes markup."""

import asyncio
import http.client
import json
import re
from base64 import b64decode
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest
from markupsafe import Markup, escape
from msgspec import convert, structs, to_builtins

from admission.cli.access.change_feed import ChangeFeed
from admission.cli.access.requests import Route
from admission.cli.page.charts import over_time
from admission.cli.page.layout import CHOSEN, View, bar, document, form, list_frame, render
from admission.cli.page.local import PageServer
from admission.cli.page.month_sheet import MonthChoice, month_sheet
from admission.cli.page.node_views import node_racks, one_rack
from admission.cli.page.problems import NoSuchView
from admission.cli.page.server import PART
from admission.cli.page.views import Planned, Views, planned_view
from admission.web.reader import EVERYTHING
from queues.errors import MusterError
from queues.read_api.bodies import ExpectedStartBody
from queues.read_api.nodes import (
    AcceleratorBody,
    ClosureBody,
    DeviceFaultBody,
    NodeBody,
    NodeWorkloadsBody,
    SeatedBody,
)
from queues.read_api.usage import UsageBody, UsageList
from queues.sql.read.decisions import DecisionQuestion
from queues.sql.read.listed import Listing
from tests.fakes.fake_reader import DECISIONS, RUNNING, FakeReader, gpu_node, served, waiting
from tests.fakes.page_servers import ask, running
from tests.fakes.read_api.fake_lists import GPU, NOW
from tests.fakes.read_api.fake_outlooks import OUTLOOK
from tests.tables import with_rows
from tests.unit.admission.cli.page.shown import loan, reservation, use_over_time
from tests.waiting import LIMIT


def signed(server: PageServer) -> str:
    return f"muster-page-{server.server_port}={server.secret}"


def show(parts: tuple[str, ...], query: object) -> View:
    if parts == ("down",):
        raise MusterError("Postgres <b>is</b> away")
    if parts == ("fault",):
        raise ZeroDivisionError("1/0")
    if parts:
        raise KeyError(parts)
    return View(title="Queues", section="Queues", main=Markup("<h1>Queues</h1>"), age="The data is 50s old.")


@pytest.fixture
def server() -> Iterator[PageServer]:
    feed = ChangeFeed(Route(server="http://127.0.0.1:9"), polled=0.05)
    server = PageServer(show, feed, cluster="prod")
    with running(server):
        yield server


def test_the_secret_of_the_address_becomes_a_cookie(server: PageServer) -> None:
    status, _, headers = ask(server, f"/queues?secret={server.secret}")
    assert (status, headers["Location"]) == (303, "/queues")
    assert headers["Set-Cookie"] == f"{signed(server)}; HttpOnly; SameSite=Strict; Path=/"

    status, body, headers = ask(server, "/", Cookie=signed(server))
    assert status == 200
    assert "<h1>Queues</h1>" in body
    assert "The data is 50s old." in body
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert headers["Cache-Control"] == "private, no-store"


@pytest.mark.parametrize("cookie", ["", "muster-page=wrong", "muster-page=", 'muster-page="', "x=\ufffd"])
def test_nobody_else_on_the_computer_sees_anything(server: PageServer, cookie: str) -> None:
    status, body, _ = ask(server, "/", Cookie=cookie.encode("latin-1", "replace").decode("latin-1"))
    assert status == 403
    assert "Queues" not in body


def test_no_other_page_reaches_it_by_a_name_of_its_own(server: PageServer) -> None:
    host = f"evil.example:{server.server_port}"
    assert ask(server, "/", Cookie=signed(server), Host=host)[0] == 421
    assert ask(server, f"/?secret={server.secret}", Host=host)[0] == 421


def test_what_has_not_changed_is_not_sent_again(server: PageServer) -> None:
    status, part, headers = ask(server, "/", Cookie=signed(server), **{PART: "1"})
    assert (status, part.startswith('<p id="age"'), "<html" in part) == (200, True, False)
    status, body, _ = ask(server, "/", Cookie=signed(server), If_None_Match=headers["ETag"], **{PART: "1"})
    assert (status, body) == (304, "")


@with_rows("path", "status", "sentence")
def test_what_fails_is_a_sentence(server: PageServer, path: str, status: int, sentence: str) -> None:
    found, body, _ = ask(server, path, Cookie=signed(server))
    assert found == status
    assert sentence in body
    assert "Traceback" not in body


def test_changes_are_told_every_few_seconds_where_there_is_no_stream(server: PageServer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=LIMIT)
    connection.request("GET", "/changes", headers={"Cookie": signed(server)})
    answer = connection.getresponse()
    assert answer.headers["Content-Type"] == "text/event-stream"
    lines = [answer.readline() for _ in range(8)]
    assert lines.count(b"event: change\n") == 2
    connection.close()


def test_changes_are_told_to_nobody_else(server: PageServer) -> None:
    assert ask(server, "/changes")[0] == 403


def test_styles_and_script_come_from_here(server: PageServer) -> None:
    assert ask(server, "/static/page.js")[2]["Content-Type"] == "text/javascript; charset=utf-8"
    assert "color-scheme" in ask(server, "/static/page.css")[1]


# -- views -----------------------------------------------------------------------------------------------------


@pytest.fixture
async def views() -> AsyncIterator[Views]:
    async with served(FakeReader()) as url:
        yield Views(
            route=Route(server=url, kubeconfig="/nowhere"),
            clock=lambda: 1_795_255_200.0,
        )


async def shown(views: Views, *parts: str, **query: str) -> str:
    view = await asyncio.to_thread(views.show, parts, query)
    return str(view.main)


async def test_the_tree_of_queues_has_a_bar_for_each(views: Views) -> None:
    html = await shown(views)
    assert html.count('<svg class="bar"') == 6
    told = "8 above its share, which others may take back; at its capability"
    assert f'aria-label="team-a: 32 used of 24 deserved: {told}"' in html
    assert f'<span class="faint">{told}</span>' in html
    assert '<rect class="own" width="37.5"' in html, "all bars are on the scale of root, which deserves 64"
    assert '<td data-column="Share" class="number">1.33</td>' in html
    assert '<a href="/queues/train?resource=nvidia.com%2Fgpu">train</a>' in html
    assert "takes and admits nothing new" in html
    assert 'aria-label="team-a: 64 used"' in await shown(views, resource="cpu")


async def test_one_queue_has_its_amounts_its_policies_and_what_waits_and_runs_in_it(views: Views) -> None:
    html = await shown(views, "queues", "team-a")
    assert "<dt>Takes back</dt><dd>what others borrow of its share (any)</dd>" in html
    assert "<dt>Administrators</dt><dd>group team-a-leads, user ada@example.com</dd>" in html
    assert "<dt>Each user</dt><dd>16 gpu, 256 cpu</dd>" in html
    html = await shown(views, "queues", "train")
    assert "/workloads/ml/tune-3?kind=job" in html[html.index("<h2>Waiting</h2>") :]
    html = await shown(views, "queues", "dev")
    assert "/workloads/ml/bert?kind=vcjob" in html[html.index("<h2>Running</h2>") :]
    assert "Reservations are not known: Looking for a kubeconfig" in html
    with pytest.raises(NoSuchView, match="There is no queue nothing that you may see"):
        await shown(views, "queues", "nothing")


async def test_a_workload_is_explained(views: Views) -> None:
    html = await shown(views, "pending")
    assert "/workloads/ml/tune-3?kind=" in html
    html = await shown(views, "workloads", "ml", "tune-3")
    assert "<h2>Waits because</h2>" in html
    assert "<h2>Story</h2>" in html


async def test_live_workloads_and_decisions_are_listed(views: Views) -> None:
    html = await shown(views, "workloads")
    assert "/workloads/ml/bert?kind=vcjob" in html
    assert "state-running" in html
    assert "/workloads/ml/bert?kind=vcjob" in await shown(views, "workloads", user="ada@example.com")
    assert "/workloads/ml/bert?kind=vcjob" not in await shown(views, "workloads", user="bob@example.com")
    of_kind = await shown(views, "workloads", "ml", "vcjob", "bert")
    assert "<h1>vcjob/bert</h1>" in of_kind, "as a user guesses it"
    html = await shown(views, "decisions")
    assert html.index("yolo") < html.index("bert")
    assert "Preempted: for vcjob/ml/tune-3" in html


async def test_what_waits_is_searched_and_limited_to_ones_own_with_queue_and_user_in_each_row(
    views: Views,
) -> None:
    html = await shown(views, "pending")
    assert '<td data-column="User">ben</td>' in html
    assert '<a href="/pending?mine=true">mine</a>' in html
    html = await shown(views, "pending", search="LLAMA", queue="train")
    assert "llama-pretrain" in html
    assert "tune-3" not in html
    assert '<input id="search" type="search" name="search" value="LLAMA"' in html
    assert '<input type="hidden" name="queue" value="train">' in html, "a search stays in the queue"
    assert '<a href="/pending?queue=train&amp;mine=true&amp;search=LLAMA">mine</a>' in html
    assert "No workload waits here that you may see." in await shown(views, "pending", mine="true")
    html = await shown(views, "workloads", search="ben", state="admitted,evicting")
    assert '<li aria-current="true">running</li>' in html


@pytest.mark.parametrize("unknown", ["never", "not_yet"])
def test_a_start_that_is_not_known_is_no_entry(unknown: str) -> None:
    known = ExpectedStartBody(computed=NOW, earliest="2026-11-21T10:10:00Z", latest="2026-11-21T10:40:00Z")
    lines = [
        structs.replace(waiting("known", 1), expected=known),
        structs.replace(waiting("unknown", 2), expected=structs.replace(known, **{unknown: True})),
    ]
    html = str(form("forms.html", "waiting_table", lines, NOW, 2))
    assert html.count('<td data-column="Expected">in 10-40m</td>') == 1
    assert html.count('<td data-column="Expected" class="none">–</td>') == 1


async def test_decisions_are_shown_without_ends_unless_all_are_asked_for(
    views: Views, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = structs.replace(DECISIONS[0], what="free", result="succeeded")
    monkeypatch.setattr("tests.fakes.fake_reader.DECISIONS", (*DECISIONS, end))
    html = await shown(views, "decisions")
    assert "succeeded: 4 seats" not in html
    assert '<a href="/decisions?ends=true">all</a>' in html
    html = await shown(views, "decisions", ends="true")
    assert "succeeded: 4 seats" in html
    assert '<a href="/decisions?ends=false">without ends</a>' in html


async def test_users_are_listed_with_what_they_hold_and_wait_for_and_lead_to_their_work(views: Views) -> None:
    html = await shown(views, "users")
    assert '<a href="/workloads?user=ada%40example.com">ada@example.com</a>' in html
    assert "admin</a> (you)" in html
    assert "Shares are of what queue root deserves." in html
    assert "/workloads?user=ada%40example.com&amp;queue=dev" in await shown(views, "users", queue="dev")


async def test_a_workload_has_its_user_and_the_limits_on_its_path(views: Views) -> None:
    html = await shown(views, "workloads", "ml", "tune-3")
    assert "<h2>Limits on the way</h2>" in html
    assert '<strong class="bad">8</strong>' in html  # more than team-a may use
    html = await shown(views, "workloads", "ml", "old")
    assert "<dt>User</dt><dd>ada@example.com</dd>" in html
    assert "<dd>8.00 gpu-hours</dd>" in html


async def test_charts_have_use_shares_and_waits_with_a_table_each(views: Views) -> None:
    html = await shown(views, "charts", queue="team-a", span="week")
    assert html.count("<figure") == html.count("as a table") == 4
    assert "gpu in use, in nvidia.com/gpu. team-a: lowest 8.0, highest 32.0" in html
    assert "capability: 32.0." in html
    assert "nine of ten waited less: lowest" in html
    assert '<a href="/charts?queue=root&amp;span=week&amp;resource=nvidia.com%2Fgpu">root</a>' in html
    html = await shown(views, "charts", resource="cpu")
    assert "On average 0.0 cpu were in use" in html
    with pytest.raises(KeyError):
        await shown(views, "charts", span="year")


async def test_a_month_is_a_sheet_with_a_bar_for_each_team_and_a_csv_of_the_same_numbers(
    views: Views,
) -> None:
    html = await shown(views, "usage")
    assert "<h1>Use in November 2026</h1>" in html
    assert 'aria-label="team-a: 1,102.5 hours"' in html
    assert '<td data-column="GPU-hours" class="number">400.0</td>' in html
    assert "<strong>1,502.5 GPU-hours</strong> in all" in html
    assert "Cost" not in html
    priced = replace(views, prices={GPU: 2.5})
    html = await shown(priced, "usage")
    assert "<strong>3,756.25</strong> at 2.5 an hour" in html
    for column, number in (("Idle guarantee", "1,296.00"), ("Cost", "1,000.00")):
        assert f'<td data-column="{column}" class="number">{number}</td>' in html
    [written] = re.findall(r'download="usage-2026-11.csv" href="data:text/csv;base64,([^"]+)"', html)
    rows = b64decode(written).decode().splitlines()
    assert rows[0].startswith("from,to,tenant,resource,unit,hours")
    assert rows[0].endswith(",idle_guarantee_hours,cost")
    assert [row.split(",")[-2:] for row in rows[1:]] == [
        ["0.000000", "2756.254861"],
        ["1296.000000", "1000.000000"],
    ]
    assert [row.split(",")[2] for row in rows[1:]] == ["team-a", "team-b"]
    html = await shown(views, "usage", queue="team-a", month="last")
    assert '<a href="/usage">All tenants</a>' in html or "Nothing of it was used" in html
    assert "<h1>Use in October 2026, queue team-a</h1>" in html
    with pytest.raises(KeyError):
        await shown(views, "usage", month="2026-11")


async def test_lists_go_on_page_by_page(views: Views, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("admission.cli.page.views._SHOWN", 1)
    html = await shown(views, "pending")
    assert "1 of 3 are shown." in html
    [following] = re.findall(r'<a href="/pending\?continue=([^"]+)">Next page</a>', html)
    assert ">None<" not in html, "there is no link to the first page on it"
    html = await shown(views, "pending", **{"continue": following})
    assert "llama-pretrain" in html
    assert '<a href="/pending">First page</a>' in html
    assert ">None<" not in html
    assert "Next page" in await shown(views, "workloads")


@pytest.mark.parametrize(
    "parts",
    [
        ("queues", "a", "b"),
        ("reports",),
        ("nodes", "a", "b"),
        ("pending", "x"),
        ("workloads", "ml"),
        ("other",),
    ],
)
async def test_other_paths_show_nothing(views: Views, parts: tuple[str, ...]) -> None:
    with pytest.raises(KeyError):
        await shown(views, *parts)


def line(name: str, *, free: int, healthy: int = 8, gpus: int = 8, **more: Any) -> NodeBody:
    accelerator = AcceleratorBody(name="gpu", resource="nvidia.com/gpu", total=gpus, free=free)
    known = {"rack": "rack-1", "gpus": gpus, "healthy": healthy, "accelerators": (accelerator,)}
    return gpu_node(name, free=free, **{**known, **more})


def test_racks_show_each_gpu_as_held_free_or_unhealthy() -> None:
    html = str(
        node_racks(
            [
                line("a", free=3, healthy=6),
                line("b", free=0),
                line("c", free=7),
            ]
        )
    )
    assert 'aria-label="a: 8 GPUs, 3 held, 3 free, 2 unhealthy, Ready"' in html
    assert 'aria-label="b: 8 GPUs, 8 held, 0 free, 0 unhealthy, Ready"' in html
    assert 'aria-label="c: 8 GPUs, 1 held, 7 free, 0 unhealthy, Ready"' in html
    assert html.count('<path class="ill"') == 1 + 1  # one in the legend
    assert 'class="ill" d="M73 1h10v10h-10zM85 1h10v10h-10z"' in html
    assert "10 of 24 GPUs are free, and no node is empty." in html
    assert "30 of 32 free" in str(node_racks([line("d", free=30, gpus=32, healthy=32)]))


async def test_the_view_of_nodes_is_that_of_the_leader(views: Views) -> None:
    html = await shown(views, "nodes")
    assert "gpu-1: 8 GPUs, 8 held, 0 free" in html
    assert "22 of 40 GPUs are free, and 2 nodes are empty" in html


def test_one_legend_over_all_racks_names_the_queue_and_the_user_of_those_who_hold_most() -> None:
    def there(*seats: tuple[str, str, int]) -> NodeWorkloadsBody:
        items = [structs.replace(seated(user, str(n)), queue=queue, user=user) for queue, user, n in seats]
        return NodeWorkloadsBody(items=tuple(items), total=len(items), hidden=0)

    many = [(f"q{number:02}", "eve", 1) for number in range(20)]
    lines = [
        line("a", free=0, workloads=there(("team", "bob", 6), ("team", "ann", 2))),
        line("b", free=2, rack="rack-2", workloads=there(("team", "ann", 4), ("lab", "bob", 1))),
        *(line(queue, free=7, rack="rack-3", workloads=there((queue, user, n))) for queue, user, n in many),
    ]
    html = str(node_racks(lines))
    legend = html[html.index("Who holds GPUs") :].partition("</ul>")[0]
    assert legend.count("<li>") == 12
    assert '<a href="/queues/team">team</a> ann <strong>6</strong>' in legend
    assert '<a href="/queues/team">team</a> bob <strong>6</strong>' in legend
    letter_of_ann = re.search(r">(\w)</text>\s*</svg>\s*<a href=\"/queues/team\">team</a> ann", legend)
    assert letter_of_ann is not None
    # The same letter on nodes of two racks; the other owners, and what the user may not list, have none.
    assert html.count(f">{letter_of_ann[1]}</text>") == 1 + 2
    assert html.count('<path class="held"') == 1 + (20 - 9) + 1


def seated(name: str, gpus: str) -> SeatedBody:
    return SeatedBody(
        kind="vcjob",
        namespace="ml",
        name=name,
        uid=f"{name}-uid",
        queue="team",
        evicting=False,
        seats=1,
        held={"nvidia.com/gpu": gpus},
        gpus=float(gpus),
    )


def test_racks_show_who_sits_where_and_which_holes_there_are() -> None:
    alone = NodeWorkloadsBody(items=(seated("bert", "8"),), total=1, hidden=0)
    there = NodeWorkloadsBody(items=(seated("bert", "3"), seated("yolo", "1")), total=3, hidden=1)
    lines = [
        line("a", free=0, workloads=alone),
        line("b", free=3, workloads=there),
        line("c", free=8, rack="rack-2"),
        line("d", free=8, rack="rack-2", state="NotReady", usable=False),
    ]
    html = str(node_racks(lines))
    assert 'aria-label="a: 8 GPUs, 8 held, 0 free, 0 unhealthy, Ready; ml/bert 8"' in html
    assert "Ready; ml/bert 3, ml/yolo 1" in html
    assert "11 of 32 GPUs are free, and one node is empty, 1 of them in rack rack-2." in html
    assert '<path class="out"' in html

    rack = str(one_rack(lines, "rack-1"))
    assert 'href="/workloads/ml/yolo?kind=vcjob"' in rack
    assert "1 more, 1 that you may not list" in rack
    assert ">c<" not in rack
    with pytest.raises(
        NoSuchView, match=r"no rack or node with GPUs rack-9 that you may see\. Did you mean"
    ) as told:
        one_rack(lines, "rack-9")
    assert '<a href="/nodes/rack-1">rack-1</a>' in told.value.ways
    only = str(one_rack(lines, "b"))
    assert "<h1>Node b</h1>" in only
    assert '<a href="/nodes/rack-1">Rack rack-1</a>' in only
    assert ">a<" not in only


def test_reserved_and_drained_nodes_are_shown_as_such_and_are_not_free() -> None:
    begins = "2026-11-21T09:00:00Z"
    drain = ClosureBody(kind="NodeDrain", name="fans", from_=begins, phase="Active", closed=True)
    keeps = ClosureBody(
        kind="Reservation", name="night", from_=begins, for_="4h", phase="Active", closed=True
    )
    closures = {"a": drain, "b": keeps, "c": structs.replace(drain, phase="Planned")}
    lines = [
        *(line(name, free=8, usable=False, closures=(closures[name],)) for name in closures),
        line("d", free=8),
    ]
    html = str(node_racks(lines))
    assert "8 of 32 GPUs are free, and one node is empty; 1 node reserved; 1 node drained" in html
    assert "8 free, 1 empty node, 1 reserved, 1 drained, 1 drain planned" in html
    assert html.count('<path class="closed"') == 1 + 3  # one in the legend
    assert 'aria-label="a: 8 GPUs, 0 held, 0 free, 0 unhealthy, drained"' in html
    rack = str(one_rack(lines, "rack-1"))
    assert '<span class="state state-reserved">reserved</span>' in rack
    assert "1 node kept for reservation night from 2026-11-21T09:00:00Z for 4h" in rack
    assert "2 nodes drained by nodedrain fans from 2026-11-21T09:00:00Z" in rack


class Scripts(HTMLParser):
    found = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        self.found += tag in ("script", "img") or any(name.startswith("on") for name in names)


#: Fields of the read API whose texts users, or objects of users, decide.
WRITTEN = {
    *("name", "namespace", "queue", "parent", "user", "uid", "message", "changedBy", "node", "podSet"),
    *("flavor", "behind", "basis", "by", "reason", "rule", "nobody", "result", "to"),
    *("from", "problem"),
}


def rewritten(value: Any, text: str, field: str = "") -> Any:
    """A body in which all that users wrote ends in ``text``; the same name is the same everywhere."""
    if isinstance(value, dict):
        return {name: rewritten(inner, text, name) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [rewritten(inner, text, field) for inner in value]
    return f"{value}{text}" if isinstance(value, str) and value and field in WRITTEN else value


async def every_view(text: str) -> list[Markup]:
    """All views of a cluster in which everything that users wrote ends in ``text``."""
    reader = FakeReader()

    def body(of: Any) -> Any:
        return convert(rewritten(to_builtins(of), text), type(of))

    queues = body(await reader.queues()).items
    pending = body(await reader.pending(queue=None, namespace=None, limit=9))
    listed = body(
        await reader.workloads(
            Listing(states=("pending", "admitted")), queue=None, after=None, limit=9, sight=EVERYTHING
        )
    )
    decided = body(await reader.decisions(DecisionQuestion(since=0), queue=None, limit=9))
    users = body(await reader.users(queue=None, user="me", limit=9))
    outlook = body(OUTLOOK)
    found = [
        structs.replace(body(one), outlook=outlook)
        for name in ("tune-3", "bert", "old")
        for one in await reader.explain(namespace="ml", name=name, kind=None)
    ]
    resource = "nvidia.com/gpu"
    lent = body(loan("a", "b", problem="a problem"))
    status = {"nodes": [text] * 5, "reason": text, "message": text}
    keeps = reservation(text, text, "2026-11-21T10:00:00Z", text, by=text, **status)
    used = use_over_time(1.0, 2.0, to="2026-11-21T10:00:00Z", queue=text)
    drawn = structs.replace(used, resource=text, history_begins=text, total=2)
    there = NodeWorkloadsBody(items=(seated(text, "2"),), total=3, hidden=0)
    fault = DeviceFaultBody(number=1, id="", reason=text, message=text, since=None)
    node = line(text, free=7, rack=text, closed=text, state=text, faults=(fault,), workloads=there)
    planned = planned_view(
        Planned(lines=[keeps], gaps=(text,)), [structs.replace(queues[1], loans=(lent,))], 1.8e9
    )
    line_of_use = UsageBody(
        **dict.fromkeys(("resource", "tenant", "queue", "user", "flavor"), text),
        **dict.fromkeys(("amount_seconds", "preempted_seconds", "faulted_seconds"), "1"),
        workload=None,
        others=False,
        hours=1.0,
    )
    used_in_month = UsageList(
        now=NOW,
        from_=NOW,
        to=NOW,
        by=("queue",),
        history_begins=text,
        workloads_begin=None,
        totals=(line_of_use,),
        items=(line_of_use,),
    )
    asked = dict.fromkeys((*CHOSEN, "state"), text)
    of_queues = {"queues": queues, "resource": resource}
    views = [
        render("queues.html", queues=queues, resource=resource),
        render(
            "queue.html",
            queue=queues[1],
            below=queues,
            waiting=pending,
            running=listed,
            planned=planned,
            **of_queues,
        ),
        render("pending.html", body=pending, **list_frame("pending", pending, asked, {})),
        render("workloads.html", body=listed, **list_frame("workloads", listed, asked, {})),
        render("users.html", body=users, shown_queue=text, first=None, next=None),
        render("decisions.html", body=decided, choices=[]),
        render("workload.html", found=found),
        over_time(drawn, queue=text, span="day", queues=queues, resources=[resource, text]),
        month_sheet(used_in_month, MonthChoice("this", text, resource, [text]), idle={text: 1.0}, price=2.0),
        node_racks([node]),
        one_rack([node], text),
        render("problem.html", title=text, sentence=text, ways=[]),
        Markup(bar(1, 2, 3, text, 3))
        + form("forms.html", "table", text, [text], [[text], [Markup("{}").format(text)]]),
    ]
    frame = View(title=text, section=text, main=Markup(""), age=text)
    return [*views, document(frame, cluster=text, whole=True)]


@pytest.mark.parametrize("text", ["<script>x</script>", '"><img src=x onerror=x>', "' onload='x"])
async def test_what_others_wrote_stays_text_in_every_view(text: str) -> None:
    for number, view in enumerate(await every_view(text)):
        parser = Scripts()
        parser.feed(str(view))
        # The frame has a script of its own.
        assert parser.found == ("/static/page.js" in view), (number, str(view)[:200])
        assert str(escape(text)) in view, number


def test_a_bar_has_what_is_borrowed_and_its_marks_in_place() -> None:
    html = str(bar(12, 8, 16, "told", 16))
    assert '<rect class="own" width="50.0"' in html
    assert '<rect class="borrowed" x="50.0" width="25.0"' in html
    assert '<line class="deserved" x1="50.0"' in html
    assert '<line class="capability" x1="100.0"' in html
    assert 'class="capability"' not in str(bar(1, 2, 1000, "told", 2))
    assert json.dumps(html)


def test_a_gang_and_the_elastic_parts_that_came_with_it_are_one_admission() -> None:
    gang = RUNNING.admissions[0]
    parts = [structs.replace(gang, id=number, seats=gang.seats[:1], ended=0) for number in (14, 13)]
    told = structs.replace(RUNNING, admissions=(*parts, *RUNNING.admissions))

    html = re.sub(r"</?time.*?>", "", str(render("workload.html", found=[told])))

    assert html.count("<h2>Admission ") == 1, "the story has the one that is closed"
    assert "<h2>Admission 12 and 2 elastic parts: admitted 119m ago in queue dev</h2>" in html
