"""Laws of nodes that tenants keep, and bugs that break them."""

import pytest

from admission.engine.closures import closing
from admission.engine.closures.choice import chosen_nodes
from tests.laws.laws import decision
from tests.laws.laws.tenant_nodes import (
    a_tenant_clears_no_more_than_it_deserves,
    a_tenant_keeps_no_more_than_it_deserves,
    tenant_worlds,
)
from tests.laws.planted.bug import is_broken_in
from tests.laws.worlds.settings import in_worlds, law_test

worlds = in_worlds(60)


test_a_tenant_keeps_no_more_than_it_deserves = law_test(
    a_tenant_keeps_no_more_than_it_deserves, tenant_worlds(), worlds
)
test_a_tenant_clears_no_more_than_it_deserves = law_test(
    a_tenant_clears_no_more_than_it_deserves, tenant_worlds(most=1), worlds
)
test_the_memo_decides_nothing_beside_nodes_of_tenants = law_test(
    decision.memo_decides_nothing, tenant_worlds(), worlds
)
test_the_order_decides_nothing_beside_nodes_of_tenants = law_test(
    decision.independent_of_order, tenant_worlds(), worlds
)
test_turns_come_to_rest_beside_nodes_of_tenants = law_test(
    decision.reaches_a_fixed_point, tenant_worlds(), worlds
)


def test_nodes_without_a_bound_break_the_first_law(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closing, "nodes_within_right", lambda *given: chosen_nodes(*given[:-1]))
    is_broken_in(tenant_worlds(), a_tenant_keeps_no_more_than_it_deserves, first=8)


@pytest.mark.long
def test_evictions_without_a_bound_break_the_second_law(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closing, "clearable", lambda closed, leaving, *_: leaving.keys())
    is_broken_in(tenant_worlds(most=1), a_tenant_clears_no_more_than_it_deserves)
