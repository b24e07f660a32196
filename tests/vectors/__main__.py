"""``python -m tests.vectors FILE…``: run conformance vectors; exit code 1 if anything fails.

The kind of a file is told by its name: ``preemption.json``, ``preemption.more.json`` and ``more-preemption.json``
are all of kind preemption. Prints a line per failure, and "N passed, N failed" at the end.
"""

import sys
from pathlib import Path

from tests.vectors.cases import FOR_INFORMATION, KINDS, judge, kind_of, load


def main(files: list[str]) -> int:
    """Run these files, by default the committed ones."""
    passed = failed = 0
    for path in [Path(name) for name in files] or sorted(Path(__file__).parent.glob("*.json")):
        kind = kind_of(path)
        if kind is None:
            known = ", ".join([*KINDS, *FOR_INFORMATION])
            print(f"{path}: its name tells no kind; expected one of {known} in it")
            failed += 1
            continue
        if kind in FOR_INFORMATION:
            print(f"{path}: not judged, {FOR_INFORMATION[kind]}")
            continue
        try:
            cases = load(path)
        except (OSError, ValueError) as error:
            print(f"{path}: cannot be read as cases: {error}")
            failed += 1
            continue
        for number, case in enumerate(cases, start=1):
            wrong = judge(kind, case)
            passed += wrong is None
            failed += wrong is not None
            if wrong is not None:
                print(f"{path}: {_name(case, number)}: {wrong}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def _name(case: object, number: int) -> str:
    name = case.get("case") if isinstance(case, dict) else None
    return " ".join(str(name or f"case {number}").split())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
