"""What an evaluation leaves behind: figures, a table of episodes, ways from above and a clip."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

import numpy as np
from gymnasium.vector import AutoresetMode
from PIL import Image, ImageDraw, ImageFont

from gym_batchnav import viz
from gym_batchnav.env import BatchNavEnv
from gym_batchnav.train.agents import Agent
from gym_batchnav.train.evaluate import Episodes, Estimate

MAP_SIZE = 420  # pixels along the longer side
CLIP_MAP_SIZE = 640
MAX_CLIP_FRAMES = 120
IDEAL_COLOR = (120, 124, 130)  # of the shortest path
CAPTION = 26  # pixels


def figures(found: Mapping[str, Estimate]) -> dict[str, float | list[float]]:
    """Estimates for JSON: a mean by its measure's name, and its interval under ``<name>_interval``."""
    result: dict[str, float | list[float]] = {}
    for name, estimate in found.items():
        result[name] = estimate.mean
        result[f"{name}_interval"] = [estimate.low, estimate.high]
    return result


def episode_table(env: BatchNavEnv, results: Mapping[str, Episodes]) -> str:
    """All episodes of all agents as CSV, with the names of agents, scenes and episodes."""
    text = io.StringIO()
    columns = [field.name for field in fields(Episodes) if field.name != "scene_index"]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["agent", "scene", "episode", *columns])
    for agent, episodes in results.items():
        slots, rows = env.simulator.schedule.locate(episodes.episode_index)
        values = [getattr(episodes, name).astype(float).tolist() for name in columns]
        for slot, row, *numbers in zip(slots.tolist(), rows.tolist(), *values, strict=True):
            names = (agent, env.library.name(slot), env.episode_set(slot).ids[row])
            writer.writerow([*names, *(f"{number:.6g}" for number in numbers)])
    return text.getvalue()


@dataclass(frozen=True, slots=True, eq=False)
class Film:
    """What M agents did, each in one episode."""

    slots: np.ndarray  # [M], slots of their scenes
    goals: np.ndarray  # [M, 3], metres
    positions: np.ndarray  # [T + 1, M, 3], metres; who has arrived stays
    headings: np.ndarray  # [T + 1, M], radians
    num_steps: np.ndarray  # [M], steps of each episode
    spl: np.ndarray  # [M]
    pictures: np.ndarray  # [T + 1, F, S, S, 3] uint8, what the first F agents saw

    def path(self, index: int, until: int | None = None) -> np.ndarray:
        """The way [steps, 3] of an agent up to step ``until``, or to its end."""
        last = int(self.num_steps[index])
        return self.positions[: (last if until is None else min(until, last)) + 1, index]


def longest_episodes(episodes: Episodes, num_scenes: int, per_scene: int) -> np.ndarray:
    """The numbers of the episodes with the longest shortest paths in a few scenes, spread over all: scene by scene."""
    scenes = np.unique(episodes.scene_index)
    some = scenes[np.unique(np.linspace(0, len(scenes) - 1, num_scenes).astype(int))]
    numbers = []
    for scene in some:
        rows = np.nonzero(episodes.scene_index == scene)[0]
        order = np.argsort(-episodes.start_distance[rows], kind="stable")
        numbers.append(episodes.episode_index[rows[order[:per_scene]]])
    return np.concatenate(numbers)


def film(env: BatchNavEnv, agent: Agent, episodes: np.ndarray, num_filmed: int = 0, picture_size: int = 144) -> Film:
    """Watch an agent in some episodes.

    Args:
        env: A batch of M environments that begins episodes in the next step.
        agent: Acts.
        episodes: [M] int, the numbers of the episodes.
        num_filmed: Of how many of them, the first ones, to keep what is seen.
        picture_size: Pixels across of what is seen.

    Raises:
        ValueError: the environment is of another autoreset mode.
    """
    if env.autoreset_mode != AutoresetMode.NEXT_STEP:
        raise ValueError(f"autoreset_mode {env.autoreset_mode.name}: a film needs autoreset_mode='next_step'")
    observation, _ = env.reset(options={"episodes": episodes})
    agent.reset(env)
    slots, goals = env.agents.scene.copy(), env.episodes.goal.copy()
    positions, headings = [env.agents.position.copy()], [env.agents.heading.copy()]
    filmed = np.arange(num_filmed)
    pictures = [env.pictures(filmed, picture_size)]
    begun, running = np.ones(env.num_envs, bool), np.ones(env.num_envs, bool)
    num_steps, spl = np.zeros(env.num_envs, np.int64), np.zeros(env.num_envs)
    while running.any():
        observation, _, terminated, truncated, info = env.step(agent.act(env, observation, begun))
        begun = np.zeros(env.num_envs, bool)
        num_steps += running
        positions.append(np.where(running[:, None], env.agents.position, positions[-1]))
        headings.append(np.where(running, env.agents.heading, headings[-1]))
        pictures.append(pictures[-1].copy())
        seeing = filmed[running[filmed]]
        if len(seeing):
            pictures[-1][seeing] = env.pictures(seeing, picture_size)
        ended = running & (terminated | truncated)
        if ended.any():
            spl[ended] = info["spl"][ended]
        running &= ~ended
    return Film(slots, goals, np.stack(positions), np.stack(headings), num_steps, spl, np.stack(pictures))


def trajectories(env: BatchNavEnv, taken: Film) -> np.ndarray:
    """Maps [H, W, 3] of the scenes of a film: each agent's way in colour, from disc to star, the shortest in grey."""
    maps = []
    for slot in dict.fromkeys(taken.slots.tolist()):
        here = np.nonzero(taken.slots == slot)[0]
        above = _map(env, taken, slot, MAP_SIZE)
        navmesh = env.navmesh(slot)
        ideal = [navmesh.shortest_path(taken.positions[0, index], taken.goals[index]) for index in here]
        picture = viz.draw_trajectories(above, ideal, colors=[IDEAL_COLOR], width=2)
        ways = [taken.path(index) for index in here.tolist()]
        picture = viz.draw_trajectories(replace(above, picture=picture), ways, taken.goals[here])
        scores = "  ".join(f"{score:.2f}" for score in taken.spl[here])
        maps.append(_captioned(picture, f"{env.library.name(slot)}   SPL {scores}"))
    return viz.mosaic(np.stack(maps), columns=min(3, len(maps)), gap=8)


def clip(env: BatchNavEnv, taken: Film) -> list[np.ndarray]:
    """Frames [H, W, 3]: the map with the agents that were filmed beside what they see; they share one scene."""
    count = taken.pictures.shape[1]
    slot = int(taken.slots[0])
    above = _map(env, taken, slot, CLIP_MAP_SIZE)
    last = int(taken.num_steps[:count].max())
    stride = max(2, -(-last // MAX_CLIP_FRAMES))
    frames = []
    for step in [*range(0, last, stride), last]:
        ways = [taken.path(index, step) for index in range(count)]
        picture = viz.draw_trajectories(above, ways, taken.goals[:count], width=2)
        picture = viz.draw_agents(picture, above, taken.positions[step, :count], taken.headings[step, :count])
        views = [
            viz.framed(view, viz.PATH_COLORS[index % len(viz.PATH_COLORS)])
            for index, view in enumerate(taken.pictures[step])
        ]
        frames.append(viz.side_by_side([picture, viz.mosaic(np.stack(views), columns=2)]))
    return frames


def _map(env: BatchNavEnv, taken: Film, slot: int, size: int) -> viz.TopDownMap:
    """The scene in a slot from above."""
    floor = float(np.median(taken.positions[0, taken.slots == slot, 1]))
    return viz.scene_map(env.renderer, env.library.scene(slot), slot, size=size, floor=floor)


def _captioned(picture: np.ndarray, text: str) -> np.ndarray:
    """A picture in the middle of a square sheet, with a line of text below."""
    sheet = Image.new("RGB", (MAP_SIZE, MAP_SIZE + CAPTION), viz.BACKGROUND)
    height, width = picture.shape[:2]
    sheet.paste(Image.fromarray(picture), ((MAP_SIZE - width) // 2, (MAP_SIZE - height) // 2))
    ImageDraw.Draw(sheet).text((8, MAP_SIZE + 4), text, fill=viz.INK, font=ImageFont.load_default(15))
    return np.asarray(sheet)
