"""A workload that names a queue that there is not: the one that may have been meant is told, if the user may see it."""

import pytest
from msgspec import structs

from admission.read_api import bodies
from queues.reason_codes import ReasonCode
from tests.fakes import fake_reader
from tests.fakes.fake_reader import FakeReader
from tests.fakes.plugin import Asking

TOLD = "queue trian does not exist; create it or name another one"


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> FakeReader:
    reason = bodies.ReasonBody(code=ReasonCode.UNKNOWN_QUEUE, message=TOLD)
    lost = structs.replace(fake_reader.STORY, queue="trian", reason=reason)
    monkeypatch.setattr(fake_reader, "STORY", lost)
    monkeypatch.setattr(
        fake_reader,
        "PENDING",
        tuple(structs.replace(each, queue="trian", reason=reason) for each in fake_reader.PENDING),
    )
    return FakeReader()


@pytest.mark.parametrize("words", ["explain tune-3 -n ml", "pending -A"])
async def test_the_queue_that_was_meant_is_told(ask: Asking, words: str) -> None:
    assert f"{TOLD}. Did you mean train?" in (await ask(words)).out


@pytest.mark.parametrize("words", ["explain tune-3 -n ml", "pending -A"])
async def test_a_queue_that_the_user_may_not_see_is_not_told(
    reader: FakeReader, ask: Asking, words: str
) -> None:
    reader.tree = tuple(each for each in reader.tree if each.name != "train")
    told = (await ask(words)).out
    assert TOLD in told
    assert "Did you mean" not in told
