"""Stable-Baselines3: a batch as its VecEnv, and evaluation that runs every episode exactly once."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

import numpy as np
from gymnasium.spaces import Box, Dict
from gymnasium.vector import VectorEnv, VectorWrapper

from gym_batchnav.adapters.base import Adapter, to_dicts
from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.env.flat import OneArray
from gym_batchnav.evaluation.agents import OF_RUNS
from gym_batchnav.evaluation.evaluate import evaluate
from gym_batchnav.system.extras import needs_extra
from gym_batchnav.system.numbers import check_choice, check_counts
from gym_batchnav.system.storage import write_atomically
from gym_batchnav.system.wording import counted

with needs_extra("sb3", "the adapter to Stable-Baselines3"):
    from stable_baselines3.common.base_class import BaseAlgorithm
    from stable_baselines3.common.callbacks import EvalCallback
    from stable_baselines3.common.vec_env import VecEnv, sync_envs_normalization, unwrap_vec_normalize

DEPTH_CODES = ("uint8", "float32")
PRINTED = ("reward", "length", "success", "spl")  # means that an evaluation prints
SMALLEST_PICTURE = 36  # pixels per side; the minimum of NatureCNN, SB3's own network for images

Observation = Any  # an array [N, ...], or a dict of them
Indices = int | Iterable[int] | None


class SB3VecEnv(Adapter, VecEnv):
    """A batch with autoreset mode SAME_STEP as a VecEnv of Stable-Baselines3; ``SB3VecEnv.make`` makes both.

    SB3 treats only uint8 arrays as images. ``depth`` therefore becomes uint8 [H, W, 1] in 255 steps of
    ``max_depth / 255`` (4 cm for the default 10 m), and ``MultiInputPolicy`` encodes it with a CNN, like ``rgb``.
    With ``depth="float32"`` it keeps its values as [1, H, W]. SB3 then flattens it, unless
    ``policy_kwargs={"normalize_images": False}`` selects the CNN again (``rgb`` is then not divided by 255 either).
    ``semantic`` stays int32; SB3's own extractor flattens the ids to plain numbers, so give it one that embeds them.
    Observations of one array, such as those of ``BatchNav/PointNavScan-v0``, are passed on unchanged.

    When an episode ends, the environment's info holds ``terminal_observation``, ``TimeLimit.truncated``,
    ``is_success`` and the measures of that episode as numbers. All other infos are empty unless ``step_infos`` is
    set. ``reset_infos`` holds the infos of the episodes that began last.

    Args:
        env: A BatchNavEnv, or a Gymnasium vector wrapper around one.
        depth: ``"uint8"`` or ``"float32"``, see above.
        step_infos: Put the measures into every environment's info at every step.
        render_envs: Number of environments, from the first, that ``render()`` and SB3's videos show side by side.

    Raises:
        ValueError: The batch has another autoreset mode, its observations stay on a GPU, or its depth has no bounds.
    """

    _library = "Stable-Baselines3"

    def __init__(
        self, env: VectorEnv, *, depth: str = "uint8", step_infos: bool = False, render_envs: int = 16
    ) -> None:
        self._check_batch(env)
        check_choice("depth", depth, DEPTH_CODES)
        check_counts(render_envs=render_envs)
        self.batch = cast(BatchNavEnv, env.unwrapped)  # typed, for what it offers beyond Gymnasium
        if self.batch.cameras.device != "cpu":
            raise ValueError("Stable-Baselines3 takes NumPy arrays: make the batch with obs_device='cpu'")
        self.env = env
        self.spec = env.spec
        self.step_infos = step_infos
        self.render_envs = render_envs
        self._as_bytes = depth == "uint8"
        space: Any = env.single_observation_space
        boxes: dict[str, Any] = dict(space.spaces) if isinstance(space, Dict) else {}
        depths = {key: self._depth_space(key, box) for key, box in boxes.items() if key.rpartition("/")[2] == "depth"}
        self._depth_scales = {key: np.float32(255) / boxes[key].high.flat[0] for key in depths}
        space = Dict({**boxes, **depths}) if boxes else space
        _warn_of_small_pictures(space)
        VecEnv.__init__(self, env.num_envs, space, env.single_action_space)
        self.metadata: dict[str, Any] = {**self.metadata, "render_fps": env.metadata["render_fps"]}
        self._batch_options: dict[str, Any] = {}
        self._actions: np.ndarray | None = None
        # Reward, terminated, truncated and infos of the last step, as the batch returned them.
        self.outcome: tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, Any]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return nothing: models of SB3 that are saved pickle the environment of their rollout buffer."""
        return {}

    def __deepcopy__(self, memo: Any) -> Any:
        """Raise the error of the batch, which cannot be copied."""
        return deepcopy(self.env, memo)

    def reset(self) -> Observation:
        """Begin an episode in every environment, with the seeds and options given since the last reset."""
        seeds: Any = self._seeds if None not in self._seeds else None  # Any: a batch takes a list as well
        observation, info = self.env.reset(seed=seeds, options=self._batch_options or None)
        self._reset_seeds()
        self._batch_options = {}
        self._actions = None
        self.reset_infos = to_dicts(info, np.arange(self.num_envs))
        return self.encode(observation)

    def set_options(self, options: list[dict[str, Any]] | dict[str, Any] | None = None) -> None:
        """Set the options of the next reset: the batch's own, or one ``{"episode_index": number}`` per environment.

        Raises:
            ValueError: A list does not hold one such dict per environment.
        """
        if not isinstance(options, list):
            self._batch_options = dict(options or {})
            return
        numbers = [one["episode_index"] for one in options if set(one) == {"episode_index"}]
        if len(options) != self.num_envs or len(numbers) != self.num_envs:
            raise ValueError("set_options with a list: pass one {'episode_index': number} per environment, or one dict")
        self._batch_options = {"episode_index": np.array(numbers)}

    def step_async(self, actions: np.ndarray) -> None:
        """Begin a step with actions [N]; OpenGL renders until ``step_wait``, Embree renders in this call."""
        self._actions = np.asarray(actions)
        if self.env is self.batch:
            self.batch.send(self._actions)

    def step_wait(self) -> tuple[Observation, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Finish the step: observations, rewards [N] float32, done [N] bool, one info per environment.

        Raises:
            RuntimeError: No step is in progress.
        """
        if self._actions is None:
            raise RuntimeError("step_wait() without step_async(): no step is in progress: call step_async() first")
        step = self.batch.recv() if self.env is self.batch else self.env.step(self._actions)
        self._actions = None
        observation, reward, terminated, truncated, info = step
        self.outcome = (reward, terminated, truncated, info)
        done = terminated | truncated
        infos = self._infos(np.nonzero(done)[0], truncated & ~terminated, info)
        return self.encode(observation), reward.astype(np.float32), done, infos

    def close(self) -> None:
        """Close the batch; idempotent."""
        self.env.close()

    def get_images(self) -> Sequence[np.ndarray | None]:
        """Return the views [256, 256, 3] uint8 of the first ``render_envs`` agents, or Nones without a render mode."""
        shown = np.arange(min(self.num_envs, self.render_envs))
        return [None] * len(shown) if self.render_mode is None else list(self.batch.pictures(shown))

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        """Return an attribute of the batch or of a wrapper around it, once per environment."""
        return [getattr(self._owner(attr_name), attr_name)] * self._count(indices)

    def set_attr(self, attr_name: str, value: Any, indices: Indices = None) -> None:
        """Set an attribute for all environments, which share it.

        Raises:
            ValueError: ``indices`` do not name all environments.
        """
        if self._count(indices) != self.num_envs:
            raise ValueError(f"set_attr({attr_name!r}): the environments of a batch share it; leave out indices=")
        setattr(self._owner(attr_name), attr_name, value)

    def env_method(self, method_name: str, *method_args: Any, indices: Indices = None, **method_kwargs: Any) -> list:
        """Call a method of the batch or of a wrapper around it once; the result is repeated per environment."""
        result = getattr(self._owner(method_name), method_name)(*method_args, **method_kwargs)
        if method_name == "render" and result is not None:
            return [result[index] for index in self._get_indices(indices)]
        return [result] * self._count(indices)

    def env_is_wrapped(self, wrapper_class: type, indices: Indices = None) -> list[bool]:
        """Return whether a wrapper of this class is around the batch, once per environment."""
        return [any(isinstance(layer, wrapper_class) for layer in self._layers())] * self._count(indices)

    def _depth_space(self, key: str, space: Box) -> Box:
        """Return the space of a camera's depth that SB3 receives."""
        height, width, _ = space.shape
        if not self._as_bytes:
            return Box(space.low.reshape(1, height, width), space.high.reshape(1, height, width), dtype=np.float32)
        if (space.low < 0).any() or not np.isfinite(space.high).all() or np.ptp(space.high):
            raise ValueError(f"{key}: only values from 0 to one finite maximum become uint8: pass depth='float32'")
        return Box(0, 255, space.shape, np.uint8)

    def encode(self, observation: Observation) -> Observation:
        """Convert a batch's observations of any number of environments for SB3."""
        if not isinstance(observation, dict):
            return observation
        if isinstance(self.env, OneArray):
            return self.env.encode(observation)
        encoded = dict(observation)
        spaces: Any = self.observation_space
        for key, scale in self._depth_scales.items():
            depth = observation[key].reshape(len(observation[key]), *spaces[key].shape)
            # Adding a half rounds, since astype truncates.
            encoded[key] = (depth * scale + np.float32(0.5)).astype(np.uint8) if self._as_bytes else depth
        return encoded

    def _infos(self, ended: np.ndarray, timed_out: np.ndarray, info: dict[str, Any]) -> list[dict[str, Any]]:
        """Return SB3's infos; environments ``ended`` [M] report the episode that ended."""
        present = {name: values for name, values in info.items() if name.lstrip("_") not in ("final_obs", "final_info")}
        everyone = np.arange(self.num_envs)
        infos = to_dicts(present, everyone) if self.step_infos else [{} for _ in range(self.num_envs)]
        if len(ended) == 0:
            return infos
        final = info["final_info"]
        begun = {name: values for name, values in present.items() if name in final}
        # Entries that wrappers add, such as "episode", belong to the episode that ended.
        final = {**final, **{name: values for name, values in present.items() if name not in final}}
        last = self.encode(_rows(info["final_obs"], ended))
        finished = to_dicts(final, ended)
        following = to_dicts(begun, ended)
        for row, index in enumerate(ended.tolist()):
            self.reset_infos[index] = following[row]
            infos[index] = {
                **finished[row],
                "terminal_observation": _rows(last, row),
                "TimeLimit.truncated": bool(timed_out[index]),
            }
            if "success" in finished[row]:
                infos[index]["is_success"] = finished[row]["success"]
        return infos

    def _count(self, indices: Indices) -> int:
        """Return the number of environments that SB3's indices select."""
        return len(list(self._get_indices(indices)))

    def _owner(self, name: str) -> Any:
        """Return the outermost layer that has an attribute; the batch if none has it."""
        return next((layer for layer in self._layers() if hasattr(layer, name)), self.batch)

    def _layers(self) -> Iterator[Any]:
        """Yield the wrappers from the outermost inwards, then the batch."""
        layer = self.env
        while isinstance(layer, VectorWrapper):
            yield layer
            layer = layer.env
        yield layer


class NavEvalCallback(EvalCallback):
    """EvalCallback of SB3 that runs every episode of a batch exactly once and reports SPL as well.

    Every evaluation runs the same episodes, however long they take. The logger receives ``eval/mean_reward``,
    ``eval/mean_ep_length``, ``eval/success_rate`` and the mean of every measure (``eval/spl``, ``eval/soft_spl``,
    ``eval/distance_to_goal``, ...). ``evaluations.npz`` holds SB3's ``timesteps`` [E], ``results``,
    ``ep_lengths`` and ``successes`` [E, episodes], ``episode_index`` [episodes] and every measure [E, episodes].

    Args:
        eval_env: An SB3VecEnv, or SB3's wrappers around one, with all scenes resident. It must not be the training
            environment, because an evaluation restarts its episodes.
        eval_freq: Steps of the training batch from one evaluation to the next; one step acts in every environment.
        keywords: Keywords of EvalCallback, except ``n_eval_episodes`` and ``render``.

    Raises:
        ValueError: ``eval_env`` is not such an environment; when training begins, also if it is the training one.
    """

    def __init__(self, eval_env: VecEnv, *, eval_freq: int = 10_000, **keywords: Any) -> None:
        _check_nav(eval_env)
        super().__init__(eval_env, eval_freq=eval_freq, warn=False, **keywords)
        self._history: list[dict[str, np.ndarray]] = []
        self.best_mean_reward: float = -np.inf

    def _init_callback(self) -> None:
        """Check the environment and make folders; ignore SB3's warning about different wrappers, which are harmless."""
        if getattr(self.training_env.unwrapped, "batch", None) is _check_nav(self.eval_env).batch:
            raise ValueError("eval_env is the batch that is trained on: make another one for the evaluation")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Training and eval env are not of the same type")
            super()._init_callback()

    def _on_step(self) -> bool:
        """Evaluate every ``eval_freq`` calls; False ends the training."""
        if self.eval_freq <= 0 or self.n_calls % self.eval_freq:
            return True
        if self.model.get_vec_normalize_env() is not None:
            sync_envs_normalization(self.training_env, self.eval_env)
        episodes = evaluate_once(self.model, self.eval_env, self.deterministic)
        self._record(episodes)
        if self.log_path is not None:
            self._save(episodes)
        continue_training = True
        if self.last_mean_reward > self.best_mean_reward:
            self.best_mean_reward = self.last_mean_reward
            if self.best_model_save_path is not None:
                file = io.BytesIO()
                self.model.save(file)
                write_atomically(Path(self.best_model_save_path) / "best_model.zip", file.getvalue())
            if self.callback_on_new_best is not None:
                continue_training = self.callback_on_new_best.on_step()
        return continue_training and (self.callback is None or self._on_event())

    def _record(self, episodes: dict[str, np.ndarray]) -> None:
        """Write means to the logger and, with ``verbose``, to the terminal."""
        means = {name: float(values.mean()) for name, values in episodes.items() if name != "episode_index"}
        names = {"reward": "mean_reward", "length": "mean_ep_length", "success": "success_rate"}
        self.last_mean_reward = means["reward"]
        for name, mean in means.items():
            self.logger.record(f"eval/{names.get(name, name)}", mean)
        self.logger.record("time/total_timesteps", self.num_timesteps, exclude="tensorboard")
        self.logger.dump(self.num_timesteps)
        if self.verbose >= 1:
            summary = ", ".join(f"{name} {means[name]:.3f}" for name in PRINTED if name in means)
            print(f"{self.num_timesteps} timesteps, {counted(len(episodes['reward']), 'episode')}: {summary}")

    def _save(self, episodes: dict[str, np.ndarray]) -> None:
        """Write all evaluations so far, with the names of SB3's own callback where it has one."""
        self.evaluations_timesteps.append(self.num_timesteps)
        self._history.append(episodes)
        names = {"reward": "results", "length": "ep_lengths", "success": "successes"}
        history: dict[str, Any] = {
            names.get(name, name): np.stack([one[name] for one in self._history])
            for name in episodes
            if name != "episode_index"
        }
        history.update(timesteps=self.evaluations_timesteps, episode_index=episodes["episode_index"])
        file = io.BytesIO()
        np.savez(file, **history)
        write_atomically(Path(f"{self.log_path}.npz"), file.getvalue())


def evaluate_once(model: BaseAlgorithm, env: VecEnv, deterministic: bool = True) -> dict[str, np.ndarray]:
    """Run every episode of a batch exactly once with a model of SB3.

    Args:
        model: Anything with SB3's ``predict``, recurrent ones included.
        env: An SB3VecEnv, or SB3's wrappers around one, with all scenes resident. Its episodes restart, and its batch
            stays in order ``"once"``.
        deterministic: Take the likeliest action instead of sampling one.

    Returns:
        Arrays [E] in the order of ``episode_index``: that, ``reward`` (the undiscounted sum), ``length`` in steps, and
        the measures of the task.

    Raises:
        ValueError: ``env`` is not such an environment.
    """
    inner = _check_nav(env)
    episodes = evaluate(_ThroughVecEnv(env, inner), _ModelAgent(model, deterministic), seed=None)
    return {
        "episode_index": episodes.episode_index,
        "reward": episodes.total_reward,
        "length": episodes.num_steps,
        **episodes.measures,
    }


class _ThroughVecEnv(VectorWrapper):
    """A batch that is stepped through SB3's wrappers: observations come from them, everything else from the batch."""

    def __init__(self, vec_env: VecEnv, inner: SB3VecEnv) -> None:
        super().__init__(inner.env)
        self._vec_env = vec_env
        self._inner = inner

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Reset with options of the batch."""
        self._vec_env.set_options(options)
        return self._vec_env.reset(), {}

    def step(self, actions: Any) -> tuple[Observation, Any, Any, Any, dict[str, Any]]:
        """Return the observations of the wrappers, and the rewards, flags and infos of the batch."""
        observation, *_ = self._vec_env.step(actions)
        if self._inner.outcome is None:
            raise RuntimeError("a wrapper returned without stepping the SB3VecEnv inside: evaluate without it")
        return observation, *self._inner.outcome

    def close(self, **kwargs: Any) -> None:
        """Leave the batch open, which is the caller's; Gymnasium 1.2 closes a wrapper that is garbage-collected."""


class _ModelAgent:
    """A model of SB3 as an agent; its memory is the state that ``predict`` returns."""

    def __init__(self, model: BaseAlgorithm, deterministic: bool) -> None:
        self._model = model
        self._deterministic = deterministic
        self._state: Any = None

    def reset(self, env: BatchNavEnv) -> None:
        """Forget everything."""
        self._state = None

    def act(self, env: BatchNavEnv, observation: Any, begun: np.ndarray) -> np.ndarray:
        """Return the model's actions [N]."""
        actions, self._state = self._model.predict(
            observation, state=self._state, episode_start=begun, deterministic=self._deterministic
        )
        return actions


class SB3Agent(_ModelAgent):
    """A model of SB3 as an agent for ``evaluate`` and ``record_episodes``, on any batch with the same camera.

    A batch's own observations are not those that the model was trained on: SB3VecEnv converts depth, and VecNormalize
    normalises. The agent does the same, so that it acts as in training. ``evaluate --policy module:name`` makes it an
    environment like that of the training.

    Args:
        model: Anything with SB3's ``predict``, recurrent ones included.
        env: The SB3VecEnv on which it was trained, or another made alike, in SB3's wrappers if the model had them.
        deterministic: Take the likeliest action instead of sampling one.

    Attributes:
        env_keywords: Keywords of BatchNavEnv for a batch like that of the training, without its scenes and episodes.

    Raises:
        ValueError: ``env`` is not such an environment.
    """

    def __init__(self, model: BaseAlgorithm, env: VecEnv, deterministic: bool = True) -> None:
        super().__init__(model, deterministic)
        self._inner = _check_nav(env)
        config = self._inner.batch.config
        self.env_keywords = {
            one.name: getattr(config, one.name) for one in fields(config) if one.name not in OF_RUNS | {"protocol"}
        }
        self._normalizer = unwrap_vec_normalize(env)

    def reset(self, env: BatchNavEnv) -> None:
        """Forget everything; ValueError if the cameras of ``env`` do not show what the model was trained on."""
        super().reset(env)
        shown = env.cameras.rig.spaces
        for key, space in self._inner.batch.cameras.rig.spaces.items():
            if shown.get(key) != space:
                raise ValueError(
                    f"the model was trained with {key} in {space}, the batch has {shown.get(key, f'no {key}')}: make "
                    "it with the camera= and sensors= of the training, which SB3Agent.env_keywords has"
                )

    def act(self, env: BatchNavEnv, observation: Any, begun: np.ndarray) -> np.ndarray:
        """Return the model's actions [N] for the batch's own observations."""
        seen = self._inner.encode(observation)
        return super().act(env, seen if self._normalizer is None else self._normalizer.normalize_obs(seen), begun)


def _check_nav(env: Any) -> SB3VecEnv:
    """Return the SB3VecEnv inside SB3's wrappers."""
    inner = env.unwrapped if isinstance(env, VecEnv) else env
    if not isinstance(inner, SB3VecEnv):
        raise ValueError(f"evaluation needs an SB3VecEnv, not a {type(inner).__name__}: make one with SB3VecEnv.make")
    return inner


def _rows(observation: Observation, rows: Any) -> Observation:
    """Return some rows, or one, of an array or of a dict of arrays."""
    if isinstance(observation, dict):
        return {name: values[rows] for name, values in observation.items()}
    return observation[rows]


def _warn_of_small_pictures(space: Any) -> None:
    """Warn of images that are too small for SB3's own network, as SB3's checker does for single environments."""
    spaces: Any = space.spaces if isinstance(space, Dict) else {"observation": space}
    for name, one in spaces.items():
        if one.dtype == np.uint8 and len(one.shape) == 3 and min(one.shape[:2]) < SMALLEST_PICTURE:
            least = f"camera=Camera({SMALLEST_PICTURE}, {SMALLEST_PICTURE})"
            found = f"{name} of {one.shape[1]}x{one.shape[0]} pixels is too small for SB3's NatureCNN"
            warnings.warn(f"{found}: use {least} or a network of your own", stacklevel=3)
