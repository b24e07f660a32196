"""``python -m tests.vectors FILE…``: run conformance vectors; exit code 1 if anything fails."""

import sys
from pathlib import Path

from tests.vectors.cases import KINDS, load


def main(files: list[str]) -> int:
    """Run these files, by default the committed ones."""
    failed = 0
    for path in [Path(name) for name in files] or sorted(Path(__file__).parent.glob("*.json")):
        cases = load(path)
        run = KINDS.get(path.stem.removesuffix(".more"))
        if run is None:
            print(f"{path}: kind {path.stem!r} is not known; expected one of {', '.join(KINDS)}")
            failed += 1
            continue
        passed = 0
        for case in cases:
            wrong = run(case)
            passed += wrong is None
            if wrong is not None:
                print(f"  {case['case']}: {wrong}")
        print(f"{path.name}: {passed} of {len(cases)} pass")
        failed += passed < len(cases)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
