"""BatchNavEnv: one call moves, scores and renders N agents in K scenes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import batch_space

from gym_batchnav.actions.api import Actions
from gym_batchnav.env.arguments import episodes_of, indices_of, mask_of, numbers_of, options_of, seeds_of
from gym_batchnav.env.cameras import AgentCameras
from gym_batchnav.env.card import ProtocolCard, make_card
from gym_batchnav.env.config import RENDER_MODES, EnvConfig, check_memory, takes_keywords_of
from gym_batchnav.env.functional import FunctionalBatch
from gym_batchnav.env.simulator import Simulator
from gym_batchnav.env.step import Observation, Stepper
from gym_batchnav.episodes.schedule import EPISODE_ORDERS
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.render.api import Renderer
from gym_batchnav.state import AgentState, EpisodeState
from gym_batchnav.system.numbers import check_choice, check_counts
from gym_batchnav.system.process import Claim
from gym_batchnav.task.api import Task, TaskState
from gym_batchnav.worlds.worlds import Worlds


class BatchNavEnv(VectorEnv):
    """Thousands of agents in shared scenes behind Gymnasium's vector API.

    By default, actions are 0 STOP, 1 MOVE_FORWARD, 2 TURN_LEFT, 3 TURN_RIGHT; ``actions=`` chooses others, such as
    velocities. An observation is a dict with one array per image (``depth`` [N, H, W, 1] float32, ``rgb`` [N, H, W, 3]
    uint8, ``semantic`` [N, H, W, 1] int32) and per sensor of the task (``pointgoal_with_gps_compass`` [N, 2] float32:
    metres, and radians with left positive).

    Two batches may share scenes and renderer, so that one is rendered while the other acts:
    ``BatchNavEnv(n, library=first.library, renderer=first.renderer)``. All calls must come from one thread.

    The keywords are the fields of EnvConfig (``gym_batchnav.env.config``), in which each is described.

    Attributes:
        config: The keywords, as an EnvConfig.
        simulator: Moves the agents and tracks their episodes.
        cameras: Renders the agents' views.
        components: The task with all sensors and measures.
        stepper: Combines these three into a step.
    """

    metadata: dict[str, Any] = {"render_modes": list(RENDER_MODES), "render_fps": 10}  # noqa: RUF012 - Gymnasium's form
    closed = True  # until the constructor ends, so that Gymnasium does not close a batch that could not be made

    @takes_keywords_of(EnvConfig)
    def __init__(self, config: EnvConfig) -> None:
        self.config = config
        self.components = config.components
        check_memory(config)
        self.simulator = Simulator(config)
        self.cameras = AgentCameras(config, self.simulator)
        self.stepper = Stepper(config, self.simulator, self.cameras)
        self.num_envs = config.num_envs
        self.autoreset_mode = self.stepper.autoreset_mode
        self.render_mode = config.render_mode
        self.metadata = {**self.metadata, "autoreset_mode": self.autoreset_mode}
        self._claim = Claim("this environment")
        self.single_observation_space = config.observation_space
        self.single_action_space = config.action_kind.space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.closed = False

    def __repr__(self) -> str:
        scenes = [self.library.name(slot) for slot in self.library.active[:2].tolist()]
        more = ", ..." if len(self.library.names) > len(scenes) else ""
        return (
            f"{type(self).__name__}(num_envs={self.num_envs}, scenes=[{', '.join(map(repr, scenes))}{more}], "
            f"sensors={self.cameras.rig.keys}, task={self.task!r}, autoreset_mode={self.autoreset_mode.name.lower()!r})"
        )

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        """Show the agents' views and a table of settings in a notebook."""
        from gym_batchnav.viz.notebook import batch_bundle

        return batch_bundle(self, self.stepper.in_flight, include, exclude)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Raise TypeError, because scenes, lookup tables and renderers cannot be copied or pickled."""
        raise TypeError(
            f"{type(self).__name__} cannot be copied or pickled: make another one with the same arguments and pass the "
            "result of this one's get_state() to its set_state()"
        )

    # Properties and lookups

    @property
    def actions(self) -> Actions:
        """The meaning of the agents' actions: DiscreteActions, VelocityActions, ..."""
        return self.simulator.actions

    @property
    def library(self) -> SceneLibrary:
        """The scenes."""
        return self.simulator.library

    @property
    def renderer(self) -> Renderer:
        """The renderer; see ``renderer.name`` and ``renderer.device``."""
        return self.cameras.renderer

    @property
    def worlds(self) -> Worlds | None:
        """The worlds that agents share with others and with other bodies; None if each agent is alone."""
        return self.simulator.worlds

    @property
    def num_episodes(self) -> int:
        """The number of episodes of all scenes together."""
        return self.simulator.schedule.total

    @property
    def agents(self) -> AgentState:
        """Pose of every agent: read-only views of arrays that are updated in place; NaN before the first reset."""
        return self.task_state.agents

    @property
    def episodes(self) -> EpisodeState:
        """Episode of every environment and its progress: read-only views of arrays that are updated in place."""
        return self.task_state.episodes

    @property
    def task(self) -> Task:
        """The task."""
        return self.components.task

    @property
    def task_state(self) -> TaskState:
        """Read-only view of the state for tasks, sensors and measures."""
        return self.stepper.state

    @property
    def max_episode_steps(self) -> int:
        """The number of actions after which an episode is truncated."""
        return self.stepper.state.max_episode_steps

    @max_episode_steps.setter
    def max_episode_steps(self, steps: int) -> None:
        check_counts(max_episode_steps=steps)
        self.stepper.set_max_episode_steps(steps)

    @property
    def timings(self) -> dict[str, float]:
        """Seconds spent since the environment was made, by phase of the step; see PHASES."""
        return self.stepper.timings

    def protocol_card(self) -> ProtocolCard:
        """Return everything needed to reproduce a result: settings, checksums, versions, renderer and seeds.

        Print it, or store its ``to_json()`` with the result.
        """
        return make_card(self.config, self.simulator, self.cameras, self.max_episode_steps)

    def scene_name(self, index: int) -> str:
        """Return the name of the scene that environment ``index`` is in."""
        return self.library.name(self._slot_of(index))

    def episode_name(self, index: int) -> str:
        """Return the name of the episode that environment ``index`` runs, as in its episode file."""
        return self.simulator.episode_set(self._slot_of(index)).ids[int(self.episodes.episode[index])]

    def navmesh_of(self, index: int) -> NavMesh:
        """Return the navmesh of the scene that environment ``index`` is in."""
        return self.simulator.navmesh(self._slot_of(index))

    def _slot_of(self, index: int) -> int:
        """Return the slot of an environment's scene; raise ValueError for an unknown index."""
        return int(self.agents.slot[indices_of([index], self.num_envs)[0]])

    # Gymnasium's vector API

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode in every environment, or in those of a mask.

        Args:
            seed: Environment i is seeded with ``seed + i``, or with ``seed[i]`` of a sequence. Seeding restarts the
                sequence of scenes and episodes of an environment; None continues it.
            options: ``reset_mask``: [N] bool, the environments to reset (as in Gymnasium), in every autoreset mode.
                ``episode_index``: [N] int, the episode for each environment, numbered as in the info of that name; in a
                world only the first agent's counts.
                ``episode_order``: ``"random"`` or ``"once"``, changes the order and restarts it. In order ``"once"`` an
                environment that has not acted begins its episode again. ``episodes``: [E] int, with ``"once"`` the
                episodes to run, in this order, instead of all. Other options are ignored with a warning.

        Returns:
            Observations and infos of all environments; those of environments that are not reset do not change.

        Raises:
            ValueError: A seed or an option is wrong; the message names it.
            RuntimeError: The first reset does not include all environments; or, as in every method, the environment is
                closed, the process was forked, or another thread uses the environment.
        """
        self.check_open("reset")
        given = options_of(options)
        mask = mask_of("reset_mask", given.get("reset_mask"), self.num_envs)
        if not (self.simulator.begun | mask).all():
            raise RuntimeError("the first reset must include all environments: call reset() without 'reset_mask'")
        seeds = seeds_of(seed, self.num_envs)
        rows, order, chosen = (given.get(name) for name in ("episode_index", "episode_order", "episodes"))
        if rows is not None:
            rows = episodes_of("episode_index", rows, self.num_episodes, self.num_envs)[mask]
        if order is not None:
            check_choice("episode_order", order, EPISODE_ORDERS)
        if chosen is not None:
            if order != "once":
                raise ValueError("options={'episodes': ...}: also pass 'episode_order': 'once'")
            chosen = episodes_of("episodes", chosen, self.num_episodes)
        if self.worlds is not None:
            self.worlds.of_rows(np.nonzero(mask)[0])  # raises if the mask splits a world
        if order is not None:
            self.simulator.restart(order, chosen, mask)
        VectorEnv.reset(self, seed=seeds[0])  # for wrappers that draw from np_random
        self.stepper.abandon()
        self.simulator.seed(seeds, mask)
        return self.stepper.reset(mask, rows)

    def step(self, actions: np.ndarray) -> tuple[Observation, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Act in every environment.

        Args:
            actions: [N] integers from 0 to 3, or as ``action_space`` states. An environment ignores its action if it
                begins an episode in this step, or if no episode is left to run.

        Returns:
            Observations, rewards [N] float64, terminated [N] bool, truncated [N] bool, infos.
        """
        self.send(actions)
        return self.recv()

    def send(self, actions: np.ndarray) -> None:
        """Run the first half of ``step``: move, score, begin new episodes and start rendering."""
        self.check_ready("step")
        self.stepper.send(self.simulator.actions.validate(actions, self.num_envs))

    def recv(self) -> tuple[Observation, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Run the second half of ``step``: wait for the images. Return the results of ``step``."""
        self.check_open("recv")
        if not self.stepper.in_flight:
            raise RuntimeError("recv() without send(): no step is in progress: call send(actions) first")
        return self.stepper.recv()

    def render(self) -> tuple[np.ndarray, ...] | None:
        """Return every agent's view, as a tuple of N frames [256, 256, 3] uint8; None without a render mode."""
        return tuple(self.pictures()) if self.render_mode is not None else None

    def close_extras(self, **kwargs: Any) -> None:
        """Release the renderer, unless another batch made it, and the data prepared for the scenes."""
        self.stepper.abandon()
        with ExitStack() as stack:  # runs each callback even if another raises
            stack.callback(self.simulator.close)
            stack.callback(self.cameras.close)

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of the batch, or read an attribute, and return one result per environment.

        ``call("render")`` returns one frame per environment; any other result is that of the batch, repeated.
        """
        result = getattr(self, name)
        if callable(result):
            result = result(*args, **kwargs)
        return result if name == "render" and result is not None else (result,) * self.num_envs

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Return an attribute of the batch, once per environment."""
        return (getattr(self, name),) * self.num_envs

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute that all environments share; the entries of a list must be equal.

        Raises:
            ValueError: The entries of a list differ, or their number is not N.
        """
        if isinstance(values, (list, tuple)):
            if len(values) != self.num_envs or any(value != values[0] for value in values):
                raise ValueError(f"set_attr({name!r}): the environments of a batch share it; pass one value")
            values = values[0]
        setattr(self, name, values)

    # Beyond Gymnasium

    def paused(self, mask: np.ndarray) -> AbstractContextManager[None]:
        """Return a context manager in which the environments of a mask [N] bool keep their state while the others step.

        Their actions are ignored and their rewards are 0. It works through vector wrappers, too:
        ``with envs.unwrapped.paused(mask): envs.step(actions)``. Worlds pause as a whole; nested pauses add up.
        """
        return self.stepper.paused(mask_of("mask", mask, self.num_envs))

    def shortest_path_actions(self) -> np.ndarray:
        """Return the next actions, [N] int64 or as ``action_space`` states, of the greedy shortest-path follower."""
        self.check_ready("shortest_path_actions")
        return self.simulator.shortest_path_actions(self.components.goal_radius)

    def pictures(self, indices: np.ndarray | None = None, size: int = 256, camera: str | None = None) -> np.ndarray:
        """Return the views of agents ``indices`` [M] (default: all) as RGB images [M, size, size, 3] uint8.

        Args:
            indices: The agents.
            size: Pixels per side.
            camera: Name of the camera; the first one by default.

        Raises:
            ValueError: An index is not from 0 to N - 1, or the camera is unknown.
        """
        self.check_ready("pictures")
        check_counts(size=size)
        indices = np.arange(self.num_envs) if indices is None else indices_of(indices, self.num_envs)
        if camera is not None and camera not in self.cameras.rig.cameras:
            check_choice("camera", camera, (None, *filter(None, self.cameras.rig.cameras)))
        shown = self.cameras.rig.first if camera is None else self.cameras.rig.cameras[camera]
        return self.cameras.pictures(self.agents, indices, replace(shown, width=size, height=size))

    def set_pose(
        self,
        position: np.ndarray,
        heading: np.ndarray,
        mask: np.ndarray | None = None,
        *,
        pitch: np.ndarray | None = None,
    ) -> Observation:
        """Move agents to given poses in their scenes and return the observations there; their episodes continue.

        Args:
            position: [N, 3], metres, each navigable (see ``NavMesh.snap``).
            heading: [N], radians, stored from -pi to pi.
            mask: [N] bool, the agents to move; all by default.
            pitch: [N], radians by which the agents tilt their cameras, from -pi/2 to pi/2, up positive. By default they
                keep their pitch.

        Raises:
            ValueError: A shape is wrong, a position is not navigable, a heading is not finite or a pitch not within its
                limits; no agent moves then.
        """
        self.check_ready("set_pose")
        mask = mask_of("mask", mask, self.num_envs)
        position = numbers_of("position", position, (self.num_envs, 3))
        heading = numbers_of("heading", heading, (self.num_envs,))
        if pitch is not None:
            pitch = numbers_of("pitch", pitch, (self.num_envs,))[mask]
        return self.stepper.set_pose(np.nonzero(mask)[0], position[mask], heading[mask], pitch)

    def get_state(self) -> dict[str, Any]:
        """Return everything that ``set_state`` needs to resume from here: copied arrays and plain values."""
        self.check_ready("get_state")
        return self.simulator.get_state()

    def set_state(self, state: dict[str, Any]) -> Observation:
        """Resume from the state of an environment with the same arguments, and return its observations.

        Raises:
            ValueError: The state belongs to an environment with other arguments, or is damaged; nothing changes then.
        """
        self.check_open("set_state")
        self.simulator.set_state(state)
        self.stepper.abandon()
        self.stepper.tell_placed(np.arange(self.num_envs))
        return self.stepper.observe()

    def functional(self, arrays: str = "torch") -> FunctionalBatch:
        """Return this batch as a function from a state and actions to the next state and the results of ``step``.

        Args:
            arrays: ``"torch"`` for tensors, which share the memory of the arrays that ``step`` would return, or
                ``"numpy"``.

        Raises:
            ValueError: Scenes rotate at times that are not the same in every run, or the kind of arrays is unknown.
            MissingExtraError: torch is not installed.
        """
        return FunctionalBatch(self, arrays)

    # Checks

    def check_open(self, method: str) -> None:
        """Raise RuntimeError after ``close()``, in a forked process and in another thread."""
        if self.closed:
            raise RuntimeError(f"{method} after close(): make a new environment")
        self._claim.claim_thread(method)

    def check_idle(self, method: str) -> None:
        """Raise RuntimeError while a step is in flight, and where ``check_open`` does."""
        self.check_open(method)
        if self.stepper.in_flight:
            raise RuntimeError(f"{method} between send() and recv(): call recv() first")

    def check_ready(self, method: str) -> None:
        """Raise RuntimeError before the first reset, and where ``check_idle`` does."""
        self.check_idle(method)
        if not self.simulator.begun.all():
            raise RuntimeError(f"{method} before reset: call reset() first")


def batch_of(env: Any) -> BatchNavEnv:
    """Return the batch inside the wrappers of an environment; TypeError if there is none."""
    batch = getattr(env, "unwrapped", env)
    if isinstance(batch, BatchNavEnv):
        return batch
    single = isinstance(getattr(batch, "batch", None), BatchNavEnv)
    remedy = (
        "pass env.unwrapped.batch, which has the batch's own observations (for a model of Stable-Baselines3, pass "
        "SB3Agent(model, env) as the agent)"
        if single
        else "pass an environment made with gymnasium.make_vec('BatchNav/...')"
    )
    raise TypeError(f"{type(env).__name__} is not a batch of gym_batchnav: {remedy}")
