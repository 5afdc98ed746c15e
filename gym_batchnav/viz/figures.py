"""Matplotlib figures of distances, sets of episodes, recordings and scores; needs the extra ``[viz]``.

Figures are not registered with pyplot: display them in a notebook, or call ``savefig``.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import numpy as np

from gym_batchnav.episodes.episode_set import EpisodeSet
from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.system.extras import needs_extra
from gym_batchnav.system.wording import counted, measure_in_words
from gym_batchnav.viz.fields import FIELD_COLORS, draw_field, farthest, geodesic_field
from gym_batchnav.viz.maps import TopDownMap, draw_trajectories, navmesh_map
from gym_batchnav.viz.recording import Recording
from gym_batchnav.viz.sheets import PATH_COLORS

with needs_extra("viz", "a figure"):
    from matplotlib import figure
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, Normalize

_METRES = "{} (m)"


class Figure(figure.Figure):
    """A Matplotlib figure that displays itself in notebooks."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", bbox_inches="tight", metadata={"Software": None})
        return buffer.getvalue()


def field_figure(
    navmesh: NavMesh,
    goal: np.ndarray,
    top_down: TopDownMap | None = None,
    contour: float = 1.0,
    title: str = "Geodesic distance to the goal",
    width: float = 7.5,
) -> Figure:
    """Draw the geodesic distance to a goal as colours, with a colour bar in metres and lines of equal distance.

    Args:
        navmesh: The navmesh of the scene.
        goal: [3], metres.
        top_down: The map to draw on; a map of the navmesh on the goal's storey if not given.
        contour: Metres between lines; 0 for none.
        title: The title.
        width: Width in inches.
    """
    top_down = top_down or navmesh_map(navmesh, height=float(np.asarray(goal).reshape(3)[1]))
    field = geodesic_field(navmesh, goal, top_down)
    picture = draw_trajectories(draw_field(top_down, field, contour), [np.asarray(goal)[None]], np.asarray(goal)[None])
    height, across = (side / top_down.pixels_per_metre for side in picture.shape[:2])
    left, top = top_down.origin
    made = Figure(figsize=(width, width * min(1.4, height / across) + 0.6), layout="constrained")
    axes = made.subplots()
    axes.imshow(picture, extent=(left, left + across, top + height, top), interpolation="antialiased")
    axes.set(xlabel=_METRES.format("x"), ylabel=_METRES.format("z"), title=title)
    colors = LinearSegmentedColormap.from_list("distance", [tuple(color / 255) for color in FIELD_COLORS])
    scale = ScalarMappable(Normalize(0, farthest(field)), colors)
    label = _METRES.format("distance")
    made.colorbar(scale, ax=axes, label=f"{label}; grey: unreachable" if np.isinf(field).any() else label, shrink=0.8)
    return made


def episodes_figure(episodes: EpisodeSet, title: str = "", width: float = 9.0) -> Figure:
    """Draw the distribution of a set of episodes: distances, detours, starts and goals.

    Args:
        episodes: The episodes of one scene.
        title: The title.
        width: Width in inches.
    """
    made = Figure(figsize=(width, width / 3), layout="constrained")
    lengths, detours, places = made.subplots(1, 3)
    color = _rgb(1)
    lengths.hist(episodes.distance, bins=30, color=color)
    lengths.set(xlabel=_METRES.format("geodesic distance"), ylabel="episodes")
    straight = np.linalg.norm(episodes.goal - episodes.start, axis=1)
    detours.hist(episodes.distance / np.maximum(straight, 1e-6), bins=30, color=color)
    detours.set(xlabel="geodesic / straight distance", ylabel="episodes")
    for points, name, index in ((episodes.start, "starts", 1), (episodes.goals, "goals", 0)):
        places.scatter(points[:, 0], points[:, 2], s=4, alpha=0.5, color=_rgb(index), label=name)
    places.set(xlabel=_METRES.format("x"), ylabel=_METRES.format("z"), aspect="equal")
    places.invert_yaxis()
    places.legend(fontsize="small", markerscale=2, ncols=2, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1))
    made.suptitle(title or counted(len(episodes), "episode"))
    return made


def strip_figure(recording: Recording, index: int = 0, count: int = 6, width: float = 10.0) -> Figure:
    """Draw one episode: the agent's view at some steps, and below it the distance to the goal at every step.

    Args:
        recording: A recording with filmed agents.
        index: The index of the agent among the filmed ones.
        count: Number of images.
        width: Width in inches.

    Raises:
        ValueError: The agent was not filmed.
    """
    if not 0 <= index < recording.num_filmed:
        raise ValueError(
            f"index={index}, but the number of filmed agents is {recording.num_filmed}: record more with num_filmed="
        )
    last = int(recording.num_steps[index])
    steps = np.unique(np.linspace(0, last, count).round().astype(int))
    rows = len(recording.pictures)
    made = Figure(figsize=(width, width / len(steps) * rows + 2.2), layout="constrained")
    grid = made.add_gridspec(rows + 1, len(steps), height_ratios=[*[1.0] * rows, 1.2])
    for row, pictures in enumerate(recording.pictures.values()):
        for column, step in enumerate(steps.tolist()):
            axes = made.add_subplot(grid[row, column])
            axes.imshow(pictures[step, index])
            axes.set_axis_off()
            if row == 0:
                axes.set_title(f"step {step}", fontsize="small")
    below = made.add_subplot(grid[rows, :])
    below.plot(recording.distances[: last + 1, index], color=_rgb(1))
    below.plot(steps, recording.distances[steps, index], "o", color=_rgb(0))
    below.set(xlabel="step", ylabel=_METRES.format("to the goal"), ylim=(0, None), xlim=(0, max(1, last)))
    title = counted(last, "step")
    if np.isfinite(recording.spl[index]):
        outcome = "reached" if recording.success[index] else "not reached"
        title = f"goal {outcome} after {title}, SPL {recording.spl[index]:.2f}"
    below.set_title(title, fontsize="small")
    return made


def profiles_figure(profiles: Mapping[str, Any], measure: str) -> Figure:
    """Draw the share of scores above each threshold, with intervals.

    Args:
        profiles: ``thresholds`` [K]; and by agent ``share`` [K] and ``interval`` [K, 2].
        measure: The name of the measure.
    """
    made = Figure(figsize=(7, 4), dpi=120, layout="constrained")
    axes = made.subplots()
    thresholds = np.asarray(profiles["thresholds"])
    agents = {agent: one for agent, one in profiles.items() if agent != "thresholds"}
    for number, (agent, one) in enumerate(agents.items()):
        color = _rgb(number % len(PATH_COLORS))
        low, high = np.asarray(one["interval"]).T
        axes.fill_between(thresholds, low, high, color=color, alpha=0.15, linewidth=0)
        axes.plot(thresholds, one["share"], color=color, label=agent.replace("_", " "))
    threshold = f"{measure_in_words(measure)} (threshold)"
    axes.set(xlabel=threshold, ylabel="share of runs and scenes above", ylim=(-0.02, 1.02))
    axes.grid(alpha=0.3)
    axes.legend()
    return made


def _rgb(index: int) -> tuple[float, float, float]:
    red, green, blue = PATH_COLORS[index]
    return red / 255, green / 255, blue / 255
