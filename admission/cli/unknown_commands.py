"""The sentence for a command that there is not: what does it here, or which command was meant.

Habits of Slurm, LSF, Volcano and kubectl, and commands that were taken out, are one table: unknown_commands.toml.
"""

import tomllib
from collections.abc import Sequence
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Final

#: Groups of commands after which users write the name of a queue, and the command that shows it.
_SHOWN_BY: Final = {
    "queue": "kubectl muster queues",
    "quota": "kubectl muster quota show",
}


@cache
def instead_of() -> dict[str, dict[str, str]]:
    """What to use instead, by program, and by what is typed after it."""
    text = files("admission.cli").joinpath("unknown_commands.toml").read_text(encoding="utf-8")
    return {
        program: {called: text for words, text in rows.items() for called in words.split(", ")}
        for program, rows in tomllib.loads(text).items()
    }


def unknown_command(path: str, words: Sequence[str], known: Sequence[str]) -> str:
    """The sentence. ``path``: how the group is called that the first of ``words`` was looked for in; ``known``:
    its commands."""
    from admission.cli.kubectl_muster import kubectl_muster
    from admission.cli.muster import muster

    program = "kubectl muster" if path.startswith("kubectl") else "muster"
    group, word = path.removeprefix(program).strip(), words[0]
    by_habit = instead_of()[program]
    others = {"muster": muster, "kubectl muster": kubectl_muster}
    other, *_ = (name for name in others if name != program)
    both = " ".join(words[:2])
    called = both if not group and both in by_habit else f"{group} {word}".strip()
    if (instead := by_habit.get(called)) is not None:
        pass
    elif alike := get_close_matches(word, known, n=2, cutoff=0.7):
        instead = f"did you mean {' or '.join(f'{path} {each}' for each in alike)}?"
    elif not group and word in others[other].names:
        instead = f"it is {other} {word}"
    else:
        instead = f"{path} --help lists those there are"
        if (shown := _SHOWN_BY.get(group)) is not None:
            instead += f"; if {word} is a queue, {shown} {word} shows it"
    return f'muster has no command "{called}": {instead}' + ("" if instead.endswith("?") else ".")
