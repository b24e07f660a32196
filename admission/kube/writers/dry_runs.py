"""What templates become: asked of the API server by dry runs, before their workloads are decided on.

A dry run creates a pod and stores nothing: defaults, webhooks and checks of the API server act on it as on any other.
There is one for each template of a namespace, however many workloads have it; answers are handed in as changes, in
the stream that the informers fill. A workload waits for the answer for a moment at most: where that passes, or no
answer can be had, that is noted in the world, and the answer that comes later is taken in then.

An answer is asked for again after a while, at first sooner if it was a refusal, and at once when something has changed
that decides what templates become; always only while a workload with the template waits.

Users store templates, and each dry run is made under Muster's name. So what one template and one namespace may cost the
API server is bounded: by the size of the pod, by pauses that grow, and by dry runs under way.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, Final

import msgspec

from admission.decode.template_trials import (
    DryRunOutcome,
    is_lack_of_quota,
    refusal_answered,
    shape_answered,
    template_digest,
)
from admission.facts.changes import Change, FactKind
from admission.facts.pods import TemplateFact, TemplateKey
from admission.facts.workloads import WorkloadFact
from admission.kube.client.client import Client
from admission.kube.writers.rate_limit import RateLimiter
from admission.kube.writers.work_queue import WorkQueue
from admission.reconcile.trial_pod import pod_of_job, pod_of_task
from admission.volcano_jobs.pods import PodRules
from admission.workloads.kinds.batch_job import WireJob
from admission.world.learned.templates import keys_of
from admission.world.world import World
from queues import kind_names
from queues.api.api_resources import JOBS, PODS
from queues.errors import ApiError, InvalidDocument
from queues.slices import slices
from queues.workload import WorkloadKey

_log = logging.getLogger(__name__)

_JOB: Final = msgspec.json.Decoder(WireJob)

#: Dry runs a second, and under way at a time: one takes the API server about as long as the creation of a pod.
PER_SECOND: Final = 20.0
AT_A_TIME: Final = 4
#: Those of one namespace among them.
OF_ONE_NAMESPACE: Final = 2
#: Bytes of a pod that is tried, as JSON. Checks may take a time that grows with the square of its size.
LARGEST: Final = 32 * 1024
#: Seconds for which workloads wait for the answer.
PATIENCE: Final = 1.0
#: Seconds after which an answered question is asked again, though nothing is known to have changed.
ANEW_AFTER: Final = 600.0
#: Seconds of the longest pause after refusals of a template. A quota that is used up, and a failure, is tried sooner.
LONGEST_PAUSE: Final = 600.0
#: Seconds beyond which a dry run is slow; the pause after one that fails is at least so many times as long.
SLOW: Final = 1.0
_AFTER_SLOW: Final = 100.0


class DryRunWriter:
    """Dry runs of one term. ``check_lease`` raises Fenced once the leader's lease is no longer certain."""

    def __init__(
        self,
        client: Client,
        world: World,
        check_lease: Callable[[], None],
        *,
        rules: PodRules,
        hand_in: Callable[[Change], None],
        observe: Callable[[DryRunOutcome, float], None],
    ) -> None:
        """``observe``: called after each dry run, with the seconds that it took."""
        self._client = client
        self._world = world
        self._check_lease = check_lease
        self._rules = rules
        self._hand_in = hand_in
        self._observe = observe
        self._limiter = RateLimiter(lambda: False, normal=PER_SECOND, when_busy=PER_SECOND)
        #: Templates that are to be asked about, in order, by namespace. Namespaces take turns.
        self._lines: dict[str, dict[TemplateKey, None]] = {}
        #: Calls that note in the world that an answer takes too long.
        self._impatience: dict[TemplateKey, asyncio.TimerHandle] = {}
        #: Templates with a change while they are asked about.
        self._outdated: set[TemplateKey] = set()
        #: Set while nothing is to be asked and nothing is under way.
        self._idle = asyncio.Event()
        self.queue: WorkQueue[TemplateKey] = WorkQueue(requeue=self._ask_again, finished=self._ended)

    async def ask_first(self) -> None:
        """Ask about the templates that are there when a term begins; return with the answers, or after a moment.

        With the answers in the first batch of changes, no workload is looked at twice.
        """
        async for keys in slices(self._world.templates.in_use()):
            for key in keys:
                self._ask(key)
        if self.queue.is_busy():
            with suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    await self._idle.wait()

    def reconcile(self, dirty: Iterable[WorkloadKey]) -> None:
        """Ask about the templates of these workloads that are not known."""
        for workload in dirty:
            if self._waits(workload):
                for key in keys_of(self._world.facts[workload]):
                    if key.digest and not self._world.templates.is_current(key):
                        self._ask(key)

    def ask_anew(self) -> None:
        """Ask about templates with a change since they were asked about."""
        for key in self._world.templates.take_outdated():
            if self.queue.is_under_way(key):
                self._outdated.add(key)
            else:
                self._ask_at_once(key)

    def _ask_at_once(self, key: TemplateKey) -> None:
        self.queue.forget(key)
        self._ask(key)

    def _waits(self, workload: WorkloadKey) -> bool:
        """Whether pods are to be made of the templates of a workload."""
        state, fact = self._world.states.get(workload), self._world.facts.get(workload)
        if fact is None or fact.obstacle is not None or not fact.templates:
            return False
        if state is None:  # no turn has been made yet
            runs = workload.kind == kind_names.JOB and not fact.suspended
            return not (fact.deleting or runs or self._world.admission_index.holds(workload))
        return state.needs_seats or state.is_untried

    def _ask_again(self, key: TemplateKey) -> None:
        """The time for it has come; without a workload that waits, it is asked when the next one comes."""
        if self._example(key) is None:
            self._world.templates.expire(key)
        else:
            self._ask(key)

    def _ask(self, key: TemplateKey) -> None:
        line = self._lines.get(key.namespace, {})
        if key in line or self.queue.is_under_way(key) or self.queue.is_backing_off(key):
            return
        if not self._world.templates.is_told(key) and key not in self._impatience:
            # With so many before it, it would wait in vain.
            many = (len(line) + 1) * (len(self._lines) + 1) > PATIENCE * PER_SECOND
            wait = 0.0 if many else PATIENCE
            self._impatience[key] = asyncio.get_running_loop().call_later(
                wait, self._tell, TemplateFact(key=key)
            )
        self._lines.setdefault(key.namespace, line)[key] = None
        self._idle.clear()
        self._begin()

    def _begin(self) -> None:
        """Begin with what is next."""
        while self.queue.under_way() < AT_A_TIME and (namespace := self._next_namespace()) is not None:
            line = self._lines.pop(namespace)
            key = next(iter(line))
            del line[key]
            if line:
                self._lines[namespace] = line
            self.queue.start(key, key, partial(self._try, key), f"dry run {key}")

    def _next_namespace(self) -> str | None:
        """The first namespace in line that may have a dry run now. None if there is none."""
        under_way = Counter(key.namespace for key in self.queue.keys_under_way())
        return next((each for each in self._lines if under_way[each] < OF_ONE_NAMESPACE), None)

    def _ended(self, key: TemplateKey) -> None:
        if key in self._outdated:
            self._outdated.discard(key)
            self._ask_at_once(key)
        self._begin()
        if not self.queue.is_busy():
            self._idle.set()

    async def _try(self, key: TemplateKey) -> None:
        await self._limiter.wait()
        example = self._example(key)
        if example is None:
            # One that comes before this step has ended finds the question under way: so it is looked again then.
            self.queue.requeue_when_finished(key)
            return self._tell(TemplateFact(key=key))
        began = self.queue.now()
        try:
            pod = await self._pod(key, example)
            if pod is None:  # it has changed meanwhile
                self.queue.back_off(key)
                return self._tell(TemplateFact(key=key))
            body = msgspec.json.encode(pod)
            if len(body) > LARGEST:
                self.queue.defer(key, LONGEST_PAUSE)
                return self._tell_unanswered(key, f"a pod of it has {len(body)} bytes, more than {LARGEST}")
            answer = await self._create(key.namespace, body)
        except (ApiError, InvalidDocument) as error:
            return self._failed(key, error, self.queue.now() - began)
        self.queue.reset(key)
        self.queue.requeue_after(key, ANEW_AFTER)
        return self._tell(TemplateFact(key=key, shape=shape_answered(answer)))

    def _failed(self, key: TemplateKey, error: ApiError | InvalidDocument, seconds: float) -> None:
        """The API server refuses the pods of a template, or does not answer. ``seconds``: what that took."""
        refusal = refusal_answered(error) if isinstance(error, ApiError) else ""
        stays = bool(refusal) and not is_lack_of_quota(refusal)
        pause = min(LONGEST_PAUSE, _AFTER_SLOW * seconds) if seconds > SLOW else 0.0
        self.queue.back_off(key, at_least=pause, longest=LONGEST_PAUSE if stays else None)
        if not refusal:
            return self._tell_unanswered(key, str(error))
        return self._tell(TemplateFact(key=key, refusal=refusal))

    def _tell_unanswered(self, key: TemplateKey, why: str) -> None:
        if not self._world.templates.is_told(key):
            _log.info("dry run without an answer", extra={"template": str(key), "why": why})
        self._tell(TemplateFact(key=key))

    async def _create(self, namespace: str, pod: bytes) -> bytes:
        """The answer to a dry run. Raises ApiError."""
        path, began = PODS.path(namespace), self.queue.now()
        try:
            answer = await self._client.create(path, pod, dry_run=True, check_lease=self._check_lease)
        except ApiError as error:
            outcome = DryRunOutcome.REFUSED if refusal_answered(error) else DryRunOutcome.UNANSWERED
            self._observe(outcome, self.queue.now() - began)
            raise
        self._observe(DryRunOutcome.ACCEPTED, self.queue.now() - began)
        return answer

    def _example(self, key: TemplateKey) -> WorkloadFact | None:
        """A workload that waits with this template. None if there is none any more."""
        users = self._world.templates.users_of(key)
        return next((self._world.facts[each] for each in users if self._waits(each)), None)

    async def _pod(self, key: TemplateKey, of: WorkloadFact) -> dict[str, Any] | None:
        """A pod of the template. None if the workload has changed since. Raises ApiError, InvalidDocument."""
        if of.job is not None:
            tasks = zip(of.job.tasks, keys_of(of), strict=True)
            return pod_of_task(of.job, next(task for task, each in tasks if each == key), self._rules)
        job = _JOB.decode(await self._client.get(JOBS.path(of.namespace, of.name)))
        template = bytes(job.spec.template)
        return pod_of_job(job.metadata, template) if template_digest(template) == key.digest else None

    def _tell(self, fact: TemplateFact) -> None:
        """Hand in what is known of a template."""
        timer = self._impatience.pop(fact.key, None)
        if timer is not None:
            timer.cancel()
        if not self._world.templates.has(fact):
            self._hand_in(Change(FactKind.TEMPLATE, str(fact.key), fact))

    async def stop(self) -> None:
        """Cancel what is under way."""
        while self._impatience:
            self._impatience.popitem()[1].cancel()
        await self.queue.stop()
