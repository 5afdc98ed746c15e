"""SingleEnv: a batch of one as a plain Gymnasium environment, for tools that want an Env."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, cast

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from gym_batchnav.env.batch_env import BatchNavEnv


class SingleEnv(gymnasium.Env):
    """One agent; the keywords are those of BatchNavEnv without ``num_envs`` and ``autoreset_mode``.

    ``gymnasium.make`` keeps ``max_episode_steps`` for a TimeLimit of its own, which ends episodes early and without
    measures; the limit of this class is 500 steps, or its own keyword of that name.

    Given its scene, it behaves as environment i of a batch seeded s does when it is seeded s + i.

    Attributes:
        make_batch: Makes the batch that it steps: a BatchNavEnv, or a wrapper round one.
        batch: The BatchNavEnv of one environment.
    """

    metadata: dict[str, Any] = BatchNavEnv.metadata
    make_batch: ClassVar[Callable[..., VectorEnv]] = BatchNavEnv

    def __init__(self, **kwargs: Any) -> None:
        for name in ("num_envs", "autoreset_mode"):
            if name in kwargs:
                raise ValueError(f"{name}={kwargs[name]!r}: use gymnasium.make_vec for a batch")
        if kwargs.get("library") is None:
            kwargs.setdefault("deterministic_rotation", True)
        self._envs = self.make_batch(1, autoreset_mode=AutoresetMode.DISABLED, **kwargs)
        self.batch = cast(BatchNavEnv, self._envs.unwrapped)
        self.observation_space = self._envs.single_observation_space
        self.action_space = self.batch.single_action_space
        self.render_mode = self.batch.render_mode

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; ``options={"episode_index": index}`` chooses it."""
        super().reset(seed=seed)
        if options and isinstance(options.get("episode_index"), (int, np.integer)):
            options = {**options, "episode_index": np.array([options["episode_index"]])}
        observation, info = self._envs.reset(seed=seed, options=options)
        if not self.batch.episodes.valid[0]:
            raise RuntimeError("every episode has run once: reset(options={'episodes': 'once'}) begins them anew")
        return _first(observation), _present(info)

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Act once: observation, reward, terminated, truncated, info."""
        observation, reward, terminated, truncated, info = self._envs.step(np.asarray(action).reshape(1))
        return _first(observation), float(reward[0]), bool(terminated[0]), bool(truncated[0]), _present(info)

    def render(self) -> np.ndarray | None:
        """What the agent sees, [256, 256, 3] uint8; None without a render mode."""
        frames = self.batch.render()
        return None if frames is None else frames[0]

    def close(self) -> None:
        """Release renderer and scenes; safe twice."""
        self.batch.close()


def _first(observation: Any) -> Any:
    """The only row of an array, or of every array in a dict."""
    if isinstance(observation, dict):
        return {name: values[0] for name, values in observation.items()}
    return observation[0]


def _present(info: dict[str, Any]) -> dict[str, Any]:
    """The values that a batch's masked infos hold for its only environment."""
    return {name: info[name][0] for name in info if not name.startswith("_") and info[f"_{name}"][0]}
