"""Ranks along the topology, for pods that found their places one by one: neighbours by number are neighbours."""

from collections.abc import Sequence
from dataclasses import replace

from admission.engine.domains import chain_of, levels_of
from admission.engine.topology import Layout
from queues.admissions import Seat
from queues.workload import PodSet


def in_order(layout: Layout, pods: PodSet, seats: Sequence[Seat]) -> list[Seat]:
    """The same places for the same ordinals of one pod set without parts, domain by domain."""
    chain = chain_of(layout, levels_of(pods)) or layout.chains[0]

    def place(seat: Seat) -> tuple[int, ...]:
        column = layout.position[seat.node]
        return (*(int(level.of[column]) for level in chain), column)

    ordinals = sorted(seat.ordinal for seat in seats)
    return [
        replace(seat, ordinal=ordinal)
        for seat, ordinal in zip(sorted(seats, key=place), ordinals, strict=True)
    ]
