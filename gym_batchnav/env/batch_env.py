"""BatchNavEnv: N agents in K scenes that move, are scored and are drawn in one call."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from gym_batchnav.env.arguments import (
    autoreset_mode_of,
    check_choice,
    check_counts,
    check_flags,
    check_kind,
    check_positive,
    sensors_of,
)
from gym_batchnav.env.batch import NavBatch, Observation
from gym_batchnav.env.cameras import AgentCameras
from gym_batchnav.env.simulator import BatchSimulator
from gym_batchnav.env.world import World
from gym_batchnav.episodes.schedule import EPISODE_ORDERS
from gym_batchnav.geometry import Camera
from gym_batchnav.library.cache import DiskCache
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.library.sources import SceneSpec
from gym_batchnav.navmesh.mesh import NavMeshSettings
from gym_batchnav.preparation.kernels import warm_up_batch
from gym_batchnav.preparation.navigation import NavigationPreparer
from gym_batchnav.preparation.residents import make_library
from gym_batchnav.render.api import RENDERERS
from gym_batchnav.task.api import Measure, Sensor, Task
from gym_batchnav.task.components import Components
from gym_batchnav.task.pointnav import PointNav


class BatchNavEnv(NavBatch):
    """Thousands of agents in shared scenes behind Gymnasium's vector API.

    Actions are 0 STOP, 1 MOVE_FORWARD, 2 TURN_LEFT, 3 TURN_RIGHT. An observation is a dict with one array a sensor
    (``depth`` [N, H, W, 1] float32, ``rgb`` [N, H, W, 3] uint8, ``semantic`` [N, H, W, 1] int32) and the task's own
    (``pointgoal_with_gps_compass`` [N, 2] float32: metres, radians with left positive).

    Args:
        num_envs: N, the number of environments, one agent each.
        scenes: What to walk in: ``"apartments"`` (the shipped ones, if not given), one of their names, the path of a
            scene file, a folder or a pattern, a Habitat scene dataset, ``"procedural:SEED"`` or
            ``"procedural:FIRST-LAST"``, a Scene, or a list of these.
        sensors: Any of ``"depth"``, ``"rgb"``, ``"semantic"``, none of them for blind agents, and Sensors of
            ``task.api`` besides those that the task brings.
        task: What is asked; PointNav() if not given. See ``task.api`` for how to make your own.
        measures: Measures of ``task.api`` to report besides those that the task brings.
        camera: The agents' camera; Camera() if not given (64 x 64 pixels, 90 degrees, 1.25 m above the navmesh, whose
            heights lie up to 0.2 m above the floor, as Recast's do).
        renderer: ``"auto"`` (OpenGL on a GPU, Embree otherwise), ``"opengl"`` or ``"embree"``.
        autoreset_mode: ``"next_step"``, ``"same_step"``, ``"disabled"`` or Gymnasium's enum.
        max_episode_steps: An episode that has not ended after so many actions is truncated.
        episode_order: ``"random"`` draws episodes with replacement; ``"once"`` runs each exactly once, after which an
            environment reports ``episode_valid`` False and stands still.
        resident_scenes: How many scenes agents are in at a time, K. If more are listed, a background thread loads the
            next ones, and an agent moves over when an episode of its own begins. By default all of up to eight scenes
            are resident, and of more one for every 32 environments; all of them where episodes run once.
        rotate_every: Steps from one change of scene to the next, at least.
        deterministic_rotation: Change scenes at the same steps in every run, and wait for the loader where need be;
            otherwise stepping never waits.
        max_scene_bytes: How much the scenes may take of main memory, and again of the graphics device; scenes that do
            not fit are left out or passed over, and where agents may be in them already, the first reset says so.
        episode_file: A Habitat PointNav dataset (JSON or JSON.gz) with episodes for the scenes.
        num_episodes: How many episodes to sample in a scene that brings none.
        navmesh_settings: Size and skill of the agent that navmeshes are built for. If not given, a navmesh that lies
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
        library: Scenes to share with other environments, instead of ``scenes`` and what goes with it. Reseeding then
            leaves the scenes as they are where they rotate.
        cache_dir: Where prepared scenes are kept; None for the user's cache folder.

    Attributes:
        library: The scenes.
        simulator: Moves the agents and keeps their episodes.
        cameras: Draws what the agents see.
        parts: See ``split``.
        timings: Seconds spent since the environment was made, by part of the step, its parts' included.
    """

    def __init__(
        self,
        num_envs: int = 1,
        *,
        scenes: SceneSpec | None = None,
        sensors: Sequence[str | Sensor] = ("depth",),
        task: Task | None = None,
        measures: Sequence[Measure] = (),
        camera: Camera | None = None,
        renderer: str = "auto",
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
        check_counts(
            num_envs=num_envs, max_episode_steps=max_episode_steps, num_episodes=num_episodes, buffers=buffers,
            rotate_every=rotate_every,
        )  # fmt: skip
        limits = {"resident_scenes": resident_scenes, "max_scene_bytes": max_scene_bytes}
        check_counts(**{name: limit for name, limit in limits.items() if limit is not None})
        check_positive(forward_step=forward_step, turn_angle_deg=turn_angle_deg)
        check_flags(sliding=sliding, reuse_buffers=reuse_buffers, deterministic_rotation=deterministic_rotation)
        pictured, felt = sensors_of(sensors)
        check_choice("renderer", renderer, RENDERERS)
        check_choice("render_mode", render_mode, (None, *self.metadata["render_modes"]))
        check_choice("episode_order", episode_order, EPISODE_ORDERS)
        check_choice("obs_device", obs_device, ("cpu", "cuda"))
        if obs_device == "cuda" and renderer == "embree":
            raise ValueError("obs_device='cuda' with renderer='embree': Embree draws into main memory; take 'opengl'")
        components = Components(PointNav() if task is None else task, felt, measures)
        check_kind("camera", camera, Camera)
        check_kind("navmesh_settings", navmesh_settings, NavMeshSettings)
        check_kind("library", library, SceneLibrary)
        reset_mode = autoreset_mode_of(autoreset_mode)
        preparer = NavigationPreparer(
            settings=navmesh_settings,
            episode_file=None if episode_file is None else Path(episode_file),
            num_episodes=num_episodes,
            cache=DiskCache(None if cache_dir is None else Path(cache_dir)),
        )
        if library is None:  # else another environment has compiled
            warm_up_batch(num_envs, renderer, draws=bool(pictured))
        else:
            given = (scenes, resident_scenes, max_scene_bytes, deterministic_rotation or None)
            if any(value is not None for value in given):
                raise ValueError("library= brings its scenes with it: leave out scenes= and how they rotate")
        library = library or make_library(
            "apartments" if scenes is None else scenes,
            num_envs,
            preparer,
            once=episode_order == "once",
            resident_scenes=resident_scenes,
            rotate_every=rotate_every,
            deterministic=deterministic_rotation,
            max_scene_bytes=max_scene_bytes,
        )
        self._world = World(library, num_envs, preparer, episode_order, components.memory(num_envs))
        simulator = BatchSimulator(
            self._world, forward_step=forward_step, turn_angle=float(np.radians(turn_angle_deg)), sliding=sliding
        )
        cameras = AgentCameras(
            library,
            renderer,
            camera or Camera(),
            pictured,
            num_envs,
            reuse_buffers=reuse_buffers,
            buffers=buffers,
            device=obs_device,
        )
        super().__init__(
            simulator,
            cameras,
            components=components,
            autoreset_mode=reset_mode,
            max_episode_steps=max_episode_steps,
            render_mode=render_mode,
        )

    def split(self, count: int) -> tuple[NavBatch, ...]:
        """Parts that step on their own, so that one is drawn while actions are chosen for another.

        Part p has environments ``p * N / count`` to ``(p + 1) * N / count - 1`` in their present state and keeps their
        seeds and scenes: resetting and stepping the parts in turn, the first one first, does what resetting and
        stepping the whole does (OpenGL rounds depth by where it draws), and a step of each may be under way. Scenes
        rotate with the steps of the first part; where all of its environments are reset with seeds, or the mode of
        episodes is set there, the plan of scenes and episodes begins anew, and the others have to be reset after it.

        The batch itself still gives pictures, takes and gives states and closes everything. It steps and resets only
        when all parts are closed. All calls come from one thread.

        Args:
            count: How many parts, a divisor of N.

        Raises:
            ValueError: It is no such number.
            RuntimeError: The batch is split already, or a step is under way.
        """
        self._check_open("split")
        self._check_whole("split")
        check_counts(count=count)
        if self.num_envs % count:
            raise ValueError(f"split({count}) of {self.num_envs} environments: give a divisor of {self.num_envs}")
        if self._sent is not None:
            raise RuntimeError("split between send() and recv(): call recv() first")
        simulators, cameras = self.simulator.split(count), self.cameras.split(count)
        self.parts = tuple(
            NavBatch(
                simulator,
                seen,
                components=self.components,
                autoreset_mode=self.autoreset_mode,
                max_episode_steps=self.max_episode_steps,
                render_mode=self.render_mode,
                timings=self.timings,
            )
            for simulator, seen in zip(simulators, cameras, strict=True)
        )
        return self.parts

    def get_state(self) -> dict[str, Any]:
        """All that ``set_state`` needs to go on from here: copied arrays and plain values."""
        self._check_ready("get_state")
        return self._world.get_state()

    def set_state(self, state: dict[str, Any]) -> Observation:
        """Go on from a state that an environment of the same arguments gave; returns the observations there."""
        self._check_open("set_state")
        for one in (self, *self.parts):
            one._abandon_step()
        self._world.set_state(state)
        return self._observe()

    def close_extras(self, **kwargs: Any) -> None:
        """Release the parts, the renderer and what was prepared of the scenes."""
        with ExitStack() as stack:  # each of them, whatever the others raise
            resources: list[Any] = [self._world, self.cameras, *self.parts]
            for resource in resources:
                stack.callback(resource.close)
