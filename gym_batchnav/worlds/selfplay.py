"""Self-play: some agents of every world learn, the others follow policies that are given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space

Opponent = Callable[[dict[str, np.ndarray]], np.ndarray]
"""A policy: takes observations [n, ...] by sensor and returns actions [n, ...]."""


class SelfPlay(VectorWrapper):
    """The learners of every world as a batch of their own; opponents act for the other agents.

    Worlds take turns with the opponents: world w plays against opponent w modulo their number. Replace the list
    ``opponents`` at any time, for example by policies of the past.

    Args:
        env: A batch of worlds (``agents_per_world=``), which may be wrapped.
        learners: Whether each agent of a world [M] bool is a learner.
        opponents: The policies of the others.

    Attributes:
        opponents: The policies of the others.
        rows: [N] int, the environments of the batch that learn.

    Raises:
        ValueError: Agents do not share worlds, or none or all of them are learners, or there is no opponent.
    """

    def __init__(self, env: VectorEnv, learners: Sequence[bool], opponents: Sequence[Opponent]) -> None:
        super().__init__(env)
        worlds = getattr(env.unwrapped, "worlds", None)
        learns = np.asarray(learners, bool)
        if worlds is None:
            raise ValueError("SelfPlay needs several agents in a world: make the batch with agents_per_world=")
        if learns.shape != (worlds.num_agents,) or learns.all() or not learns.any():
            raise ValueError(
                f"learners={list(learners)}: pass one bool for each of the {worlds.num_agents} agents of a world, some "
                "of them True"
            )
        if not opponents:
            raise ValueError("opponents=[]: pass a policy for the other agents")
        self.opponents = list(opponents)
        self._num_worlds = worlds.num_worlds
        mask = np.tile(learns, worlds.num_worlds)
        self.rows = np.nonzero(mask)[0]
        self._others = np.nonzero(~mask)[0]
        self._world_of_others = self._others // worlds.num_agents
        self._seen: dict[str, np.ndarray] = {}
        self.observation_space = batch_space(env.single_observation_space, self.num_envs)
        self.action_space = batch_space(env.single_action_space, self.num_envs)

    @property
    def num_envs(self) -> int:  # type: ignore[override]
        """The number of learners."""
        return len(self.rows)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode in every world.

        A number is the seed of the whole batch. Of a sequence with one seed per learner, each world takes the first of
        its learners. Options with a value per learner, ``reset_mask`` and ``episode_index``, are the others' too.
        """
        size = len(self.rows) + len(self._others)
        first = np.arange(size) * self._num_worlds // size * (len(self.rows) // self._num_worlds)  # learner of a world
        if isinstance(seed, (list, tuple)) and len(seed) == len(self.rows):
            seed = [seed[learner] for learner in first]
        options = dict(options or {})
        for name in {"reset_mask", "episode_index"} & options.keys():
            given = np.asarray(options[name])
            if given.shape != (len(self.rows),):
                raise ValueError(f"{name} has shape {given.shape}: pass a value for each of {len(self.rows)} learners")
            options[name] = given[first]
            options[name][self.rows] = given
        observation, info = self.env.reset(seed=seed, options=options)
        return self._split(observation), self._learners_of(info)

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Let the learners act by ``actions`` and the others by their policies."""
        space = self.env.single_action_space
        every = np.zeros((len(self.rows) + len(self._others), *(space.shape or ())), space.dtype)
        every[self.rows] = actions
        count = len(self.opponents)
        for number, opponent in enumerate(self.opponents):
            here = self._world_of_others % count == number
            if here.any():
                every[self._others[here]] = opponent({name: values[here] for name, values in self._seen.items()})
        observation, reward, terminated, truncated, info = self.env.step(every)
        rows = self.rows
        return self._split(observation), reward[rows], terminated[rows], truncated[rows], self._learners_of(info)

    def _split(self, observation: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Keep what the others see, and return what the learners see."""
        self._seen = {name: values[self._others] for name, values in observation.items()}
        return {name: values[self.rows] for name, values in observation.items()}

    def _learners_of(self, info: dict[str, Any]) -> dict[str, Any]:
        """Return the learners' rows of infos, which may be nested."""
        return {
            name: self._learners_of(values) if isinstance(values, dict) else values[self.rows]
            for name, values in info.items()
        }
