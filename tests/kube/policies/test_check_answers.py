"""Who may ask AdmissionChecks and who may answer, as a real API server sees it: five identities."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
import yaml

from queues.api.api_resources import CHECK_REQUESTS
from queues.errors import ApiError, ApiRefused
from tests.kube.support.cluster_objects import applied, becomes
from tests.kube.support.guarded_namespace import MUSTER, GuardedNamespace

DEFINITION = yaml.safe_load(Path("deploy/chart/crds/muster.dev_checkrequests.yaml").read_text())
CHECK, OTHER = "system:serviceaccount:staging:data", "system:serviceaccount:staging:budget"
OWNER, ADMIN = "alice", "admin"
ANSWER = {"status": {"answer": "Ready", "observedGeneration": 1}}


def request(name: str) -> dict[str, Any]:
    """Without an owner: the garbage collector takes what belongs to an object that does not exist."""
    spec = {
        "check": "data",
        "answeredBy": CHECK,
        "workload": {"kind": "job", "name": "train", "uid": "u1"},
        "queue": "team",
        "askedAt": "2026-11-30T12:00:00Z",
    }
    return CHECK_REQUESTS.document(name, spec=spec)


@pytest_asyncio.fixture
async def asked(guarded: GuardedNamespace) -> GuardedNamespace:
    """A namespace with the request ``a``."""
    admin, muster = await guarded.as_user(ADMIN), await guarded.as_user(MUSTER)
    await applied(admin, DEFINITION)
    path = CHECK_REQUESTS.path(guarded.namespace)

    async def refuses() -> bool:
        """The policies know the kind a moment after it is served."""
        try:
            await admin.create(path, request("probe"), dry_run=True)
        except ApiRefused:
            return True
        return False

    await becomes(refuses, despite=ApiError)
    await muster.create(path, request("a"))
    return guarded


def _at(asked: GuardedNamespace, part: str | None = None) -> str:
    return CHECK_REQUESTS.path(asked.namespace, "a", part)


@pytest.mark.parametrize("user", [CHECK, OTHER, OWNER, ADMIN])
async def test_only_muster_asks(asked: GuardedNamespace, user: str) -> None:
    client = await asked.as_user(user)
    with pytest.raises(ApiRefused, match=f"found a spec written by {user}, expected none"):
        await client.create(CHECK_REQUESTS.path(asked.namespace), request("b"))
    for spec in ({"answeredBy": f"{user}-too"}, {"attempt": 2}, {"check": "another"}):
        with pytest.raises(ApiRefused, match="found a spec written by"):
            await client.patch(_at(asked), {"spec": spec})
    await client.patch(_at(asked), {"metadata": {"labels": {"colour": "blue"}}})


async def test_muster_asks_again_and_what_was_answered_is_an_earlier_generation(
    asked: GuardedNamespace,
) -> None:
    await (await asked.as_user(CHECK)).patch(_at(asked, "status"), ANSWER)
    found = msgspec.json.decode(
        await (await asked.as_user(MUSTER)).patch(_at(asked), {"spec": {"attempt": 2}})
    )
    assert (found["metadata"]["generation"], found["status"]["observedGeneration"]) == (2, 1)


async def test_the_account_that_the_check_names_answers_and_changes_its_answer(
    asked: GuardedNamespace,
) -> None:
    account = await asked.as_user(CHECK)
    for answer in ("Ready", "Rejected", "Retry", "Pending"):
        change = {"status": {"answer": answer, "retryAfter": "10m", "message": "why"}}
        found = msgspec.json.decode(await account.patch(_at(asked, "status"), change))
        assert found["status"]["answer"] == answer
    with pytest.raises(ApiRefused, match="Unsupported value"):
        await account.patch(_at(asked, "status"), {"status": {"answer": "Perhaps"}})


@pytest.mark.parametrize("user", [MUSTER, OTHER, OWNER, ADMIN])
async def test_nobody_else_answers(asked: GuardedNamespace, user: str) -> None:
    client = await asked.as_user(user)
    with pytest.raises(ApiRefused, match=f"found an answer of {user}, expected one of {CHECK}"):
        await client.patch(_at(asked, "status"), ANSWER)
    # A status in a write of the object itself is passed over by the API server.
    if user != MUSTER:
        found = msgspec.json.decode(await client.patch(_at(asked), ANSWER))
        assert "status" not in found or "answer" not in found["status"]
