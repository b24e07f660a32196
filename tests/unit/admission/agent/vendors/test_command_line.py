"""A vendor's tool is run without a shell and for a bounded time; what it prints gives values or None."""

import errno
import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.agent.vendors.command_line import (
    ToolFailed,
    ToolMissing,
    ToolRefused,
    ToolRunner,
    at,
    bytes_of,
    count,
    documents,
    entries,
    number,
    text_of,
    version_text,
    whole,
)


def python(code):
    return [sys.executable, "-c", code]


def printing(text):
    return lambda command: text.encode()


def test_what_a_command_prints_is_given():
    assert ToolRunner()(python("print('[1]')")) == b"[1]\n"


def test_arguments_go_to_the_tool_as_they_are():
    assert ToolRunner()([*python("import sys; print(sys.argv[1])"), "$(id); *"]) == b"$(id); *\n"


def test_the_language_of_the_node_does_not_matter(monkeypatch):
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    assert ToolRunner()(python("import os; print(os.environ['LC_ALL'])")) == b"C\n"


def test_a_tool_that_cannot_be_started_is_missing(tmp_path):
    (tmp_path / "no-program").write_text("")
    for tool in ("/nowhere/amd-smi", f"{tmp_path}/no-program", f"{tmp_path}/no-program/amd-smi"):
        with pytest.raises(ToolMissing, match=f"{tool} cannot be started: "):
            ToolRunner()([tool, "list"])


def test_a_tool_that_fails_says_why():
    with pytest.raises(ToolRefused) as refused:
        ToolRunner()(python("import sys; sys.exit('no\\n   driver')"))
    assert "found exit code 1, no driver, expected JSON" in str(refused.value)


def test_a_tool_that_prints_nothing_is_told_with_its_warnings():
    with pytest.raises(ToolRefused, match="exit code 0, not loaded"):
        ToolRunner()(python("import sys; print('not loaded', file=sys.stderr)"))


def test_a_tool_that_hangs_is_ended():
    with pytest.raises(ToolRefused, match=r"no answer within 0\.2 s"):
        ToolRunner(seconds=0.2)(python("import signal; signal.pause()"))


@pytest.fixture
def unkillable(monkeypatch):
    """Processes that wait for a driver: they do not end when they are killed. Gives them."""
    processes = []
    monkeypatch.setattr("admission.agent.vendors.command_line._LIMIT_OF_ENDING", 0.01)

    def survive(process):
        processes.append(process)

    monkeypatch.setattr(subprocess.Popen, "kill", survive)
    yield processes
    monkeypatch.undo()
    for process in processes:
        process.kill()
        process.wait()


def test_nothing_is_run_while_a_process_cannot_be_ended(unkillable):
    run = ToolRunner(seconds=0.2)
    with pytest.raises(ToolRefused, match=r"no answer within 0\.2 s"):
        run(python("import signal; signal.pause()"))
    (process,) = unkillable
    with pytest.raises(ToolRefused, match=f"process {process.pid} still hanging"):
        run(python("print(1)"))
    process.terminate()
    process.wait()
    assert ToolRunner()(python("print(1)")) == run(python("print(1)")) == b"1\n"


def test_a_node_that_cannot_start_a_process_now_still_has_the_tool(monkeypatch):
    def full(*args, **options):
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", full)
    with pytest.raises(ToolRefused, match="temporarily unavailable"):
        ToolRunner()(["amd-smi", "list"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[1]", [[1]]),
        ('WARNING: [ROOT] not in group\n{\n  "a": [\n    {}\n  ]\n}\n', [{"a": [{}]}]),
        ("[1]\n[2]\n\nLegend:\n  * = now\n", [[1], [2]]),
        ("[WARN] old driver\n[1]\n", [[1]]),
        ("\ufeff\n{}", [{}]),
    ],
)
def test_json_is_found_among_other_lines(text, expected):
    assert documents(printing(text), "tool") == expected


def test_a_tool_may_tell_its_error_as_json():
    with pytest.raises(ToolRefused, match="found the error 'device not found', expected an answer"):
        documents(printing('{"error": "device not found", "errno": 3}'), "tool", "-j")


@pytest.mark.parametrize("text", ["", "7", "  [1]", "[", "[" * 90_000, "[" + "1" * 5000 + "]"])
def test_what_is_no_json_is_told(text):
    with pytest.raises(ToolFailed, match="expected JSON"):
        documents(printing(text), "tool", "-j")


def test_a_refusal_to_tell_versions_is_no_version():
    def refuses(command):
        raise ToolRefused(command="tool", found="exit code 1", expected="JSON")

    assert version_text(refuses, "tool", "-v") == ""
    assert version_text(printing("Version: 1"), "tool", "-v") == "Version: 1"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (131, 131),
        (35.5, 35.5),
        ({"value": 131, "unit": "W"}, 131),
        ({"value": "131", "unit": "W"}, 131),
        ("131 W", 131),
        ("-3.25", -3.25),
        ("85 %", 85),
        ("N/A", None),
        ({"value": "N/A", "unit": "C"}, None),
        ({}, None),
        ("", None),
        ("12 34", None),
        (True, None),
        (None, None),
        (float("nan"), None),
        (float("inf"), None),
        (10**400, None),
        (2**64 - 1, None),
        ([1], None),
    ],
)
def test_numbers_have_many_forms(value, expected):
    assert number(value) == expected


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (2, "MB", 2 << 20),
        ({"value": 3, "unit": "GB"}, "MB", 3 << 30),
        ("24480.00 MiB", "B", 24480 << 20),
        ({"value": 3, "unit": "parsecs"}, "MB", None),
        (-1, "MB", None),
        (2**45, "MB", None),
        ("N/A", "MB", None),
    ],
)
def test_memory_is_told_in_bytes(value, unit, expected):
    assert bytes_of(value, unit) == expected


def test_whole_numbers_are_rounded_and_counts_are_not_below_zero():
    assert (whole(1.6), whole("N/A"), count(1.6), count(-1), count(None)) == (2, None, 2, None, None)


def test_places_that_are_not_there_give_nothing():
    assert at({"a": {"b": 1}}, "a", "b") == 1
    assert (at({"a": "N/A"}, "a", "b"), at([], "a"), at(None)) == (None, None, None)
    assert (entries([{}, 1, None, {"a": 1}]), entries("N/A")) == ([{}, {"a": 1}], [])
    assert (text_of(" a "), text_of("n/a"), text_of(3), len(text_of("x" * 900))) == ("a", "", "", 300)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["value", "unit", "a"]), inner)
    ),
    max_leaves=8,
)


@given(JSON)
def test_any_value_is_read_without_a_fault(value):
    assert number(value) is None or isinstance(number(value), int | float)
    for found in (count(value), bytes_of(value, "MB")):
        assert found is None or found >= 0
    assert isinstance(text_of(value), str)
    assert isinstance(entries(value), list)


@given(st.binary() | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_output_gives_documents_or_the_named_error(printed):
    try:
        found = documents(lambda command: printed, "tool")
    except ToolFailed:
        return
    assert found
