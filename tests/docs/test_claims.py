"""Sentences that once said another thing than the product does, each with what holds it."""

import re
from operator import mul
from pathlib import Path
from typing import Final

import pytest

from admission.forecast.trust import SIZES
from queues.api.reading.user_values import MOST_PODS

#: Page, a part of the sentence, and the test that would fail if it became wrong.
CLAIMS: Final = (
    (
        "docs/faq.md",
        "you switch a whole cluster",
        "tests/kube/install/test_install.py::test_definitions_of_volcano_are_not_overwritten_unless_told_so",
    ),
    (
        "docs/how-to/recipes/ray.md",
        "each new worker waits for a seat of its own in the queue",
        "tests/e2e/gangs/test_operator_kinds.py::test_a_ray_cluster_grows_and_shrinks_while_it_runs",
    ),
    (
        "docs/how-to/migrate-from-volcano.md",
        "by which so many start [as a gang](other-kinds.md)",
        "tests/e2e/gangs/test_owners.py::test_a_deployment_with_a_minimum_is_one_gang_that_rolls_over_and_grows",
    ),
    (
        "docs/README.md",
        "agents write Devices",
        "tests/kube/agent/test_agent_on_a_cluster.py::test_an_agent_reports_its_devices_and_labels_its_node",
    ),
    (
        "docs/how-to/devices.md",
        "`muster check` tells of such classes and templates",
        "tests/unit/queues/api/check/test_cross_checks.py::test_devices_that_are_not_counted_are_told_before_they_are_claimed",
    ),
)


@pytest.mark.parametrize(("page", "sentence", "test"), CLAIMS, ids=lambda value: value[:40])
def test_a_sentence_is_on_its_page_and_its_test_exists(page: str, sentence: str, test: str) -> None:
    assert sentence in " ".join(Path(page).read_text().split())
    file, _, name = test.partition("::")
    assert re.search(rf"^(?:async )?def {name}\(", Path(file).read_text(), re.MULTILINE)


def test_how_often_forecasts_hold_is_what_their_table_says() -> None:
    page = Path("docs/explanation/expected-start.md").read_text()
    lines = (line.strip("|").split("|") for line in page.splitlines() if line.startswith("| "))
    rows = {row[0].strip(): [cell.strip() for cell in row[1:]] for row in lines if len(row) == 7}
    held = {size: row[1] for size, row in rows.items()}
    whole = held["8 GPUs"]
    # Those of 2 to 8 GPUs together.
    weights, parts = zip(
        *((int(rows[size][0]), int(held[size][:2])) for size in ("2-7 GPUs", "8 GPUs")), strict=True
    )
    few = round(sum(map(mul, weights, parts)) / sum(weights))
    assert [f"{size.held} %" for size in SIZES] == [held["1 GPU"], f"{few} %", held["more"]]
    assert f"{SIZES[0].held}, {SIZES[1].held} and {SIZES[2].held} % of the intervals held" in " ".join(
        page.split()
    )
    readme = " ".join(Path("README.md").read_text().split())
    assert f"held for {held['all']} of the forecasts of recorded weeks, of whole nodes for {whole}" in readme
    assert f"{held['all']} of the forecasts held, of whole nodes {whole}" in page


def test_the_bounds_that_are_missed_are_named_beside_the_figures() -> None:
    performance = Path("docs/reference/performance.md").read_text()
    musts = re.findall(r"\| (?:Volcano Jobs|Indexed `batch/v1` Jobs) .*?\(must (0\.\d+)", performance)
    readme = Path("README.md").read_text()
    assert f"{musts[0]} for Volcano Jobs and {musts[1]} for Jobs: both are missed" in readme


def test_a_gang_has_a_bound_on_the_page_of_limits() -> None:
    assert f"- pods of a gang: {MOST_PODS:,}; less by" in Path("docs/reference/limits.md").read_text()


def test_the_readme_shows_a_real_explanation() -> None:
    golden = Path("tests/unit/admission/cli/golden/explain-a-waiting-job.txt").read_text()
    (shown,) = re.findall(
        r"^```text\n\$ kubectl muster explain [^\n]*\n(.*?)^```", Path("README.md").read_text(), re.M | re.S
    )
    assert golden.startswith(shown)
