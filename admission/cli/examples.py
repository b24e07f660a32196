"""Examples of all commands: shown at the end of their help, and in docs/reference/cli.md."""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import click


class Example(NamedTuple):
    """A command line, and what it is for; "": its options say that."""

    line: str
    what: str = ""


class NamedCommand(NamedTuple):
    """A command with the words that call it."""

    name: str
    command: click.Command


#: Examples by the full name of the command.
EXAMPLES: Final[Mapping[str, tuple[Example, ...]]] = {
    "kubectl muster jobs": (
        Example(
            "kubectl muster jobs -n ml --since 2h", "What waits, runs, or has ended in the last two hours"
        ),
        Example("kubectl muster jobs -A --mine --state running"),
    ),
    "kubectl muster pending": (
        Example(
            "kubectl muster pending -A -q team-a", "What waits in a queue and below it, in all namespaces"
        ),
        Example(
            "kubectl muster pending -A -o json | "
            """jq -r '.items | sort_by(.created)[] | [.name, .asks["nvidia.com/gpu"], .reason.code] | @tsv'"""
        ),
    ),
    "kubectl muster explain": (
        Example("kubectl muster explain vcjob/train -n ml"),
        Example("kubectl muster explain train -w", "Follow it until it runs"),
    ),
    "kubectl muster events": (
        Example("kubectl muster events -n ml -w", "The last decisions, again whenever there is one"),
        Example("kubectl muster events -A -q team-a --since 3d --limit 1000"),
    ),
    "kubectl muster who": (Example("kubectl muster who -q team-a"),),
    "kubectl muster queues": (
        Example("kubectl muster queues team-a --resource cpu"),
        Example(
            "kubectl muster queues -o json | "
            """jq -r '.items[] | select(.pending > 0) | "\\(.name)\\t\\(.pending)"'"""
        ),
    ),
    "kubectl muster quota show": (
        Example("kubectl muster quota show team-a --at 2w", "As it was two weeks ago"),
    ),
    "kubectl muster quota set": (
        Example("kubectl muster quota set team-a --deserved gpu=32 --reason 'two more nodes'"),
        Example(
            "kubectl muster quota set team-a --capability gpu= --dry-run server",
            "No limit any more",
        ),
        Example(
            "kubectl muster quota set team-a --max-run-time 72h --max-per-user gpu=16 --dry-run client",
            "What would that end?",
        ),
    ),
    "kubectl muster quota lend": (
        Example("kubectl muster quota lend team-a team-b 8 --until friday --reason 'paper deadline'"),
        Example("kubectl muster quota lend team-a team-b --end", "Before its time"),
    ),
    "kubectl muster quota history": (Example("kubectl muster quota history team-a --since 30d"),),
    "kubectl muster nodes": (
        Example("kubectl muster nodes --racks", "How much is free in each rack"),
        Example("kubectl muster nodes --rack r7 -o wide", "Who is on the nodes of a rack"),
        Example("kubectl muster nodes -l pool=training"),
        Example("kubectl muster nodes --faulty"),
        Example("kubectl muster nodes --wanted", "Which nodes would let waiting gangs start"),
    ),
    "kubectl muster page": (Example("kubectl muster page --port 8089 --no-browser"),),
    "kubectl muster usage": (
        Example("kubectl muster usage --month last --by queue,user"),
        Example("kubectl muster usage --by flavor", "What each kind of GPU was used for, for a bill"),
        Example("kubectl muster usage --from 2026-11-01 --to 2026-11-15 -o csv"),
    ),
    "kubectl muster reserve": (
        Example("kubectl muster reserve team-a --gpus 64 --from 2h --for 4h --dry-run server"),
    ),
    "kubectl muster reservations": (Example("kubectl muster reservations -o wide"),),
    "kubectl muster drain": (
        Example("kubectl muster drain --rack r7 --at 2026-12-01T08:00 --for 2h", "A rack, for two hours"),
    ),
    "kubectl muster undrain": (Example("kubectl muster undrain maintenance-r7"),),
    "kubectl muster try": (
        Example("kubectl muster try -f train.yaml -n ml", "Would it start now, and where?"),
        Example("kubectl muster try --quota team-a.gpu=64", "Who would start, wait or be evicted?"),
    ),
    "kubectl muster version": (Example("kubectl muster version --client"),),
    "kubectl muster job run": (
        Example(
            "kubectl muster job run hello -i busybox:1.37 -r 4 -L nvidia.com/gpu=8 -q team-a -- nvidia-smi"
        ),
    ),
    "kubectl muster job logs": (Example("kubectl muster job logs train -t worker -f --tail 100"),),
    "kubectl muster job suspend": (Example("kubectl muster job suspend train sweep -n ml"),),
    "kubectl muster job resume": (Example("kubectl muster job resume train -n ml"),),
    "kubectl muster job delete": (Example("kubectl muster job delete train -n ml"),),
    "kubectl muster queue create": (
        Example("kubectl muster queue create team-a --deserved gpu=32,cpu=128 -w 2"),
    ),
    "kubectl muster queue close": (Example("kubectl muster queue close team-a"),),
    "kubectl muster queue open": (Example("kubectl muster queue open team-a"),),
    "kubectl muster queue pause": (
        Example("kubectl muster queue pause team-a --reason 'maintenance until noon'"),
    ),
    "kubectl muster queue resume": (Example("kubectl muster queue resume team-a"),),
    "kubectl muster queue delete": (Example("kubectl muster queue delete team-a --yes"),),
    "muster run": (Example("muster run --config muster.yaml --log-level debug"),),
    "muster agent": (Example("muster agent --node-name $(hostname)"),),
    "muster install": (
        Example("muster install --webhook-url https://10.0.0.5:9443 --read-url https://10.0.0.5:8443"),
    ),
    "muster uninstall": (Example("muster uninstall --waiting leave"),),
    "muster migrate": (Example("muster migrate --dsn postgresql://muster@db/muster"),),
    "muster ledger verify": (Example("muster ledger verify"),),
    "muster ledger repair": (Example("muster ledger repair"),),
    "muster ledger show": (Example("muster ledger show"),),
    "muster ledger adopt-cluster": (Example("muster ledger adopt-cluster"),),
    "muster crds": (Example("muster crds | kubectl apply --server-side -f -"),),
    "muster check": (
        Example("muster check queues/ job.yaml"),
        Example("kubectl get queues.scheduling.volcano.sh -o yaml | muster check -"),
    ),
    "muster convert": (Example("muster convert kueue/ > queues.yaml"),),
    "muster pause": (Example("muster pause team-a --reason 'maintenance until noon'"),),
    "muster resume": (Example("muster resume team-a"),),
    "muster snapshot": (Example("muster snapshot --out turn.json"),),
    "muster replay": (Example("muster replay turn.json --all"),),
    "muster page": (Example("muster page --ca-file /etc/muster-page/ca.crt --cluster-name prod"),),
}


def commands_of(group: click.Group, name: str) -> Iterator[NamedCommand]:
    """All commands of a program, groups before what they contain. ``name``: how the program is called."""
    for word, command in group.commands.items():
        full = f"{name} {word}"
        yield NamedCommand(full, command)
        if isinstance(command, click.Group):
            yield from commands_of(command, full)


def add_examples(program: click.Group, name: str) -> None:
    """Let the help of each command end with its examples."""
    for full, command in commands_of(program, name):
        if (epilog := epilog_of(full)) is not None:
            command.epilog = epilog


def epilog_of(full_name: str) -> str | None:
    """The end of the help of a command. None if it has no examples."""
    if not (examples := EXAMPLES.get(full_name)):
        return None
    lines = "".join(f"  {line}\n" for line in example_lines(examples))
    return f"\b\nExamples:\n{lines}"


def example_lines(examples: tuple[Example, ...]) -> list[str]:
    """As a shell reads them: each with what it is for in a comment before it."""
    return [line for each in examples for line in ([f"# {each.what}"] if each.what else []) + [each.line]]
