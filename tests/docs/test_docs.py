"""Documents that would rot: links, lists of what the code has, and topics of decisions that are listed."""

import ast
import re
from dataclasses import fields
from pathlib import Path

import pytest

from admission.engine.nodes.demand import Shape
from queues.api import names
from queues.api.metadata_keys import KNOWN_KEYS, known_key
from queues.reason_codes import ReasonCode
from tests.console_sessions import Exchange, exchanges
from tests.tables import with_rows

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "tests/README.md"])

PRODUCT = sorted(
    path for folder in ("admission", "queues", "deploy") for path in (ROOT / folder).rglob("*.py")
)

#: Modules in which such a word is something else: the events of Volcano's lifecycle policies, the state of a node.
OTHER_WORDS = {
    ("queues/api/types/volcano_job.py", "TaskFailed"),
    ("admission/web/leader/nodes.py", "NotReady"),
    # A phase of reservations.
    ("queues/node_closures.py", "Refused"),
}

#: Modules with codes as text: as read from rows, whatever version wrote them, and as sent over HTTP and
#: received there.
CODES_AS_TEXT = {
    *("queues/sql/read/rows.py", "queues/read_api/bodies.py", "queues/read_api/trials.py"),
}


def first_column(page: str) -> list[str]:
    """What the tables of a page list, in order."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(r"^\| `([^`]+)`", text, re.MULTILINE)


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
            if "://" in target:
                continue
            path, _, anchor = target.partition("#")
            found = (page.parent / path).resolve() if path else page
            assert found.exists(), f"{page.relative_to(ROOT)} links to {target}"
            assert not anchor or anchor in anchors(found), f"{page.relative_to(ROOT)} links to {target}"


def test_every_page_of_the_documentation_can_be_reached_from_its_index() -> None:
    reached, new = set[Path](), {ROOT / "README.md"}
    while new:
        reached |= new
        links = {
            (origin.parent / target.partition("#")[0]).resolve()
            for origin in new
            for target in re.findall(r"\]\(([^)\s]+)\)", origin.read_text(encoding="utf-8"))
            if "://" not in target
        }
        new = {link for link in links if link.suffix == ".md"} - reached
    assert set(PAGES) - reached == set()


def test_every_reason_code_is_documented_and_no_other() -> None:
    assert sorted(first_column("reference/reasons.md")) == sorted(ReasonCode)


def test_reason_codes_are_written_in_one_module() -> None:
    found = set()
    for module in PRODUCT:
        name = str(module.relative_to(ROOT))
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and node.value in set(ReasonCode)
            ):
                found.add((name, node.value))
    found -= {("queues/reason_codes.py", code.value) for code in ReasonCode}
    assert found == OTHER_WORDS


def test_whatever_is_called_code_is_a_reason_code() -> None:
    text = {
        str(module.relative_to(ROOT))
        for module in PRODUCT
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
        if isinstance(node, ast.arg | ast.AnnAssign)
        and (node.arg if isinstance(node, ast.arg) else ast.unparse(node.target)) == "code"
        and "str" in ast.unparse(node.annotation or ast.Constant("str"))
    }
    assert text == CODES_AS_TEXT


def test_gate_finalizers_and_taints_are_listed_as_no_label_and_no_annotation_is() -> None:
    text = (DOCS / "reference/names.md").read_text(encoding="utf-8")
    versions = {names.BATCH_VOLCANO, names.SCHEDULING_VOLCANO, names.BUS_VOLCANO, names.TOPOLOGY_VOLCANO}
    versions |= {names.FLOW_VOLCANO, names.MUSTER, names.READ_API, names.BATCH, names.HYPERNODE_TIER}
    versions |= {names.KOORDINATOR_SCHEDULING, names.AUTOSCALING_REQUESTS}
    known = {
        value
        for key, value in vars(names).items()
        if key.isupper() and isinstance(value, str) and "/" in value and known_key(value) is None
    }
    listed = {name for name in re.findall(r"`([a-z0-9.]+/[a-z.-]+)`", text) if not name.startswith("queues/")}
    assert listed - set(KNOWN_KEYS) == known - versions


def test_what_a_saved_turn_says_of_typical_pods_is_explained() -> None:
    text = (DOCS / "reference/snapshots.md").read_text(encoding="utf-8")
    assert {field.name for field in fields(Shape)} <= set(re.findall(r"`(\w+)`", text))
    assert "`typical`" in text


def test_the_columns_of_traces_that_are_read_are_listed() -> None:
    text = (DOCS / "reference/benchmarks.md").read_text(encoding="utf-8")
    told = set(re.findall(r"`(\w+)`", text))
    for module in ("gang_trace", "pods", "drf"):
        source = (ROOT / f"tests/bench/simulate/{module}.py").read_text(encoding="utf-8")
        read = set(re.findall(r"row(?:\.\w+\(|\[)\"(\w+)\"", source))
        assert read
        assert read <= told, module


#: Pages of decisions, one for each topic. That of what was taken out is a table of what exists no longer.
TOPICS = sorted(page for page in (DOCS / "decisions").glob("*.md") if page.name != "README.md")
TAKEN_OUT = DOCS / "decisions/taken-out.md"


def test_all_topics_of_decisions_are_listed_with_their_titles() -> None:
    index = (DOCS / "decisions/README.md").read_text(encoding="utf-8")
    listed = {page: title for title, page in re.findall(r"^- \[(.+)\]\(([^)]+)\)", index, re.MULTILINE)}
    titles = {
        page.name: page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ") for page in TOPICS
    }
    assert listed == titles


def test_modules_that_a_decision_names_exist() -> None:
    named = {
        path
        for page in TOPICS
        if page != TAKEN_OUT
        for path in re.findall(r"`((?:admission|queues|deploy)/[\w/.]+)`", page.read_text(encoding="utf-8"))
    }
    assert named
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


#: Tests as the pages of claims name them: path below ``tests`` and function.
NAMED_TEST = re.compile(r"`([\w/]+\.py)::(\w+)`")


def tables(page: str) -> list[list[list[str]]]:
    """The tables of a page, as rows of cells, each with its head first."""
    text = (DOCS / page).read_text(encoding="utf-8")
    found = re.findall(r"(?:^\|.*\|\n)+", text + "\n", re.MULTILINE)
    return [
        [[cell.strip() for cell in re.split(r"\|(?= |$)", row[1:])[:-1]] for row in table.splitlines()]
        for table in found
    ]


def claims_in_lists(page: str) -> list[list[str]]:
    """Claims and, in brackets at their end, their tests: items of lists before the section of what is left."""
    text = (DOCS / page).read_text(encoding="utf-8").partition("\n## What is left")[0]
    items = [" ".join(item.split()) for item in re.findall(r"^- (.+(?:\n  .+)*)", text, re.MULTILINE)]
    return [[claim, shown.removesuffix(")")] for claim, _, shown in (item.rpartition(" (") for item in items)]


@with_rows("page", "column", "least")
def test_every_claim_names_a_test_that_there_is(page: str, column: str, least: int) -> None:
    claims = [
        row for head, _, *rows in tables(page) if head[-1] == column for row in rows
    ] or claims_in_lists(page)
    assert len(claims) >= least
    assert [row for row in claims if not NAMED_TEST.fullmatch(row[-1].split(", ")[0])] == []
    for path, name in NAMED_TEST.findall((DOCS / page).read_text(encoding="utf-8")):
        assert f"def {name}(" in (ROOT / "tests" / path).read_text(encoding="utf-8"), f"{path}::{name}"


@pytest.mark.parametrize("page", TOPICS, ids=lambda page: page.name)
def test_a_decision_is_a_short_section_of_its_topic(page: Path) -> None:
    sections = page.read_text(encoding="utf-8").split("\n## ")
    assert len(sections) > 1 or page == TAKEN_OUT
    for section in sections:
        assert len(section.splitlines()) <= 30, section.partition("\n")[0]


def test_the_index_opens_with_the_ring() -> None:
    assert (DOCS / "README.md").read_text(encoding="utf-8").index("decide(snapshot") < 1500


def test_the_readme_names_the_two_commands_first() -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S)
    commands = [line.partition("#")[0].strip() for line in blocks[0].splitlines()]
    assert commands == ["make demo", "make test"]


def test_console_sessions_are_read_as_commands_with_what_they_print(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("text\n```console\n$ one\nprinted\n\nmore\n$ two\n```\n```sh\n$ not this\n```\n")
    assert list(exchanges(page)) == [Exchange("one", ("printed", "", "more")), Exchange("two", ())]


@with_rows("expected", "printed", "holds")
def test_what_a_session_prints_is_compared(expected: str, printed: str, holds: bool) -> None:
    assert Exchange("command", tuple(expected.split("\n")) if expected else ()).matches(printed) is holds
