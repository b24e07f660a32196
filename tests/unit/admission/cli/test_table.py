"""Tables as kubectl prints them."""

from admission.cli.rendering.table import table


def test_no_cell_commands_the_terminal_or_begins_a_line() -> None:
    text = table(["NAME", "WHY"], [["a\x1b[2Jb", "first\nsecond"], ["é└─", None]])
    assert text == "NAME     WHY\na\ufffd[2Jb   first\ufffdsecond\né└─      -\n"
