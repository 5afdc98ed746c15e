"""The demonstration of ``gym-batchnav demo``: step a batch for a while, then draw some of its agents."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.evaluation.loop import EpisodeLoop
from gym_batchnav.state import NUM_ACTIONS, Action
from gym_batchnav.system.wording import counted
from gym_batchnav.viz.clips import batch_map, episode_clip, flight_sections
from gym_batchnav.viz.maps import draw_trajectories
from gym_batchnav.viz.recording import Recording, record_episodes
from gym_batchnav.viz.sheets import evenly_spread, mosaic, save_clip, save_picture, stacked

RANDOM_SHARE = 8  # every eighth agent acts at random
SHOWN_AGENTS = 6  # in the clip and on the map
SHOWN_DISTANCE = 5.0  # metres from start to goal: long enough to see, short enough for a clip
MOSAIC_VIEWS = 36
_MOSAIC_PIXELS = 128
_MAP_PIXELS = 900
_CLIP_MAP_PIXELS = 640


def demonstrate(
    env: BatchNavEnv, seconds: float, seed: int = 0, progress: Callable[[float, float], None] | None = None
) -> dict[str, Any]:
    """Step a batch for a while: most agents follow shortest paths, every eighth acts at random.

    It is reset and stepped once before the clock starts, which compiles all kernels. ``progress`` is called after each
    step with the share of the time that has passed, 0 to 1, and the frames/s so far.

    Returns:
        Figures for JSON: ``fps``, ``success`` and ``spl`` of the followers (None if no episode ended), ``episodes``,
        ``steps``, ``num_envs``, and ``parts`` (milliseconds per step, by phase).
    """
    agent = _MostlyFollowers(seed)
    EpisodeLoop(env, agent, seed=seed).step()
    loop = EpisodeLoop(env, agent, seed=seed)
    env.timings.update(dict.fromkeys(env.timings, 0.0))
    agent.seconds = 0.0
    success: list[float] = []
    spl: list[float] = []
    num_steps = 0
    started = time.perf_counter()
    while (passed := time.perf_counter() - started) < seconds or num_steps == 0:
        step = loop.step()
        num_steps += 1
        ended = step.ended_episodes()
        follower = ~agent.at_random[ended["environment"]]
        if follower.any():
            success += ended["success"][follower].astype(float).tolist()
            spl += ended["spl"][follower].tolist()
        if progress is not None:
            progress(min(1.0, passed / seconds), env.num_envs * num_steps / (time.perf_counter() - started))
    stepping = time.perf_counter() - started - agent.seconds
    timings = {"policy": agent.seconds, **env.timings}
    return {
        "fps": env.num_envs * num_steps / stepping,
        "spl": float(np.mean(spl)) if spl else None,
        "success": float(np.mean(success)) if success else None,
        "episodes": len(spl),
        "steps": num_steps,
        "num_envs": env.num_envs,
        "parts": {part: 1000 * spent / num_steps for part, spent in timings.items()},
    }


def draw_demonstration(env: BatchNavEnv, folder: Path) -> dict[Path, str]:
    """Write a mosaic of views, and a map and a clip of a few followers in one scene; return a description of each file.

    The batch has been reset.
    """
    viewed = evenly_spread(np.arange(env.num_envs), MOSAIC_VIEWS)
    save_picture(mosaic(env.pictures(viewed, _MOSAIC_PIXELS)), folder / "mosaic.png")
    slot = int(env.library.active[0])
    episodes = _episodes_to_show(env, slot)
    # If scenes rotate, episodes are numbered within their scene, and every K-th environment begins in the first one.
    every = len(env.library.active) if len(env.library.names) > len(env.library.active) else 1
    shown = BatchNavEnv(
        every * len(episodes),
        library=env.library,
        renderer=env.renderer,
        camera=env.cameras.rig.first,
        task=env.task,
        actions=env.actions,
    )
    try:
        indices = every * np.arange(len(episodes))
        recording = record_episodes(shown, indices=indices, episodes=np.repeat(episodes, every))
        save_picture(_paths(shown, recording, slot), folder / "map.png")
        save_clip(episode_clip(shown, recording, _CLIP_MAP_PIXELS), folder / "clip.gif", fps=8)
    finally:
        shown.close()
    paths = f"paths of {counted(len(episodes), 'agent')}"
    return {
        folder / "mosaic.png": f"views of {len(viewed)} of the agents",
        folder / "map.png": f"{paths} in {env.library.name(slot)}, from disc to star",
        folder / "clip.gif": "the same agents with their views",
    }


class _MostlyFollowers:
    """Shortest-path followers, except that every eighth agent acts at random and never stops."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.seconds = 0.0  # spent on choosing actions

    def reset(self, env: BatchNavEnv) -> None:
        """Restart the random numbers."""
        self._rng = np.random.default_rng(self._seed)
        self.at_random = np.arange(env.num_envs) % RANDOM_SHARE == RANDOM_SHARE - 1

    def act(self, env: BatchNavEnv, observation: Any, begun: np.ndarray) -> np.ndarray:
        """Return the next actions, [N] int64 or as ``env.action_space`` states."""
        started = time.perf_counter()
        actions = env.shortest_path_actions()
        space = env.single_action_space
        count = int(self.at_random.sum())
        if isinstance(space, Discrete):
            actions[self.at_random] = self._rng.integers(Action.STOP + 1, NUM_ACTIONS, count)
        else:
            actions[self.at_random] = self._rng.uniform(-1, 1, (count, *(space.shape or ())))
        self.seconds += time.perf_counter() - started
        return actions


def _episodes_to_show(env: BatchNavEnv, slot: int) -> np.ndarray:
    """Return the numbers [M] of the episodes in a slot whose shortest paths are closest to ``SHOWN_DISTANCE``."""
    deviation = np.abs(env.simulator.episode_set(slot).distance - SHOWN_DISTANCE)
    rows = np.argsort(deviation, kind="stable")[:SHOWN_AGENTS]
    return env.simulator.schedule.index(np.full(len(rows), slot), rows)


def _paths(env: BatchNavEnv, recording: Recording, slot: int) -> np.ndarray:
    """Draw a map [H, W, 3] of the scene with the paths of all recorded agents; flights also from the side."""
    paths = [recording.path(index) for index in range(len(recording.slots))]
    above = batch_map(env, slot, _MAP_PIXELS, recording.positions[0, :, 1])
    maps = [above, *flight_sections(env, slot, paths, _MAP_PIXELS)]
    return stacked([draw_trajectories(one, paths, recording.tours) for one in maps])
