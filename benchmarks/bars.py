"""Figures and their targets, as several benchmarks print them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """A figure and its target."""

    what: str
    figure: float | None  # None: not measured
    bar: float = 0.0  # 0: none
    calibration: float = 0.0  # Mop/s; 0: not measured
    at_most: bool = False  # the figure must be at most the bar, not at least
    note: str = ""

    @property
    def met(self) -> bool:
        """Return whether the figure meets its target."""
        return self.figure is not None and (self.figure <= self.bar if self.at_most else self.figure >= self.bar)

    def __str__(self) -> str:
        """Return a line of the table."""
        figure = "-" if self.figure is None else f"{self.figure:,.0f}" if self.bar > 10 else f"{self.figure:.3f}"
        bar = f"{'<=' if self.at_most else '>='} {self.bar:,g}" if self.bar else ""
        verdict = "met" if self.met else "NOT MET" if self.figure is not None else "not measured"
        speed = f"{self.calibration:.0f}" if self.calibration else ""
        return f"{self.what:<64}{figure:>9}  {bar:<9} {verdict if bar else '':<13}{speed:>5}  {self.note}".rstrip()
