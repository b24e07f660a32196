"""Objects of the cluster: an answer that is none, or has another form, is an error that says what was found."""

import re

import pytest

from admission.api_connection import Access
from admission.cli.access import objects, requests
from admission.cli.access.object_forms import ClosureObject
from admission.cli.access.objects import Refused, listed
from admission.cli.access.requests import Route
from admission.cli.command_line import CommandFailed
from queues.api.api_resources import NODE_DRAINS


def answer(monkeypatch: pytest.MonkeyPatch, status: int, content: bytes) -> list[ClosureObject] | None:
    monkeypatch.setattr(objects, "request", lambda *_, **__: requests.ServerAnswer(status, content))
    return listed(Route(access=Access(server="https://cluster")), NODE_DRAINS, ClosureObject)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b'{"items": 7}', r"another form: .*\$\.items"),
        (b"<html>", "no JSON but '<html>'"),
    ],
)
def test_an_answer_that_cannot_be_read_is_an_error(
    content: bytes, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CommandFailed, match=found):
        answer(monkeypatch, 200, content)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (
            b'{"metadata": {"name": 7}}',
            "NodeDrain 7 cannot be read and is left out: Expected `str`, got `int`",
        ),
        (b'{"metadata": {"name": "b"}, "spec": {"nodes": "n1"}}', "NodeDrain b cannot be read .*spec.nodes"),
        (b"7", r"NodeDrain \(without a name\) cannot be read"),
    ],
)
def test_an_object_that_cannot_be_read_keeps_none_of_the_others(
    bad: bytes, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    good = b'{"metadata": {"name": "a"}}'
    drains = answer(monkeypatch, 200, b'{"items": [' + good + b", " + bad + b", " + good + b"]}")
    assert [drain.metadata.name for drain in drains or ()] == ["a", "a"]
    assert re.search(said, " ".join(capsys.readouterr().err.split()))


def test_without_objects_there_are_none_and_without_the_right_that_is_not_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert answer(monkeypatch, 200, b'{"items": null}') == []
    assert answer(monkeypatch, 404, b'{"message": "no such kind"}') == []
    assert answer(monkeypatch, 403, b'{"message": "forbidden"}') is None
    with pytest.raises(Refused, match="overloaded"):
        answer(monkeypatch, 500, b'{"message": "overloaded"}')
