"""How old an answer of the read API is: shown when it matters, and in the exit code when it is too old to rely on."""

from typing import Final

from admission.cli.rendering.sentences import say
from admission.cli.rendering.table import moment
from admission.read_api.bodies import AgedBody, ExplanationBody
from queues.text_format import short_duration

Aged = AgedBody | ExplanationBody

#: Seconds from which the age of an answer is shown. Answers are some seconds old at any time.
TOLD: Final = 15
#: Seconds from which the exit code says that the answer is too old.
TOO_OLD: Final = 60
#: The exit code then.
OLD: Final = 3


def told_age(body: Aged) -> int:
    """Print the age of an answer to standard error if it is old; the exit code that follows."""
    sentence, code = age_of(body)
    if sentence:
        say(sentence, err=True)
    return code


def age_of(body: Aged) -> tuple[str, int]:
    """The age of an answer as a sentence, "" if it is not old, and the exit code that follows."""
    as_of = body.as_of
    why = f": {body.behind}" if body.behind else ""
    if as_of is None:
        return f"The age of the data is not known{why}.", OLD
    seconds = int((moment(body.now) - moment(as_of)).total_seconds())
    if seconds < TOLD:
        return "", 0
    return f"The data is {short_duration(seconds)} old{why}.", OLD if seconds > TOO_OLD else 0
