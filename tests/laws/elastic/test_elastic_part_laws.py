"""Laws of elastic gangs: what is above the minimum is admitted in parts, which are reclaimed before the gang."""

from typing import Any

from admission.engine import round as admission_round
from admission.engine.placement import gangs as splitting
from admission.engine.preemption import candidates, running
from tests.laws.laws import elastic_parts
from tests.laws.laws.elastic_parts import lent_gangs
from tests.laws.planted.bug import Bug, each_breaks_its_law
from tests.laws.worlds.settings import in_worlds, law_test

worlds = in_worlds(80, may_be_large=False)


test_a_gang_is_its_minimum_and_few_parts = law_test(
    elastic_parts.a_gang_is_its_minimum_and_few_parts, lent_gangs(), worlds
)
test_parts_of_a_set_stay_whole = law_test(elastic_parts.parts_of_a_set_stay_whole, lent_gangs(), worlds)
test_the_minimum_stays_if_the_parts_suffice = law_test(
    elastic_parts.the_minimum_stays_if_the_parts_suffice, lent_gangs(), worlds
)
test_no_more_parts_go_than_need_be = law_test(elastic_parts.no_more_parts_than_need_be, lent_gangs(), worlds)
test_below_its_minimum_a_gang_goes_whole = law_test(
    elastic_parts.below_its_minimum_a_gang_goes_whole, lent_gangs(), worlds
)
test_a_raised_minimum_protects_no_part = law_test(
    elastic_parts.a_raised_minimum_protects_no_part, lent_gangs(), worlds
)


def _as_one(admit: Any, *others: Any) -> Any:
    return [admit]


def _one_by_one(units: Any, most: int) -> Any:
    yield from (list(unit) for unit in units)


def _without_ends(pods: Any, missing: Any) -> Any:
    return ((ordinal,) for ordinal in missing)


def _whole_only(workload: Any, admissions: Any, tree: Any) -> Any:
    return (running._candidate(workload, admissions, tree),)


def _oldest_first(workload: Any, admissions: Any, tree: Any) -> Any:
    whole = running._candidate(workload, admissions, tree)
    return (*(running._part(whole, held, tree) for held in admissions[:-1]), whole)


def _as_it_is_now(workload: Any, admissions: Any) -> Any:
    return running._Minimum(workload, workload.minimum)


BUGS = (
    Bug(
        "a minimum that is raised while the gang runs counts at once",
        running,
        "_admitted_minimum",
        _as_it_is_now,
        elastic_parts.a_raised_minimum_protects_no_part,
    ),
    Bug(
        "a gang that gets all at once is one admission",
        admission_round,
        "in_parts",
        _as_one,
        elastic_parts.the_minimum_stays_if_the_parts_suffice,
    ),
    Bug(
        "a part for each pod, however many",
        splitting,
        "_chunks",
        _one_by_one,
        elastic_parts.a_gang_is_its_minimum_and_few_parts,
    ),
    Bug("parts of sets are cut", splitting, "parts", _without_ends, elastic_parts.parts_of_a_set_stay_whole),
    Bug(
        "only whole gangs are candidates",
        running,
        "_candidates_of",
        _whole_only,
        elastic_parts.no_more_parts_than_need_be,
    ),
    Bug(
        "the minimum is a part like any other",
        running,
        "_candidates_of",
        _oldest_first,
        elastic_parts.the_minimum_stays_if_the_parts_suffice,
    ),
    Bug(
        "victims that are not needed stay victims",
        candidates.VictimCandidates,
        "keeping",
        lambda self, workload, pods: [] if pods > 1 else ["none"],
        elastic_parts.no_more_parts_than_need_be,
    ),
)

test_a_planted_bug_breaks_its_law = each_breaks_its_law(BUGS, lent_gangs())
