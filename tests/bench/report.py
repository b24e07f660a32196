"""Figures as people read them: what was reached beside what must be, and what is aimed at."""

from collections.abc import Mapping, Sequence
from statistics import fmean, median

from tests.bench.mark import Mark
from tests.bench.rounds import Figures


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-int(len(ordered) * share * 1000) // 1000) - 1)]


def table(rounds: Mapping[str, Sequence[Figures]]) -> str:
    """A line per form: medians over its rounds.

    The two last columns say what everything together cost per pod, whoever else had the processors meanwhile.
    """
    head = (
        f"{'':<14}{'pods/s':>7}{'p50 s':>8}{'p95 s':>8}{'p99 s':>8}  {'Muster MB':>9}{'CPU s':>6}  {'Postgres':>8}"
        f"  {'load':>4}  {'CPU ms/pod: bound':>17}{'idle':>6}  of which until bound"
    )
    return "\n".join([head, *(_row(name, figures) for name, figures in rounds.items())])


def _row(name: str, figures: Sequence[Figures]) -> str:
    late = [median(percentile(one.latencies, share) for one in figures) for share in (0.5, 0.95, 0.99)]
    until_bound = {
        part: median(one.cpu_until_bound[part] / one.pods * 1000 for one in figures)
        for part in figures[0].cpu_until_bound
    }
    return (
        f"{name:<14}{median(one.pods_per_second for one in figures):7.1f}"
        + "".join(f"{value:8.3f}" for value in late)
        + f"  {max(one.memory_mb for one in figures):9.1f}{_cpu(figures, 'muster'):6.1f}"
        + f"  {_cpu(figures, 'postgres'):8.1f}  {median(one.load_cpu_seconds for one in figures):4.1f}"
        + f"  {sum(until_bound.values()):17.2f}"
        + f"{median(sum(one.cpu_seconds.values()) / one.pods * 1000 for one in figures):6.2f}  "
        + " ".join(f"{part.removeprefix('kube-')} {spent:.2f}" for part, spent in until_bound.items())
    )


def _cpu(figures: Sequence[Figures], part: str) -> float:
    return median(one.cpu_seconds.get(part, 0.0) for one in figures)


def throughput(rounds: Mapping[str, Sequence[Figures]], form: str, beside: str, must: float) -> Mark:
    """Pods per second beside no admission: the median over pairs."""
    ratios = [
        one.pods_per_second / other.pods_per_second
        for one, other in zip(rounds[form], rounds[beside], strict=True)
    ]
    name = f"{form}: pods/s ÷ {beside} without admission"
    return Mark(name=name, reached=median(ratios), unit="", must=must, aim=1.0, upwards=True)


def undisturbed(rounds: Mapping[str, Sequence[Figures]], form: str, beside: str) -> Mark:
    """What is left of the throughput while clients ask the read API: the median over pairs."""
    ratios = [
        one.pods_per_second / other.pods_per_second
        for one, other in zip(rounds[form], rounds[beside], strict=True)
    ]
    return Mark(
        name=f"{form}: pods/s ÷ {beside}", reached=median(ratios), unit="", must=0.95, aim=0.98, upwards=True
    )


def memory(rounds: Mapping[str, Sequence[Figures]]) -> Mark:
    """The largest of all rounds."""
    largest = max(one.memory_mb for figures in rounds.values() for one in figures)
    return Mark(name="Muster: peak memory", reached=largest, unit="MB", must=190, aim=150, upwards=False)


def processor_time(rounds: Mapping[str, Sequence[Figures]], form: str) -> Mark:
    """Of Muster with the processes beside the leader, until all is idle: the median over rounds."""
    name = "Muster: processor time of the burst"
    return Mark(name=name, reached=_cpu(rounds[form], "muster"), unit="s", must=8, aim=6, upwards=False)


def latency(rounds: Mapping[str, Sequence[Figures]], form: str, beside: str) -> Mark:
    """Of one gang on an idle cluster, above no admission: the median over pairs of differences of medians."""
    above = [
        (percentile(one.latencies, 0.5) - percentile(other.latencies, 0.5)) * 1000
        for one, other in zip(rounds[form], rounds[beside], strict=True)
    ]
    name = f"{form}, one at a time: p50 above {beside} without admission"
    return Mark(name=name, reached=median(above), unit="ms", must=30, aim=20, upwards=False)


def stages(seconds: Mapping[str, Sequence[float]]) -> str:
    """A line per stage: milliseconds."""
    lines = [f"{'ms':<36}{'median':>8}{'mean':>8}{'p95':>8}"]
    for name, values in seconds.items():
        figures = (median(values), fmean(values), percentile(values, 0.95))
        lines.append(f"{name:<36}" + "".join(f"{value * 1000:8.0f}" for value in figures))
    return "\n".join(lines)


def spent(cpu: Mapping[str, float], count: int, what: str) -> str:
    """One line: CPU time for each, by component."""
    parts = " ".join(
        f"{part.removeprefix('kube-')} {seconds / count * 1000:.1f}" for part, seconds in cpu.items()
    )
    return f"CPU ms/{what}: {sum(cpu.values()) / count * 1000:.1f}, of which {parts}\n"
