"""Evaluation: run every episode exactly once and return its measures as arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
from gymnasium.vector import VectorEnv

from gym_batchnav.env.batch import BatchNavEnv, batch_of
from gym_batchnav.evaluation.agents import Acting
from gym_batchnav.evaluation.loop import EpisodeLoop
from gym_batchnav.system.numbers import check_counts
from gym_batchnav.system.parts import Part
from gym_batchnav.system.wording import counted

COLUMNS = ("scene_index", "episode_index", "num_steps", "total_reward")  # in addition to the measures
WHOLE = Part()


@dataclass(frozen=True, slots=True, eq=False)
class EvaluatedEpisodes:
    """The results of E episodes, one row each, in the order of their numbers.

    Measures are also attributes: ``episodes.spl``.
    """

    scene_index: np.ndarray  # [E] int64, row of library.names
    episode_index: np.ndarray  # [E] int64, numbered across all scenes, as in the infos
    num_steps: np.ndarray  # [E] int64
    total_reward: np.ndarray  # [E] float64, undiscounted sum
    start_distance: np.ndarray  # [E] float64, geodesic, metres
    measures: dict[str, np.ndarray]  # [E] bool, int64 or float64, by name, at the end of the episode

    def __len__(self) -> int:
        return len(self.episode_index)

    def __getattr__(self, name: str) -> np.ndarray:
        if name == "measures" or name not in self.measures:  # copying looks up "measures" before it exists
            raise AttributeError(f"these episodes have no measure {name!r}: see the keys of .measures")
        return self.measures[name]

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *self.measures})

    def __repr__(self) -> str:
        means = [f"{name}={float(np.mean(values)):.4g}" for name, values in self.measures.items()] if len(self) else []
        return f"{type(self).__name__}({', '.join([counted(len(self), 'episode'), *means])})"


def evaluate(
    env: VectorEnv,
    agent: Acting,
    episodes_per_scene: int | None = None,
    *,
    shard: Part = WHOLE,
    seed: int | None = 0,
    progress: Callable[[int], None] | None = None,
) -> EvaluatedEpisodes:
    """Run every episode exactly once, for any number of environments and any autoreset mode.

    The set of episodes is fixed in advance, because an average over those that end first would favour short ones. Where
    agents share worlds, it is that of each world's first agent; the others, which begin elsewhere, have rows as well.

    Args:
        env: A batch in which all scenes are resident, or a Gymnasium vector wrapper around one. Its episodes restart,
            and its order remains ``"once"``.
        agent: An Agent, or a function from observations to actions [N].
        episodes_per_scene: Run only this many episodes of each scene, the first ones; None runs all.
        shard: Run only this part of the episodes. Every episode gives the same result in whichever shard it runs.
        seed: Seed of the environments, which affects sensor noise; None keeps their seeds.
        progress: Called after a step with the number of episodes that ended in it.

    Raises:
        ValueError: A scene has too few episodes, scenes rotate, or a measure has the name of a column of
            EvaluatedEpisodes.
        TypeError: ``env`` is not a batch, or ``agent`` cannot act.
    """
    batch = batch_of(env)
    selected = shard.of(episode_numbers(batch, episodes_per_scene))
    rows = []
    for ended in run_episodes(env, agent, selected, seed=seed):
        rows.append(ended)
        if progress is not None:
            progress(len(ended["episode_index"]))
    return in_order(batch, rows)


def run_episodes(
    env: VectorEnv, agent: Acting, selected: np.ndarray, *, seed: int | None = 0
) -> Iterator[dict[str, np.ndarray]]:
    """Run the episodes ``selected`` [E] int64 once each, and yield those that ended after every step in which some did.

    Yields:
        Columns [M] of the episodes that ended: scene_index, episode_index, num_steps, total_reward and all measures.
    """
    batch = batch_of(env)
    names = tuple(batch.components.measures)
    taken = {field.name for field in fields(EvaluatedEpisodes)}.intersection(names)
    if taken:
        raise ValueError(f"measures {sorted(taken)}: evaluation uses these names itself; rename the measures")
    if len(selected) == 0:
        return
    loop = EpisodeLoop(env, agent, seed=seed, options={"episode_order": "once", "episodes": selected})
    columns = (*COLUMNS, *names)
    num_left = len(selected)  # each for the first agent of a world
    while num_left:
        step = loop.step()
        if step.ended.any():
            ended = step.ended_episodes()
            num_left -= int((ended["environment"] % batch.config.team.most == 0).sum())
            yield {name: ended[name] for name in columns}


def episode_numbers(env: BatchNavEnv, episodes_per_scene: int | None = None) -> np.ndarray:
    """Return the ascending numbers [E] int64 of all or the first episodes of each scene; ValueError if it has fewer."""
    if episodes_per_scene is not None:
        check_counts(episodes_per_scene=episodes_per_scene)
    numbers = []
    for slot in env.library.active.tolist():
        size = len(env.simulator.episode_set(slot))
        count = size if episodes_per_scene is None else episodes_per_scene
        if count > size:
            raise ValueError(
                f"{counted(count, 'episode')} of scene {env.library.name(slot)!r}, which has only {size}: "
                "pass a smaller episodes_per_scene, or leave out the scene"
            )
        numbers.append(env.simulator.schedule.index(np.full(count, slot), np.arange(count)))
    return np.sort(np.concatenate(numbers))


def in_order(env: BatchNavEnv, rows: Sequence[Mapping[str, np.ndarray]]) -> EvaluatedEpisodes:
    """Return the episodes that ``run_episodes`` yielded in the order of their numbers, with their start distances."""
    names = (*COLUMNS, *env.components.measures)
    measured = {name: np.concatenate([row[name] for row in rows]) if rows else np.empty(0, np.int64) for name in names}
    order = np.argsort(measured["episode_index"], kind="stable")
    slots, inside = env.simulator.schedule.locate(measured["episode_index"][order])
    starts = [env.simulator.episode_set(slot).distance[row] for slot, row in zip(slots.tolist(), inside, strict=True)]
    columns = {name: _widened(values[order]) for name, values in measured.items()}
    measures = {name: columns.pop(name) for name in env.components.measures}
    return EvaluatedEpisodes(**columns, start_distance=np.array(starts, float), measures=measures)


def _widened(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind == "b":
        return values.astype(bool)
    return values.astype(float if values.dtype.kind == "f" else np.int64)
