"""EpisodeChooser: which episodes agents begin next."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gym_batchnav.episodes.draws import episode_key, name_key
from gym_batchnav.episodes.episode_set import EpisodeSet
from gym_batchnav.episodes.schedule import EpisodeSchedule
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.state import EpisodeState
from gym_batchnav.worlds.worlds import Worlds


class EpisodeChooser:
    """Chooses the next episodes of agents: those of the schedule, or those that are requested.

    If several agents share a world, the schedule chooses the episode of the first one. The others begin in the same
    scene, where there is room.

    Args:
        library: The scenes.
        schedule: Chooses scenes and episodes.
        worlds: The worlds that agents share; None if each agent is alone.
        episodes: The current episodes, for the seeds and counts of the agents.
        episode_set: Returns the episodes of the scene in a slot.
    """

    def __init__(
        self,
        library: SceneLibrary,
        schedule: EpisodeSchedule,
        worlds: Worlds | None,
        episodes: EpisodeState,
        episode_set: Callable[[int], EpisodeSet],
    ) -> None:
        self._library = library
        self._schedule = schedule
        self._worlds = worlds
        self._episodes = episodes
        self._episode_set = episode_set
        self._size = 1 if worlds is None else worlds.num_agents

    def choose(self, indices: np.ndarray, requested: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Choose episodes for agents, or for the first agents of their worlds.

        Args:
            indices: [M] int, the agents, ascending; all of each world.
            requested: [M] int, the episodes to run, see ``Simulator.begin_episodes``; None for the next ones.

        Returns:
            Slots and rows, of the first agents that have an episode; and whether each agent has one, [M] bool.

        Raises:
            ValueError: A scene has fewer episodes, or only some agents of a world are given.
        """
        lanes = indices if self._worlds is None else self._worlds.of_rows(indices)
        first = lanes * self._size
        if requested is None:
            state = self._episodes
            slot, row, found = self._schedule.draw(lanes, state.seed[first], state.count[first])
            return slot[found], row[found], np.repeat(found, self._size)
        slot, row = self._locate(first, lanes, requested[:: self._size])
        return slot, row, np.ones(len(indices), bool)

    def complete(
        self, indices: np.ndarray, slot: np.ndarray, row: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the slots, rows and noise keys of agents ``indices`` [M], from the slots and rows of ``choose``.

        The agents' counts must be those of the new episodes.
        """
        first = indices[:: self._size]
        keys = self._noise_keys(first, slot, row)
        if self._worlds is None:
            return slot, row, keys
        rows = self._worlds.choose_rows(first // self._size, slot, row, keys)
        noise = episode_key(np.repeat(keys, self._size), indices % self._size)
        noise[:: self._size] = keys
        return np.repeat(slot, self._size), rows.ravel(), noise

    def _locate(self, indices: np.ndarray, lanes: np.ndarray, requested: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the slots and rows [M] of the episodes ``requested`` [M] for the agents ``indices`` [M]."""
        if not self._library.rotates:
            return self._schedule.locate(requested)
        slot = self._schedule.slot(lanes, self._episodes.count[indices])
        sizes = np.array([len(self._episode_set(one)) for one in slot.tolist()])
        if (requested >= sizes).any():
            index = int((requested >= sizes).argmax())
            raise ValueError(
                f"episode_index[{indices[index]}] = {requested[index]}: environment {indices[index]} enters scene "
                f"{self._library.name(slot[index])!r}, which has episodes 0 to {sizes[index] - 1}"
            )
        return slot, requested

    def _noise_keys(self, indices: np.ndarray, slot: np.ndarray, row: np.ndarray) -> np.ndarray:
        """Return the keys [M] uint64 of the noise of agents ``indices`` [M] in their new episodes."""
        state = self._episodes
        if self._schedule.order == "once":  # the environment that runs an episode depends on N
            return named_episode_keys(self._library, state.seed[:1], slot, row)
        return episode_key(state.seed[indices], state.count[indices])


def named_episode_keys(library: SceneLibrary, seed: np.ndarray, slot: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Return keys [M] uint64 of episodes that depend on the seed, the names of their scenes and their rows alone.

    Args:
        library: The scenes.
        seed: [1] or [M] uint64.
        slot: [M] int, the slots of the scenes.
        row: [M] int, the rows of the episodes in their scenes.
    """
    names = np.array([name_key(library.name(one)) for one in slot.tolist()], np.uint64)
    return episode_key(episode_key(seed, names), row)
