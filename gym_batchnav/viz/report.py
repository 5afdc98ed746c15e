"""The pictures of an evaluation's report: profiles, maps and a clip of some episodes, and failures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.evaluation.comparison import Comparison
from gym_batchnav.evaluation.evaluate import EvaluatedEpisodes
from gym_batchnav.evaluation.failures import CAUSES, failure_causes
from gym_batchnav.system.storage import write_atomically
from gym_batchnav.system.wording import counted
from gym_batchnav.viz.clips import SHORTEST_PATH_COLOR, batch_map, episode_clip, shortest_tour, trajectory_maps
from gym_batchnav.viz.floors import storey_at
from gym_batchnav.viz.maps import TopDownMap, draw_agents, draw_trajectories
from gym_batchnav.viz.recording import Recording, record_episodes
from gym_batchnav.viz.sheets import (
    PATH_COLORS,
    captioned,
    evenly_spread,
    mosaic,
    on_square,
    save_clip,
    save_picture,
    side_by_side,
)

SHOWN_SCENES = 6  # on the maps
SHOWN_EPISODES = 4  # per scene; those of the first scene are filmed
SHOWN_FAILURES = 3  # of each cause, on the contact sheet
MIN_SCORES = 3  # runs times scenes, from which profiles are drawn
_MAP = 296  # pixels per side
_VIEWS = 4


def draw_report(comparison: Comparison, out: Path, found: Mapping[str, Any]) -> dict[Path, str]:
    """Draw the pictures of a report into a folder; return a description of each file.

    ``found`` is what ``evaluation.report.summary`` returned.

    Raises:
        MissingExtraError: Matplotlib is not installed; ``check_figures`` tells beforehand.
    """
    files = {
        "trajectories.png": "trajectories from above, the shortest paths in grey",
        "clip.gif": "episodes of the first scene, from the nearest goal to the farthest",
    }
    _draw_episodes(comparison, out)
    for name in ("profiles.png", "failures.png"):
        (out / name).unlink(missing_ok=True)  # of an evaluation before this one
    if len(comparison.policies) * len(found["scenes"]) >= MIN_SCORES:
        from gym_batchnav.viz.figures import profiles_figure

        write_atomically(out / "profiles.png", profiles_figure(found["profiles"], found["measure"])._repr_png_())
        files["profiles.png"] = "performance profiles: the share of scores above each threshold"
    if "failures" in found and _draw_failures(comparison, out):
        files["failures.png"] = "failures by cause: map, first, middle and last views"
    return {out / name: description for name, description in files.items()}


def spread_episodes(episodes: EvaluatedEpisodes, num_scenes: int, per_scene: int) -> np.ndarray:
    """Return the numbers [M] int64 of episodes evenly spread by start distance, in scenes evenly spread over all."""
    numbers = []
    for scene in evenly_spread(np.unique(episodes.scene_index), num_scenes):
        rows = np.nonzero(episodes.scene_index == scene)[0]
        order = np.argsort(episodes.start_distance[rows], kind="stable")
        numbers.append(episodes.episode_index[rows[evenly_spread(order, per_scene)]])
    return np.concatenate(numbers)


def _draw_episodes(comparison: Comparison, out: Path) -> None:
    episodes = comparison.results[comparison.policies[0]]
    shown = spread_episodes(episodes, SHOWN_SCENES, SHOWN_EPISODES)
    in_first = int((episodes.scene_index == episodes.scene_index.min()).sum())
    with _recorded(comparison, shown, min(SHOWN_EPISODES, in_first)) as (env, recording):
        save_picture(trajectory_maps(env, recording), out / "trajectories.png")
        save_clip(episode_clip(env, recording), out / "clip.gif", fps=8)


def _draw_failures(comparison: Comparison, out: Path) -> bool:
    """Draw failures of the policy's first run as a contact sheet; return whether there is any."""
    episodes = comparison.results[comparison.policies[0]]
    causes = failure_causes(episodes)
    rows = np.concatenate([evenly_spread(np.nonzero(causes == cause)[0], SHOWN_FAILURES) for cause in CAUSES])
    if not len(rows):
        return False
    with _recorded(comparison, episodes.episode_index[rows]) as (env, recording):
        told = [CAUSES[cause] for cause in causes[rows].tolist()]
        save_picture(failure_sheet(env, recording, told), out / "failures.png")
    return True


@contextmanager
def _recorded(
    comparison: Comparison, shown: np.ndarray, num_filmed: int | None = None
) -> Iterator[tuple[BatchNavEnv, Recording]]:
    """Record some episodes [M] of the policy's first run in a separate batch, which is closed afterwards."""
    env = BatchNavEnv(
        len(shown), **comparison.keywords, library=comparison.env.library, renderer=comparison.env.renderer.name
    )
    try:
        agent = comparison.agents[comparison.policies[0]]
        seed = comparison.asked.seed
        indices = np.arange(len(shown))
        yield env, record_episodes(env, agent, indices=indices, num_filmed=num_filmed, seed=seed, episodes=shown)
    finally:
        env.close()


def check_figures() -> None:
    """Raise MissingExtraError unless figures can be drawn; call it before computing what is to be drawn."""
    import gym_batchnav.viz.figures  # noqa: F401


def failure_sheet(env: BatchNavEnv, recording: Recording, causes: Sequence[str]) -> np.ndarray:
    """Draw recorded episodes as a contact sheet [H, W, 3] uint8, one tile each.

    A tile has a map with the agent's path and the shortest path in grey, four views from the first to the last, and a
    line with the cause, the number of steps and the distance to the goal at the end.

    Raises:
        ValueError: ``recording`` has no episodes, an episode was not filmed, or the number of causes differs.
    """
    count = len(recording.slots)
    if not count or len(causes) != count or recording.num_filmed != count:
        raise ValueError(
            f"{count} recorded episodes, {recording.num_filmed} of them filmed, and {len(causes)} causes: pass one or "
            "more episodes, film all of them, and name a cause for each"
        )
    maps: dict[tuple[int, float | None], TopDownMap] = {}  # by slot and floor
    tiles = []
    for index, cause in enumerate(causes):
        slot = int(recording.slots[index])
        heights = recording.path(index)[:, 1]
        floor, _ = storey_at(env.simulator.navmesh(slot), heights)
        if (slot, floor) not in maps:
            maps[slot, floor] = batch_map(env, slot, _MAP, floor=heights)
        tiles.append(_tile(env, recording, index, cause, maps[slot, floor]))
    return mosaic(np.stack(tiles), columns=2 if count > 1 else 1, gap=8)


def _tile(env: BatchNavEnv, recording: Recording, index: int, cause: str, above: TopDownMap) -> np.ndarray:
    slot = int(recording.slots[index])
    last = int(recording.num_steps[index])
    path = recording.path(index)
    goals = recording.tours[index]
    shortest = shortest_tour(env.simulator.navigation(slot), path[0], goals)
    picture = draw_trajectories(above, [shortest], colors=[SHORTEST_PATH_COLOR], width=2)
    picture = draw_trajectories(replace(above, picture=picture), [path], [goals], colors=[PATH_COLORS[0]], width=2)
    picture = draw_agents(picture, above, recording.positions[last, index][None], recording.headings[last, index][None])
    steps = np.linspace(0, last, _VIEWS).round().astype(int).tolist()
    views = mosaic(np.stack([on_square(recording.view(index, step), _MAP // 2) for step in steps]), columns=2)
    left = float(recording.distances[last, index])
    text = f"{cause}: {env.library.name(slot)}, {counted(last, 'step')}, {left:.1f} m from the goal"
    return captioned(side_by_side([on_square(picture, _MAP), views]), text)
