"""Draw the learning of tasks in worlds and in flight: python benchmarks/curves.py FILES --out docs/images/learning.png.

FILES are what benchmarks/tasks.py --out wrote, where files with seeds of the same task are joined, and the folders of
examples/dronenav.py (curve.json) and examples/tag_league.py (ratings.json), one for each seed. Thin lines are seeds,
thick ones their means.
"""

from __future__ import annotations

import argparse
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

COLORS = ("#1f77b4", "#d62728")
NOUNS = {"met": "share of worlds that meet", "success": "success"}


def draw_seeds(axes: Axes, runs: list[tuple[np.ndarray, np.ndarray]], color: str, label: str) -> None:
    """Draw a curve for each seed, steps and values [n], and their mean up to the end of the shortest."""
    for steps, values in runs:
        axes.plot(steps, values, color=color, linewidth=0.7, alpha=0.5)
    end = min(steps[-1] for steps, _ in runs)
    begin = max(steps[0] for steps, _ in runs)
    common = np.linspace(begin, end, 60) if len(runs[0][0]) > 60 else runs[0][0]
    mean = np.mean([np.interp(common, steps, values) for steps, values in runs], axis=0)
    axes.plot(common, mean, color=color, linewidth=2, label=label)


def draw_task(axes: Axes, name: str, results: dict[str, Any]) -> None:
    """Draw the training of a task, with lines at the scores of agents that do not learn."""
    runs = [tuple((np.array(run["curve"]) * [1e-3, 1]).T) for run in results["runs"]]
    draw_seeds(axes, runs, COLORS[0], "PPO")
    for (agent, scores), style in zip(results["agents"].items(), (":", "--"), strict=False):
        axes.axhline(scores[results["measure"]], color="grey", linestyle=style, linewidth=1, label=agent)
    axes.set(
        title=name, xlabel="thousand steps", ylabel=NOUNS.get(results["measure"], results["measure"]), ylim=(0, 1.03)
    )


def draw_drone(axes: Axes, curves: list[list[dict[str, float]]]) -> None:
    """Draw the success of drones in homes that they have not trained in."""
    for measure, color in (("success", COLORS[0]), ("spl", COLORS[1])):
        runs = [
            (np.array([one["steps"] / 1000 for one in curve]), np.array([one[measure] for one in curve]))
            for curve in curves
        ]
        draw_seeds(axes, runs, color, {"spl": "SPL"}.get(measure, measure))
    axes.set(title="DroneNav, unseen homes", xlabel="thousand steps", ylim=(0, 1.03))


def draw_league(axes: Axes, leagues: list[dict[str, Any]]) -> None:
    """Draw the ratings of the generations of Tag."""
    count = leagues[0]["generations"] + 1
    for role, rows, color in (("chasers", slice(count), COLORS[0]), ("runners", slice(count, None), COLORS[1])):
        draw_seeds(axes, [(np.arange(count), np.array(one["ratings"][rows])) for one in leagues], color, role)
    axes.set(title="Tag, unseen homes", xlabel="generation", ylabel="rating", xticks=range(count))


def main() -> None:
    """Draw a panel for each task."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    tasks: dict[str, Any] = {}
    for path in options.files:
        if path.is_file():
            for name, results in json.loads(path.read_text()).items():
                runs = tasks[name]["runs"] if name in tasks else []
                tasks[name] = {**results, "runs": runs + results["runs"]}
    drones = [json.loads((path / "curve.json").read_text()) for path in options.files if (path / "curve.json").exists()]
    leagues = [
        json.loads((path / "ratings.json").read_text()) for path in options.files if (path / "ratings.json").exists()
    ]
    count = len(tasks) + bool(drones) + bool(leagues)
    picture = Figure(figsize=(3.2 * count, 2.7), layout="constrained")
    panels = list(picture.subplots(1, count, squeeze=False)[0])
    for name, results in tasks.items():
        draw_task(panels.pop(0), name, results)
    if drones:
        draw_drone(panels.pop(0), drones)
    if leagues:
        draw_league(panels.pop(0), leagues)
    for axes in picture.axes:
        axes.legend(fontsize="x-small", frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
    file = io.BytesIO()
    picture.savefig(file, format="png", dpi=90)
    Image.open(file).convert("RGB").quantize(64).save(options.out, optimize=True)  # a quarter of the size


if __name__ == "__main__":
    main()
