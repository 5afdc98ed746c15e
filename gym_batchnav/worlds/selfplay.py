"""Self-play: some agents of every world learn, the others follow policies that are given; and ratings of players."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space

POINTS = 400 / np.log(10)  # a player with 400 points more wins ten times as often
_PRIOR = 0.5  # games that every player is taken to have drawn against an average one; keeps ratings finite
_ROUNDS = 10_000

Opponent = Callable[[dict[str, np.ndarray]], np.ndarray]
"""A policy: takes observations [n, ...] by sensor and returns actions [n, ...]."""


class SelfPlay(VectorWrapper):
    """The learners of all worlds as one batch; opponents act for the other agents.

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
        ValueError: Agents do not share worlds, or none or all of them are learners, or no opponent is given.
    """

    def __init__(self, env: VectorEnv, learners: Sequence[bool], opponents: Sequence[Opponent]) -> None:
        super().__init__(env)
        worlds = getattr(env.unwrapped, "worlds", None)
        learns = np.asarray(learners, bool)
        if worlds is None:
            raise ValueError("SelfPlay needs several agents in a world: make the batch with agents_per_world=")
        if learns.shape != (worlds.num_agents,) or learns.all() or not learns.any():
            raise ValueError(
                f"learners={learns.tolist()}: pass one bool for each of the {worlds.num_agents} agents of a world, "
                "some of them True and some False"
            )
        if not opponents:
            raise ValueError("opponents=[]: pass at least one policy for the other agents")
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

        Raises:
            ValueError: Such an option has another shape than [N], or the batch refuses a seed or an option.
        """
        size = len(self.rows) + len(self._others)
        world = np.arange(size) * self._num_worlds // size
        first = world * (len(self.rows) // self._num_worlds)  # the first learner of each agent's world
        if np.ndim(seed) == 1 and len(seed) == len(self.rows):
            seed = [seed[learner] for learner in first]
        options = dict(options or {})
        for name in {"reset_mask", "episode_index"} & options.keys():
            given = np.asarray(options[name])
            if given.shape != (len(self.rows),):
                raise ValueError(f"{name} has shape {given.shape}: pass a value for each of {self.num_envs} learners")
            options[name] = given[first]
            options[name][self.rows] = given
        observation, info = self.env.reset(seed=seed, options=options)
        return self._split(observation), self._learners_of(info)

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Let the learners act by ``actions`` [N, ...] and the others by their policies.

        Returns:
            Observations [N, ...] by sensor, rewards [N] float64, terminated and truncated [N] bool, and infos [N, ...]
            by name, of the learners.

        Raises:
            ValueError: The actions of the learners or of an opponent have another shape or dtype.
        """
        space = self.env.single_action_space
        every = np.zeros((len(self.rows) + len(self._others), *(space.shape or ())), space.dtype)
        every[self.rows] = self._checked(actions, len(self.rows))
        count = len(self.opponents)
        for number, opponent in enumerate(self.opponents):
            here = self._world_of_others % count == number
            if here.any():
                chosen = opponent({name: values[here] for name, values in self._seen.items()})
                every[self._others[here]] = self._checked(chosen, int(here.sum()))
        observation, reward, terminated, truncated, info = self.env.step(every)
        rows = self.rows
        return self._split(observation), reward[rows], terminated[rows], truncated[rows], self._learners_of(info)

    def _checked(self, actions: Any, count: int) -> np.ndarray:
        """Return the actions of some agents; ValueError unless there is one for each, of the space's kind."""
        space = self.env.single_action_space
        actions = np.asarray(actions)
        shape = (count, *(space.shape or ()))
        if actions.shape != shape or not np.can_cast(actions.dtype, np.dtype(space.dtype), "same_kind"):
            raise ValueError(f"actions are {actions.dtype} {actions.shape}: pass {space.dtype} {shape}")
        return actions

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


def ratings(wins: np.ndarray) -> np.ndarray:
    """Return the ratings [P] float64 of players, whose mean is 0: the likeliest in Bradley and Terry's model.

    Player i beats player j with probability ``1 / (1 + 10^((r_j - r_i) / 400))``, as in chess (Elo 1978). They are
    found by the iteration of Hunter (2004, Annals of Statistics 32), and do not depend on the order of the games.

    Args:
        wins: [P, P], games that the row's player has won against the column's; a draw is half a win of both. Players
            need not have met.

    Raises:
        ValueError: It is not a square matrix of finite numbers of at least 0.
    """
    wins = np.asarray(wins, float)
    if wins.ndim != 2 or wins.shape[0] != wins.shape[1] or not (wins >= 0).all() or not np.isfinite(wins).all():
        raise ValueError(f"wins has shape {wins.shape}: pass a square matrix of finite numbers of at least 0")
    count = len(wins)
    games = np.zeros((count + 1, count + 1))  # with an average player of strength 1
    games[:count, :count] = wins + wins.T
    games[:count, count] = _PRIOR * 2
    won = wins.sum(axis=1) + _PRIOR
    np.fill_diagonal(games, 0)
    strength = np.ones(count)
    for _ in range(_ROUNDS):
        every = np.append(strength, 1.0)
        expected = (games[:count] / (strength[:, None] + every)).sum(axis=1)
        new = (won - np.diag(wins)) / expected
        done = np.abs(np.log(new / strength)).max() < 1e-10
        strength = new
        if done:
            break
    rating = POINTS * np.log(strength)
    return rating - rating.mean()
