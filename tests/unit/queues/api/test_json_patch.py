"""JSON patches do what merge patches say, on conditions."""

from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from queues.api.json_patch import escaped, expect, steps_of
from tests.fakes.fake_objects import merged

keys = st.sampled_from(["a", "b", "muster.dev/seat", "x~y"])
leaves = st.text(max_size=2) | st.integers() | st.booleans() | st.lists(st.integers(), max_size=2)
documents = st.recursive(
    st.dictionaries(keys, leaves, max_size=4),
    lambda inner: st.dictionaries(keys, leaves | inner, max_size=4),
    max_leaves=8,
)
patches = st.recursive(
    st.dictionaries(keys, leaves | st.none(), max_size=4),
    lambda inner: st.dictionaries(keys, leaves | st.none() | inner, max_size=4),
    max_leaves=8,
)


def pointers(document: Any, at: str = "") -> set[str]:
    """Everything that there is."""
    if not isinstance(document, dict):
        return set()
    found = set()
    for key, value in document.items():
        path = f"{at}/{escaped(key)}"
        found |= {path} | pointers(value, path)
    return found


def applied(document: Any, steps: list[dict[str, Any]]) -> Any:
    """RFC 6902, without arrays."""
    result = merged(document, {})
    for step in steps:
        *parents, last = (
            token.replace("~1", "/").replace("~0", "~") for token in step["path"].split("/")[1:]
        )
        place = result
        for key in parents:
            place = place[key]
        if step["op"] == "remove":
            del place[last]
        elif step["op"] == "test":
            assert place[last] == step["value"]
        else:
            place[last] = step["value"]
    return result


def without_empty(document: Any) -> Any:
    """Objects that say nothing are left out: the API server leaves them out as well."""
    if not isinstance(document, dict):
        return document
    kept = {key: without_empty(value) for key, value in document.items()}
    return {key: value for key, value in kept.items() if value != {}}


def agree(document: Any, patch: Any) -> bool:
    """Objects of the patch meet objects, or nothing: kinds of objects have fields of one type each."""
    return all(
        key not in document or (isinstance(document[key], dict) and agree(document[key], value))
        for key, value in patch.items()
        if isinstance(value, dict)
    )


@given(documents, patches)
def test_the_steps_do_what_the_merge_patch_would(document: Any, patch: Any) -> None:
    assume(agree(document, patch))
    result = applied(document, list(steps_of(patch, pointers(document))))
    assert without_empty(result) == without_empty(merged(document, patch))


def test_a_condition_is_a_step_that_may_fail() -> None:
    assert expect("/metadata/generation", 7) == {"op": "test", "path": "/metadata/generation", "value": 7}
