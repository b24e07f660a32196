"""How far a workload came when, as a table."""

from admission.cli.rendering.stages import Stage, stages_text


def stage(name: str, second: int, after: float | None, admission: int | None = None) -> Stage:
    at = f"2026-11-21T08:00:{second:02}.250Z"
    return {"stage": name, "at": at, "afterSeconds": after, "admission": admission}


def test_of_one_admission_no_number_is_shown() -> None:
    shown = stages_text([stage("created", 0, None), stage("admitted", 9, 192.4, 7)], wide=False)

    assert shown.splitlines() == [
        "STAGE      TIME                   TOOK",
        "created    2026-11-21T08:00:00Z   -",
        "admitted   2026-11-21T08:00:09Z   waited 3m12s",
    ]


def test_of_several_admissions_the_last_two_are_shown_and_all_where_there_is_room() -> None:
    stages = [stage("created", 0, None), *(stage("bound", n, 0.44, n) for n in (7, 8, 9))]

    assert stages_text(stages, wide=False).splitlines() == [
        "ADMISSION   STAGE     TIME                   TOOK",
        "        -   created   2026-11-21T08:00:00Z   -",
        "        8   bound     2026-11-21T08:00:08Z   +0.4s",
        "        9   bound     2026-11-21T08:00:09Z   +0.4s",
        "1 earlier admission: -o wide shows them",
    ]
    assert "        7   bound     2026-11-21T08:00:07.250Z   +0.4s" in stages_text(stages, wide=True)


def test_the_trace_of_each_admission_is_below_the_table() -> None:
    one = {**stage("bound", 7, 0.44, 7), "trace": "ab" * 16}
    other = {**stage("bound", 8, 0.44, 8), "trace": "cd" * 16}
    created = {**stage("created", 0, None), "trace": None}

    assert stages_text([created, one], wide=False).splitlines()[-1] == f"trace: {'ab' * 16}"
    assert stages_text([created, one, other], wide=False).splitlines()[-2:] == [
        f"trace of admission 7: {'ab' * 16}",
        f"trace of admission 8: {'cd' * 16}",
    ]
    third = {**stage("bound", 9, 0.44, 9), "trace": "ef" * 16}
    assert "trace of admission 7" not in stages_text([created, one, other, third], wide=False)


def test_nothing_is_shown_of_what_is_not_known() -> None:
    assert stages_text([], wide=True) == ""
