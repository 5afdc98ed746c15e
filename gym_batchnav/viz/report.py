"""The pictures of an evaluation's report: profiles, maps and a clip of the longest episodes, and failures."""

from __future__ import annotations

import io
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
from gym_batchnav.system.extras import needs_extra
from gym_batchnav.system.storage import write_atomically
from gym_batchnav.system.wording import counted, measure_in_words
from gym_batchnav.viz.clips import SHORTEST_PATH_COLOR, batch_map, episode_clip, shortest_tour, trajectory_maps
from gym_batchnav.viz.floors import storey_at
from gym_batchnav.viz.maps import TopDownMap, draw_agents, draw_trajectories
from gym_batchnav.viz.recording import Recording, record_episodes
from gym_batchnav.viz.sheets import PATH_COLORS, captioned, mosaic, on_square, save_clip, save_picture, side_by_side

SHOWN_SCENES = 6  # on the maps
SHOWN_EPISODES = 4  # per scene; those of the first scene are filmed
SHOWN_FAILURES = 3  # of each cause, on the contact sheet
MIN_SCORES = 3  # runs times scenes, from which profiles are drawn
_MAP = 296  # pixels per side
_VIEWS = 4


def draw_report(comparison: Comparison, out: Path, found: Mapping[str, Any]) -> dict[Path, str]:
    """Draw the pictures of a report into a folder; return a description of each file.

    Args:
        comparison: The comparison, with results.
        out: The folder, which must exist.
        found: What ``evaluation.report.summary`` returned.

    Raises:
        MissingExtraError: Matplotlib is not installed; ``check_figures`` tells beforehand.
    """
    files = {
        "trajectories.png": "trajectories from above, the shortest paths in grey",
        "clip.gif": "the longest episodes of the first scene",
    }
    _draw_longest(comparison, out)
    for name in ("profiles.png", "failures.png"):
        (out / name).unlink(missing_ok=True)  # of an evaluation before this one
    if len(comparison.policies) * len(found["scenes"]) >= MIN_SCORES:
        write_atomically(out / "profiles.png", profiles_png(found["profiles"], found["measure"]))
        files["profiles.png"] = "performance profiles: the share of scores above each threshold"
    if "failures" in found and _draw_failures(comparison, out):
        files["failures.png"] = "failures by cause: map, first, middle and last views"
    return {out / name: description for name, description in files.items()}


def spread_episodes(rows: np.ndarray, count: int) -> np.ndarray:
    """Return up to ``count`` of some rows [M], evenly spread from the first to the last."""
    return rows[np.unique(np.linspace(0, len(rows) - 1, min(count, len(rows))).astype(int))]


def longest_episodes(episodes: EvaluatedEpisodes, num_scenes: int, per_scene: int) -> np.ndarray:
    """Return the numbers [M] int64 of the longest episodes by start distance, in scenes evenly spread over all."""
    scenes = np.unique(episodes.scene_index)
    selected = scenes[np.unique(np.linspace(0, len(scenes) - 1, num_scenes).astype(int))]
    numbers = []
    for scene in selected:
        rows = np.nonzero(episodes.scene_index == scene)[0]
        order = np.argsort(-episodes.start_distance[rows], kind="stable")
        numbers.append(episodes.episode_index[rows[order[:per_scene]]])
    return np.concatenate(numbers)


def _draw_longest(comparison: Comparison, out: Path) -> None:
    """Draw the maps and the clip of the longest episodes."""
    shown = longest_episodes(comparison.results[comparison.policies[0]], SHOWN_SCENES, SHOWN_EPISODES)
    with _recorded(comparison, shown, min(SHOWN_EPISODES, comparison.episodes_per_scene)) as (env, recording):
        save_picture(trajectory_maps(env, recording), out / "trajectories.png")
        save_clip(episode_clip(env, recording), out / "clip.gif", fps=8)


def _draw_failures(comparison: Comparison, out: Path) -> bool:
    """Draw failures of the policy's first run as a contact sheet; return whether there is any."""
    episodes = comparison.results[comparison.policies[0]]
    causes = failure_causes(episodes)
    rows = np.concatenate([spread_episodes(np.nonzero(causes == cause)[0], SHOWN_FAILURES) for cause in CAUSES])
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
    """Record some episodes [M] of the policy's first run in a batch of their own, which is closed afterwards."""
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


def failure_sheet(env: BatchNavEnv, recording: Recording, causes: Sequence[str]) -> np.ndarray:
    """Draw recorded episodes as a contact sheet [H, W, 3] uint8, one tile each.

    A tile has a map with the agent's path and the shortest path in grey, four views from the first to the last, and a
    line with the cause, the number of steps and the distance to the goal at the end.

    Args:
        env: The batch that was recorded.
        recording: M episodes, all filmed.
        causes: M texts.

    Raises:
        ValueError: There is no episode, an episode was not filmed, or there are more or fewer causes.
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
    """Draw one episode on the map of its storey."""
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
