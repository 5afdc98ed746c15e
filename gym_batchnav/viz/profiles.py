"""Performance profiles of several agents as a figure (extra ``[viz]``)."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import numpy as np

from gym_batchnav.system.extras import needs_extra
from gym_batchnav.system.wording import measure_in_words
from gym_batchnav.viz.marks import PATH_COLORS


def check_figures() -> None:
    """Raise an error unless ``profiles_png`` can draw; call it before computing what is to be drawn.

    Raises:
        MissingExtraError: Matplotlib is not installed.
    """
    with needs_extra("viz", "a figure"):
        import matplotlib.figure  # noqa: F401


def profiles_png(profiles: Mapping[str, Any], measure: str) -> bytes:
    """Draw the share of scores above each threshold, with intervals, and return the figure as PNG.

    Args:
        profiles: ``thresholds`` [K]; and by agent ``share`` [K] and ``interval`` [K, 2].
        measure: The name of the measure.

    Raises:
        MissingExtraError: Matplotlib is not installed.
    """
    check_figures()
    from matplotlib.figure import Figure

    made = Figure(figsize=(7, 4), dpi=120, layout="constrained")
    axes = made.add_subplot()
    thresholds = np.asarray(profiles["thresholds"])
    agents = {agent: one for agent, one in profiles.items() if agent != "thresholds"}
    for number, (agent, one) in enumerate(agents.items()):
        color = np.array(PATH_COLORS[number % len(PATH_COLORS)]) / 255
        low, high = np.asarray(one["interval"]).T
        axes.fill_between(thresholds, low, high, color=color, alpha=0.15, linewidth=0)
        axes.plot(thresholds, one["share"], color=color, label=agent.replace("_", " "))
    axes.set(
        xlabel=f"{measure_in_words(measure)} (threshold)", ylabel="share of runs and scenes above", ylim=(-0.02, 1.02)
    )
    axes.grid(alpha=0.3)
    axes.legend()
    picture = io.BytesIO()
    made.savefig(picture, format="png", metadata={"Software": None})
    return picture.getvalue()
