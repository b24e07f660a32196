"""What pod templates become, as dry runs and their pods showed, and which workloads have them. Pure.

A template that was not asked about yet holds its workloads back for a bounded time; then they are decided on as they
are written. Not stored: a new leader asks again.
"""

from collections.abc import Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from admission.facts.changes import Change
from admission.facts.pods import PodDefaultsFact, TemplateFact, TemplateKey
from admission.facts.workloads import WorkloadFact
from admission.workloads.pod_sets import NOTHING_ASKED, TemplateShapes
from admission.world.admissions import KeyIndex
from queues.reason_codes import ReasonCode
from queues.resources import NOTHING, Resources
from queues.workload import Obstacle, WorkloadKey

#: Templates without workloads that are remembered: the next Job is often like the last one.
_REMEMBERED: Final = 10_000


class TemplateIndex:
    """Part of the world: templates of workloads that are there, and what is known of them."""

    def __init__(self, patience: int) -> None:
        """``patience``: seconds for which workloads wait until their templates are known; 0: they do not."""
        self._patience = patience
        self._facts: dict[TemplateKey, TemplateFact] = {}
        #: When (seconds) a template was first found to be unknown.
        self._unknown_since: dict[TemplateKey, int] = {}
        self._users: KeyIndex[TemplateKey, WorkloadKey] = KeyIndex()
        #: Templates without workloads, the one that lost its last workload first being first.
        self._unused: dict[TemplateKey, None] = {}
        #: Templates for which something has changed since the API server answered.
        self._outdated: set[TemplateKey] = set()
        #: Those among them that the API server has not been asked about since.
        self._to_ask: set[TemplateKey] = set()

    def replace(self, before: WorkloadFact | None, after: WorkloadFact | None) -> None:
        """A workload appeared, changed or went away."""
        old, new = ({key for key in keys_of(fact) if key.digest} for fact in (before, after))
        for key in new - old:
            self._unused.pop(key, None)
            if after is not None:
                self._users.add(key, after.key)
        for key in old - new:
            if before is not None:
                self._users.discard(key, before.key)
            if key not in self._users:
                self._leave(key)

    def _leave(self, key: TemplateKey) -> None:
        """The last workload with a template is gone."""
        self._unknown_since.pop(key, None)
        known = self._facts.get(key)
        if known is not None and known.is_known:
            self._unused[key] = None
        else:
            self._facts.pop(key, None)
        if len(self._unused) > _REMEMBERED:
            oldest = next(iter(self._unused))
            del self._unused[oldest], self._facts[oldest]
            self._outdated.discard(oldest)
            self._to_ask.discard(oldest)

    def observe(self, change: Change) -> AbstractSet[WorkloadKey]:
        """Take in an answer, or a change of what answers rest on; the workloads for which that is news.

        What rests on something that is gone is not known.
        """
        match change.fact:
            case TemplateFact() as fact:
                return self.put(fact)
            case PodDefaultsFact(namespace=namespace):
                self.outdate(namespace)
            case _:
                self.outdate("")
        return frozenset()

    def put(self, fact: TemplateFact) -> AbstractSet[WorkloadKey]:
        """What the API server said of a template; the workloads for which that is news.

        What it said before stays known while it cannot answer.
        """
        key, before = fact.key, self._facts.get(fact.key)
        if fact.is_known:
            self._outdated.discard(key)
        elif before is not None:
            return frozenset()
        if before == fact:
            return frozenset()
        self._unknown_since.pop(key, None)
        self._facts[key] = fact
        users = frozenset(self._users.of(key))
        if not users:
            self._leave(key)
        return users

    def outdate(self, namespace: str) -> None:
        """What decides what the templates of a namespace ("": of all) become has changed: they are asked about anew."""
        found = {key for key in self._facts if namespace in ("", key.namespace)}
        self._outdated |= found
        self._to_ask |= found

    def is_current(self, key: TemplateKey) -> bool:
        """Whether the API server's answer about a template is up to date."""
        fact = self._facts.get(key)
        return fact is not None and fact.is_known and key not in self._outdated

    def expire(self, key: TemplateKey) -> None:
        """What the API server said of a template is too old to be used for another workload."""
        if key in self._facts:
            self._outdated.add(key)

    def has(self, fact: TemplateFact) -> bool:
        """Whether an answer is no news."""
        return (
            self.is_current(fact.key) and self._facts[fact.key] == fact
            if fact.is_known
            else self.is_told(fact.key)
        )

    def is_told(self, key: TemplateKey) -> bool:
        """Whether no workload waits for the API server's answer about a template: it is there, or takes too long."""
        return key in self._facts

    def take_outdated(self) -> list[TemplateKey]:
        """Templates of workloads that are there, to be asked about anew, each once."""
        found, self._to_ask = self._to_ask, set()
        return [key for key in found if key in self._users]

    def in_use(self) -> list[TemplateKey]:
        """Templates of workloads that are there."""
        return self._users.keys()

    def users_of(self, key: TemplateKey) -> Collection[WorkloadKey]:
        """Workloads that are there with a template."""
        return self._users.of(key)

    def shapes_of(self, fact: WorkloadFact, now: int | None) -> TemplateShapes:
        """What the API server makes of a workload's templates. ``now`` is None for a workload that is not there: then
        it is not asked."""
        if not fact.templates:
            return NOTHING_ASKED
        shapes, refusal, awaited_until = {}, None, 0
        for pods, key in zip(fact.pod_sets, keys_of(fact), strict=False):
            if not key.digest:
                continue
            known = self._facts.get(key)
            if known is None:
                if now is None:
                    continue
                until = self._unknown_since.setdefault(key, now) + self._patience
                awaited_until = max(awaited_until, until if now < until else 0)
            elif known.shape is not None:
                shapes[pods.name] = known.shape
            elif known.refusal and refusal is None:
                refusal = _refused(pods.name, known.refusal)
        return TemplateShapes(shapes=shapes, refusal=refusal, awaited_until=awaited_until)


def keys_of(fact: WorkloadFact | None) -> Iterator[TemplateKey]:
    """The templates of a workload's pod sets, in their order; of those that cannot be read the digest is empty."""
    if fact is not None:
        yield from (TemplateKey(fact.namespace, digest) for digest in fact.templates)


def _refused(pod_set: str, refusal: str) -> Obstacle:
    message = f"the API server would refuse its pods ({pod_set}): {refusal}; correct that, or wait: it is asked again"
    return Obstacle(ReasonCode.TEMPLATE_REFUSED, message)


class LargerPods:
    """Part of the world: requests of pods that came up larger than their seats, by pod set."""

    def __init__(self) -> None:
        #: With the generation of the workload.
        self._known: dict[WorkloadKey, tuple[str, Mapping[str, Resources]]] = {}

    def note(self, fact: WorkloadFact, larger: Mapping[str, Resources]) -> None:
        """Pods of a workload came up larger: it asks for as much the next time."""
        known = self.of(fact)
        merged = {name: takes.largest(known.get(name, NOTHING)) for name, takes in larger.items()}
        self._known[fact.key] = (fact.generation, {**known, **merged})

    def of(self, fact: WorkloadFact) -> Mapping[str, Resources]:
        """What pods of a workload as it is now asked, by pod set."""
        generation, larger = self._known.get(fact.key, ("", {}))
        return larger if fact.generation == generation else {}

    def forget(self, key: WorkloadKey) -> None:
        """The workload is gone."""
        self._known.pop(key, None)
