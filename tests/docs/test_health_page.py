"""The page about the health of devices lists what the code has."""

import re
from pathlib import Path

from admission.agent.health import ConditionType, conditions, problems
from admission.agent.readings import RecoveryAction
from admission.agent.xids import XIDS, XidClass
from deploy.reference_pages import pages
from tests.builders.node_agents.device_readings import device

PAGE = (Path(__file__).parents[2] / "docs/reference/health.md").read_text(encoding="utf-8")


def rows(heading: str) -> list[list[str]]:
    """The rows of the first table below a heading, without its head."""
    table = re.search(r"(?:^\|.*\|\n)+", PAGE[PAGE.index(f"## {heading}\n") :], re.MULTILINE)
    assert table is not None
    lines = table[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_condition_is_listed_in_the_order_of_its_weight() -> None:
    expected = [ConditionType.HEALTHY, *conditions.PROBLEMS]
    assert [row[0].strip("`") for row in rows("Conditions")] == expected
    assert set(expected) == set(ConditionType)


def test_the_page_says_which_conditions_make_a_device_unhealthy() -> None:
    said = {row[0].strip("`") for row in rows("Conditions") if row[3] == "yes"}
    assert said == {kind.value for kind in conditions.UNHEALTHY}


def test_every_recovery_that_a_driver_may_ask_for_has_its_reason_there() -> None:
    (cell,) = (row[2] for row in rows("Conditions") if row[0] == "`RecoveryNeeded`")
    found = {
        problems._of_reading(device(recovery=action), hot=False)[ConditionType.RECOVERY_NEEDED]
        for action in RecoveryAction
    }
    assert re.findall(r"`(\w+)`", cell) == sorted(
        (problem.reason for problem in found if problem is not None), key=cell.index
    )
    assert len(found) == len(RecoveryAction)


def test_every_class_of_xids_is_listed_with_what_is_done() -> None:
    found = {row[0].strip("`"): row for row in rows("XIDs")}
    assert list(found) == [kind.value for kind in XidClass]
    for kind in XidClass:
        assert found[kind.value][1] == ("healthy" if kind.is_healthy else "unhealthy")
        assert kind.is_healthy or found[kind.value][2] == problems.AFTER[kind]


def test_the_times_and_temperatures_are_those_of_the_code() -> None:
    assert f"above {problems.HOT} °C" in PAGE
    assert f"below {problems.COOL} °C" in PAGE
    assert problems.QUIET == 600, "ten minutes"


def test_every_xid_of_the_table_is_on_its_page_once() -> None:
    listed = [
        (int(code), xid_class.strip("`"))
        for codes, xid_class, *_ in (
            [cell.strip() for cell in line.strip("|").split("|")]
            for line in pages()["reference/xids.md"].splitlines()
            if line.startswith("| ") and line[2].isdigit()
        )
        for code in codes.split(",")
    ]
    assert sorted(listed) == sorted((code, known.xid_class.value) for code, known in XIDS.items())
