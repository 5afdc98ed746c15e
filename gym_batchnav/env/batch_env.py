"""BatchNavEnv: N agents in K scenes that move, are scored and are drawn in one call."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.spaces import Dict, Discrete
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from gym_batchnav.env.cameras import AgentCameras, picture_spaces, spread
from gym_batchnav.env.infos import end_info, step_info
from gym_batchnav.env.settings import (
    RENDER_MODES,
    BatchSettings,
    actions_of,
    autoreset_mode_of,
    check_choice,
    check_kind,
    episodes_of,
    mask_of,
    seeds_of,
)
from gym_batchnav.env.simulator import Simulator
from gym_batchnav.episodes.schedule import EPISODE_ORDERS
from gym_batchnav.geometry import Camera
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.library.sources import SceneSpec
from gym_batchnav.navmesh.mesh import NavMesh, NavMeshSettings
from gym_batchnav.preparation.kernels import warm_up_batch
from gym_batchnav.preparation.residents import make_library
from gym_batchnav.render.api import Renderer
from gym_batchnav.state import Action, AgentState, EpisodeState, read_only
from gym_batchnav.system.process import claim_process
from gym_batchnav.task.api import Measure, Sensor, Task, TaskState
from gym_batchnav.task.components import Components, Measures
from gym_batchnav.task.pointnav import PointNav

PHASES = ("move", "measure", "episodes", "render", "observe")

Observation = dict[str, Any]  # by sensor: an array, or with obs_device="cuda" a torch tensor


class BatchNavEnv(VectorEnv):
    """Thousands of agents in shared scenes behind Gymnasium's vector API.

    Actions are 0 STOP, 1 MOVE_FORWARD, 2 TURN_LEFT, 3 TURN_RIGHT. An observation is a dict with one array per sensor
    (``depth`` [N, H, W, 1] float32, ``rgb`` [N, H, W, 3] uint8, ``semantic`` [N, H, W, 1] int32) and the task's own
    (``pointgoal_with_gps_compass`` [N, 2] float32: metres, radians with left positive).

    Two batches may share scenes and renderer, so that one is drawn while the other acts:
    ``BatchNavEnv(n, library=first.library, renderer=first.renderer)``. All calls come from one thread.

    Args:
        num_envs: N, the number of environments, one agent each.
        scenes: Where to walk: ``"apartments"`` (the shipped ones, the default), one of their names, the path of a
            scene file, a folder or a pattern, a Habitat scene dataset, ``"procedural:SEED"`` or
            ``"procedural:FIRST-LAST"``, a Scene, or a list of these.
        sensors: Any of ``"depth"``, ``"rgb"``, ``"semantic"``, none of them for blind agents, and Sensors of
            ``task.api`` besides those that the task brings.
        task: The task; PointNav() by default. See ``task.api`` for how to write your own.
        measures: Measures of ``task.api`` to report besides those that the task brings.
        camera: The agents' camera; Camera() by default (64 x 64 pixels, 90 degrees, 1.25 m above the navmesh, whose
            heights lie up to 0.2 m above the floor, as Recast's do).
        renderer: ``"auto"`` (OpenGL on a GPU, Embree otherwise), ``"opengl"``, ``"embree"``, or another batch's
            Renderer of the same ``library``, which that batch closes.
        autoreset_mode: ``"next_step"``, ``"same_step"``, ``"disabled"`` or Gymnasium's enum.
        max_episode_steps: An episode that has not ended after this many actions is truncated.
        episode_order: ``"random"`` draws episodes with replacement; ``"once"`` runs each exactly once, after which an
            environment reports ``episode_valid`` False and stands still.
        episode_file: A Habitat PointNav dataset (JSON or JSON.gz) with episodes for the scenes.
        num_episodes: How many episodes to sample in a scene that brings none.
        navmesh_settings: Size and skill of the agent that navmeshes are built for. By default a navmesh that lies
            beside a scene is taken as it is, and others are built for NavMeshSettings().
        forward_step: Metres of MOVE_FORWARD.
        turn_angle_deg: Degrees of a turn.
        sliding: Slide along walls; False stops at them.
        reuse_buffers: Return pictures in a ring of arrays that stay valid for ``buffers`` further steps, instead of
            fresh arrays.
        buffers: See ``reuse_buffers``.
        obs_device: ``"cpu"`` for NumPy arrays, or ``"cuda"`` for torch tensors that never leave an NVIDIA device; the
            pictures are then those of a ring as with ``reuse_buffers``. Rewards and flags stay NumPy arrays.
        render_mode: None or ``"rgb_array"``.
        resident_scenes: K, how many scenes agents are in at a time. If more are listed, a background thread loads the
            next ones, and an agent moves over when an episode of its own begins. By default all of up to eight scenes
            are resident, and of more one for every 32 environments; all of them where episodes run once.
        rotate_every: Least number of steps from one change of scene to the next.
        deterministic_rotation: Change scenes at the same steps in every run, and wait for the loader where need be;
            otherwise stepping never waits.
        max_scene_bytes: Upper limit for scene data, applied separately to main memory and to the graphics device;
            scenes that do not fit are left out or passed over, and where agents may be in them already, the first
            reset says so.
        library: Scenes to share with other environments, instead of ``scenes`` and what goes with it. Reseeding then
            leaves the scenes as they are where they rotate.
        cache_dir: Where prepared scenes are kept; None for the user's cache folder.

    Attributes:
        settings: The plain keywords, as a BatchSettings.
        simulator: Moves the agents and keeps their episodes.
        cameras: Draws the agents' views.
        components: The task with all sensors and measures.
        task_state: Read-only view of the state for tasks, sensors and measures.
        timings: Seconds spent since the environment was made, by phase of the step; see PHASES.
    """

    metadata: dict[str, Any] = {"render_modes": list(RENDER_MODES), "render_fps": 10}  # noqa: RUF012 - Gymnasium's form

    def __init__(
        self,
        num_envs: int = 1,
        *,
        scenes: SceneSpec | None = None,
        sensors: Sequence[str | Sensor] = ("depth",),
        task: Task | None = None,
        measures: Sequence[Measure] = (),
        camera: Camera | None = None,
        renderer: str | Renderer = "auto",
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        max_episode_steps: int = 500,
        episode_order: str = "random",
        episode_file: str | Path | None = None,
        num_episodes: int = 1000,
        navmesh_settings: NavMeshSettings | None = None,
        forward_step: float = 0.25,
        turn_angle_deg: float = 10.0,
        sliding: bool = True,
        reuse_buffers: bool = False,
        buffers: int = 2,
        obs_device: str = "cpu",
        render_mode: str | None = None,
        resident_scenes: int | None = None,
        rotate_every: int = 250,
        deterministic_rotation: bool = False,
        max_scene_bytes: int | None = None,
        library: SceneLibrary | None = None,
        cache_dir: str | Path | None = None,
    ) -> None:
        settings = BatchSettings(
            num_envs=num_envs, sensors=sensors, camera=camera, renderer=renderer, autoreset_mode=autoreset_mode,
            max_episode_steps=max_episode_steps, episode_order=episode_order, episode_file=episode_file,
            num_episodes=num_episodes, navmesh_settings=navmesh_settings, forward_step=forward_step,
            turn_angle_deg=turn_angle_deg, sliding=sliding, reuse_buffers=reuse_buffers, buffers=buffers,
            obs_device=obs_device, render_mode=render_mode, resident_scenes=resident_scenes, rotate_every=rotate_every,
            deterministic_rotation=deterministic_rotation, max_scene_bytes=max_scene_bytes, cache_dir=cache_dir,
        )  # fmt: skip
        self.settings = settings
        self.components = Components(PointNav() if task is None else task, settings.other_sensors, measures)
        preparer = settings.preparer()
        library = _library(settings, scenes, library, preparer)
        self.simulator = Simulator(
            library,
            num_envs,
            preparer,
            episode_order,
            self.components.memory(num_envs),
            forward_step=forward_step,
            turn_angle=float(np.radians(turn_angle_deg)),
            sliding=sliding,
        )
        self.cameras = AgentCameras(
            library,
            renderer,
            camera or Camera(),
            settings.pictures,
            num_envs,
            reuse_buffers=reuse_buffers,
            buffers=buffers,
            device=obs_device,
        )
        self.num_envs = num_envs
        self.autoreset_mode = autoreset_mode_of(autoreset_mode)
        self.render_mode = render_mode
        self.metadata = {**self.metadata, "autoreset_mode": self.autoreset_mode}
        self.timings = dict.fromkeys(PHASES, 0.0)
        self._sent: tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, Any]] | None = None
        self.max_episode_steps = max_episode_steps
        self._make_spaces()

    def _make_spaces(self) -> None:
        """Make the spaces of one environment and of the batch."""
        pictures = picture_spaces(self.cameras.camera, self.cameras.sensors)
        self.single_observation_space = Dict({**pictures, **self.components.spaces})
        self.single_action_space = Discrete(len(Action))
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def __repr__(self) -> str:
        """The number of environments, their scenes and their task, in one line."""
        scenes = [self.library.name(slot) for slot in self.library.active[:2].tolist()]
        more = ", ..." if len(self.library.names) > len(scenes) else ""
        return (
            f"{type(self).__name__}(num_envs={self.num_envs}, scenes=[{', '.join(map(repr, scenes))}{more}], "
            f"sensors={self.cameras.sensors}, task={self.task!r}, autoreset_mode={self.autoreset_mode.name.lower()!r})"
        )

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        """Show the agents' views beside a table of settings in a notebook."""
        from gym_batchnav.viz.portraits import batch_bundle

        return batch_bundle(self, self._sent is not None, include, exclude)

    # Gymnasium's vector API

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode in every environment, or in those of a mask.

        Args:
            seed: Environment i is seeded with ``seed + i``, or with ``seed[i]`` of a sequence. Seeding starts an
                environment's plan of scenes and episodes again. None continues the present plan.
            options: ``reset_mask``: [N] bool, the environments to reset (Gymnasium's). ``episode_index``: [N] int,
                the episode that each environment runs now, numbered as in the info of that name. ``episode_order``:
                ``"random"`` or ``"once"``, to change the order and begin anew.

        Returns:
            Observations and infos of all environments; those that are not reset keep theirs.

        Raises:
            ValueError: A seed or an option is wrong; the message names it.
            RuntimeError: The first reset is not of all environments, or as for every call after ``close()``, in a
                forked process.
        """
        self._check_open("reset")
        options = options or {}
        if set(options) - {"reset_mask", "episode_index", "episode_order"}:
            raise ValueError(
                f"reset options {sorted(options)}: known are 'reset_mask', 'episode_index' and 'episode_order'"
            )
        mask = mask_of("reset_mask", options.get("reset_mask"), self.num_envs)
        if not (self.simulator.begun | mask).all():
            raise RuntimeError("the first reset must be of all environments: call reset() without 'reset_mask'")
        seeds = seeds_of(seed, self.num_envs)
        wanted, rows = options.get("episode_index"), None
        if wanted is not None:
            rows = episodes_of(wanted, self.num_envs, self.num_episodes)[mask]
        order = options.get("episode_order")
        if order is not None:
            check_choice("episode_order", order, EPISODE_ORDERS)
            self.simulator.change_order(order)
        self._sent = None
        self.simulator.seed(seeds, mask)
        self._begin_episodes(mask, rows)
        return self._observe(), self._info(self.components.measure_step(self.task_state))

    def step(self, actions: np.ndarray) -> tuple[Observation, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Act in every environment.

        Args:
            actions: [N] integers from 0 to 3. An environment that begins an episode in this step, or has none left to
                run, ignores its action.

        Returns:
            Observations, rewards [N] float64, terminated [N] bool, truncated [N] bool, infos.
        """
        self.send(actions)
        return self.recv()

    def send(self, actions: np.ndarray) -> None:
        """The first half of ``step``: move, score, begin new episodes and start drawing."""
        self._check_ready("step")
        actions = actions_of(actions, self.num_envs)
        beginning = self._beginning()
        active = self.episodes.valid & ~beginning
        clock = time.perf_counter()
        self.simulator.advance()
        clock = self._tick("episodes", clock)
        self.simulator.move(actions, active)
        clock = self._tick("move", clock)
        state, components = self.task_state, self.components
        components.update(state, actions, active)
        measures = components.measure_step(state)
        terminated = components.terminated(state, measures, active)
        truncated = active & state.timed_out & ~terminated
        done = np.logical_or(terminated, truncated, out=self.episodes.done)
        measures.update(components.measure_ends(state, done))
        reward = components.reward(state, measures, active)
        self._tick("measure", clock)
        info = self._autoreset(beginning, done.copy(), measures)
        clock = time.perf_counter()
        self.cameras.begin(self.agents)
        self._sent = (reward, terminated, truncated, info)
        self._tick("render", clock)

    def recv(self) -> tuple[Observation, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """The second half of ``step``: wait for the pictures; returns what ``step`` returns."""
        if self._sent is None:
            raise RuntimeError("recv() without send(): no step is under way")
        self._check_open("step")
        reward, terminated, truncated, info = self._sent
        self._sent = None
        clock = time.perf_counter()
        images = self.cameras.finish()
        self._tick("render", clock)
        return self._observation(images), reward, terminated, truncated, info

    def render(self) -> tuple[np.ndarray, ...] | None:
        """Return every agent's view, as a tuple of N frames [256, 256, 3] uint8; None without a render mode."""
        return tuple(self.pictures()) if self.render_mode is not None else None

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of the batch, or read an attribute: one result per environment.

        ``call("render")`` gives each environment its own frame; all else is shared by the batch, and each is given it.
        """
        result = getattr(self, name)
        if callable(result):
            result = result(*args, **kwargs)
        return result if name == "render" and result is not None else (result,) * self.num_envs

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Return an attribute of the batch, once for every environment."""
        return (getattr(self, name),) * self.num_envs

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of the batch; of a list, all entries must be equal, since environments share it.

        Raises:
            ValueError: The entries differ, or their number is not N.
        """
        if isinstance(values, (list, tuple)):
            if len(values) != self.num_envs or any(value != values[0] for value in values):
                raise ValueError(f"set_attr({name!r}): the environments of a batch share it; give one value")
            values = values[0]
        setattr(self, name, values)

    def close_extras(self, **kwargs: Any) -> None:
        """Release the renderer, unless another batch made it, and what was prepared for the scenes."""
        self._sent = None
        with ExitStack() as stack:  # each of them, whatever the others raise
            stack.callback(self.simulator.close)
            stack.callback(self.cameras.close)

    # Beyond Gymnasium

    @property
    def library(self) -> SceneLibrary:
        """The scenes."""
        return self.simulator.library

    @property
    def renderer(self) -> Renderer:
        """The renderer; ``renderer.name`` and ``renderer.device`` say which."""
        return self.cameras.renderer

    @property
    def num_episodes(self) -> int:
        """The number of episodes of all scenes together."""
        return self.simulator.schedule.total

    @property
    def agents(self) -> AgentState:
        """The pose of every agent, as arrays that are written in place."""
        return self.simulator.agents

    @property
    def episodes(self) -> EpisodeState:
        """Every environment's episode and its progress, as arrays that are written in place."""
        return self.simulator.episodes

    @property
    def task(self) -> Task:
        """The task."""
        return self.components.task

    @property
    def max_episode_steps(self) -> int:
        """The number of actions after which an episode is truncated."""
        return self.task_state.max_episode_steps

    @max_episode_steps.setter
    def max_episode_steps(self, steps: int) -> None:
        self.task_state = TaskState(
            agents=read_only(self.agents),
            episodes=read_only(self.episodes),
            memory=self.simulator.memory,
            navmesh=self.simulator.navmesh,
            max_episode_steps=steps,
            success_distance=self.task.success_distance,
        )

    def scene_name(self, index: int) -> str:
        """Return the name of the scene that environment ``index`` is in."""
        return self.library.name(int(self.agents.slot[index]))

    def episode_name(self, index: int) -> str:
        """Return the name of the episode that environment ``index`` runs, as its file has it."""
        return self.simulator.episode_set(int(self.agents.slot[index])).ids[int(self.episodes.episode[index])]

    def navmesh_of(self, index: int) -> NavMesh:
        """Return the navmesh of the scene that environment ``index`` is in."""
        return self.simulator.navmesh(int(self.agents.slot[index]))

    def shortest_path_actions(self) -> np.ndarray:
        """Return the next actions [N] int64 of the greedy shortest-path follower."""
        self._check_ready("shortest_path_actions")
        return self.simulator.shortest_path_actions(self.task.success_distance)

    def pictures(self, indices: np.ndarray | None = None, size: int = 256) -> np.ndarray:
        """Return the views of agents ``indices`` [M] (default: all) as RGB pictures [M, size, size, 3] uint8."""
        self._check_ready("render")
        indices = np.arange(self.num_envs) if indices is None else np.asarray(indices)
        camera = replace(self.cameras.camera, width=size, height=size)
        return self.cameras.pictures(self.agents, indices, camera)

    def set_pose(self, position: np.ndarray, heading: np.ndarray, mask: np.ndarray | None = None) -> Observation:
        """Put agents elsewhere in their scenes; their episodes continue.

        Args:
            position: [N, 3], metres, each navigable (see ``NavMesh.snap``).
            heading: [N], radians.
            mask: [N] bool, the agents to move; all by default.

        Returns:
            The observations from there.

        Raises:
            ValueError: A position is not navigable.
        """
        self._check_ready("set_pose")
        mask = mask_of("mask", mask, self.num_envs)
        position = np.asarray(position, np.float32).reshape(self.num_envs, 3)
        heading = np.asarray(heading, np.float32).reshape(self.num_envs)
        self.simulator.set_pose(np.nonzero(mask)[0], position[mask], heading[mask])
        return self._observe()

    def get_state(self) -> dict[str, Any]:
        """Return all that ``set_state`` needs to resume from here: copied arrays and plain values."""
        self._check_ready("get_state")
        return self.simulator.get_state()

    def set_state(self, state: dict[str, Any]) -> Observation:
        """Resume from a state that an environment of the same arguments gave; returns the observations there."""
        self._check_open("set_state")
        self._sent = None
        self.simulator.set_state(state)
        return self._observe()

    # The phases of a step

    def _beginning(self) -> np.ndarray:
        """Return the environments [N] bool that spend this step on beginning an episode."""
        if self.autoreset_mode == AutoresetMode.DISABLED and self.episodes.done.any():
            index = int(self.episodes.done.argmax())
            raise RuntimeError(
                f"environment {index} has ended: call reset() before the next step "
                "(in a batch, reset(options={'reset_mask': terminated | truncated}))"
            )
        return self.episodes.done.copy()

    def _begin_episodes(self, mask: np.ndarray, wanted: np.ndarray | None = None) -> None:
        """Begin the next episodes, or those ``wanted`` [M] int, in the M environments of a mask [N] bool."""
        indices = self.simulator.begin_episodes(np.nonzero(mask)[0], wanted)
        self.components.begin(self.task_state, indices)

    def _autoreset(self, beginning: np.ndarray, done: np.ndarray, measures: Measures) -> dict[str, Any]:
        """Begin the episodes that the autoreset mode begins in this step, and return the step's infos.

        | mode      | begins now       | infos of an episode's end                                 |
        |-----------|------------------|-----------------------------------------------------------|
        | NEXT_STEP | ``beginning``    | beside those of the step                                  |
        | SAME_STEP | ``done``         | in ``final_info``, with ``final_obs``, as before it began |
        | DISABLED  | none             | beside those of the step                                  |
        """
        ends = end_info(self.components, measures, done)
        if self.autoreset_mode == AutoresetMode.SAME_STEP:
            final = self._final(done, measures, ends) if done.any() else {}
            return {**self._begin(done | beginning, measures), **final}
        return {**self._begin(beginning, measures), **ends}

    def _final(self, done: np.ndarray, measures: Measures, ends: dict[str, Any]) -> dict[str, Any]:
        """Return the last observations and infos of the episodes that ended, in their scenes as they still are."""
        clock = time.perf_counter()
        final_obs = self._observe_some(np.nonzero(done)[0])
        self._tick("render", clock)
        final_info = {**self._info(measures), **ends}
        return {
            "final_obs": final_obs, "_final_obs": done, "final_info": final_info, "_final_info": done.copy(),
        }  # fmt: skip

    def _begin(self, mask: np.ndarray, measures: Measures) -> dict[str, Any]:
        """Begin episodes in the environments of a mask [N] bool and return the infos of all."""
        clock = time.perf_counter()
        if mask.any():
            self._begin_episodes(mask)
            measures = self.components.measure_step(self.task_state)
        info = self._info(measures)
        self._tick("episodes", clock)
        return info

    def _info(self, measures: Measures) -> dict[str, Any]:
        """Return the infos of any step."""
        return step_info(self.simulator, self.components, measures)

    def _observe(self) -> Observation:
        """Read every sensor; draw what has changed."""
        clock = time.perf_counter()
        images = self.cameras.refresh(self.agents)
        self._tick("render", clock)
        return self._observation(images)

    def _observation(self, images: dict[str, Any]) -> Observation:
        """Return the pictures with the readings of all other sensors."""
        clock = time.perf_counter()
        readings = self.components.observe(self.task_state)
        observation = {**images, **{name: self.cameras.to_device(values) for name, values in readings.items()}}
        self._tick("observe", clock)
        return observation

    def _observe_some(self, indices: np.ndarray) -> Observation:
        """Return dense observations of which only the rows ``indices`` [M] are filled; the others are zero."""
        readings = self.components.observe(self.task_state)
        dense = {name: spread(values[indices], indices, self.num_envs) for name, values in readings.items()}
        return {
            **self.cameras.of_some(self.agents, indices),
            **{name: self.cameras.to_device(values) for name, values in dense.items()},
        }

    # Checks and book-keeping

    def _check_open(self, what: str) -> None:
        """Raise RuntimeError after ``close()`` and in a forked process."""
        if self.closed:
            raise RuntimeError(f"{what} after close(): make a new environment")
        claim_process(what)

    def _check_ready(self, what: str) -> None:
        """Raise RuntimeError before the first reset and while a step is under way."""
        self._check_open(what)
        if not self.simulator.begun.all():
            raise RuntimeError(f"{what} before reset: call reset() first")
        if self._sent is not None:
            raise RuntimeError(f"{what} between send() and recv(): call recv() first")

    def _tick(self, phase: str, since: float) -> float:
        """Count the time since ``since`` towards a phase of the step; returns the present time."""
        now = time.perf_counter()
        self.timings[phase] += now - since
        return now


def _library(
    settings: BatchSettings, scenes: SceneSpec | None, shared: SceneLibrary | None, preparer: Any
) -> SceneLibrary:
    """Return the library that is shared, or make one.

    Raises:
        ValueError: A library is given with keywords of another, or a renderer of another library.
    """
    check_kind("library", shared, SceneLibrary)
    if shared is not None:
        deterministic = settings.deterministic_rotation or None
        given = (scenes, settings.resident_scenes, settings.max_scene_bytes, deterministic)
        if any(value is not None for value in given):
            raise ValueError("library= brings its scenes with it: leave out scenes= and how they rotate")
    if not isinstance(settings.renderer, str) and getattr(settings.renderer, "library", None) is not shared:
        raise ValueError("renderer= is of another library: give library= of the environment that made it, too")
    if shared is not None:
        return shared
    warm_up_batch(settings.num_envs, settings.renderer_name, draws=bool(settings.pictures))
    return make_library(
        "apartments" if scenes is None else scenes,
        settings.num_envs,
        preparer,
        once=settings.episode_order == "once",
        resident_scenes=settings.resident_scenes,
        rotate_every=settings.rotate_every,
        deterministic=settings.deterministic_rotation,
        max_scene_bytes=settings.max_scene_bytes,
    )
