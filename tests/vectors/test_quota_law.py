"""Trees that no vector shows: what a queue may use, against plain formulas that share no code with the engine.

A node keeps to itself what it does not lend; what it and all below it have beyond that is its parent's to give.
"""

from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.laws.worlds.settings import in_worlds
from tests.vectors.cases import judge

KEY = "default/cpu"
UNITS = st.integers(0, 12)


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    """Up to four cohorts in a tree (the topmost perhaps named by its members only) and up to four queues."""
    cohorts: list[dict[str, Any]] = []
    for number in range(draw(st.integers(0, 4))):
        parent = draw(st.sampled_from([*(each["name"] for each in cohorts), "unlisted"]))
        top = number == 0 and draw(st.booleans())
        cohorts.append(
            {"name": f"c{number}", "quotas": draw(quotas()), **({} if top else {"parent": parent})}
        )
    above = st.sampled_from([None, *(each["name"] for each in cohorts)])
    queues = [
        {"name": f"q{number}", "quotas": draw(quotas()), "parent": draw(above)}
        for number in range(draw(st.integers(1, 4)))
    ]
    usage = {each["name"]: {KEY: draw(st.integers(0, 30))} for each in queues if draw(st.booleans())}
    return {
        "queues": draw(st.permutations(queues)),
        "cohorts": draw(st.permutations(cohorts)),
        "usage": usage,
    }


@st.composite
def quotas(draw: st.DrawFn) -> dict[str, dict[str, int]]:
    if draw(st.integers(0, 4)) == 0:
        return {}
    limits = {limit: draw(st.none() | UNITS) for limit in ("borrowing_limit", "lending_limit")}
    return {KEY: {"nominal": draw(UNITS), **{limit: n for limit, n in limits.items() if n is not None}}}


@dataclass(frozen=True)
class Plain:
    """Kueue's quota tree, number by number."""

    nodes: dict[str, dict[str, Any]]
    usage: dict[str, dict[str, int]]

    def quota(self, name: str) -> dict[str, int]:
        quota: dict[str, int] = self.nodes[name].get("quotas", {}).get(KEY, {})
        return quota

    def below(self, name: str) -> list[str]:
        return [each for each, node in self.nodes.items() if node.get("parent") == name]

    def whole(self, name: str) -> int:
        return self.quota(name).get("nominal", 0) + sum(self.whole(c) - self.own(c) for c in self.below(name))

    def own(self, name: str) -> int:
        lent = self.quota(name).get("lending_limit")
        return 0 if lent is None else max(0, self.whole(name) - lent)

    def used(self, name: str) -> int:
        mine = self.usage.get(name, {}).get(KEY, 0)
        return mine + sum(max(0, self.used(c) - self.own(c)) for c in self.below(name))

    def available(self, name: str) -> int:
        parent = self.nodes[name].get("parent")
        if not parent:
            return self.whole(name) - self.used(name)
        borrowed = self.available(parent)
        limit = self.quota(name).get("borrowing_limit")
        if limit is not None:
            lent_out = self.whole(name) - self.own(name)
            borrowed = min(borrowed, lent_out - max(0, self.used(name) - self.own(name)) + limit)
        return max(0, self.own(name) - self.used(name)) + borrowed


def plain(case: dict[str, Any], usage: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    nodes = {each["name"]: each for each in (*case["queues"], *case["cohorts"])}
    nodes = {"unlisted": {}, **nodes}
    tree = Plain(nodes, usage)
    return {each["name"]: {KEY: max(0, tree.available(each["name"]))} for each in case["queues"]}


@in_worlds(300)
@given(cases())
def test_what_a_queue_may_use_is_what_the_plain_formulas_say(case: dict[str, Any]) -> None:
    case = {**case, "available": plain(case, case["usage"]), "potential": plain(case, {})}

    assert judge("quota_tree", case) is None
