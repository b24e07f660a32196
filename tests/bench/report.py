"""Figures as people read them: what was reached beside what must be, and what is aimed at."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from tests.bench.rounds import Figures


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What was reached of one goal."""

    name: str
    reached: float
    unit: str
    must: float
    aim: float
    #: Whether more is better.
    upwards: bool

    @property
    def holds(self) -> bool:
        return self.reached >= self.must if self.upwards else self.reached <= self.must

    @property
    def aim_reached(self) -> bool:
        return self.reached > self.aim if self.upwards else self.reached <= self.aim

    def line(self) -> str:
        sign, aim_sign = ("≥", ">") if self.upwards else ("≤", "≤")
        return (
            f"{self.name:<62} {self.reached:8.2f} {self.unit:<3}"
            f" (must) {sign} {self.must:g} {_tick(self.holds)}  (aim) {aim_sign} {self.aim:g} {_tick(self.aim_reached)}"
        )


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-int(len(ordered) * share * 1000) // 1000) - 1)]


def table(rounds: Mapping[str, Sequence[Figures]]) -> str:
    """A line per form: medians over its rounds."""
    head = (
        f"{'':<18}{'pods/s':>8}{'p50 s':>8}{'p95 s':>8}{'p99 s':>8}"
        f"{'Muster MB':>11}{'CPU s':>7}{'Postgres':>10}{'API server':>12}{'all':>7}{'load':>7}"
    )
    return "\n".join([head, *(_row(name, figures) for name, figures in rounds.items())])


def _row(name: str, figures: Sequence[Figures]) -> str:
    def middle(*values: float) -> float:
        return median(values)

    def of(component: str) -> float:
        return middle(*(one.cpu_seconds.get(component, 0.0) for one in figures))

    late = [middle(*(percentile(one.latencies, share) for one in figures)) for share in (0.5, 0.95, 0.99)]
    return (
        f"{name:<18}{middle(*(one.pods_per_second for one in figures)):8.1f}"
        + "".join(f"{value:8.3f}" for value in late)
        + f"{max(one.memory_mb for one in figures):11.1f}{of('muster'):7.1f}{of('postgres'):10.1f}"
        + f"{of('kube-apiserver'):12.1f}{middle(*(sum(one.cpu_seconds.values()) for one in figures)):7.1f}"
        + f"{middle(*(one.load_cpu_seconds for one in figures)):7.1f}"
    )


def throughput(rounds: Mapping[str, Sequence[Figures]], form: str, beside: str) -> Mark:
    """Pods per second beside no admission: the median over pairs."""
    ratios = [
        one.pods_per_second / other.pods_per_second
        for one, other in zip(rounds[form], rounds[beside], strict=True)
    ]
    name = f"{form}: pods/s ÷ {beside} without admission"
    return Mark(name=name, reached=median(ratios), unit="", must=0.7, aim=1.0, upwards=True)


def memory(rounds: Mapping[str, Sequence[Figures]]) -> Mark:
    """The largest of all rounds."""
    largest = max(one.memory_mb for figures in rounds.values() for one in figures)
    return Mark(name="Muster: peak memory", reached=largest, unit="MB", must=250, aim=200, upwards=False)


def latency(rounds: Mapping[str, Sequence[Figures]], form: str, beside: str) -> Mark:
    """Of one gang on an idle cluster, above no admission: the median over pairs of differences of medians."""
    above = [
        (percentile(one.latencies, 0.5) - percentile(other.latencies, 0.5)) * 1000
        for one, other in zip(rounds[form], rounds[beside], strict=True)
    ]
    name = f"{form}, one at a time: p50 above {beside} without admission"
    return Mark(name=name, reached=median(above), unit="ms", must=100, aim=40, upwards=False)


def writes(figures: Figures, gangs: int, users: Sequence[str] = ("muster",)) -> str:
    """Requests per gang, the most frequent first."""
    lines = [
        f"{count / gangs:8.2f}  {what}"
        for what, count in sorted(figures.requests.items(), key=lambda item: -item[1])
        if what.split(" ")[1] not in ("get", "list", "watch") and (not users or what.split(" ")[0] in users)
        if count / gangs >= 0.05
    ]
    return "\n".join(lines)


def _tick(true: bool) -> str:
    return "✓" if true else "✗"
