"""The learning curve of a run: a file with one JSON line per log interval, and its plot."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gym_batchnav.system.nested import flattened
from gym_batchnav.system.numbers import is_number
from gym_batchnav.system.storage import write_atomically
from gym_batchnav.system.wording import measure_in_words
from gym_batchnav.task.measures import MAIN_MEASURES

_SHARES = {"success": "#2f7d32", "spl": "#1f5fa8", "soft_spl": "#8a8a8a"}  # measures from 0 to 1, and their colours
Row = dict[str, Any]


@dataclass(slots=True)
class Sums:
    """Sums over iterations, and over workers."""

    frames: int = 0
    episodes: int = 0
    seconds: Counter = field(default_factory=Counter)  # by phase
    losses: Counter = field(default_factory=Counter)  # by term
    iterations: Counter = field(default_factory=Counter)  # by term, since imitation and PPO have different terms
    measures: Counter = field(default_factory=Counter)  # by name, over the episodes that ended

    def add(
        self,
        frames: int,
        seconds: Mapping[str, float],
        losses: Mapping[str, float],
        episodes: Mapping[str, np.ndarray],
    ) -> None:
        """Add an iteration.

        Args:
            frames: Environment steps.
            seconds: By phase.
            losses: Terms of the loss.
            episodes: [M] by measure, of the episodes that ended.
        """
        self.frames += frames
        self.episodes += max((len(values) for values in episodes.values()), default=0)
        self.seconds.update(seconds)
        self.losses.update(losses)
        self.iterations.update(dict.fromkeys(losses, 1))
        self.measures.update({name: float(values.sum()) for name, values in episodes.items()})

    def include(self, other: Sums) -> None:
        """Add the sums of another worker or of other iterations."""
        self.frames += other.frames
        self.episodes += other.episodes
        self.seconds.update(other.seconds)
        self.losses.update(other.losses)
        self.iterations.update(other.iterations)
        self.measures.update(other.measures)


def row_of(sums: Sums, frames: int, seconds: float, wall: float) -> Row:
    """Return a line of the curve.

    Args:
        sums: Sums over the iterations since the previous line.
        frames: Environment steps since the start of the training.
        seconds: Seconds since the start of the training.
        wall: Seconds since the previous line.

    Returns:
        frames, seconds, fps, episodes, the means of their measures (None without episodes), losses, and ``parts``:
        microseconds per frame by phase.
    """
    return {
        "frames": frames,
        "seconds": round(seconds, 3),
        "fps": sums.frames / wall,
        "episodes": sums.episodes,
        **{name: value / sums.episodes if sums.episodes else None for name, value in sums.measures.items()},
        "losses": {name: value / sums.iterations[name] for name, value in sums.losses.items()},
        "parts": {phase: 1e6 * value / sums.frames for phase, value in sums.seconds.items()},
    }


def append_row(path: Path, row: Row) -> None:
    """Append a line to a curve's file."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def read_rows(path: Path) -> list[Row]:
    """Read the lines of a curve's file; none if it does not exist. An incomplete last line is ignored.

    Raises:
        ValueError: A line is damaged.
    """
    rows: list[Row] = []
    lines = path.read_bytes().splitlines(keepends=True) if path.is_file() else []
    for number, line in enumerate(lines, 1):
        if not line.endswith(b"\n"):
            break
        try:
            row = json.loads(line)
            if not is_number(row["frames"]) or not is_number(row["seconds"]):
                raise TypeError("frames and seconds are no numbers")
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ValueError(f"'{path}', line {number}, is damaged: repair or delete the line") from error
        rows.append(row)
    return rows


def cut_curve(path: Path, frames: int) -> list[Row]:
    """Delete the lines after ``frames`` from a curve's file, which a resumed run writes again; return the others."""
    rows = [row for row in read_rows(path) if row["frames"] <= frames]
    write_atomically(path, "".join(json.dumps(row) + "\n" for row in rows).encode())
    return rows


def draw_curve(rows: list[Row], path: Path, title: str, scores: Sequence[str] = MAIN_MEASURES) -> None:
    """Plot scores over frames as a PNG; the background is shaded while the teacher takes some actions.

    Args:
        rows: The lines of the curve.
        path: The file.
        title: Its title.
        scores: The names of the measures; see ``main_measures``. SoftSPL is drawn beside SPL.
    """
    from io import BytesIO

    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), dpi=120, layout="constrained")
    axes = figure.add_subplot()
    are_shares = not _SHARES.keys().isdisjoint(scores)
    for name in _SHARES if are_shares else scores:
        known = [(row["frames"] / 1e6, row[name]) for row in rows if row.get(name) is not None]
        if known:
            axes.plot(*zip(*known, strict=True), color=_SHARES.get(name), label=measure_in_words(name))
    guided = [row["frames"] / 1e6 for row in rows if row["losses"].get("teacher")]
    if guided:
        axes.axvspan(0, guided[-1], color="#f0e6c8", zorder=0, label="the teacher takes some actions")
    axes.set(xlabel="million frames", title=title)
    if are_shares:
        axes.set_ylim(0, 1)
    axes.grid(alpha=0.3)
    if axes.get_legend_handles_labels()[0]:
        figure.legend(loc="outside lower center", ncols=4)  # hides no curve
    picture = BytesIO()
    figure.savefig(picture, format="png")
    write_atomically(path, picture.getvalue())


def flat_numbers(row: Row) -> dict[str, float]:
    """Return the numbers of a line by names such as ``losses/value``, without unknown ones."""
    return {name: value for name, value in flattened(row, "/").items() if value is not None}
