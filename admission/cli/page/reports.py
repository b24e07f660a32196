"""The questions behind the monthly report of a tenant, and its CSV."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import click
from markupsafe import Markup

from admission.cli.access.age import age_of
from admission.cli.access.read_api import Route, ask
from admission.cli.page.problems import unknown
from admission.cli.page.report_views import Month, month_view, tenants_view
from admission.cli.page.view import View
from admission.cli.times import as_text
from admission.cli.usage.command import used_answer
from admission.cli.usage.forms import usage_csv
from admission.cli.usage.periods import month
from admission.cli.usage.used_time import folded, used_time
from queues.quota.queue import ROOT

#: Seconds between two looks: adding up a month takes time.
_SELDOM = 30
_CSV = ("tenant", "queue", "user", "flavor")


def reports(route: Route, parts: Sequence[str], query: Mapping[str, str], now: datetime) -> View:
    """The list of tenants, the month of one, or its CSV. Raises KeyError: there is no such view; NoSuchView: tenant."""
    asked = query.get("month") or "this"
    try:
        begins, ends = month("month", asked, now)
    except click.UsageError as error:
        raise KeyError(asked) from error
    if begins > now:
        raise KeyError(asked)
    tenants = _tenants(ask(route, "queues")["items"])
    period = {"from": as_text(begins), "to": as_text(ends) if ends <= now else None}
    if not parts:
        _, body, _ = used_answer(route, {**period, "by": "tenant"}, query.get("resource"))
        main = tenants_view(body, tenants, begins)
        return View(title="Reports", section="Reports", main=main, age=age_of(body)[0], least=_SELDOM)
    if parts[0] not in tenants:
        raise unknown("tenant", parts[0], tenants, "reports")
    if parts[1:] not in ([], ["csv"], (), ("csv",)):
        raise KeyError("/".join(parts))
    tenant = parts[0]
    given = {**period, "queue": tenant}
    if parts[1:]:
        return _file(route, given, tenant, begins, query.get("resource"))
    resource, body, _ = used_answer(route, {**given, "by": "queue", "quotas": "true"}, query.get("resource"))
    by = {"queue": body}
    for column in ("user", "flavor"):
        by[column] = used_answer(route, {**given, "by": column}, resource)[1]
    main = month_view(
        Month(
            tenant=tenant,
            begins=begins,
            before=(begins - timedelta(days=1)).strftime("%Y-%m"),
            after=None if ends > now else ends.strftime("%Y-%m"),
            by=by,
            resource=resource,
        )
    )
    return View(title=f"{tenant}, report", section="Reports", main=main, age=age_of(body)[0], least=_SELDOM)


def _file(
    route: Route, given: Mapping[str, str | None], tenant: str, begins: datetime, resource: str | None
) -> View:
    _, body, _ = used_answer(route, {**given, "by": ",".join(_CSV)}, resource)
    lines = folded([used_time(item, _CSV) for item in body["items"]], _CSV)
    text = usage_csv(lines, _CSV, (body["from"], body["to"]), quotas=False, headers=True, currency="")
    name = f"{tenant}-{begins:%Y-%m}.csv"
    return View(title=name, section="Reports", main=Markup(""), file=(name, text))


def _tenants(queues: Sequence[Mapping[str, Any]]) -> list[str]:
    """The queues directly below root that the user may see."""
    return [queue["name"] for queue in queues if queue["parent"] == ROOT]
