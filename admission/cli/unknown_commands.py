"""The sentence for a command that there is not: what does it here, or which command was meant.

Habits of Slurm, LSF, Volcano and kubectl, and commands that were taken out, are one table.
"""

from collections.abc import Sequence
from typing import Final

#: What to use instead, by program, and by what is typed after it.
_INSTEAD: Final = {
    "muster": {
        "backup": "pg_dump writes backups, and the chart's CronJob runs it (value backup.enabled): see Backup and"
        " restore in docs/how-to/operate.md",
        "restore": "pg_restore restores what pg_dump wrote, and muster migrate brings it to this version: see Restore"
        " in docs/how-to/operate.md",
        "simulate": "recorded traces are played in a checkout of the sources: python -m tests.bench.simulate, see"
        " docs/reference/benchmarks.md",
        "failed-turns": "a turn that could not be decided is a file in failedTurnsDir, and the log line `failed turn"
        " kept` has the command that copies it",
        "pause": "kubectl muster queue pause QUEUE stops the admissions of a queue, and of all where QUEUE is root",
        "resume": "kubectl muster queue resume QUEUE starts the admissions of a queue again",
    },
    "kubectl muster": {
        "squeue, sq, qstat, bjobs, vjobs, list, ls, get, ps, job list": "kubectl muster pending shows what waits,"
        " kubectl muster jobs what runs",
        "sinfo, bhosts, pbsnodes, node, gpus": "kubectl muster nodes shows nodes with GPUs, kubectl muster queues what"
        " each queue uses",
        "sshare, bqueues, vqueues, queue list, queue get, queue show, quota list, quota get": "kubectl muster queues"
        " shows the tree of queues, kubectl muster queues QUEUE one of them",
        "scancel, qdel, bkill, vcancel, delete, rm, kill, stop": "kubectl muster job delete NAME removes"
        " a Job with its pods, kubectl muster job suspend NAME stops it until it is resumed",
        "sacct, history": "kubectl muster jobs --since 7d shows what has ended, kubectl muster usage the GPU-hours",
        "sreport, report, account": "kubectl muster usage shows GPU-hours by queue and user",
        "sbatch, qsub, bsub, vsub, submit, create, apply": "kubectl muster job run NAME -i IMAGE -- COMMAND makes a Job"
        " of equal pods, kubectl apply -f FILE what a document describes",
        "salloc, srun, exec, attach, shell": "kubectl muster job run NAME -i IMAGE -- COMMAND makes a Job, kubectl exec"
        " -it POD -- sh opens a shell in one of its pods",
        "scontrol, sprio, sstat, describe, show, view, status, why, job view": "kubectl muster explain NAME shows"
        " everything about a workload",
        "pause": "kubectl muster queue pause QUEUE stops the admissions of a queue, kubectl muster job suspend NAME"
        " stops a Job",
        "lend, move": "kubectl muster quota lend FROM TO GPUS --until TIME lends quota",
        "top": "kubectl muster queues -w and kubectl muster pending -A -w show the same as it changes, and kubectl"
        " muster page in a browser",
        "jobflow": "kubectl get jobflows and kubectl describe jobflow NAME show a flow with what each of its Jobs"
        " waits for, kubectl muster jobs its Jobs, and kubectl delete jobflow NAME removes it",
        "queue operate, queue update": "kubectl muster queue close, open, pause and resume change what it takes,"
        " kubectl muster quota set its limits",
        "queue retry": "muster plugin retry QUEUE has plug-ins tried again that were set aside",
        "quota move": "kubectl muster quota set FROM --deserved gpu=24, then the same for TO, moves it for good, and"
        " kubectl muster quota lend until a time",
        "quota diff": "kubectl muster quota history QUEUE --since TIME shows each change",
    },
}
#: Groups of commands after which users write a name: what is named, and the command that shows it.
_SHOWN_BY: Final = {
    "queue": ("queue", "kubectl muster queues"),
    "quota": ("queue", "kubectl muster quota show"),
    "job": ("Job", "kubectl muster explain"),
}


def unknown_command(path: str, word: str, known: Sequence[str]) -> str:
    """The sentence. ``path``: how the group is called that ``word`` was looked for in; ``known``: its commands."""
    from difflib import get_close_matches

    from admission.cli.kubectl_muster import kubectl_muster
    from admission.cli.muster import muster

    program = "kubectl muster" if path.startswith("kubectl") else "muster"
    group = path.removeprefix(program).strip()
    called = f"{group} {word}".strip()
    by_habit = {each: text for words, text in _INSTEAD[program].items() for each in words.split(", ")}
    others = {"muster": muster, "kubectl muster": kubectl_muster}
    other, *_ = (name for name in others if name != program)
    if (instead := by_habit.get(called)) is not None:
        pass
    elif alike := get_close_matches(word, known, n=2, cutoff=0.7):
        instead = f"did you mean {' or '.join(f'{path} {each}' for each in alike)}?"
    elif not group and word in others[other].names:
        instead = f"it is {other} {word}"
    else:
        instead = f"{path} --help lists those there are"
        if (shown := _SHOWN_BY.get(group)) is not None:
            instead += f"; if {word} is a {shown[0]}, {shown[1]} {word} shows it"
    return f'muster has no command "{called}": {instead}' + ("" if instead.endswith("?") else ".")
