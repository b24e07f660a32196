"""The questions that the read API answers, with their parameters: the table that its OpenAPI document is made from."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from admission.web import bodies
from admission.web.explanations.outlook_bodies import OutlookBody
from admission.web.lists.expected import ExpectedList
from admission.web.lists.queries import LARGEST_PAGE
from admission.web.trials.bodies import TrialList, TrialRequestBody
from admission.web.usage.bodies import UsageList
from admission.web.usage.report import LARGEST_PAGE as LARGEST_USAGE_PAGE
from admission.web.usage.report import USUAL_PAGE
from admission.web.usage.time_series import LONGEST_STEP, MOST_QUEUES, USUAL_QUEUES, TimeSeriesList
from queues.api.names import READ_API
from queues.sql.read.listed import STATES
from queues.sql.read.usage import UsageColumn
from queues.workload import WorkloadKind

BASE: Final = f"/apis/{READ_API}"
_MOST_VERSIONS: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter of the path or of the query."""

    name: str
    about: str
    schema: Mapping[str, Any]
    is_required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One path that can be asked."""

    #: Below ``BASE``; "" is the group itself.
    path: str
    name: str
    summary: str
    #: Type of the answer; None: ``media`` instead of JSON.
    answer: Any
    query: tuple[Parameter, ...] = ()
    #: In lower case.
    method: str = "get"
    #: Type of the question's body; None: it has none.
    body: Any = None
    media: str = "application/json"
    about: str = ""
    #: Statuses that only this answer has besides the usual ones.
    errors: tuple[int, ...] = ()


def _text(name: str, about: str, **more: Any) -> Parameter:
    return Parameter(name=name, about=about, schema={"type": "string", **more})


def _time(name: str, about: str, *, required: bool = False) -> Parameter:
    return Parameter(name=name, about=about, schema={"type": "string"}, is_required=required)


def _flag(name: str, about: str) -> Parameter:
    return Parameter(name=name, about=about, schema={"type": "boolean", "default": False})


def _some_of(name: str, about: str, values: tuple[str, ...]) -> Parameter:
    one = "|".join(values)
    return Parameter(name=name, about=about, schema={"type": "string", "pattern": f"^({one})(,({one}))*$"})


def _number(name: str, about: str, *, usual: int, least: int = 0, most: int) -> Parameter:
    schema = {"type": "integer", "minimum": least, "maximum": most, "default": usual}
    return Parameter(name=name, about=about, schema=schema)


def _limit(usual: int, most: int) -> Parameter:
    return _number("limit", "Items in one answer at most.", usual=usual, most=most)


_CONTINUE: Final = _text("continue", "The field `continue` of the answer before: gives what comes after it.")
_PAGED: Final = (_limit(LARGEST_PAGE, LARGEST_PAGE), _CONTINUE)
_QUEUE: Final = _text("queue", "Only this queue and the queues below it.")
_NAMESPACE: Final = _text("namespace", "Only workloads of this namespace.")
_KIND: Final = _text("kind", "Only workloads of this kind.", enum=[str(kind) for kind in WorkloadKind])
#: Parameters of paths, by name.
OF_PATHS: Final = {
    "name": "Name of the queue or workload.",
    "namespace": "Namespace of the workload.",
}

OPERATIONS: Final = (
    Operation(
        path="/queues",
        name="listQueues",
        summary="The queues that the user may see, with their accounts.",
        answer=bodies.QueueList,
    ),
    Operation(
        path="/queues/{name}/versions",
        name="listQueueVersions",
        summary="The recorded versions of a queue, the newest first.",
        answer=bodies.QueueVersionList,
        query=(_limit(_MOST_VERSIONS, _MOST_VERSIONS), _CONTINUE),
    ),
    Operation(
        path="/queues/{name}/quota",
        name="getQuotaAt",
        summary="The limits of a queue and of the queues directly below it, as they were at a time.",
        answer=bodies.QuotaAtList,
        query=(_time("at", "RFC 3339 with a zone. Absent: now."),),
    ),
    Operation(
        path="/pending",
        name="listPending",
        summary="The waiting workloads, with their positions and reasons.",
        answer=bodies.PendingList,
        query=(_QUEUE, _NAMESPACE, *_PAGED),
    ),
    Operation(
        path="/expected-starts",
        name="listExpectedStarts",
        summary="When the waiting workloads should start, as far as the leader can tell.",
        answer=ExpectedList,
        query=(_NAMESPACE,),
        errors=(409,),
    ),
    Operation(
        path="/workloads",
        name="listWorkloads",
        summary="Workloads that wait, hold seats or have ended.",
        answer=bodies.WorkloadList,
        query=(
            _QUEUE,
            _NAMESPACE,
            _text("user", "Only what this user created."),
            _flag("mine", "Only what the user who asks created."),
            _some_of("state", "States, with commas between. `finished` needs `since`.", tuple(STATES)),
            _time("since", "RFC 3339 with a zone: what ended before is left out."),
            *_PAGED,
        ),
    ),
    Operation(
        path="/users",
        name="listUsers",
        summary="Users with what they use and wait for.",
        answer=bodies.UserList,
        query=(_QUEUE, *_PAGED),
    ),
    Operation(
        path="/decisions",
        name="listDecisions",
        summary="Decisions about the workloads that the user may see, oldest first.",
        answer=bodies.DecisionList,
        query=(
            _QUEUE,
            _NAMESPACE,
            _time(
                "since",
                "RFC 3339 with a zone; a day ago by default. Without `continue`: the newest since then.",
            ),
            *_PAGED,
        ),
    ),
    Operation(
        path="/nodes",
        name="listNodes",
        summary="What may be given on each node and what seats hold there, for users who may list nodes.",
        answer=bodies.NodeList,
        query=(_flag("workloads", "With whose seats these are."), *_PAGED),
    ),
    Operation(
        path="/usage",
        name="getUsage",
        summary="Use between two times, exact to the second.",
        answer=UsageList,
        query=(
            _time("from", "RFC 3339, or a day, which begins at midnight UTC.", required=True),
            _time("to", "As `from`; absent: now."),
            _some_of("by", "Columns, with commas between; `queue` by default.", tuple(map(str, UsageColumn))),
            _text("resource", "Only this resource, such as nvidia.com/gpu."),
            _QUEUE,
            _flag(
                "quotas",
                "With what queues owned and borrowed; needs `resource`, and `by` queue or tenant alone.",
            ),
            _limit(USUAL_PAGE, LARGEST_USAGE_PAGE),
            _CONTINUE,
        ),
    ),
    Operation(
        path="/timeseries",
        name="getTimeSeries",
        summary="Use and waits over time of a queue, and of the queues directly below it.",
        answer=TimeSeriesList,
        query=(
            _time("from", "RFC 3339, or a day, which begins at midnight UTC.", required=True),
            _time("to", "As `from`; absent: now."),
            _number("step", "Seconds of a slot; at most 400 slots.", usual=3600, least=1, most=LONGEST_STEP),
            _text("resource", "The resource; nvidia.com/gpu by default."),
            _text("queue", "The queue; root by default."),
            _number("limit", "Queues below it, those that used most.", usual=USUAL_QUEUES, most=MOST_QUEUES),
        ),
    ),
    Operation(
        path="/changes",
        name="streamChanges",
        summary="Server-sent events that say that something has changed.",
        answer=None,
        media="text/event-stream",
        query=(
            Parameter(
                name="watch",
                about="true: the answer is a stream, which the API server does not cut off.",
                schema={"type": "boolean", "const": True},
                is_required=True,
            ),
        ),
        about="An event `change` has an id and no data. With the header `Last-Event-ID` the first event comes when the"
        " state differs from the one of that id, else at once. A comment comes when nothing has changed for 15"
        " seconds. A stream ends after ten minutes; a user may have 8 at a time.",
    ),
    Operation(
        path="/namespaces/{namespace}/workloads/{name}",
        name="explainWorkload",
        summary="Everything about the workloads of a name: one for each kind, live ones first.",
        answer=tuple[bodies.ExplanationBody, ...],
        query=(_KIND,),
    ),
    Operation(
        path="/namespaces/{namespace}/workloads/{name}/outlook",
        name="getOutlook",
        summary="What would let the waiting workloads of a name in, and what is wrong with those that have seats.",
        answer=tuple[OutlookBody, ...],
        query=(_KIND,),
        errors=(409,),
    ),
    Operation(
        path="/trials",
        name="tryOut",
        method="post",
        summary="What would become of objects if they were submitted, and of the cluster with other quota or nodes.",
        about="The only question with a body, of at most 256 KiB; it changes nothing either.",
        body=TrialRequestBody,
        answer=TrialList,
        errors=(409,),
    ),
    Operation(
        path="/snapshot",
        name="getSnapshot",
        summary="The last turn of the leader's engine, for users who see everything.",
        answer=None,
        media="application/octet-stream",
        errors=(409,),
    ),
    Operation(
        path="/version",
        name="getVersion",
        summary="The version of the replica that is asked.",
        answer=dict[str, str],
    ),
    Operation(
        path="/openapi",
        name="getOpenApi",
        summary="This document.",
        answer=dict[str, Any],
    ),
)
