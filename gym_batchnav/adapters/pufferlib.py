"""PufferLib: a batch as one PufferEnv with one agent per environment."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.vector import VectorEnv

from gym_batchnav.adapters.base import DEFAULT_ID, Adapter
from gym_batchnav.system.extras import needs_extra
from gym_batchnav.task.components import INFO_KEYS

if TYPE_CHECKING:
    from typing_extensions import Self

with needs_extra("pufferlib", "the adapter to PufferLib"):
    from pufferlib import PufferEnv
    from pufferlib.emulation import emulate_observation_space


class PufferVecEnv(Adapter, PufferEnv):
    """A batch with autoreset mode SAME_STEP as a PufferEnv of N agents; ``PufferVecEnv.make`` makes both.

    PufferLib's buffer of observations is one array. A Dict is emulated in it: float32 entries side by side, or bytes
    where dtypes differ. ``pufferlib.pytorch.nativize_tensor`` recovers the entries with ``emulated``.

    PufferLib's trainer ignores truncations. ``terminals`` therefore marks every end, time-outs too, so that nothing
    is bootstrapped from the first observation of the next episode; ``truncations`` marks the ends that are time-outs.

    The infos of a step are empty, or one dict of lists over the episodes that ended: ``episode_return``,
    ``episode_length`` and their measures (``spl``, ``success``, ...).

    Args:
        env: A BatchNavEnv, or a Gymnasium vector wrapper around one.
        buf: Buffers to write into, from PufferLib's Serial and Multiprocessing backends; new ones if None.

    Attributes:
        emulated: The dtypes that ``nativize_dtype`` needs to find the entries of an observation.
        env: Holds ``observation_space`` of one agent, which PufferLib's own policies read.

    Raises:
        ValueError: The batch has another autoreset mode, or its observations stay on a GPU.
    """

    emulated: Any = None
    _library = "PufferLib"

    def __init__(self, env: VectorEnv, buf: dict[str, np.ndarray] | None = None) -> None:
        self._check_batch(env)
        self.batch: Any = env
        nav: Any = env.unwrapped
        if nav.cameras.device != "cpu":
            raise ValueError("PufferLib takes NumPy arrays: make the batch with obs_device='cpu'")
        space = env.single_observation_space
        self.env = SimpleNamespace(observation_space=space)
        self.single_observation_space, fields = emulate_observation_space(space)
        self.single_action_space = env.single_action_space
        self.num_agents = env.num_envs
        self.emulated = {"observation_dtype": self.single_observation_space.dtype, "emulated_observation_dtype": fields}
        PufferEnv.__init__(self, buf)
        self._entries = None if self.single_observation_space is space else self.observations.view(fields)[:, 0]
        self._return = np.zeros(self.num_agents)
        self._length = np.zeros(self.num_agents, np.int64)

    @classmethod
    def make(cls, num_envs: int, id: str = DEFAULT_ID, *, seed: int | None = None, **keywords: Any) -> Self:
        """Make a batch and its adapter; ``pufferlib.vector.make`` may call this in any process.

        With ``backend=pufferlib.vector.Multiprocessing``, call ``multiprocessing.set_start_method("spawn")`` first:
        PufferLib makes one batch in the parent to learn its spaces, and a forked worker would not have its threads.

        Args:
            num_envs: N, the number of environments.
            id: An id that Gymnasium knows.
            seed: Set by PufferLib and ignored, because PufferLib also seeds the first reset.
            keywords: Those of the constructor, and of BatchNavEnv except ``autoreset_mode``.

        Raises:
            ValueError: A keyword is wrong, or one of them is ``autoreset_mode``.
        """
        return super().make(num_envs, id, **keywords)

    def reset(self, seed: int | None = None) -> tuple[np.ndarray, list[dict[str, Any]]]:
        """Begin an episode in every environment; return observations and no infos.

        Environment i behaves like a single one seeded ``seed * N + i``. PufferLib seeds the batches of its workers
        with successive numbers; without the factor N, two of them would run the same episodes.
        """
        observation, _ = self.batch.reset(seed=None if seed is None else seed * self.num_agents)
        self._write(observation)
        self.rewards[:] = 0
        self.terminals[:] = False
        self.truncations[:] = False
        self.masks[:] = True
        self._return[:] = 0
        self._length[:] = 0
        return self.observations, []

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Act with ``actions`` [N]; return the buffers of observations, rewards, terminals, truncations, and infos."""
        observation, reward, terminated, truncated, info = self.batch.step(actions)
        self._write(observation)
        done = terminated | truncated
        self.rewards[:] = reward
        self.terminals[:] = done
        self.truncations[:] = truncated
        self._return += reward
        self._length += 1
        infos = [self._ended(done, info["final_info"])] if done.any() else []
        return self.observations, self.rewards, self.terminals, self.truncations, infos

    def render(self) -> Any:
        """Return the frames of all environments, or None without a render mode."""
        return self.batch.render()

    def close(self) -> None:
        """Close the batch; idempotent."""
        self.batch.close()

    def _write(self, observation: Any) -> None:
        if self._entries is None:
            self.observations[:] = observation
            return
        for name, values in observation.items():
            self._entries[name][:] = values

    def _ended(self, done: np.ndarray, info: dict[str, Any]) -> dict[str, list[float]]:
        """Return the returns, lengths and measures of the episodes that ended, and reset their counters."""
        ended = {"episode_return": self._return[done].tolist(), "episode_length": self._length[done].tolist()}
        for name, values in info.items():
            if not name.startswith("_") and name not in INFO_KEYS:
                ended[name] = values[done].tolist()
        self._return[done] = 0
        self._length[done] = 0
        return ended
