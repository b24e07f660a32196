"""Fields of a document that its kind does not have, as far as Muster knows the kind. Pure.

The plugin asks the API server itself, in a dry run as the user. This is for other clients of the read API: an
API server drops such fields, or refuses them, as the client that submits the object asks it to.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from queues.api.check.own_names import pod_templates
from queues.api.check.pod_templates import pod_problems, template_problems
from queues.api.types.batch_job import BatchJob
from queues.api.types.pod import Pod
from queues.api.types.volcano_job import VolcanoJob
from queues.api.validation.validation import kind_of, unknown_fields

#: Paths that are shown of one object.
_MOST: Final = 10


def unknown_fields_of(document: dict[str, Any]) -> tuple[str, ...]:
    """Paths of fields that Muster does not know; a later version of Kubernetes may."""
    return tuple(islice(dict.fromkeys(_unknown(document)), _MOST))


def _unknown(document: dict[str, Any]) -> Iterator[str]:
    yield from unknown_fields(document)
    model = kind_of(document)
    if model is Pod:
        yield from (each.path for each in pod_problems(document) if each.is_unknown)
    elif model in (BatchJob, VolcanoJob):
        for place, template in pod_templates(document):
            problems = template_problems(template, place.rstrip("."))
            yield from (each.path for each in problems if each.is_unknown)
