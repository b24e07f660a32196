"""What the pods of one set cost the books, by the flavors of the nodes they go to."""

from collections.abc import Mapping
from functools import lru_cache

from admission.engine.ask import Place
from admission.engine.topology import Layout
from queues.quota.accounts import Account, accounts
from queues.resources import Resources
from queues.workload import FlavorName, PodSet


@lru_cache(maxsize=8192)
def posted(takes: Resources, flavor: FlavorName, count: int) -> Mapping[Account, int]:
    """The accounts that so many pods of one shape in one flavor are posted to."""
    return accounts({flavor: takes * count})


def charged_to(layout: Layout, found: Place, pods: PodSet) -> Mapping[Account, int]:
    """The accounts that the pods on these nodes are posted to."""
    counts: dict[FlavorName, int] = {}
    for column, number in zip(found.columns.tolist(), found.counts.tolist(), strict=True):
        flavor = layout.flavors[column]
        counts[flavor] = counts.get(flavor, 0) + number
    if len(counts) == 1:
        return posted(pods.takes, *next(iter(counts.items())))
    return accounts({flavor: pods.takes * number for flavor, number in counts.items()})
