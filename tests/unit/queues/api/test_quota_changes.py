"""Moves of quota, and what is left of the parent's amount."""

import pytest

from queues.api.quota.quota_changes import CannotMove, moved, remainders
from queues.api.quota.quota_document import QuotaField

GPU = "nvidia.com/gpu"
DESERVED = QuotaField("", "deserved", GPU)
GUARANTEE = QuotaField("", "guarantee", GPU)
CAPABILITY = QuotaField("", "capability", GPU)
NAMES = ("vision", "language")


def test_a_move_lowers_one_and_raises_the_other() -> None:
    giver, taker = {"deserved": {GPU: 64}, "capability": {GPU: 96}}, {"deserved": {GPU: "32"}}

    assert moved(giver, taker, DESERVED, 16_000, names=NAMES) == ({DESERVED: "48"}, {DESERVED: "48"})


def test_a_move_takes_a_guarantee_and_a_capability_along_only_where_they_would_contradict() -> None:
    giver = {"guarantee": {"resource": {GPU: 56}}, "deserved": {GPU: 64}}
    taker = {"deserved": {GPU: 32}, "capability": {GPU: 40}}

    assert moved(giver, taker, DESERVED, 8_000, names=NAMES) == ({DESERVED: "56"}, {DESERVED: "40"})
    assert moved(giver, taker, DESERVED, 9_000, names=NAMES) == (
        {DESERVED: "55", GUARANTEE: "55"},
        {DESERVED: "41", CAPABILITY: "41"},
    )


def test_a_move_within_a_flavor_leaves_the_plain_limits() -> None:
    field = QuotaField("h100", "deserved", GPU)
    spec = {"deserved": {GPU: 1}, "flavors": [{"name": "h100", "deserved": {GPU: 8}}]}

    assert moved(spec, spec, field, 8_000, names=NAMES) == ({field: "0"}, {field: "16"})


@pytest.mark.parametrize(
    ("giver", "taker", "words"),
    [
        ({"deserved": {GPU: 8}}, {"deserved": {GPU: 8}}, "vision deserves 8 nvidia.com/gpu, not 16"),
        ({}, {"deserved": {GPU: 8}}, "vision states no deserved"),
        ({"deserved": {GPU: 64}}, {}, "kubectl muster quota set language --deserved nvidia.com/gpu=AMOUNT"),
        ({"deserved": {GPU: "many"}}, {"deserved": {GPU: 8}}, "vision states no deserved"),
    ],
)
def test_what_cannot_be_moved_is_told(giver: dict[str, object], taker: dict[str, object], words: str) -> None:
    with pytest.raises(CannotMove, match=words):
        moved(giver, taker, DESERVED, 16_000, names=NAMES)


SPECS = {
    "root": {},
    "robotics": {"deserved": {GPU: 64}, "guarantee": {"resource": {GPU: 16}}},
    "sim": {"parent": "robotics", "deserved": {GPU: 32}},
    "arms": {"parent": "robotics", "deserved": {GPU: 16}, "guarantee": {"resource": {GPU: 8}}},
}


def test_what_is_left_of_the_parents_amounts_is_told() -> None:
    told = remainders("arms", {DESERVED: "24", GUARANTEE: "20", CAPABILITY: "99"}, SPECS)

    assert list(map(str, told)) == [
        "queues below robotics: 48 → 56 deserved nvidia.com/gpu of 64, 8 left",
        "queues below robotics: 8 → 20 guarantee nvidia.com/gpu of 16, 4 too many",
    ]


def test_what_the_queues_below_state_of_the_new_amount_is_told() -> None:
    told = remainders("robotics", {DESERVED: "40", GUARANTEE: "16", CAPABILITY: "64"}, SPECS)

    assert list(map(str, told)) == [
        "queues below root: 64 → 40 deserved nvidia.com/gpu",
        "queues below robotics: 48 deserved nvidia.com/gpu of 40, 8 too many",
        "queues below robotics: 8 guarantee nvidia.com/gpu of 16, 8 left",
    ]
    assert len(remainders("robotics", {DESERVED: None}, SPECS)) == 1
    assert len(remainders("sim", {DESERVED: "8"}, SPECS)) == 1


def test_root_has_what_the_nodes_have_and_no_guarantee_of_its_own() -> None:
    changes = {DESERVED: None, CAPABILITY: "4"}
    (known,) = remainders("robotics", changes, SPECS, root_has={("", GPU): 128_000})
    (unknown,) = remainders("robotics", changes, SPECS)

    assert str(known) == "queues below root: 64 → 0 deserved nvidia.com/gpu of 128, 128 left"
    assert str(unknown) == "queues below root: 64 → 0 deserved nvidia.com/gpu"
    assert remainders("root", changes, SPECS) == []
