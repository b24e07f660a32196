"""Frozen copies of a register are what was written until then, and differ where they say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues import versioned_map
from queues.versioned_map import MapVersion, VersionedMap, differing, rows_of, same_rows

steps = st.lists(st.tuples(st.sampled_from(["put", "pop", "freeze"]), st.integers(0, 12)), max_size=80)


@given(steps, st.integers(1, 8), st.integers(1, 8))
def test_copies_are_what_was_written_and_tell_what_differs(
    taken: list[tuple[str, int]], overlay: int, log: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(versioned_map, "_OVERLAY", overlay)
        patch.setattr(versioned_map, "_LOG", log)
        register: VersionedMap[int, object] = VersionedMap({3: "three"})
        plain: dict[int, object] = {3: "three"}
        copies: list[tuple[MapVersion[int, object], dict[int, object]]] = []
        for step, key in taken:
            if step == "put":
                plain[key] = row = object()
                register.put(key, row)
            elif step == "pop":
                plain.pop(key, None)
                register.pop(key)
            else:
                copies.append((register.freeze(), dict(plain)))
            assert len(register) == len(plain)
        for copy, expected in copies:
            assert dict(copy) == expected
            assert list(rows_of(copy)) == [copy[key] for key in copy]
            assert len(copy) == len(expected)
            assert all((key in copy) == (key in expected) for key in range(13))
            for other, there in copies:
                changed = {key for key in range(13) if expected.get(key) is not there.get(key)}
                assert set(differing(copy, other)) == changed
                assert same_rows(copy, other) == (not changed)


def test_nothing_written_means_the_same_copy() -> None:
    register: VersionedMap[str, str] = VersionedMap()
    register.put("a", "row")
    first = register.freeze()
    register.put("a", "row")
    register.pop("b")
    assert register.freeze() is first


def test_mappings_of_any_kind_are_compared() -> None:
    register: VersionedMap[str, str] = VersionedMap({"a": "row"})
    assert same_rows({"a": "row"}, {"a": "row"})
    assert list(rows_of({"a": "row"})) == list(rows_of(register.freeze())) == ["row"]
    assert differing({"a": "row"}, {"b": "row"}) == ["b", "a"]
    assert same_rows(register.freeze(), {"a": "row"})
