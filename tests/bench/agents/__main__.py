"""``python -m tests.bench.agents``: part ``agent`` of the benchmarks by itself."""

import argparse

from tests.bench.agents.part import play


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.agents", description=__doc__)
    parser.add_argument("--agents", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()
    for mark in play(options.agents, options.seconds):
        print(mark.line())


if __name__ == "__main__":
    main()
