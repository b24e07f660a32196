"""``python -m tests.vectors FILE…``: run conformance vectors; exit code 1 if anything fails.

The kind of a file is told by its name: ``preemption.json``, ``preemption.more.json`` and ``more-preemption.json``
are all of kind preemption. Prints a line per failure, and "N passed, N failed" at the end.
"""

import sys
from pathlib import Path

from tests.vectors.cases import FOR_INFORMATION, KINDS, Case, kind_of, load


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
            wrong = _wrong(kind, case)
            passed += wrong is None
            failed += wrong is not None
            if wrong is not None:
                print(f"{path}: {_name(case, number)}: {wrong}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def _wrong(kind: str, case: Case) -> str | None:
    """What is wrong with a case on one line; a case that cannot be run is wrong."""
    try:
        wrong = KINDS[kind](case)
    except Exception as error:  # the other cases are told as well
        wrong = f"{type(error).__name__}: {error}"
    return None if wrong is None else " ".join(wrong.split())


def _name(case: object, number: int) -> str:
    return str(case.get("case", f"case {number}")) if isinstance(case, dict) else f"case {number}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
