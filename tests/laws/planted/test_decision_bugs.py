"""The laws can fail: each planted bug breaks the law it is planted for."""

from tests.laws.planted.bug import each_breaks_its_law
from tests.laws.planted.decision_bugs import MUTATIONS
from tests.laws.worlds.snapshots import snapshots

test_a_planted_bug_breaks_its_law = each_breaks_its_law(MUTATIONS, snapshots())
