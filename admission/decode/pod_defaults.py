"""What decides what pod templates become → facts: LimitRanges, RuntimeClasses, configurations of webhooks. Pure.

Nothing of it is worked out here: the API server is asked what it makes of a template. The fact says when to ask again.
"""

from hashlib import blake2b
from typing import Final

import msgspec

from admission.facts.pods import PodDefaultsFact
from admission.wire import Bare

#: What says nothing of pods, or changes without them.
_BESIDE: Final = ("metadata", "status")


class _Rule(msgspec.Struct):
    resources: list[str] = []


class _Webhook(msgspec.Struct):
    rules: list[_Rule] = []


class _Webhooks(msgspec.Struct):
    webhooks: list[_Webhook] | None = None


def pod_defaults_fact(bare: Bare, raw: bytes) -> PodDefaultsFact | None:
    """One of them; None for webhooks that are not about pods. Raises msgspec.DecodeError."""
    webhooks = msgspec.json.decode(raw, type=_Webhooks).webhooks
    if webhooks is not None and not any(_is_about_pods(each) for each in webhooks):
        return None
    content = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    said = {name: value for name, value in content.items() if name not in _BESIDE}
    digest = blake2b(msgspec.json.encode(said), digest_size=8).hexdigest()
    return PodDefaultsFact(namespace=bare.metadata.namespace, digest=digest)


def _is_about_pods(webhook: _Webhook) -> bool:
    return any(resource in ("pods", "*", "*/*") for rule in webhook.rules for resource in rule.resources)
