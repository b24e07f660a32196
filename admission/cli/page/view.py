"""What one path of the page shows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from markupsafe import Markup


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What a path shows."""

    title: str
    #: The navigation's entry that it belongs to.
    section: str
    main: Markup
    #: How old the answer is, as a sentence; "": a few seconds.
    age: str = ""
    #: Seconds between two times that it is asked for at least: what costs the API server much, seldom.
    least: int = 1


#: The view of a path's parts and a query. Raises MusterError, KeyError for no such path.
ViewOf = Callable[[tuple[str, ...], Mapping[str, str]], View]
