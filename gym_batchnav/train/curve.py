"""Learning curves: a file with one JSON line per log interval, its plot, and figures of several runs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gym_batchnav.system.extras import needs_extra
from gym_batchnav.system.nested import flattened
from gym_batchnav.system.numbers import check_choice, is_number
from gym_batchnav.system.storage import write_atomically
from gym_batchnav.system.wording import measure_in_words
from gym_batchnav.task.measures import MAIN_MEASURES
from gym_batchnav.train.config import FILE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SHARES = {"success": "#2f7d32", "spl": "#1f5fa8", "soft_spl": "#8a8a8a"}  # measures from 0 to 1, and their colours
FRAMES = "frames"
HOURS = "hours"
AXES = (FRAMES, HOURS)
NUM_POINTS = 200  # of a mean over seeds
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
        self, frames: int, seconds: Mapping[str, float], losses: Mapping[str, float], episodes: Mapping[str, np.ndarray]
    ) -> None:
        """Add an iteration: seconds by phase, losses by term, and measures [M] of the episodes that ended."""
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
        for name in ("seconds", "losses", "iterations", "measures"):
            getattr(self, name).update(getattr(other, name))


def row_of(sums: Sums, frames: int, seconds: float, wall: float) -> Row:
    """Return a line of the curve: frames, seconds, fps, episodes, the means of their measures, losses and ``parts``.

    ``sums`` and ``wall`` seconds are those since the previous line, ``frames`` and ``seconds`` those since the start of
    the training. Means are None without episodes; ``parts`` are microseconds per frame by phase.
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
    """Read the lines of a curve's file, if it exists, except an incomplete last one; ValueError for a damaged line."""
    rows: list[Row] = []
    lines = path.read_bytes().splitlines(keepends=True) if path.is_file() else []
    for number, line in enumerate(lines, 1):
        if not line.endswith(b"\n"):
            break
        try:
            row = json.loads(line)
            integers = (value for value in row.values() if type(value) is int)  # which may be too large for a float
            if not all(map(is_number, (row["frames"], row["seconds"], *integers))):
                raise TypeError("frames, seconds and integers must be finite numbers")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
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

    Scores are names of measures, see ``main_measures``; SoftSPL is drawn with SPL.
    """
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
    _save(figure, path)


def flat_numbers(row: Row) -> dict[str, float]:
    """Return the numbers of a line by names such as ``losses/value``, without unknown ones."""
    return {name: value for name, value in flattened(row, "/").items() if value is not None}


@dataclass(frozen=True, eq=False)
class Curve:
    """A learning curve."""

    name: str  # of the run's folder
    settings: str  # of the run, without its seed; runs that share them are drawn as one curve
    x: np.ndarray  # [R] float64, million frames or hours
    y: np.ndarray  # [R] float64, the measure
    rows: Sequence[Row]  # the lines of its log


def read_curve(folder: str | Path, measure: str, by: str) -> Curve:
    """Read the curve of a run.

    Raises:
        FileNotFoundError: The folder has no run.
        ValueError: Its log is damaged or lacks the measure, or ``by`` is not one of ``AXES``.
    """
    folder = Path(folder)
    check_choice("by", by, AXES)
    file = folder / "curve.jsonl"
    if not file.is_file():
        raise FileNotFoundError(f"there is no run in '{folder}': pass the --out of a training")
    rows = read_rows(file)
    known = [row for row in rows if isinstance(row.get(measure), (int, float))]
    if not known:
        names = sorted({name for row in rows for name, value in row.items() if isinstance(value, (int, float))})
        remedy = f"choose one of {', '.join(names)}" if names else "it has no lines yet"
        raise ValueError(f"'{file}' has no measure {measure!r}: {remedy}")
    x = [row["frames"] / 1e6 if by == FRAMES else row["seconds"] / 3600 for row in known]
    return Curve(folder.resolve().name, _settings(folder), np.array(x), np.array([row[measure] for row in known]), rows)


def draw_curves(curves: Sequence[Curve], path: Path, measure: str, by: str) -> None:
    """Draw curves into a PNG; runs that differ in their seed alone become a mean with the range of the seeds.

    Raises:
        MissingExtraError: Matplotlib is not installed.
        OSError: The file cannot be written.
    """
    with needs_extra("train", "a figure of learning curves"):
        from matplotlib.figure import Figure
    figure = Figure(figsize=(8, 4.5), dpi=120, layout="constrained")
    axes = figure.add_subplot()
    for group in grouped(curves):
        x, seeds = _on_common_axis(group)
        more = f" and {len(group) - 1} more seeds" if len(group) > 1 else ""
        (line,) = axes.plot(x, seeds.mean(0), label=group[0].name + more)
        if len(group) > 1:
            axes.fill_between(x, seeds.min(0), seeds.max(0), color=line.get_color(), alpha=0.2, linewidth=0)
    axes.set(xlabel="million frames" if by == FRAMES else "hours", ylabel=measure_in_words(measure))
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    _save(figure, path)


def grouped(curves: Sequence[Curve]) -> list[list[Curve]]:
    """Return the curves of runs with equal settings together, in the order in which they first appear."""
    groups: dict[str, list[Curve]] = {}
    for curve in curves:
        groups.setdefault(curve.settings, []).append(curve)
    return list(groups.values())


def _on_common_axis(group: Sequence[Curve]) -> tuple[np.ndarray, np.ndarray]:
    """Return positions [P] that all curves of a group cover, and their values [curves, P] there."""
    if len(group) == 1:
        return group[0].x, group[0].y[None]
    first, last = max(one.x[0] for one in group), min(one.x[-1] for one in group)
    if first > last:
        names = ", ".join(one.name for one in group)
        raise ValueError(
            f"the runs {names} differ only in their seed, but their curves do not overlap: draw them separately"
        )
    x = np.linspace(first, last, NUM_POINTS)
    return x, np.stack([np.interp(x, one.x, one.y) for one in group])


def _settings(folder: Path) -> str:
    """Return the settings of a run without its seed as a string; those of a run without a file are its own."""
    try:
        stored: dict[str, Any] = json.loads((folder / FILE).read_text(encoding="utf-8"))["settings"]
        stored.pop("seed")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return str(folder.resolve())
    return json.dumps(stored, sort_keys=True)


def _save(figure: Figure, path: Path) -> None:
    picture = BytesIO()
    figure.savefig(picture, format="png")
    write_atomically(path, picture.getvalue())
