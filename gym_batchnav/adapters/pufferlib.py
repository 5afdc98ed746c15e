"""PufferLib: a batch as one PufferEnv, an agent for every environment."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from gym_batchnav.adapters.requirements import check_batch
from gym_batchnav.system.extras import needs_extra
from gym_batchnav.task.components import INFO_KEYS

with needs_extra("pufferlib", "the adapter to PufferLib"):
    from pufferlib import PufferEnv
    from pufferlib.emulation import emulate_observation_space


class PufferVecEnv(PufferEnv):
    """A batch with autoreset SAME_STEP as a PufferEnv of N agents, written into PufferLib's buffers.

    PufferLib's buffer of observations is one array. A Dict lies in it as PufferLib emulates one: float32 side by side,
    or bytes where types differ, which ``pufferlib.pytorch.nativize_tensor`` takes apart again by ``emulated``.

    PufferLib's trainer does not look at truncations. ``terminals`` therefore marks every end, time-outs too, so that
    nothing is bootstrapped from the next episode's first observation; ``truncations`` says which ends are time-outs.

    A step's infos are empty, or one dict of lists over the episodes that ended: ``episode_return``,
    ``episode_length`` and their measures (``spl``, ``success``, ...).

    Args:
        env: A BatchNavEnv or a Gymnasium vector wrapper round one.
        buf: Buffers to write into, as PufferLib's Serial and Multiprocessing give; its own if None.

    Attributes:
        emulated: Types with which ``nativize_dtype`` finds the parts of an observation.
        env: Holds ``observation_space``, that of one agent, which PufferLib's own policies ask for.

    Raises:
        ValueError: The batch has another autoreset mode, or its observations stay on a GPU.
    """

    emulated: Any = None

    def __init__(self, env: VectorEnv, buf: dict[str, np.ndarray] | None = None) -> None:
        check_batch(env, AutoresetMode.SAME_STEP, "PufferLib")
        self.batch: Any = env
        nav: Any = env.unwrapped
        if nav.cameras.device != "cpu":
            raise ValueError("PufferLib takes NumPy arrays: make the batch with obs_device='cpu'")
        space = env.single_observation_space
        self.env = SimpleNamespace(observation_space=space)
        self.single_observation_space, fields = emulate_observation_space(space)
        self.single_action_space, self.num_agents = env.single_action_space, env.num_envs
        self.emulated = {
            "observation_dtype": self.single_observation_space.dtype,
            "emulated_observation_dtype": fields,
        }
        super().__init__(buf)
        self._parts = None if self.single_observation_space is space else self.observations.view(fields)[:, 0]
        self._return, self._length = np.zeros(self.num_agents), np.zeros(self.num_agents, np.int64)

    def reset(self, seed: int | None = None) -> tuple[np.ndarray, list[dict[str, Any]]]:
        """Begin an episode in every environment: observations, no infos.

        Environment i behaves as one that is seeded ``seed * N + i``: PufferLib seeds the batches of its workers with
        successive numbers, and no two of them are to run the same episodes.
        """
        observation, _ = self.batch.reset(seed=None if seed is None else seed * self.num_agents)
        self._write(observation)
        self.rewards[:], self.terminals[:], self.truncations[:], self.masks[:] = 0, False, False, True
        self._return[:], self._length[:] = 0, 0
        return self.observations, []

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Act [N]: the buffers of observations, rewards, terminals and truncations, and infos."""
        observation, reward, terminated, truncated, info = self.batch.step(actions)
        self._write(observation)
        done = terminated | truncated
        self.rewards[:], self.terminals[:], self.truncations[:] = reward, done, truncated
        self._return += reward
        self._length += 1
        infos = [self._ended(done, info["final_info"])] if done.any() else []
        return self.observations, self.rewards, self.terminals, self.truncations, infos

    def render(self) -> Any:
        """Frames of all environments, or None without a render mode."""
        return self.batch.render()

    def close(self) -> None:
        """Close the batch; safe twice."""
        self.batch.close()

    def _write(self, observation: Any) -> None:
        """Copy observations into PufferLib's buffer."""
        if self._parts is None:
            self.observations[:] = observation
            return
        for name, values in observation.items():
            self._parts[name][:] = values

    def _ended(self, done: np.ndarray, info: dict[str, Any]) -> dict[str, list[float]]:
        """What the episodes that ended came to; forgets them."""
        ended = {"episode_return": self._return[done].tolist(), "episode_length": self._length[done].tolist()}
        for name, values in info.items():
            if not name.startswith("_") and name not in INFO_KEYS:
                ended[name] = values[done].tolist()
        self._return[done], self._length[done] = 0, 0
        return ended


def make_env(
    env_id: str = "gym_batchnav:BatchNav/PointNav-v0",
    *,
    buf: dict[str, np.ndarray] | None = None,
    seed: int | None = None,
    **keywords: Any,
) -> PufferVecEnv:
    """Make a batch for PufferLib; ``pufferlib.vector.make`` may call it in any process.

    With ``backend=pufferlib.vector.Multiprocessing`` say ``multiprocessing.set_start_method("spawn")`` first:
    PufferLib makes one batch in the parent to learn its spaces, whose threads a forked worker would lack.

    Args:
        env_id: A batch that Gymnasium knows.
        buf: Given by PufferLib.
        seed: Given by PufferLib and not used: it seeds the first reset as well.
        keywords: Those of BatchNavEnv, ``num_envs`` among them.
    """
    return PufferVecEnv(gymnasium.make_vec(env_id, **{"autoreset_mode": "same_step", **keywords}), buf)
