"""What owners say about interrupting their work, and which pods are under which budget."""

from dataclasses import replace

import msgspec
import pytest

from admission.decode.admin_documents import budget_fact
from admission.decode.interruption import LONGEST_IMAGE, conduct_of, image_of
from admission.facts.cluster import BudgetFact
from admission.facts.pods import Conduct, Hold, PodFact
from admission.wire import WireMetadata, WirePodDisruptionBudget
from admission.world.snapshot_rows import Budgets
from queues import kind_names
from queues.api.types.pod import WireContainer, WirePodSpec
from queues.workload import WorkloadKey
from tests.builders.facts import pod as a_pod
from tests.tables import with_rows


def test_annotations_say_how_work_may_be_interrupted() -> None:
    said = {
        "muster.dev/run-time": "2h",
        "muster.dev/checkpoint-interval": "30m",
        "muster.dev/min-run-time": "90s",
        "volcano.sh/cooldown-time": "10m",
        "volcano.sh/preemptable": "true",
        "muster.dev/user": "ada",
    }
    times = {"run_time": 7200, "checkpoint_interval": 1800, "min_run_time": 90, "cooldown": 600}
    assert conduct_of(said, None) == Conduct(user="ada", preemptable=True, **times)


@with_rows("image", "told")
def test_an_image_is_told_by_repository_and_tag(image: str | None, told: str) -> None:
    containers = (WireContainer(image=image), WireContainer(image="sidecar:1"))
    assert image_of(WirePodSpec(containers=containers)) == told
    assert conduct_of({"muster.dev/user": "ada"}, None, None, told) == Conduct(user="ada", image=told)


def test_a_long_image_is_cut_and_stays_another_one() -> None:
    images = (WireContainer(image="x" * 300 + end) for end in "ab")
    first, second = (image_of(WirePodSpec(containers=(image,))) for image in images)
    assert (len(first), first != second) == (LONGEST_IMAGE, True)
    assert image_of(WirePodSpec()) == ""


@with_rows("annotation", "label", "preemptable")
def test_an_annotation_comes_before_a_label_and_nonsense_protects(
    annotation: str | None, label: str | None, preemptable: bool | None
) -> None:
    name = "volcano.sh/preemptable"
    annotations = {} if annotation is None else {name: annotation}
    labels = {} if label is None else {name: label}
    found = conduct_of(annotations, labels)
    assert (found.preemptable, bool(found.ignored)) == (preemptable, "maybe" in annotations.values())


def test_a_duration_that_cannot_be_read_is_not_declared_and_a_deadline_is_a_run_time() -> None:
    found = conduct_of({"muster.dev/run-time": "soon", "muster.dev/min-run-time": "-5"}, None)
    assert replace(found, ignored=()) == Conduct()
    assert found.ignored == (
        "muster.dev/run-time: found 'soon', expected a duration such as 90s, 30m or 2h; it counts as if no run time "
        "were declared",
        "muster.dev/min-run-time: found '-5', expected a duration such as 90s, 30m or 2h; it counts as 0s: it may be "
        "evicted at any time",
    )
    assert conduct_of({}, {}, 600).run_time == 600


@pytest.mark.parametrize(
    ("text", "hold"),
    [("true", Hold.ADMISSION), ("True", Hold.ADMISSION), ("false", Hold.NONE), ("", Hold.NONE)],
)
def test_a_hold_that_cannot_be_read_holds_back(text: str, hold: Hold) -> None:
    found = conduct_of({"muster.dev/hold": text}, None)
    assert (found.hold, "it counts as 'true'" in "".join(found.ignored)) == (hold, text == "True")


def budget(allowed: int = 1, **labels: str) -> BudgetFact:
    untested = {"key": "tier", "operator": "NotIn", "values": ["test"]}
    document = {
        "metadata": {"namespace": "ns", "name": "budget"},
        "spec": {"selector": {"matchLabels": labels, "matchExpressions": [untested]}},
        "status": {"disruptionsAllowed": allowed},
    }
    return budget_fact(msgspec.convert(document, WirePodDisruptionBudget))


def pod(uid: str, **labels: str) -> PodFact:
    return a_pod(uid, "n", labels=tuple(sorted(labels.items())))


KEY = WorkloadKey(kind_names.JOB, "j")


def test_pods_are_counted_under_the_budgets_that_select_them() -> None:
    budgets = Budgets()
    budgets.update(KEY, [pod("a", app="web"), pod("b", app="web", tier="test"), pod("c", app="db")])
    budgets.put("u", budget(app="web"))
    (found,) = budgets.all()
    assert (found.allowed, found.pods) == (1, {KEY: 1})
    assert budgets.all() is budgets.all()

    budgets.update(KEY, [pod("a", app="web"), pod("d", app="web")])
    assert budgets.all()[0].pods == {KEY: 2}
    budgets.put("u", budget(allowed=0, app="web"))
    assert budgets.all()[0].allowed == 0
    budgets.update(KEY, [])
    assert budgets.all() == ()
    budgets.put("u", None)
    assert budgets.all() == ()


def test_a_budget_without_a_selector_is_about_nobody_and_another_namespace_about_others() -> None:
    budgets = Budgets()
    unspecific = WirePodDisruptionBudget(metadata=WireMetadata(namespace="ns", name="none"))
    budgets.put("none", budget_fact(unspecific))
    budgets.put("else", replace(budget(app="web"), namespace="other"))
    budgets.update(KEY, [pod("a", app="web")])
    assert budgets.all() == ()
