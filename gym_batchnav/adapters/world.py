"""The agents of one world by name: the common part of the adapters to libraries for several agents."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any, cast

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from gym_batchnav.adapters.base import DEFAULT_ID, Adapter, to_dicts
from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.worlds.api import Team

if TYPE_CHECKING:
    from typing_extensions import Self

Infos = dict[str, dict[str, Any]]
Step = tuple[dict[str, Any], dict[str, float], dict[str, bool], dict[str, bool], Infos]


class OneWorld(Adapter):
    """The agents of one world, ``"agent_0"``, ``"agent_1"``, ..., with values by name.

    An agent leaves ``acting`` when its own episode ends; its info then holds the measures of that episode. If the
    number of agents is drawn for each episode, ``begin`` lists those that take part.

    Args:
        env: A BatchNavEnv of one world with autoreset mode ``"disabled"``, or a Gymnasium vector wrapper around one.

    Attributes:
        batch: The BatchNavEnv; environment i is ``"agent_i"``.
        possible_agents: The names of all agents.
        acting: The names of those whose own episodes have not ended.
        observation_spaces: The spaces of observations by name.
        action_spaces: The spaces of actions by name.
        render_mode: That of the batch.

    Raises:
        ValueError: It is not a batch, has several worlds, or has another autoreset mode.
    """

    _mode = AutoresetMode.DISABLED
    _size = "agents_per_world"

    def __init__(self, env: VectorEnv) -> None:
        self._check_batch(env)
        self.batch = cast(BatchNavEnv, env.unwrapped)
        size = self.batch.config.team.most
        if env.num_envs != size:
            raise ValueError(
                f"a batch of {env.num_envs} with agents_per_world={size} has several worlds, and {self._library} takes "
                f"one: use {type(self).__name__}.make(agents_per_world={size})"
            )
        self._envs = env
        self.render_mode = self.batch.render_mode
        self.possible_agents = [f"agent_{row}" for row in range(size)]
        self.acting: list[str] = []
        self.observation_spaces = {name: deepcopy(env.single_observation_space) for name in self.possible_agents}
        self.action_spaces = {name: deepcopy(env.single_action_space) for name in self.possible_agents}
        self._row = {name: row for row, name in enumerate(self.possible_agents)}

    @classmethod
    def make(  # type: ignore[override]  # the number of agents replaces that of environments
        cls, agents_per_world: int | tuple[int, int] | Team = 2, id: str = DEFAULT_ID, **keywords: Any
    ) -> Self:
        """Make a batch of one world and its adapter.

        Args:
            agents_per_world: The number of agents, or the least and the greatest number, or a Team.
            id: An id that Gymnasium knows; ``"module:id"`` imports the module first.
            keywords: Keywords of BatchNavEnv, except ``num_envs`` and ``autoreset_mode``.

        Raises:
            ValueError: A keyword is wrong, or one of them is ``num_envs`` or ``autoreset_mode``.
        """
        if "num_envs" in keywords:
            raise ValueError(f"{cls.__name__}.make makes one world: leave out num_envs= and pass agents_per_world=")
        team = Team.of(agents_per_world)
        new: Any = cls
        return new(cls._make_batch(team.most, id, agents_per_world=team, **keywords))

    def begin(self, seed: int | None, options: dict[str, Any] | None) -> tuple[dict[str, Any], Infos]:
        """Begin an episode and return the observations and infos of the agents that take part.

        Args:
            seed: Seed of the episodes from now on; None continues their sequence.
            options: Those of the batch; ``{"episode_index": number}`` chooses the episode of the first agent.

        Raises:
            ValueError: A seed or an option is wrong.
            RuntimeError: Every episode has run once, see Episodes.
        """
        if options and isinstance(options.get("episode_index"), (int, np.integer)):
            options = {**options, "episode_index": np.full(self.batch.num_envs, options["episode_index"])}
        observation, info = self._envs.reset(seed=seed, options=options)
        if not self.batch.episodes.valid.all():
            raise RuntimeError("every episode has run once: reset(options={'episode_order': 'once'}) restarts them")
        worlds = self.batch.worlds
        self.acting = self._names(np.ones(self.batch.num_envs, bool) if worlds is None else ~worlds.waiting())
        return self._observations(observation, self.acting), self._infos(info, self.acting)

    def act(self, actions: Mapping[str, Any]) -> Step:
        """Act with all agents that are left.

        Args:
            actions: One action for every name in ``acting``.

        Returns:
            Observations, rewards, terminations, truncations and infos of these agents by name; all are empty if no
            agent is left.

        Raises:
            ValueError: An agent has no action or a wrong one, or one that is not there has one.
        """
        acting = self.acting
        if not acting:
            return {}, {}, {}, {}, {}
        observation, reward, terminated, truncated, info = self._envs.step(self._batched(actions))
        worlds = self.batch.worlds
        if worlds is not None:  # each agent's own end may come before that of its world
            terminated = worlds.state.terminated[0].copy()
            truncated = worlds.state.truncated[0].copy()
        ended = terminated | truncated
        self.acting = self._names(~ended)
        infos = self._infos(info, acting)
        ends = self.batch.components.measure_ends(self.batch.task_state, ended)
        for name in acting:
            if ended[self._row[name]]:
                infos[name].update({key: values[self._row[name]] for key, values in ends.items()})
        rows = [self._row[name] for name in acting]
        return (
            self._observations(observation, acting),
            dict(zip(acting, reward[rows].tolist(), strict=True)),
            dict(zip(acting, terminated[rows].tolist(), strict=True)),
            dict(zip(acting, truncated[rows].tolist(), strict=True)),
            infos,
        )

    def render(self) -> np.ndarray | None:
        """Return the views of all agents side by side, [256, 256 M, 3] uint8; None without a render mode."""
        frames = self.batch.render()
        return None if frames is None else np.concatenate(frames, axis=1)

    def close(self) -> None:
        """Close the batch; idempotent."""
        self._envs.close()

    def _batched(self, actions: Mapping[str, Any]) -> np.ndarray:
        """Return the actions of the batch, with zeros for agents that have left."""
        if set(actions) != set(self.acting):
            raise ValueError(f"actions for {sorted(actions)}: pass one for each of {self.acting}")
        space: Any = self.batch.single_action_space
        kinds = "iu" if isinstance(space, gymnasium.spaces.Discrete) else "iuf"
        batched = np.zeros((self.batch.num_envs, *space.shape), space.dtype)
        for name, action in actions.items():
            given = np.asarray(action)
            if given.shape != space.shape or given.dtype.kind not in kinds:
                raise ValueError(f"action of {name} is {given.dtype} {given.shape}: pass one of {space}")
            batched[self._row[name]] = given
        return batched

    def _names(self, mask: np.ndarray) -> list[str]:
        """Return the names of the agents of a mask [M] bool."""
        return [name for name, chosen in zip(self.possible_agents, mask.tolist(), strict=True) if chosen]

    def _observations(self, observation: Any, names: list[str]) -> dict[str, Any]:
        if isinstance(observation, dict):
            return {name: {key: array[self._row[name]] for key, array in observation.items()} for name in names}
        return {name: observation[self._row[name]] for name in names}

    def _infos(self, info: dict[str, Any], names: list[str]) -> Infos:
        own = {key: values for key, values in info.items() if key != "waiting"}
        rows = np.array([self._row[name] for name in names], np.int64)
        return dict(zip(names, to_dicts(own, rows), strict=True))
