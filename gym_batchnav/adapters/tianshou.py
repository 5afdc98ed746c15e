"""tianshou: a batch as its vector environment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from gymnasium.vector import VectorEnv

from gym_batchnav.adapters.base import Adapter, to_dicts
from gym_batchnav.env.arguments import seeds_of
from gym_batchnav.system.extras import needs_extra

with needs_extra("tianshou", "the adapter to tianshou"):
    from tianshou.data import Batch
    from tianshou.env import BaseVectorEnv

Ids: TypeAlias = int | Sequence[int] | np.ndarray
SPACES = {"action_space": "single_action_space", "observation_space": "single_observation_space"}


class TianshouVecEnv(Adapter, BaseVectorEnv):
    """A batch that steps and resets environments by their ids; ``TianshouVecEnv.make`` makes both.

    tianshou resets environments whose episode has ended, but a batch in mode SAME_STEP has done so already. ``step``
    therefore returns the true last observation of an episode, and the ``reset`` that follows returns the first one of
    the next episode without rendering again.

    Observations are a Batch with one array per sensor, without copies. Infos are one dict per environment with
    ``env_id`` among its keys, and ``success``, ``spl`` and ``soft_spl`` where an episode has ended.

    Args:
        env: A BatchNavEnv with ``autoreset_mode="same_step"``, or a Gymnasium VectorWrapper around one.

    Raises:
        ValueError: The batch has another autoreset mode, or runs each episode once.
    """

    _library = "tianshou"

    # The constructor of BaseVectorEnv is not called, because it would create one worker per environment.
    def __init__(self, env: VectorEnv) -> None:
        self._check_batch(env)
        batch: Any = env.unwrapped
        if batch.simulator.schedule.order == "once":
            raise ValueError(
                "Episodes(order='once') cannot be kept, because tianshou begins episodes that it does not finish: "
                "use Episodes(order='random'), or step the batch without tianshou"
            )
        self.env: Any = env  # Any: the batch's reset takes sequences of seeds
        self.env_num = batch.num_envs
        self.is_async = False
        self.is_closed = False
        self._pending = np.zeros(self.env_num, bool)  # episode ended, and tianshou has not reset the environment yet
        self._first: tuple[np.ndarray, Any, np.ndarray] | None = None  # pending ids with their observations and infos

    def reset(
        self, env_id: Ids | None = None, *, seed: int | Sequence[int | None] | None = None
    ) -> tuple[Any, np.ndarray]:
        """Begin an episode in some environments.

        Args:
            env_id: Indices of M environments, or one index; all if not given.
            seed: Environment i is seeded with ``seed + i``, or with ``seed[i]`` of a sequence of N.

        Returns:
            Observations [M, ...] and infos, M dicts.
        """
        self._assert_is_not_closed()
        ids = self._ids(env_id)
        begun = self._pending[ids]
        self._pending[ids] = False
        if self._first is not None and seed is None and begun.all():
            waiting, observation, infos = self._first
            rows = np.searchsorted(waiting, ids)
            return observation[rows], infos[rows]
        mask = np.zeros(self.env_num, bool)
        mask[ids if seed is not None else ids[~begun]] = True
        dense, info = self.env.reset(seed=seed, options={"reset_mask": mask})
        return _batch(dense)[ids], self._infos(info, ids)

    def step(
        self, action: np.ndarray | Any, id: Ids | None = None
    ) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Act in some environments; the others keep their state.

        Args:
            action: [M] integers from 0 to 3, or [M, ...] as ``single_action_space`` of the batch states.
            id: Indices of M environments, or one index; all if not given.

        Returns:
            Observations, rewards, terminated, truncated and infos of these environments.

        Raises:
            ValueError: ``id`` has only some agents of a world.
        """
        self._assert_is_not_closed()
        ids = self._ids(id)
        space = self.env.single_action_space
        actions = np.zeros((self.env_num, *space.shape), space.dtype)
        actions[ids] = action
        paused = np.ones(self.env_num, bool)
        paused[ids] = False
        with self.env.unwrapped.paused(paused):
            dense, reward, terminated, truncated, info = self.env.step(actions)
        ended = terminated | truncated
        observation = _batch(dense)
        infos = self._infos(info, np.arange(self.env_num))
        self._pending[ids] = ended[ids]
        if self._pending.any():
            waiting = np.nonzero(self._pending)[0]
            self._first = waiting, observation[waiting], infos[waiting]
        if ended.any():
            observation[ended] = _batch(info["final_obs"])[ended]
            infos[ended] = self._infos(info["final_info"], ended)
        if np.array_equal(ids, np.arange(self.env_num)):
            return observation, reward, terminated, truncated, infos
        return observation[ids], reward[ids], terminated[ids], truncated[ids], infos[ids]

    def seed(self, seed: int | Sequence[int | None] | None = None) -> list[list[int] | None]:
        """Call ``reset`` with seeds; return a list with the seed for each environment, or None."""
        self._assert_is_not_closed()
        self.reset(seed=seed)
        return [None if one is None else [one] for one in seeds_of(seed, self.env_num)]

    def render(self, **kwargs: Any) -> list[np.ndarray]:
        """Return every agent's view as a frame [256, 256, 3] uint8; empty without a render mode."""
        self._assert_is_not_closed()
        return list(self.env.render() or ())

    def close(self) -> None:
        """Close the batch; idempotent."""
        self.env.close()
        self.is_closed = True

    def get_env_attr(self, key: str, id: Ids | None = None) -> list[Any]:
        """Return an attribute of the batch once per environment; spaces are those of one environment."""
        self._assert_is_not_closed()
        return [getattr(self.env, SPACES.get(key, key))] * len(self._ids(id))

    def set_env_attr(self, key: str, value: Any, id: Ids | None = None) -> None:
        """Set an attribute of the batch, which all environments share.

        Raises:
            ValueError: ``id`` is given.
        """
        self._assert_is_not_closed()
        if id is not None:
            raise ValueError(f"set_env_attr({key!r}, id=...): the environments of a batch share it; leave out id=")
        setattr(self.env.unwrapped, key, value)

    def _ids(self, ids: Ids | None) -> np.ndarray:
        """Return ids as an array of indices [M]."""
        return np.arange(self.env_num) if ids is None else np.atleast_1d(np.asarray(ids, np.int64))

    def _infos(self, info: dict[str, Any], rows: np.ndarray) -> np.ndarray:
        """Return infos of environments ``rows`` ([N] bool or [M] indices) as an array [M] of dicts."""
        own = {name: values for name, values in info.items() if name not in ("final_obs", "final_info")}
        ids = np.arange(self.env_num)[rows]
        return np.array([{**one, "env_id": id} for one, id in zip(to_dicts(own, ids), ids.tolist(), strict=True)])


def _batch(observation: Any) -> Any:
    """Convert a dict of arrays to a Batch; return an array unchanged."""
    return Batch(observation) if isinstance(observation, dict) else observation
