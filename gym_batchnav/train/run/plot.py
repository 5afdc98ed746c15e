"""Comparing the learning curves of several runs in one figure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from gym_batchnav.system.extras import needs_extra
from gym_batchnav.system.storage import write_atomically
from gym_batchnav.system.wording import measure_in_words
from gym_batchnav.train.run.log import Row, read_rows
from gym_batchnav.train.run.settings import FILE

FRAMES = "frames"
HOURS = "hours"
AXES = (FRAMES, HOURS)
NUM_POINTS = 200  # of a mean over seeds
SEED = "seed"


@dataclass(frozen=True, eq=False)
class Curve:
    """A learning curve.

    Attributes:
        name: Name of the run's folder.
        settings: Settings of the run, without its seed; runs that share them are drawn as one curve.
        x: [R] float64, million frames or hours.
        y: [R] float64, the measure.
        rows: The lines of its log.
    """

    name: str
    settings: str
    x: np.ndarray
    y: np.ndarray
    rows: Sequence[Row]


def read_curve(folder: Path, measure: str, by: str) -> Curve:
    """Read the curve of a run.

    Raises:
        FileNotFoundError: The folder has no run.
        ValueError: Its log is damaged or has no such measure.
    """
    file = folder / "curve.jsonl"
    if not file.is_file():
        raise FileNotFoundError(f"there is no run in '{folder}': pass the --out of a training")
    rows = read_rows(file)
    known = [row for row in rows if isinstance(row.get(measure), (int, float))]
    if not known:
        names = sorted({name for row in rows for name, value in row.items() if isinstance(value, (int, float))})
        raise ValueError(f"'{file}' has no measure {measure!r}: choose one of {', '.join(names) or 'none yet'}")
    x = [row["frames"] / 1e6 if by == FRAMES else row["seconds"] / 3600 for row in known]
    return Curve(folder.resolve().name, _settings(folder), np.array(x), np.array([row[measure] for row in known]), rows)


def draw_curves(curves: Sequence[Curve], path: Path, measure: str, by: str) -> None:
    """Draw curves into a PNG; runs that differ in their seed alone become a mean with the range of the seeds.

    Raises:
        MissingExtraError: Matplotlib is not installed.
        OSError: The file cannot be written.
    """
    with needs_extra("train", "plot"):
        from matplotlib.figure import Figure
    figure = Figure(figsize=(8, 4.5), dpi=120, layout="constrained")
    axes = figure.add_subplot()
    for group in grouped(curves):
        x, seeds = _on_common_axis(group)
        (line,) = axes.plot(x, seeds.mean(0), label=_label(group))
        if len(group) > 1:
            axes.fill_between(x, seeds.min(0), seeds.max(0), color=line.get_color(), alpha=0.2, linewidth=0)
    axes.set(xlabel="million frames" if by == FRAMES else "hours", ylabel=measure_in_words(measure))
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    picture = BytesIO()
    figure.savefig(picture, format="png")
    write_atomically(path, picture.getvalue())


def grouped(curves: Sequence[Curve]) -> list[list[Curve]]:
    """Return the curves of runs with equal settings together, in the order in which they first appear."""
    groups: dict[str, list[Curve]] = {}
    for curve in curves:
        groups.setdefault(curve.settings, []).append(curve)
    return list(groups.values())


def _label(group: Sequence[Curve]) -> str:
    """Return the name of a group of runs in the legend."""
    return group[0].name if len(group) == 1 else f"{group[0].name} and {len(group) - 1} more seeds"


def _on_common_axis(group: Sequence[Curve]) -> tuple[np.ndarray, np.ndarray]:
    """Return positions [P] that all curves of a group cover, and their values [curves, P] there."""
    if len(group) == 1:
        return group[0].x, group[0].y[None]
    first, last = max(one.x[0] for one in group), min(one.x[-1] for one in group)
    if first > last:
        names = ", ".join(one.name for one in group)
        raise ValueError(f"the runs {names} differ in their seed alone, but have no range in common: plot them apart")
    x = np.linspace(first, last, NUM_POINTS)
    return x, np.stack([np.interp(x, one.x, one.y) for one in group])


def _settings(folder: Path) -> str:
    """Return the settings of a run without its seed as a text; those of a run without a file are its own."""
    try:
        stored: dict[str, Any] = json.loads((folder / FILE).read_text(encoding="utf-8"))
        stored["settings"].pop(SEED)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return str(folder.resolve())
    return json.dumps(stored, sort_keys=True)
