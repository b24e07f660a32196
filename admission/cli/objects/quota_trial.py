"""What a change of quota would do to work: asked of the leader before the change is made, and never in its way."""

import sys
from collections.abc import Sequence
from typing import Final

import click
from msgspec import json

from admission.cli.access.objects import ClusterRoute
from admission.cli.access.read_api import Route, ask
from admission.cli.rendering.sentences import columns_of, say
from admission.read_api.trials import QueuePatchBody, TrialList, TrialRequestBody
from queues.api.quota.quota_document import Spec
from queues.errors import MusterError

#: Seconds to wait for the leader at most: an urgent change does not wait for it longer.
_PATIENCE: Final = 5.0
_SHORTEST: Final = 0.5
#: A name of a queue, and a merge patch of its spec.
Write = tuple[str, Spec]


def tell_trial(route: ClusterRoute, writes: Sequence[Write], is_wanted: bool) -> None:
    """Print who would start, wait or be evicted if these Queues were written, as ``kubectl muster try`` does.

    Raises nothing: where the leader does not answer in time, one line says that this is not known.
    """
    if not is_wanted:
        return
    patches = tuple(QueuePatchBody(queue=name, spec=dict(spec)) for name, spec in writes)
    read = Route(
        kubeconfig=route.kubeconfig,
        context=route.context,
        timeout=max(_SHORTEST, min(route.timeout, _PATIENCE)),
    )
    try:
        asked = TrialRequestBody(quota_patches=patches)
        comparison = ask(read, "trials", TrialList, content=json.encode(asked)).comparison
    except MusterError as error:
        _tell_unknown(str(error))
        return
    if comparison is None:  # an older replica, which does not know the question
        _tell_unknown("the leader does not answer such questions yet")
        return
    from admission.cli.trials.comparison import effects_text

    click.echo(effects_text(comparison, width=columns_of(sys.stdout)), nl=False)


def _tell_unknown(why: str) -> None:
    # The first sentence: what follows is about what a caller does that goes on trying.
    first = why.partition("\n")[0].partition(". ")[0].rstrip(".")
    say(f"Effects on waiting and running work are unknown: {first}.", err=True)
