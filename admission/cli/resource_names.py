"""Names of resources as people write them: ``gpu`` is understood everywhere, and what no node can have is refused."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import click


def full_resource(option: str, name: str) -> str:
    """The whole name of a resource: ``gpu`` is nvidia.com/gpu. Raises UsageError: no node can have it.

    ``option``: where it was found.
    """
    from queues.api.resource_names import resource_named

    with names_are_usage():
        return resource_named(option, name)


@contextmanager
def names_are_usage() -> Iterator[None]:
    """Raises UsageError for a resource that no node can have."""
    from queues.api.resource_names import NoSuchResource

    try:
        yield
    except NoSuchResource as error:
        raise click.UsageError(str(error)) from error


def shown_resource(option: str, name: str, there: Iterable[str]) -> str:
    """The whole name of a resource to show. Raises UsageError: no node can have it.

    ``there``: whole names of those there are. One of them may be named by what follows its ``/``: on a cluster whose
    only GPUs are amd.com/gpu these are ``gpu``.
    """
    names = sorted(set(there))
    alike = [each for each in names if each.rpartition("/")[2] == name]
    if name in names or len(alike) == 1:
        return name if name in names else alike[0]
    return full_resource(option, name)
