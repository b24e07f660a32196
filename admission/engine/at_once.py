"""All pods of one set in one search over the nodes: placed, held against the queue's books, taken in the trial.

Whoever asks has settled what those who sit already bind; here nobody sits yet, or it no longer matters.
"""

from collections.abc import Sequence

import numpy as np

from admission.engine.ask import Ask, Place
from admission.engine.capacity import Capacity, Part
from admission.engine.charges import charged_to
from admission.engine.devices import taken
from admission.engine.domains import Chain
from admission.engine.fragmentation import UNTOUCHED_BIT
from admission.engine.no_place import no_place
from admission.engine.placement import place
from admission.engine.plan import Reason
from admission.engine.topology import Amounts
from admission.engine.typical import shape_of
from admission.engine.wanted import Want, Where
from queues.admissions import Seat
from queues.quota.accounts import accounts, seats_by_flavor
from queues.quota.usage import LimitHit
from queues.workload import DeviceShare, Partition


def seats_at_once(
    where: Where, want: Want, chain: Chain | None, key: str | None, partitions: Sequence[Partition]
) -> list[Seat] | Reason | LimitHit:
    """Seats for all the ordinals. ``key``: the level of the pod set, if that is not kept already.

    ``chain``: the topology that has all the levels; None: the first one will do.
    """
    pods = want.pods
    levels = chain or where.trial.layout.chains[0]
    indices = {level.key: index for index, level in reversed(list(enumerate(levels)))}
    parts = tuple(Part(part.size, indices[part.level]) for part in partitions if part.size > 1)
    outside = [levels[part.at] for part in parts if (levels[part.at].of < 0).any()]
    if outside:  # a node in no domain of the level holds no part
        where = where.only(np.logical_and.reduce([level.of >= 0 for level in outside]))
    measured = _measured(where, want, levels)
    ask = _ask(where, want, levels, indices[key] if key else None, parts, measured)
    found = place(ask)
    if found is None:
        return no_place(where, pods, ask, partitions)
    if pods.share is None:
        return _on_nodes(where, want, found)
    free = None if measured is None or pods.share.devices > 1 else measured[1][found.columns[0]]
    return _on_devices(where, want, found, pods.share, free if free is None else int(free))


def _ask(
    where: Where,
    want: Want,
    chain: Chain,
    level: int | None,
    parts: tuple[Part, ...],
    measured: tuple[Amounts, Amounts] | None,
) -> Ask:
    """What placement is asked. ``level``: index of the pod set's level; None: anywhere."""
    trial, pods = where.trial, want.pods
    required = level is not None and pods.required_topology is not None
    at = len(chain) - 1 if level is None else level
    known: list[Capacity] = []
    if where.named is not None and not pods.ports and pods.share is None:
        named = (where.named, pods.nodes)
        known.append(trial.capacity(pods.takes, chain, where.usable(pods), named))
    return Ask(
        pods=len(want.ordinals),
        room=known[0].room if known else where.room(pods),
        chain=chain,
        at=at,
        required=required,
        spread=trial.tree.placement(where.queue) == "spread",
        balanced=pods.balanced and level is not None,
        # A part around the level that holds all of them keeps itself.
        parts=tuple(part for part in parts if part.at >= at) if required else parts,
        score=trial.layout.score(pods.prefers),
        cost=where.cost if measured is None else measured[0],
        measured=measured is not None,
        known=known,
    )


def _measured(where: Where, want: Want, chain: Chain) -> tuple[Amounts, Amounts] | None:
    """For a single pod that may go anywhere: (N,) what each node costs, and what is free of the best device there.

    A node in a domain that is empty costs more than any other. None: packing alone decides.
    """
    trial, pods = where.trial, want.pods
    if trial.gauge is None or where.cost is not None or len(want.ordinals) > 1:
        return None
    shape = shape_of(pods)
    if shape is None or trial.tree.placement(where.queue) == "spread":
        return None
    cost, free = trial.gauge.costs(shape, trial.free)
    if len(chain) > 1:
        cost = cost + (trial.gauge.untouched(chain[-2], trial.free).astype(np.int64) << UNTOUCHED_BIT)
    return cost, free


def _on_nodes(where: Where, want: Want, found: Place) -> list[Seat] | LimitHit:
    """Seats on these nodes."""
    trial, pods, layout = where.trial, want.pods, where.trial.layout
    charged = charged_to(layout, found, pods)
    hit = trial.usage.refusal(where.queue, charged)
    if hit is not None:
        return hit
    if pods.ports:
        trial.take(found.columns, found.counts, pods.takes, where.queue, charged, pods.ports)
    else:
        trial.take(found.columns, found.counts, pods.takes, where.queue, charged)
    return [
        Seat(
            pod_set=pods.name,
            ordinal=ordinal,
            node=layout.names[column],
            flavor=layout.flavors[column],
            takes=pods.takes,
        )
        for ordinal, column in zip(want.ordinals, found.each(), strict=True)
    ]


def _on_devices(
    where: Where, want: Want, found: Place, share: DeviceShare, free: int | None = None
) -> list[Seat] | LimitHit:
    """Seats on devices of these nodes. ``free``: on one that has so many thousandths free."""
    trial, pods, layout = where.trial, want.pods, where.trial.layout
    devices = trial.devices[share.resource]
    part = devices.part(share)
    columns = found.columns.tolist()
    left = trial.free[:, found.columns].copy()
    before = left.copy()
    seats: list[Seat] = []
    ordinals = iter(want.ordinals)
    for index, (column, count) in enumerate(zip(columns, found.counts.tolist(), strict=True)):
        for _ in range(count):
            picked = devices.pick(left[:, index], int(part[column]), share.devices, free)
            takes = taken(pods.takes, share, int(part[column]), picked)
            left[:, index] -= trial.request(takes)
            seats.append(
                Seat(
                    pod_set=pods.name,
                    ordinal=next(ordinals),
                    node=layout.names[column],
                    flavor=layout.flavors[column],
                    takes=takes,
                )
            )
    charged = accounts(seats_by_flavor(seats))
    hit = trial.usage.refusal(where.queue, charged)
    if hit is not None:
        return hit
    trial.take(
        found.columns, found.counts, pods.takes, where.queue, charged, pods.ports, exactly=before - left
    )
    return seats
