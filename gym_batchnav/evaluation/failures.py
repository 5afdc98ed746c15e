"""Why episodes failed, by rules on their measures. The first rule that holds gives the cause.

| cause | rule |
|---|---|
| wrong STOP | STOP was called where it does not succeed |
| collision | obstacles stopped the agent in a quarter of its steps or more |
| loop | the agent took 25 steps or more for each cell of 1 m that it visited |
| other time-out | none of these: the limit of steps was reached on the way |

Most collisions and loops reach the limit of steps, too.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gym_batchnav.evaluation.evaluate import EvaluatedEpisodes
from gym_batchnav.task.api import Measure, Task
from gym_batchnav.task.explore import CellsVisited
from gym_batchnav.task.measures import CollisionsCount, TimedOut

CAUSES: Mapping[str, str] = {
    "wrong_stop": "wrong STOP",
    "collision": "collision",
    "loop": "loop",
    "time_out": "other time-out",
}
COLLISION_SHARE = 0.25  # of the steps
LOOP_STEPS = 25  # for each cell of 1 m
_NEEDED: tuple[Measure, ...] = (TimedOut(), CollisionsCount(), CellsVisited())


def measures_for_causes(task: Task) -> tuple[Measure, ...]:
    """Return the measures that the rules need and a task does not have; none for a task without success."""
    known = {measure.name for measure in task.measures}
    return tuple(measure for measure in _NEEDED if measure.name not in known) if "success" in known else ()


def failure_causes(episodes: EvaluatedEpisodes) -> np.ndarray:
    """Return causes [E] str from ``CAUSES``, empty for a success; ValueError without ``measures_for_causes``."""
    missing = {"success", *(measure.name for measure in _NEEDED)} - episodes.measures.keys()
    if missing:
        raise ValueError(
            f"the episodes have no measure {', '.join(sorted(missing))}: make the environment with "
            "measures=measures_for_causes(task)"
        )
    rules = {
        "": episodes.success.astype(bool),
        "wrong_stop": ~episodes.timed_out.astype(bool),
        "collision": episodes.collisions_count >= COLLISION_SHARE * episodes.num_steps,
        "loop": episodes.num_steps >= LOOP_STEPS * episodes.cells_visited,
    }
    return np.select(list(rules.values()), list(rules), default="time_out")


def count_causes(causes: np.ndarray) -> dict[str, int]:
    """Return the number of episodes of every cause, 0 included."""
    return {cause: int((causes == cause).sum()) for cause in CAUSES}
