"""Draw the pictures of docs/tasks.md, one for each task: python docs/tools/tasks.py [TASK ...]."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from PIL import Image

from gym_batchnav import Action
from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.evaluation.agents import Acting, Agent, ObjectOracleAgent
from gym_batchnav.geometry import polar_goals
from gym_batchnav.viz.clips import episode_clip
from gym_batchnav.viz.recording import record_episodes
from gym_batchnav.viz.sheets import captioned, mosaic, side_by_side

IMAGES = Path(__file__).parents[1] / "images"
SIZE = 300  # pixels of a map


class Walker(Agent):
    """Walks on shortest paths: to places all over the scene, or towards or away from the other agent of a world of two.

    Args:
        together: Agents walk to each other.
        chase: The first agent of each world runs away, the second one walks to it.
    """

    def __init__(self, together: bool = False, chase: bool = False) -> None:
        self._together = together
        self._chase = chase
        self._goals = np.empty((0, 3))

    def act(self, env: BatchNavEnv, observation: Any, begun: np.ndarray) -> np.ndarray:
        """Return a turn to the next corner of each path, or MOVE_FORWARD [N] int64."""
        position = env.agents.position
        corner = position.copy()
        for row in range(env.num_envs):
            path = env.navmesh_of(row).shortest_path(position[row], self._goal(env, row, begun[row]))
            corner[row] = path[min(1, len(path) - 1)] if len(path) else position[row]
        angle = polar_goals(position, env.agents.heading, corner)[:, 1]
        turn = np.where(angle > 0, int(Action.TURN_LEFT), int(Action.TURN_RIGHT))
        return np.where(np.abs(angle) <= np.radians(6), int(Action.MOVE_FORWARD), turn)

    def _goal(self, env: BatchNavEnv, row: int, begins: bool) -> np.ndarray:
        """Return the place to which an agent walks now."""
        position = env.agents.position
        if self._together or (self._chase and row % 2):
            return position[row ^ 1]
        if len(self._goals) != env.num_envs:
            self._goals = np.full((env.num_envs, 3), np.inf)
        near = np.linalg.norm(self._goals[row] - position[row]) < 0.5
        if begins or near or not np.isfinite(self._goals[row]).all():
            rng = np.random.default_rng([row, int(env.episodes.num_steps[row])])
            points = env.navmesh_of(row).random_points(40, rng)
            away = position[row ^ 1] if self._chase else position[row]
            self._goals[row] = points[np.linalg.norm(points - away, axis=1).argmax()]
        return self._goals[row]


# The agent, keywords of the environment, the recorded agents, and the share of the episode that is shown.
TASKS: dict[str, tuple[Acting | None, dict[str, Any], tuple[int, ...], float]] = {
    "PointNav": (None, {}, (0,), 0.7),
    "MultiGoalNav": (None, {}, (0,), 0.7),
    "ObjectNav": (ObjectOracleAgent(), {}, (0,), 1.0),
    "ImageNav": (None, {}, (0,), 0.6),
    "InstanceImageNav": (ObjectOracleAgent(), {}, (0,), 1.0),
    "DroneNav": (None, {"scenes": "procedural:3?area=60&triangles=20000"}, (0,), 0.8),
    "Explore": (Walker(), {"max_episode_steps": 300}, (0,), 1.0),
    "Flee": (Walker(), {"max_episode_steps": 120}, (0,), 1.0),
    "SocialNav": (None, {}, (0,), 0.5),
    "Tag": (Walker(chase=True), {}, (0, 1), 0.6),
    "Rendezvous": (Walker(together=True), {}, (0, 1), 0.7),
}


def draw(task: str) -> np.ndarray:
    """Return a map with the paths of agents, next to their views and, where there is one, the picture of the goal."""
    agent, keywords, indices, share = TASKS[task]
    keywords = {"scenes": "apartment_0", **keywords}
    env = gymnasium.make_vec(f"BatchNav/{task}-v0", num_envs=2, vectorization_mode="vector_entry_point", **keywords)
    batch = env.unwrapped
    assert isinstance(batch, BatchNavEnv)
    observation, _ = batch.reset(seed=1)
    goals = [captioned(observation[key][0], "goal") for key in observation if key.endswith("imagegoal")]
    recording = record_episodes(batch, agent, indices=indices, seed=1)
    frames = episode_clip(batch, recording, size=SIZE, every=1)
    frame = frames[min(len(frames) - 1, int(share * len(frames)))]
    env.close()
    return side_by_side([frame, *(mosaic(goal[None]) for goal in goals)])


def main() -> None:
    """Draw the pictures of the tasks that the command line names, or of all."""
    for task in sys.argv[1:] or TASKS:
        picture = Image.fromarray(draw(task)).quantize(96)
        picture.save(IMAGES / f"task_{task.lower()}.png", optimize=True)
        print(task, picture.size, flush=True)


if __name__ == "__main__":
    main()
