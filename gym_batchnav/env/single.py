"""SingleEnv: a batch of one as a plain Gymnasium environment, for tools that need an Env."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, cast

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode, VectorEnv

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.env.card import ProtocolCard, make_card
from gym_batchnav.env.config import Scenes
from gym_batchnav.env.ids import IDS, make_batch
from gym_batchnav.protocols import protocol_of
from gym_batchnav.worlds.api import Team

NO_LIMIT = 2**31 - 1  # steps: the counter of an episode is an int32


class SingleEnv(gymnasium.Env):
    """A single agent as a Gymnasium environment.

    In the same scene and with seed s + i, it behaves like environment i of a batch with seed s. The infos of every step
    hold all measures, including those that a batch reports only at the end of an episode (``success``, ``spl``): their
    values are those of an episode that ends now, as in Habitat.

    If ``gymnasium.make`` makes it by an id with ``max_episode_steps``, a TimeLimit truncates, whose limit is not passed
    on; the environment then has no limit itself, unless a protocol sets one. Otherwise it truncates as the batch does.

    Args:
        name: The name of ``BatchNav/<name>-v0``; None for a BatchNavEnv without an id's defaults.
        **kwargs: Keywords of BatchNavEnv except ``num_envs`` and ``autoreset_mode``.

    Raises:
        ValueError: The task has several agents, or ``gymnasium.make`` made the environment with a protocol whose limit
            of steps is not that of the id.

    Attributes:
        batch: The BatchNavEnv of one environment.
    """

    metadata: dict[str, Any] = BatchNavEnv.metadata

    def __init__(self, name: str | None = None, **kwargs: Any) -> None:
        is_team = name is not None and not IDS[name].is_single
        if is_team or Team.of(kwargs.get("agents_per_world", 1)).most > 1:
            raise ValueError("several agents in a world: use gymnasium.make_vec, or an adapter to PettingZoo or RLlib")
        for keyword in ("num_envs", "autoreset_mode"):
            if keyword in kwargs:
                raise ValueError(f"{keyword}={kwargs[keyword]!r}: make a batch with gymnasium.make_vec instead")
        if kwargs.get("library") is None:
            kwargs["scenes"] = replace(Scenes.of(kwargs.get("scenes")), deterministic_rotation=True)
        self._has_limit = "max_episode_steps" in kwargs
        self._spec: EnvSpec | None = None
        make = BatchNavEnv if name is None else partial(make_batch, name)
        self._envs: VectorEnv = make(1, autoreset_mode=AutoresetMode.DISABLED, **kwargs)
        self.batch = cast(BatchNavEnv, self._envs.unwrapped)
        self.observation_space = self._envs.single_observation_space
        self.action_space = self.batch.single_action_space
        self.render_mode = self.batch.render_mode

    @property
    def spec(self) -> EnvSpec | None:
        """The entry in Gymnasium's registry; None unless ``gymnasium.make`` made the environment."""
        return self._spec

    @spec.setter
    def spec(self, spec: EnvSpec | None) -> None:
        """Store the spec that ``gymnasium.make`` sets, and leave the step limit to its TimeLimit if the id has one."""
        self._spec = spec
        known = None if spec is None or self._has_limit else gymnasium.registry.get(spec.id)
        if known is None or known.max_episode_steps is None:
            return
        protocol = self.batch.config.protocol
        limit = self.batch.max_episode_steps
        if protocol is None:
            self.batch.max_episode_steps = NO_LIMIT
        elif known.max_episode_steps != limit:
            self.close()
            raise ValueError(
                f"protocol={protocol_of(protocol).name!r} ends episodes after {limit} steps, but gymnasium.make ends "
                f"those of {known.id} after {known.max_episode_steps}: use gymnasium.make_vec, or "
                "SingleEnv(protocol=...) of gym_batchnav.env.single"
            )

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; ``options={"episode_index": index}`` chooses it.

        Raises:
            RuntimeError: Every episode has run once, see Episodes.
        """
        super().reset(seed=seed)
        if isinstance(options, Mapping) and isinstance(options.get("episode_index"), (int, np.integer)):
            options = {**options, "episode_index": np.array([options["episode_index"]])}
        observation, info = self._envs.reset(seed=seed, options=options)
        if not self.batch.episodes.valid[0]:
            raise RuntimeError("every episode has run once: reset(options={'episode_order': 'once'}) restarts them")
        return _first(observation), _present(info)

    def step(self, action: int | np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Act once and return observation, reward, terminated, truncated and info."""
        actions = np.asarray(action)
        shape = self.action_space.shape or ()
        if actions.size == math.prod(shape):  # agents may return [1] for a discrete action
            actions = actions.reshape(shape)
        observation, reward, terminated, truncated, info = self._envs.step(actions[None])
        info = _present(info)
        for name, values in self.batch.components.measure_ends(self.batch.task_state, np.ones(1, bool)).items():
            info[name] = values[0]
        return _first(observation), float(reward[0]), bool(terminated[0]), bool(truncated[0]), info

    def protocol_card(self) -> ProtocolCard:
        """Return everything needed to reproduce a result; see ``BatchNavEnv.protocol_card``.

        If a TimeLimit of ``gymnasium.make`` has the limit of steps, the card leaves it out.
        """
        batch = self.batch
        limit = None if batch.max_episode_steps == NO_LIMIT else batch.max_episode_steps
        return make_card(batch.config, batch.simulator, batch.cameras, limit)

    def render(self) -> np.ndarray | None:
        """Return the agent's view, [256, 256, 3] uint8; None without a render mode."""
        frames = self.batch.render()
        return None if frames is None else frames[0]

    def close(self) -> None:
        """Release the renderer and the scenes; idempotent."""
        self.batch.close()


def _first(observation: Any) -> Any:
    if isinstance(observation, dict):
        return {name: values[0] for name, values in observation.items()}
    return observation[0]


def _present(info: dict[str, Any]) -> dict[str, Any]:
    """Return the values in a batch's masked infos that are valid for its only environment."""
    return {name: info[name][0] for name in info if not name.startswith("_") and info[f"_{name}"][0]}
