"""Images of an evaluation: maps with trajectories, and a clip."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from gym_batchnav import viz
from gym_batchnav.env.batch_env import BatchNavEnv
from gym_batchnav.evaluation.agents import Agent

MAP_SIZE = 420  # pixels along the longer side
CLIP_MAP_SIZE = 640
IDEAL_COLOR = (120, 124, 130)  # of the shortest path
CAPTION = 26  # pixels


def film(
    env: BatchNavEnv, agent: Agent, episodes: np.ndarray, num_filmed: int = 0, picture_size: int = 144
) -> viz.Recording:
    """Record an agent in some episodes.

    Args:
        env: A batch of M environments whose autoreset mode is not SAME_STEP.
        agent: The agent.
        episodes: [M] int, the numbers of the episodes.
        num_filmed: Number of episodes, from the first, for which images are recorded.
        picture_size: Side of the recorded images, pixels.

    Raises:
        ValueError: The environment has another autoreset mode.
    """
    agent.reset(env)
    begun = np.ones(env.num_envs, bool)

    def act(observation: dict[str, Any]) -> np.ndarray:
        actions = agent.act(env, observation, begun.copy())
        begun[:] = False
        return actions

    everyone = np.arange(env.num_envs)
    return viz.record_episodes(env, act, indices=everyone, num_filmed=num_filmed, size=picture_size, episodes=episodes)


def trajectories(env: BatchNavEnv, taken: viz.Recording) -> np.ndarray:
    """Draw maps [H, W, 3] of the recorded scenes: each agent's trajectory in colour, and the shortest path in grey."""
    maps = []
    for slot in dict.fromkeys(taken.slots.tolist()):
        here = np.nonzero(taken.slots == slot)[0]
        above = viz.batch_map(env, slot, MAP_SIZE, floor=taken.positions[0, here, 1])
        navmesh = env.simulator.navmesh(slot)
        ideal = [navmesh.shortest_path(taken.positions[0, index], taken.goals[index]) for index in here]
        picture = viz.draw_trajectories(above, ideal, colors=[IDEAL_COLOR], width=2)
        ways = [taken.path(index) for index in here.tolist()]
        picture = viz.draw_trajectories(replace(above, picture=picture), ways, taken.goals[here])
        scores = "  ".join(f"{score:.2f}" for score in taken.spl[here])
        maps.append(_captioned(picture, f"{env.library.name(slot)}   SPL {scores}"))
    return viz.mosaic(np.stack(maps), columns=min(3, len(maps)), gap=8)


def clip(env: BatchNavEnv, taken: viz.Recording) -> list[np.ndarray]:
    """Draw frames [H, W, 3]: the map with the filmed agents beside their views; the agents must share one scene."""
    return viz.episode_clip(env, taken, CLIP_MAP_SIZE)


def _captioned(picture: np.ndarray, text: str) -> np.ndarray:
    """A picture in the middle of a square sheet, with a line of text below."""
    sheet = Image.new("RGB", (MAP_SIZE, MAP_SIZE + CAPTION), viz.BACKGROUND)
    height, width = picture.shape[:2]
    sheet.paste(Image.fromarray(picture), ((MAP_SIZE - width) // 2, (MAP_SIZE - height) // 2))
    ImageDraw.Draw(sheet).text((8, MAP_SIZE + 4), text, fill=viz.INK, font=ImageFont.load_default(15))
    return np.asarray(sheet)
