"""Tables and expected values next to tests are those of tests that there are."""

import ast
from pathlib import Path

import yaml

TESTS = Path("tests")


def test_no_table_and_no_expected_value_is_left_behind() -> None:
    left = []
    for file in sorted(TESTS.rglob("test_*.yaml")):
        test = file.with_name(file.name.partition(".")[0] + ".py")
        if not test.exists():
            left.append(str(file))
            continue
        tree = ast.parse(test.read_text(encoding="utf-8"))
        names = {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
        stored = yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader)
        left += [
            f"{file}: {key}"
            for key in stored
            if key.startswith("test_") and key.partition("[")[0] not in names
        ]
    assert left == []
