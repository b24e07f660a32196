"""What the page says where there is no view: nothing of that name, a right that is missing, or no answer. Pure."""

from collections.abc import Iterable
from difflib import get_close_matches
from http import HTTPStatus
from typing import Final

from markupsafe import Markup

from admission.cli.access.objects import Refused
from admission.cli.access.requests import Unanswered
from admission.cli.page.layout import SECTIONS, View, link, render
from queues.errors import MusterError

#: Names that are offered in place of one that is unknown.
_MOST_NAMES: Final = 12
_AGAIN: Final = "This page asks again by itself."


class NoSuchView(MusterError):
    """{what}"""

    def __init__(self, what: str, ways: Iterable[Markup] = ()) -> None:
        """``ways``: links to where it may be."""
        super().__init__(what)
        self.ways = tuple(ways)


def unknown(what: str, name: str, known: Iterable[str], *parts: str) -> NoSuchView:
    """There is no ``what`` of this name. ``known``: names that there are; ``parts``: the path of their views."""
    names = sorted(known)
    near = get_close_matches(name, names, n=3) or (names if len(names) <= _MOST_NAMES else [])
    sentence = f"There is no {what} {name} that you may see."
    if near and len(near) < len(names):
        sentence += " Did you mean one of these?"
    return NoSuchView(sentence, [link(each, *parts, each) for each in near])


def problem_view(error: Exception) -> tuple[int, View]:
    """The status of the answer and what it shows, for an error in place of a view."""
    match error:
        case NoSuchView():
            return _said(HTTPStatus.NOT_FOUND, "Not found", str(error), error.ways)
        case KeyError():
            return _said(HTTPStatus.NOT_FOUND, "Not found", "There is no such view.", _sections())
        case Unanswered(by_muster=False, status=HTTPStatus.NOT_FOUND):
            return _said(HTTPStatus.BAD_GATEWAY, "Muster does not answer", f"{error}\n{_AGAIN}")
        case Unanswered() | Refused() if error.status in _TITLES:
            return _said(error.status, _TITLES[error.status], str(error), _sections())
        case MusterError():
            return _said(HTTPStatus.BAD_GATEWAY, "Muster does not answer", f"{error}\n{_AGAIN}")
    what = f"{type(error).__name__}: {error}. This is a fault of Muster."
    return _said(HTTPStatus.INTERNAL_SERVER_ERROR, "Fault", what)


_TITLES: Final = {
    400: "This address asks for what there is not",
    401: "You are not signed in",
    403: "You may not see this",
    404: "Not found",
}


def _said(status: int, title: str, sentence: str, ways: Iterable[Markup] = ()) -> tuple[int, View]:
    main = render("problem.html", title=title, sentence=sentence, ways=list(ways))
    return status, View(title=title, section="", main=main)


def _sections() -> list[Markup]:
    return [link(name, path.removeprefix("/")) for name, path in SECTIONS]
