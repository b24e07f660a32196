"""What an update of a Volcano Job may not change is compared by what it means, also while no webhook answers."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from deploy.local.cluster import LocalCluster
from queues.api.api_resources import VOLCANO_JOBS, Document
from queues.errors import ApiRefused
from tests.builders.same_meaning import PAIRS, Pair, a_spec
from tests.kube.support.cluster_objects import becomes
from tests.kube.support.editors import EditedNamespace, edited_namespaces

PLACE = "fixed-fields"


@pytest_asyncio.fixture(scope="module")
async def place(guarded_cluster: LocalCluster) -> AsyncIterator[EditedNamespace]:
    async with edited_namespaces(guarded_cluster, {PLACE: {}}) as places:
        place = places[PLACE]
        probe = await place.create(VOLCANO_JOBS, {"metadata": {"name": "probe"}, "spec": a_spec()})

        async def refused() -> bool:
            try:
                await put(place, probe, {**a_spec(), "maxRetry": 7})
            except ApiRefused:
                return True
            probe.update(
                await place.create(VOLCANO_JOBS, {"metadata": {"generateName": "p-"}, "spec": a_spec()})
            )
            return False

        await becomes(refused)
        yield place


async def put(place: EditedNamespace, stored: Document, spec: Document) -> Any:
    """A PUT of a document that names nothing that Muster wrote, as `kubectl replace -f` sends it."""
    names = {key: stored["metadata"][key] for key in ("name", "resourceVersion")}
    document = VOLCANO_JOBS.document(names["name"], place.name, spec=spec)
    document["metadata"].update(names)
    answer = await place.editor.replace(VOLCANO_JOBS.path(place.name, names["name"]), document)
    return msgspec.json.decode(answer)


@pytest.mark.parametrize("pair", PAIRS, ids=str)
async def test_a_change_is_named_and_other_words_for_the_same_are_none(
    place: EditedNamespace, pair: Pair
) -> None:
    before, now = pair.specs()
    stored = await place.create(VOLCANO_JOBS, {"metadata": {"generateName": "pair-"}, "spec": before})
    if not pair.path:
        await put(place, stored, now)
        return
    with pytest.raises(ApiRefused) as refused:
        await put(place, stored, now)
    assert f"{pair.path}: found " in str(refused.value)
