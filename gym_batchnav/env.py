"""BatchNavEnv: N agents in K scenes that move, are scored and are drawn in one call."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.spaces import Dict, Discrete
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from gym_batchnav.arguments import (
    actions_of,
    autoreset_mode_of,
    check_choice,
    check_counts,
    check_flags,
    check_kind,
    check_positive,
    episodes_of,
    mask_of,
    seeds_of,
)
from gym_batchnav.cameras import AgentCameras, picture_spaces, spread
from gym_batchnav.geometry import Camera
from gym_batchnav.navmesh.mesh import NavMesh, NavMeshSettings
from gym_batchnav.process import claim_process
from gym_batchnav.render.api import RENDERERS, Renderer, check_sensors
from gym_batchnav.residents import library_for
from gym_batchnav.scene.cache import DiskCache
from gym_batchnav.scene.library import SceneLibrary
from gym_batchnav.scene.sources import SceneSpec
from gym_batchnav.simulator import NUM_ACTIONS, BatchSimulator
from gym_batchnav.task.episode import EpisodeSet
from gym_batchnav.task.pointnav import PointNav, PointNavMeasures
from gym_batchnav.task.prepare import NavigationPreparer
from gym_batchnav.task.schedule import MODES
from gym_batchnav.task.state import AgentState, EpisodeState

PARTS = ("move", "measure", "episodes", "render", "observe")

Observation = dict[str, Any]  # by sensor: an array, or with obs_device="cuda" a torch tensor


class BatchNavEnv(VectorEnv):
    """Thousands of agents in shared scenes behind Gymnasium's vector API.

    Actions are 0 STOP, 1 MOVE_FORWARD, 2 TURN_LEFT, 3 TURN_RIGHT. An observation is a dict with one array a sensor
    (``depth`` [N, H, W, 1] float32, ``rgb`` [N, H, W, 3] uint8, ``semantic`` [N, H, W, 1] int32) and the task's own
    (``pointgoal_with_gps_compass`` [N, 2] float32: metres, radians with left positive).

    Args:
        num_envs: N, the number of environments, one agent each.
        scenes: What to walk in: ``"apartments"`` (the shipped ones, if not given), one of their names, the path of a
            scene file, a folder or a pattern, a Habitat scene dataset, ``"procedural:SEED"`` or
            ``"procedural:FIRST-LAST"``, a Scene, or a list of these.
        sensors: Any of ``"depth"``, ``"rgb"``, ``"semantic"``; empty for blind agents.
        task: What is asked; PointNav() if not given.
        camera: The agents' camera; Camera() if not given (64 x 64 pixels, 90 degrees, 1.25 m above the navmesh, whose
            heights lie up to 0.2 m above the floor, as Recast's do).
        renderer: ``"auto"`` (OpenGL on a GPU, Embree otherwise), ``"opengl"`` or ``"embree"``.
        autoreset_mode: ``"next_step"``, ``"same_step"``, ``"disabled"`` or Gymnasium's enum.
        max_episode_steps: An episode that has not ended after so many actions is truncated.
        episodes: ``"random"`` draws episodes with replacement; ``"once"`` runs each exactly once, after which an
            environment reports ``episode_valid`` False and stands still.
        resident_scenes: How many scenes agents are in at a time, K. If more are listed, a background thread loads the
            next ones, and an agent moves over when an episode of its own begins. By default all of up to eight scenes
            are resident, and of more one for every 32 environments; all of them where episodes run once.
        rotate_every: Steps from one change of scene to the next, at least.
        deterministic_rotation: Change scenes at the same steps in every run, and wait for the loader where need be;
            otherwise stepping never waits.
        max_scene_bytes: Leave out scenes with which more memory than this would be held.
        episode_file: A Habitat PointNav dataset (JSON or JSON.gz) with episodes for the scenes.
        num_episodes: How many episodes to sample in a scene that brings none.
        agent: Size and skill of the agent that navmeshes are built for. If not given, a navmesh that lies beside a
            scene is taken as it is, and others are built for NavMeshSettings().
        forward_step: Metres of MOVE_FORWARD.
        turn_angle_deg: Degrees of a turn.
        sliding: Slide along walls; False stops at them.
        reuse_buffers: Return pictures in a ring of arrays that stay valid for ``buffers`` further steps, instead of
            fresh arrays.
        buffers: See ``reuse_buffers``.
        obs_device: ``"cpu"`` for NumPy arrays, or ``"cuda"`` for torch tensors that never leave an NVIDIA device; the
            pictures are then those of a ring as with ``reuse_buffers``. Rewards and flags stay NumPy arrays.
        render_mode: None or ``"rgb_array"``.
        library: Scenes to share with other environments, instead of ``scenes`` and what goes with it. Reseeding then
            leaves the scenes as they are where they rotate.
        cache_dir: Where prepared scenes are kept; None for the user's cache folder.

    Attributes:
        library: The scenes.
        simulator: Moves the agents and keeps their episodes.
        cameras: Draws what the agents see.
        timings: Seconds spent since the environment was made, by part of the step.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 - Gymnasium's own form

    def __init__(
        self,
        num_envs: int = 1,
        *,
        scenes: SceneSpec | None = None,
        sensors: Sequence[str] = ("depth",),
        task: PointNav | None = None,
        camera: Camera | None = None,
        renderer: str = "auto",
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        max_episode_steps: int = 500,
        episodes: str = "random",
        episode_file: str | Path | None = None,
        num_episodes: int = 1000,
        agent: NavMeshSettings | None = None,
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
        check_counts(
            num_envs=num_envs, max_episode_steps=max_episode_steps, num_episodes=num_episodes, buffers=buffers,
            rotate_every=rotate_every,
        )  # fmt: skip
        limits = {"resident_scenes": resident_scenes, "max_scene_bytes": max_scene_bytes}
        check_counts(**{name: limit for name, limit in limits.items() if limit is not None})
        check_positive(forward_step=forward_step, turn_angle_deg=turn_angle_deg)
        check_flags(sliding=sliding, reuse_buffers=reuse_buffers, deterministic_rotation=deterministic_rotation)
        if not isinstance(sensors, (tuple, list)) or len(sensors) > 0:
            check_sensors(sensors)
        check_choice("renderer", renderer, RENDERERS)
        check_choice("render_mode", render_mode, (None, *self.metadata["render_modes"]))
        check_choice("episodes", episodes, MODES)
        check_choice("obs_device", obs_device, ("cpu", "cuda"))
        check_kind("task", task, PointNav)
        check_kind("camera", camera, Camera)
        check_kind("agent", agent, NavMeshSettings)
        check_kind("library", library, SceneLibrary)
        self.num_envs = num_envs
        self.task = task or PointNav()
        self.autoreset_mode = autoreset_mode_of(autoreset_mode)
        self.metadata = {**self.metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = render_mode
        self.max_episode_steps = max_episode_steps
        preparer = NavigationPreparer(
            settings=agent,
            episode_file=None if episode_file is None else Path(episode_file),
            num_episodes=num_episodes,
            cache=DiskCache(None if cache_dir is None else Path(cache_dir)),
        )
        if library is not None:
            given = (scenes, resident_scenes, max_scene_bytes, deterministic_rotation or None)
            if any(value is not None for value in given):
                raise ValueError("library= brings its scenes with it: leave out scenes= and how they rotate")
        self.library = library or library_for(
            "apartments" if scenes is None else scenes,
            num_envs,
            preparer,
            once=episodes == "once",
            resident_scenes=resident_scenes,
            rotate_every=rotate_every,
            deterministic=deterministic_rotation,
            max_bytes=max_scene_bytes,
        )
        self.simulator = BatchSimulator(
            self.library,
            num_envs,
            preparer,
            episodes=episodes,
            forward_step=forward_step,
            turn_angle=float(np.radians(turn_angle_deg)),
            sliding=sliding,
        )
        self.cameras = AgentCameras(
            self.library,
            renderer,
            camera or Camera(),
            tuple(sensors),
            num_envs,
            reuse_buffers=reuse_buffers,
            buffers=buffers,
            device=obs_device,
        )
        self.single_observation_space = Dict(
            {**picture_spaces(self.cameras.camera, tuple(sensors)), **self.task.observation_spaces()}
        )
        self.single_action_space = Discrete(NUM_ACTIONS)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

        self._sent: tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, Any]] | None = None
        self._begun = False
        self.timings = dict.fromkeys(PARTS, 0.0)

    # Gymnasium's vector API

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode in every environment, or in those of a mask.

        Args:
            seed: Environment i is seeded with ``seed + i``, or with ``seed[i]`` of a sequence. Seeding starts an
                environment's plan of scenes and episodes again. None goes on with the present plan.
            options: ``reset_mask``: [N] bool, the environments to reset (Gymnasium's). ``episodes``: [N] int, the
                episode that each environment is to run now (numbered as in the info ``episode_index``), or ``"random"``
                or ``"once"`` to change the mode and begin anew.

        Returns:
            Observations and infos of all environments; those that are not reset keep theirs.
        """
        self._check_open("reset")
        options = options or {}
        if set(options) - {"reset_mask", "episodes"}:
            raise ValueError(f"reset options {sorted(options)}: known are 'reset_mask' and 'episodes'")
        mask = mask_of("reset_mask", options.get("reset_mask"), self.num_envs)
        if not self._begun and not mask.all():
            raise RuntimeError("the first reset must be of all environments: call reset() without 'reset_mask'")
        seeds = seeds_of(seed, self.num_envs)
        wanted, rows = options.get("episodes"), None
        if isinstance(wanted, str):
            check_choice("episodes", wanted, MODES)
            self.simulator.schedule.restart(wanted)
        elif wanted is not None:
            rows = episodes_of(wanted, self.num_envs, self.num_episodes)[mask]
        self._abandon_step()
        self.simulator.seed(seeds, mask, fresh=not self._begun)
        self._begun = True
        self.simulator.begin_episodes(np.nonzero(mask)[0], rows)
        return self._observe(), self._info(np.zeros(self.num_envs, bool))

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
        measures = self.task.measure(self.episodes, self.max_episode_steps)
        reward = np.where(active, self.task.reward(measures), 0.0)
        terminated, truncated = (active & ended for ended in self.task.ended(measures))
        self.episodes.done[:] = terminated | truncated
        clock = self._tick("measure", clock)
        info = self._autoreset(beginning, measures)
        clock = self._tick("episodes", clock)
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
        return self._finish_observation(), reward, terminated, truncated, info

    def render(self) -> tuple[np.ndarray, ...] | None:
        """What every agent sees, as a tuple of N frames [256, 256, 3] uint8; None without a render mode."""
        return tuple(self.pictures()) if self.render_mode is not None else None

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of the batch, or read an attribute: one result an environment.

        ``call("render")`` gives each environment its own frame; all else is shared by the batch, and each is given it.
        """
        result = getattr(self, name)
        if callable(result):
            result = result(*args, **kwargs)
        return result if name == "render" and result is not None else (result,) * self.num_envs

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """An attribute of the batch, once for every environment."""
        return (getattr(self, name),) * self.num_envs

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of the batch; of a list, all entries must be equal, since environments share it."""
        if isinstance(values, (list, tuple)):
            if len(values) != self.num_envs or any(value != values[0] for value in values):
                raise ValueError(f"set_attr({name!r}): the environments of a batch share it; give one value")
            values = values[0]
        setattr(self, name, values)

    def close_extras(self, **kwargs: Any) -> None:
        """Release the renderer and what was prepared of the scenes."""
        with ExitStack() as stack:  # each of them, whatever the others raise
            for resource in (self.simulator, self.cameras):
                stack.callback(resource.close)

    # Beyond Gymnasium

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
        """Where every agent stands, as arrays that are written in place."""
        return self.simulator.agents

    @property
    def episodes(self) -> EpisodeState:
        """What every environment's episode is and what has come of it, as arrays that are written in place."""
        return self.simulator.episodes

    def episode_set(self, slot: int) -> EpisodeSet:
        """The episodes of the scene in a slot."""
        return self.simulator.episode_set(slot)

    def navmesh(self, slot: int) -> NavMesh:
        """The navmesh of the scene in a slot."""
        return self.simulator.navmesh(slot)

    def scene_name(self, index: int) -> str:
        """Name of the scene that environment ``index`` is in."""
        return self.library.name(int(self.agents.scene[index]))

    def episode_name(self, index: int) -> str:
        """Name of the episode that environment ``index`` runs, as its file has it."""
        return self.episode_set(int(self.agents.scene[index])).ids[int(self.episodes.episode[index])]

    def shortest_path_actions(self) -> np.ndarray:
        """What the greedy shortest-path follower would do now: [N] int64 actions."""
        self._check_ready("shortest_path_actions")
        return self.simulator.shortest_path_actions(self.task.success_distance)

    def pictures(self, indices: np.ndarray | None = None, size: int = 256) -> np.ndarray:
        """What agents ``indices`` [M] (all if not given) see, as square RGB pictures [M, size, size, 3] uint8."""
        self._check_ready("render")
        indices = np.arange(self.num_envs) if indices is None else np.asarray(indices)
        camera = replace(self.cameras.camera, width=size, height=size)
        return self.cameras.pictures(self.agents, indices, camera)

    def set_pose(self, position: np.ndarray, heading: np.ndarray, mask: np.ndarray | None = None) -> Observation:
        """Put agents elsewhere in their scenes; their episodes go on.

        Args:
            position: [N, 3], metres, each navigable (see ``NavMesh.snap``).
            heading: [N], radians.
            mask: [N] bool, which agents; all if not given.

        Returns:
            The observations from there.

        Raises:
            ValueError: a position is not navigable.
        """
        self._check_ready("set_pose")
        mask = mask_of("mask", mask, self.num_envs)
        position = np.asarray(position, np.float32).reshape(self.num_envs, 3)
        heading = np.asarray(heading, np.float32).reshape(self.num_envs)
        self.simulator.set_pose(np.nonzero(mask)[0], position[mask], heading[mask])
        return self._observe()

    def get_state(self) -> dict[str, Any]:
        """All that ``set_state`` needs to go on from here: copied arrays and plain values."""
        self._check_ready("get_state")
        return self.simulator.get_state()

    def set_state(self, state: dict[str, Any]) -> Observation:
        """Go on from a state that an environment of the same arguments gave; returns the observations there."""
        self._check_open("set_state")
        self._abandon_step()
        self.simulator.set_state(state)
        self._begun = True
        return self._observe()

    # The parts of a step

    def _beginning(self) -> np.ndarray:
        """Environments [N] bool that spend this step on beginning an episode."""
        if self.autoreset_mode == AutoresetMode.DISABLED and self.episodes.done.any():
            index = int(self.episodes.done.argmax())
            raise RuntimeError(
                f"environment {index} has ended: call reset() before the next step "
                "(in a batch, reset(options={'reset_mask': terminated | truncated}))"
            )
        return self.episodes.done.copy()

    def _autoreset(self, beginning: np.ndarray, measures: PointNavMeasures) -> dict[str, Any]:
        """Begin the episodes that the autoreset mode begins in this step; returns the step's infos."""
        done = self.episodes.done.copy()
        if self.autoreset_mode != AutoresetMode.SAME_STEP or not done.any():
            self.simulator.begin_episodes(np.nonzero(beginning)[0])
            return self._info(done, measures)
        ended = np.nonzero(done)[0]
        final_obs = self._observe_some(ended)  # in their old scene, before they move on
        final_info = self._info(done, measures)
        self.simulator.begin_episodes(np.nonzero(done | beginning)[0])
        info = self._info(np.zeros_like(done))
        info.update({"final_obs": final_obs, "_final_obs": done, "final_info": final_info, "_final_info": done.copy()})
        return info

    def _abandon_step(self) -> None:
        """Let go of a step that was sent and not received."""
        self._sent = None

    def _observe(self) -> Observation:
        """Draw and read everything."""
        clock = time.perf_counter()
        self.cameras.begin(self.agents)
        self._tick("render", clock)
        return self._finish_observation()

    def _finish_observation(self) -> Observation:
        """What the agents see and feel, once the pictures are drawn."""
        clock = time.perf_counter()
        images = self.cameras.finish()
        clock = self._tick("render", clock)
        felt = self.task.observe(self.agents, self.episodes)
        observation = {**images, **{name: self.cameras.to_device(values) for name, values in felt.items()}}
        self._tick("observe", clock)
        return observation

    def _observe_some(self, indices: np.ndarray) -> Observation:
        """Dense observations of which only the rows ``indices`` [M] are filled; the others are zero."""
        felt = self.task.observe(self.agents, self.episodes)
        dense = {name: spread(values[indices], indices, self.num_envs) for name, values in felt.items()}
        return {
            **self.cameras.of_some(self.agents, indices),
            **{name: self.cameras.to_device(values) for name, values in dense.items()},
        }

    def _info(self, ended: np.ndarray, end_measures: PointNavMeasures | None = None) -> dict[str, Any]:
        """Gymnasium's infos: an array a key and its mask; end measures are masked by ``ended`` [N]."""
        agents, episodes = self.agents, self.episodes
        measures = self.task.measure(episodes, self.max_episode_steps)
        info: dict[str, Any] = {
            "scene_index": self.library.source_index[agents.scene],
            "episode_index": self.simulator.schedule.index(agents.scene, episodes.episode),
            **{name: getattr(measures, name).copy() for name in self.task.step_measures},
        }
        if self.simulator.schedule.mode == "once":
            info["episode_valid"] = episodes.valid.copy()
        info.update({f"_{name}": np.ones(self.num_envs, bool) for name in tuple(info)})
        if ended.any():
            for name in self.task.end_measures:
                values = getattr(end_measures, name)
                info[name], info[f"_{name}"] = np.where(ended, values, values.dtype.type(0)), ended.copy()
        return info

    # Checks and book-keeping

    def _check_open(self, what: str) -> None:
        """Refuse to go on after close() and in a forked process."""
        if self.closed:
            raise RuntimeError(f"{what} after close(): make a new environment")
        claim_process(what)

    def _check_ready(self, what: str) -> None:
        """Refuse what needs a reset before it, or the end of a step under way."""
        self._check_open(what)
        if not self._begun:
            raise RuntimeError(f"{what} before reset: call reset() first")
        if self._sent is not None:
            raise RuntimeError(f"{what} between send() and recv(): call recv() first")

    def _tick(self, part: str, since: float) -> float:
        """Count the time since ``since`` towards a part of the step; returns the present time."""
        now = time.perf_counter()
        self.timings[part] += now - since
        return now
