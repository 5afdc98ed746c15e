"""The learning curve of a run: a file of one JSON line a log interval, and its picture."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gym_batchnav.system.storage import write_atomically

MEASURES = {"success": "#2f7d32", "spl": "#1f5fa8", "soft_spl": "#8a8a8a"}
Row = dict[str, Any]


class Window:
    """What the iterations since the last log line came to, as sums that may be added up over workers."""

    def __init__(self) -> None:
        self.sums: dict[str, float] = {"frames": 0.0, "episodes": 0.0}

    def add(self, frames: int, seconds: Mapping[str, float], losses: Mapping[str, float], episodes: Row) -> None:
        """Take an iteration into account.

        Args:
            frames: Steps of this worker's environments.
            seconds: By part.
            losses: Parts of the loss.
            episodes: [M] by measure, of the episodes that ended.
        """
        count = max((len(values) for values in episodes.values()), default=0)
        new: dict[str, float] = {"frames": frames, "episodes": count}
        new |= {f"seconds/{part}": value for part, value in seconds.items()}
        new |= {f"loss/{name}": value for name, value in losses.items()}
        new |= {f"times/{name}": 1 for name in losses}  # imitation has other losses than PPO
        new |= {f"episodes/{name}": float(values.sum()) for name, values in episodes.items()}
        self.include(new)

    def include(self, sums: Mapping[str, float]) -> None:
        """Add the sums of another window."""
        for name, value in sums.items():
            self.sums[name] = self.sums.get(name, 0.0) + value


def row_of(sums: Mapping[str, float], frames: int, seconds: float, wall: float) -> Row:
    """A line of the curve.

    Args:
        sums: Of a window.
        frames: Since training began.
        seconds: Of training since it began.
        wall: Seconds that the window took.

    Returns:
        frames, seconds, fps, episodes, the means of their measures (None without episodes), losses, and ``parts``:
        microseconds of a frame by part.
    """
    count, microseconds = sums["episodes"], 1e6 / sums["frames"]

    def those(prefix: str) -> dict[str, float]:
        return {name.removeprefix(prefix): value for name, value in sums.items() if name.startswith(prefix)}

    return {
        "frames": frames,
        "seconds": round(seconds, 3),
        "fps": sums["frames"] / wall,
        "episodes": int(count),
        **{name: value / count if count else None for name, value in those("episodes/").items()},
        "losses": {name: value / sums[f"times/{name}"] for name, value in those("loss/").items()},
        "parts": {part: value * microseconds for part, value in those("seconds/").items()},
    }


def append_row(path: Path, row: Row) -> None:
    """Add a line to a curve's file."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def read_rows(path: Path) -> list[Row]:
    """The lines of a curve's file, none if there is no file; a last line that was cut off is left out.

    Raises:
        ValueError: another line is damaged.
    """
    rows: list[Row] = []
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.is_file() else []
    for number, line in enumerate(lines, 1):
        if not line.endswith("\n"):
            break
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError as error:
            raise ValueError(f"'{path}', line {number}, is damaged: mend it or take it out") from error
    return rows


def cut_curve(path: Path, frames: int) -> list[Row]:
    """Take the lines after ``frames`` out of a curve's file, since they are to come again; returns the others."""
    rows = [row for row in read_rows(path) if row["frames"] <= frames]
    write_atomically(path, "".join(json.dumps(row) + "\n" for row in rows).encode())
    return rows


def draw_curve(rows: list[Row], path: Path, title: str) -> None:
    """Draw success and SPL over frames as a PNG; where the follower acted in part, the ground is shaded."""
    from io import BytesIO

    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), dpi=120, layout="constrained")
    axes = figure.add_subplot()
    known = [row for row in rows if row.get("success") is not None]
    millions = [row["frames"] / 1e6 for row in known]
    for name, color in MEASURES.items():
        axes.plot(millions, [row[name] for row in known], color=color, label=name.replace("_", " "))
    led = [row["frames"] / 1e6 for row in rows if row["losses"].get("follower")]
    if led:
        axes.axvspan(0, led[-1], color="#f0e6c8", zorder=0, label="the follower acts in part")
    axes.set(xlabel="million frames", ylim=(0, 1), title=title)
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    picture = BytesIO()
    figure.savefig(picture, format="png")
    write_atomically(path, picture.getvalue())


def flat_numbers(row: Row) -> dict[str, float]:
    """The numbers of a line by names such as ``losses/value``; those that are not known are left out."""
    flat: dict[str, float] = {}
    for name, value in row.items():
        if isinstance(value, dict):
            flat |= {f"{name}/{key}": one for key, one in value.items()}
        elif value is not None:
            flat[name] = value
    return flat
