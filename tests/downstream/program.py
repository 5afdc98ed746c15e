"""A typed program of a user: an own sensor, measure and task; a batch, its evaluation, pictures and a stream."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Space
from typing_extensions import assert_type

import gym_batchnav
from gym_batchnav import Action, BatchNavEnv, Camera, Measure, PointNav, Scene, Sensor, Task, TaskState, load_scene, viz
from gym_batchnav.evaluation.agents import ShortestPathAgent
from gym_batchnav.evaluation.evaluate import EvaluatedEpisodes, evaluate
from gym_batchnav.state import AgentState
from gym_batchnav.stream.stream import BatchStream, StreamSettings

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Clearance(Sensor):
    """Distance to the nearest wall, metres.

    Attributes:
        reach: Longest distance that it tells, metres.
    """

    reach: float = 2.0
    name = "clearance"

    @property
    def space(self) -> Space[Any]:  # type: ignore[override]  # made of a field
        return Box(0, self.reach, (1,), np.float32)

    def observe(self, state: TaskState) -> Floats:
        metres = np.zeros((state.num_envs, 1), np.float32)
        for navmesh, rows in state.by_scene():
            metres[rows, 0] = np.nan_to_num(navmesh.distance_to_obstacle(state.agents.position[rows]))
        return np.minimum(metres, np.float32(self.reach))


@dataclass(frozen=True)
class StepsNearWalls(Measure):
    """The number of steps of an episode that ended near a wall."""

    name = "steps_near_walls"
    at_end = True

    def buffers(self, num_envs: int) -> dict[str, np.ndarray[Any, Any]]:
        return {"near_walls": np.zeros(num_envs, np.int64)}

    def update(self, state: TaskState, actions: npt.NDArray[Any], active: npt.NDArray[np.bool_]) -> None:
        state.buffers["near_walls"] += active & (state.reading("clearance")[:, 0] < 0.3)

    def measure(self, state: TaskState) -> npt.NDArray[np.int64]:
        return state.buffers["near_walls"]


class Stroll(Task):
    """Walk away from walls until the time is over."""

    sensors = (Clearance(),)
    measures = (StepsNearWalls(),)

    def reward(self, state: TaskState, measures: Mapping[str, npt.NDArray[Any]]) -> Floats:
        clearance: Floats = state.reading("clearance")[:, 0]
        return clearance


def walk_by_gymnasium() -> None:
    """Make a batch by its id and step it."""
    envs = gymnasium.make_vec(
        "BatchNav/PointNav-v0", num_envs=4, scenes="apartments", camera=Camera(16, 16, hfov_deg=90), renderer="embree"
    )
    observation, info = envs.reset(seed=0)
    observation, reward, terminated, truncated, info = envs.step(np.full(4, Action.MOVE_FORWARD))
    print(observation["depth"].shape, reward.sum(), (terminated | truncated).any(), info["distance_to_goal"])
    envs.close()


def stroll() -> None:
    """Make a batch with an own task and read its state."""
    env = BatchNavEnv(3, task=Stroll(), sensors=(), max_episode_steps=5)
    observation, info = env.reset(seed=1)
    assert_type(env.agents, AgentState)
    assert_type(env.num_envs, int)
    for _ in range(5):
        observation, reward, _, truncated, info = env.step(np.full(3, Action.MOVE_FORWARD))
    assert truncated.all()  # so that the infos hold measures of whole episodes
    print(observation["clearance"].shape, reward.mean(), info["steps_near_walls"], env.agents.position[0])
    env.close()


def evaluated(scene: Path) -> EvaluatedEpisodes:
    """Evaluate an agent in a scene."""
    env = BatchNavEnv(2, scenes=scene, sensors=(), task=PointNav(success_distance=0.3))
    episodes = evaluate(env, ShortestPathAgent(), episodes_per_scene=3)
    env.close()
    return assert_type(episodes, EvaluatedEpisodes)


def draw(folder: Path) -> None:
    """Write a map of a batch."""
    env = BatchNavEnv(2, sensors=("rgb",), camera={"front": Camera(16, 16)}, renderer="embree")
    env.reset(seed=0)
    drawn = viz.batch_map(env, slot=int(env.agents.slot[0]), size=64)
    viz.save_picture(drawn.picture, folder / "map.png")
    env.close()


def learn() -> None:
    """Take a minibatch from a stream."""
    environment = {"num_envs": 4, "camera": Camera(8, 8), "renderer": "embree"}
    settings = StreamSettings(batch_size=4, sequence_length=2, capacity=8, min_samples=4)
    with BatchStream(environment, settings) as stream:
        minibatch = next(stream)
    print({name: values.shape for name, values in minibatch.items()})


def main(scene: Path, folder: Path) -> None:
    """Do all of it with a scene, and write into a folder."""
    print(gym_batchnav.__version__)
    loaded: Scene = load_scene(scene)
    print(loaded.name, len(loaded.triangles))
    walk_by_gymnasium()
    stroll()
    print(evaluated(scene).success.mean())
    draw(folder)
    learn()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
