"""The patch of a flow, row by row of Volcano's table."""

from typing import Any

from queues.api.schedules.job_patch import patched
from tests.tables import with_rows


def pod(**spec: Any) -> dict[str, Any]:
    return {"tasks": [{"name": "w", "replicas": 1, "template": {"spec": spec}}]}


def main(**fields: Any) -> dict[str, Any]:
    """A pod with one container of these fields."""
    return pod(containers=[{"name": "c", **fields}])


@with_rows("part", "spec", "patch", "result")
def test_a_patch_changes_what_it_names(part: str, spec: Any, patch: Any, result: Any) -> None:
    of = {"job": dict, "pod": pod, "container": main}[part]
    assert of(**result) == patched(of(**spec), of(**patch))


def test_neither_the_spec_nor_the_patch_is_changed() -> None:
    spec, patch = main(), main(image="i")
    before = repr((spec, patch))
    patched(spec, patch)
    assert before == repr((spec, patch))
