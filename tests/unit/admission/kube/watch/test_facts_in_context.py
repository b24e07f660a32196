"""Facts follow the objects that they are read with, as if all were read again, at the cost of those that change."""

import asyncio
import random
from typing import Any, cast

import msgspec
import pytest

from admission.facts.changes import Change, FactKind
from admission.kube.watch import informers as watch
from admission.kube.watch.informers import Informers
from admission.kube.watch.store import ObjectChange
from admission.workloads.context import in_context
from tests.function_calls import calls_of

QUEUE = "muster.dev/queue-name"
FEW, MANY = 40, 160


def read(into: Informers, kind: str, name: str, **fields: Any) -> None:
    """An object appears or changes."""
    informer, shifts = into.by_name[kind], list[ObjectChange[Any]]()
    meta = {
        "name": name,
        "uid": f"{kind}-{name}",
        "resourceVersion": "1",
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    raw = msgspec.json.encode({"metadata": {**meta, **fields.pop("metadata", {})}, **fields})
    informer.collection.put(msgspec.Raw(raw), shifts)
    informer._deliver(shifts)


def drop(into: Informers, kind: str, name: str) -> None:
    informer, shifts = into.by_name[kind], list[ObjectChange[Any]]()
    informer.collection.drop(("", name), shifts)
    informer._deliver(shifts)


def namespace(into: Informers, name: str, queue: str | None) -> None:
    read(into, "namespaces", name, metadata={"annotations": {QUEUE: queue}} if queue else {})


def priority_class(into: Informers, name: str, value: int, *, default: bool = False) -> None:
    read(into, "priorityclasses", name, value=value, globalDefault=default)


def topology(into: Informers, *levels: str) -> None:
    read(into, "topologies", "t", spec={"levels": [{"nodeLabel": level} for level in levels]})


def pod(into: Informers, number: int, namespace: str) -> None:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    spec = {"containers": [container], "schedulingGates": [{"name": "muster.dev/admission"}]}
    read(
        into, "pods", f"p{number}", metadata={"namespace": namespace}, spec=spec, status={"phase": "Pending"}
    )


def group(into: Informers, number: int, namespace: str, of_class: str | None) -> None:
    spec = {"minMember": 1, "networkTopology": {"mode": "hard", "highestTierAllowed": 1}}
    spec |= {"priorityClassName": of_class} if of_class else {}
    read(into, "podgroups", f"g{number}", metadata={"namespace": namespace}, spec=spec)


def known(count: int) -> Informers:
    """Pods and PodGroups of three namespaces and two priority classes."""
    found = Informers(cast(Any, None))
    for number in range(count):
        pod(found, number, f"ns{number % 3}")
        group(found, number, f"ns{number % 3}", (None, "low", "high")[number % 3])
    found.drain()
    return found


def workloads_and_pods(changes: list[Change]) -> dict[str, Any]:
    return {each.key: each.fact for each in changes if each.kind in (FactKind.WORKLOAD, FactKind.POD)}


CHANGES = {
    "a namespace with a queue comes": lambda into: namespace(into, "new", "team"),
    "a namespace without one comes": lambda into: namespace(into, "new", None),
    "a namespace goes": lambda into: drop(into, "namespaces", "old"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_namespace_costs_the_same_whatever_runs_in_others(change: Any) -> None:
    few, many = known(FEW), known(MANY)
    for each in (few, many):
        namespace(each, "old", "team")
    assert calls_of(lambda: change(many)) < 1.2 * calls_of(lambda: change(few)) + 20


@pytest.mark.parametrize("seed", range(20))
def test_what_was_shown_is_what_all_objects_say_in_the_last_context(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "_SLICE", 7)
    rng, live = random.Random(seed), known(30)
    shown = workloads_and_pods(list(live.everything()))

    def step() -> None:
        match rng.randrange(6):
            case 0 | 1:
                namespace(live, f"ns{rng.randrange(4)}", rng.choice([None, "a", "b", "Not a queue"]))
            case 2:
                drop(live, "namespaces", f"ns{rng.randrange(4)}")
            case 3:
                priority_class(
                    live, rng.choice(["low", "high"]), rng.randrange(9), default=rng.random() < 0.3
                )
            case 4:
                topology(live, *rng.sample(["zone", "block", "rack"], 2), "kubernetes.io/hostname")
            case _:
                number = rng.randrange(40)
                pod(live, number, f"ns{number % 3}")

    async def life() -> None:
        behind = asyncio.create_task(live._keep_in_context())
        for _ in range(25):
            step()
            for _ in range(rng.randrange(4)):
                await asyncio.sleep(0)
            shown.update(workloads_and_pods(live.drain()))
        for _ in range(MANY):
            await asyncio.sleep(0)
        behind.cancel()

    asyncio.run(life())
    shown.update(workloads_and_pods(live.drain()))
    kept = [
        each
        for facts, informer in live._facts
        if facts.fact_kind in (FactKind.WORKLOAD, FactKind.POD)
        for each in informer.collection.kept.values()
    ]
    assert live.context == live._read_context()
    assert {each.uid: in_context(each.value, live.context) for each in kept} == {
        uid: fact for uid, fact in shown.items() if fact is not None
    }


def test_a_context_that_changes_everything_is_followed_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_SLICE", 10)
    live = known(MANY)
    priority_class(live, "some", 5, default=True)
    assert len(workloads_and_pods(live.drain())) <= 10

    async def go_on() -> None:
        behind = asyncio.create_task(live._keep_in_context())
        for _ in range(MANY):
            await asyncio.sleep(0)
        behind.cancel()

    asyncio.run(go_on())
    assert len(workloads_and_pods(live.drain())) > MANY // 2
