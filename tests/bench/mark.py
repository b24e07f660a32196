"""A goal, and what was reached of it."""

from dataclasses import dataclass


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


def _tick(true: bool) -> str:
    return "✓" if true else "✗"
