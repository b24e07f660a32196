"""Seats of candidates as arrays, in the order of the candidates; those of an elastic part are its own only."""

from collections.abc import Sequence

import numpy as np

from admission.engine.preemption.candidates import Candidate
from admission.engine.trial import Trial
from queues.resources import Resources
from queues.workload import HostPort, NodeName


class CandidateSeats:
    """Seats on known nodes.

    (C,) has one entry for each candidate, (S,) one for each seat, (R,) one for each resource.
    """

    def __init__(self, candidates: Sequence[Candidate], trial: Trial) -> None:
        """``trial``: any one over the nodes; what is free in it does not count."""
        position = trial.layout.position
        columns, owners, shape_of_seat, only = list[int](), list[int](), list[int](), list[int]()
        shapes: dict[Resources, int] = {}
        #: Host ports and volumes of the pods in seats; most have none.
        self.ports: dict[int, tuple[HostPort, ...]] = {}
        for index, candidate in enumerate(candidates):
            first = len(columns)
            for held in candidate.freed_alone:
                # One for each seat of a pod set with any, in the order of the seats.
                taken: dict[NodeName, list[tuple[HostPort, ...]]] = {}
                for place in reversed(held.ports):
                    taken.setdefault(place.node, []).append(place.ports)
                for seat in held.seats:
                    if (column := position.get(seat.node)) is not None:
                        if taken and (of_node := taken.get(seat.node)):
                            self.ports[len(columns)] = of_node.pop()
                        columns.append(column)
                        owners.append(index)
                        shape_of_seat.append(shapes.setdefault(seat.takes, len(shapes)))
            only.append(first if candidate.pods == 1 and len(columns) > first else -1)
        #: (S,) column of the node, and index of the candidate.
        self.columns = np.array(columns, np.intp)
        self.owners = np.array(owners, np.intp)
        takes = [trial.vector(shape) for shape in shapes] or [np.zeros(len(trial.free), np.int64)]
        #: (R, S) what each seat takes.
        self.takes = np.stack(takes, axis=1)[:, np.array(shape_of_seat, np.intp)]
        #: (C,) the seat of a candidate of one pod; -1: it has more pods, or its node is unknown.
        self.only = np.array(only, np.intp)
