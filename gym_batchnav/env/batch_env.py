"""BatchNavEnv: one call moves, scores and renders N agents in K scenes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.spaces import Dict
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from gym_batchnav.actions.api import Actions
from gym_batchnav.actions.noise import ActuationNoise
from gym_batchnav.env.arguments import (
    chosen_of,
    episodes_of,
    indices_of,
    mask_of,
    numbers_of,
    options_of,
    seeds_of,
)
from gym_batchnav.env.attributes import BatchAttributes
from gym_batchnav.env.cameras import AgentCameras
from gym_batchnav.env.functional import FunctionalBatch
from gym_batchnav.env.memory import check_memory
from gym_batchnav.env.observer import Observer
from gym_batchnav.env.protocol_card import fills_in_protocol
from gym_batchnav.env.queries import BatchQueries
from gym_batchnav.env.rig import CameraSpec
from gym_batchnav.env.settings import RENDER_MODES, BatchSettings, autoreset_mode_of, check_choice
from gym_batchnav.env.simulator import Simulator
from gym_batchnav.env.stepper import Observation, Stepper
from gym_batchnav.episodes.schedule import EPISODE_ORDERS
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.library.sources import SceneSpec
from gym_batchnav.navmesh.mesh import NavMeshSettings
from gym_batchnav.noise.api import SensorNoise
from gym_batchnav.noise.timing import SensorTiming
from gym_batchnav.protocols import NavigationProtocol
from gym_batchnav.render.api import Renderer
from gym_batchnav.scene.categories import SemanticIds
from gym_batchnav.system.numbers import check_counts
from gym_batchnav.system.process import Claim
from gym_batchnav.task.api import Measure, Sensor, Task
from gym_batchnav.task.components import Components
from gym_batchnav.task.pointnav import PointNav
from gym_batchnav.worlds.api import MovingBodies, Team
from gym_batchnav.worlds.views import WorldViews


class BatchNavEnv(BatchQueries, BatchAttributes, VectorEnv):
    """Thousands of agents in shared scenes behind Gymnasium's vector API.

    By default, actions are 0 STOP, 1 MOVE_FORWARD, 2 TURN_LEFT, 3 TURN_RIGHT; ``actions=`` chooses others, such as
    velocities. An observation is a dict with one array per sensor
    (``depth`` [N, H, W, 1] float32, ``rgb`` [N, H, W, 3] uint8, ``semantic`` [N, H, W, 1] int32) and those of the task
    (``pointgoal_with_gps_compass`` [N, 2] float32: metres, radians with left positive).

    Two batches may share scenes and renderer, so that one is rendered while the other acts:
    ``BatchNavEnv(n, library=first.library, renderer=first.renderer)``. All calls must come from one thread.

    Args:
        num_envs: N, the number of environments, one agent each. With ``agents_per_world`` a multiple of it.
        protocol: Name of a paper's or challenge's protocol, such as ``"pointnav-2021"``, or a NavigationProtocol. It
            brings its task, camera, noise and limits; keywords that are passed beside it take the place of its own. See
            ``gym_batchnav.protocols`` and ``protocol_card``.
        scenes: ``"apartments"`` (the shipped ones, the default), one of their names, the path of a scene file, a folder
            or a pattern, a Habitat scene dataset, ``"procedural:SEED"`` or ``"procedural:FIRST-LAST"``, a Scene, or a
            list of these.
        sensors: Any of ``"depth"``, ``"rgb"``, ``"semantic"``, ``"normals"`` and ``"points"`` (see
            ``render.api.SENSOR_FORMATS``), or none of them for blind agents; and Sensor objects (see ``task.api``) in
            addition to those of the task. All of several cameras record ``"depth"``; one records ``"front/depth"``.
        semantic_ids: What ``"semantic"`` shows: ``"instance"``, the ids of objects; ``"category"``, Matterport3D's
            numbers of categories (``scene.categories.MPCAT40``); or your own, such as ``{"chair": 1, "sofa": 2}``, with
            0 for all others.
        task: The task; PointNav() by default. See ``task.api`` for how to write your own.
        measures: Measure objects (see ``task.api``) to report in addition to those of the task.
        agents_per_world: Number M of agents that share a world: they see and block each other, and their episodes begin
            and end together. Environments ``w M`` to ``w M + M - 1`` form world w. A pair ``(2, 4)`` draws the number
            for each episode; a Team also chooses the agents' shape and size.
        bodies: Other moving bodies in every world, such as ``(People(6),)``; see ``gym_batchnav.worlds``.
        camera: The agents' camera; Camera() by default (64 x 64 pixels, 90 degrees, 1.25 m above the visible floor
            under the agent). With several cameras by name, such as ``{"front": Camera(), "left": Camera(yaw_deg=90)}``,
            observations have a key per camera and sensor: ``"front/depth"``.
        sensor_noise: Noise of images, by ``"rgb"`` for all cameras or ``"front/rgb"`` for one:
            ``{"rgb": GaussianNoise(0.1), "depth": RedwoodNoise()}``; see ``gym_batchnav.noise``.
        sensor_timing: When sensors read and when their readings arrive, by name like ``sensor_noise``:
            ``{"rgb": SensorTiming(period=4, latency=1)}``. Tasks and measures read sensors without delay.
        renderer: ``"auto"`` (OpenGL on a GPU, Embree otherwise), ``"opengl"``, ``"embree"``, or the Renderer of another
            batch with the same ``library``; the batch that made a renderer closes it.
        autoreset_mode: ``"next_step"``, ``"same_step"``, ``"disabled"`` or Gymnasium's enum.
        max_episode_steps: An episode that has not ended after this many actions is truncated.
        episode_order: ``"random"`` draws episodes with replacement; ``"once"`` runs each episode exactly once, after
            which an environment reports ``episode_valid`` False and stands still.
        episode_file: A Habitat PointNav or ObjectNav dataset (JSON or JSON.gz) with episodes for the scenes.
        num_episodes: Number of episodes to sample for a scene that comes without any.
        floors: Where sampled episodes begin and end: ``"main"`` for the largest island of each storey, ``"habitat"``
            for all islands with a radius of 1.5 m, also roofs and furniture; by default as the task's sampler has it.
        navmesh_settings: Size and abilities of the agent for which navmeshes are built. By default, a navmesh beside a
            scene is used as it is, and other navmeshes are built with NavMeshSettings().
        actions: ``"discrete"``, ``"velocity"``, ``"waypoint"``, ``"holonomic"``, or an object such as
            ``DiscreteActions(look_angle_deg=30)`` or ``VelocityActions(time_step=0.5)``; see ``gym_batchnav.actions``.
        actuation_noise: ``"locobot"``, an object such as ``LoCoBotNoise(multiplier=1)``, or None for exact motion.
        forward_step: Length of MOVE_FORWARD of ``actions="discrete"``, metres.
        turn_angle_deg: Angle of a turn of ``actions="discrete"``, degrees.
        sliding: Slide along walls; False stops at them.
        geodesic: Method of the distances that tasks and measures read: ``"exact"``, or ``"detour"`` for those that
            Habitat computes, which are longer where its paths are not the shortest.
        reuse_buffers: Return images in a ring of arrays that remain valid for ``buffers`` further steps, instead of
            fresh arrays.
        buffers: See ``reuse_buffers``.
        obs_device: ``"cpu"`` for NumPy arrays, or ``"cuda"`` for torch tensors that never leave an NVIDIA device;
            images then always live in a ring, as with ``reuse_buffers``. Read them on torch's current stream and do not
            write into them. Rewards and flags remain NumPy arrays.
        render_mode: None or ``"rgb_array"``.
        resident_scenes: K, the number of scenes in use at a time. If more are listed, a background thread loads the
            next ones, and an agent moves to a new scene when its next episode begins. By default up to eight scenes are
            all resident, and of more, one per 32 environments; with ``episode_order="once"`` all are. A number larger
            than the number of scenes means all of them.
        rotate_every: Minimum number of steps between two changes of scene.
        deterministic_rotation: Change scenes at the same steps in every run, waiting for the loader if necessary;
            otherwise stepping never waits.
        max_scene_bytes: Upper limit for scene data, applied separately to main memory and to the graphics device.
            Scenes that do not fit are left out. If agents may already be in one of them, the first reset raises an
            error.
        texture_size: Longest side of textures in pixels; ``"auto"`` fits those of a scene file into 256 MiB.
        max_triangles: Simplify scene files with more triangles; navmeshes are built before. See ``load_scene``.
        library: Scenes to share with other environments, instead of ``scenes`` and its related keywords. If the scenes
            rotate, reseeding then does not restart their order.
        cache_dir: Folder for prepared scenes; None for the user's cache folder.

    Attributes:
        settings: The plain keywords, as a BatchSettings.
        simulator: Moves the agents and tracks their episodes.
        cameras: Renders the agents' views.
        components: The task with all sensors and measures.
        stepper: Combines these three into a step.
    """

    metadata: dict[str, Any] = {"render_modes": list(RENDER_MODES), "render_fps": 10}  # noqa: RUF012 - Gymnasium's form
    closed = True  # until the constructor ends, so that Gymnasium does not close a batch that could not be made

    @fills_in_protocol
    def __init__(
        self,
        num_envs: int = 1,
        *,
        protocol: str | NavigationProtocol | None = None,
        scenes: SceneSpec | None = None,
        sensors: Sequence[str | Sensor] = ("depth",),
        semantic_ids: str | Mapping[str, int] = "instance",
        task: Task | None = None,
        measures: Sequence[Measure] = (),
        agents_per_world: int | tuple[int, int] | Team = 1,
        bodies: Sequence[MovingBodies] = (),
        camera: CameraSpec = None,
        sensor_noise: Mapping[str, SensorNoise] | None = None,
        sensor_timing: Mapping[str, SensorTiming] | None = None,
        renderer: str | Renderer = "auto",
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        max_episode_steps: int = 500,
        episode_order: str = "random",
        episode_file: str | Path | None = None,
        num_episodes: int = 1000,
        floors: str | None = None,
        navmesh_settings: NavMeshSettings | None = None,
        actions: str | Actions = "discrete",
        actuation_noise: str | ActuationNoise | None = None,
        forward_step: float = 0.25,
        turn_angle_deg: float = 10.0,
        sliding: bool = True,
        geodesic: str = "exact",
        reuse_buffers: bool = False,
        buffers: int = 2,
        obs_device: str = "cpu",
        render_mode: str | None = None,
        resident_scenes: int | None = None,
        rotate_every: int = 250,
        deterministic_rotation: bool = False,
        max_scene_bytes: int | None = None,
        texture_size: int | str = "auto",
        max_triangles: int | None = None,
        library: SceneLibrary | None = None,
        cache_dir: str | Path | None = None,
    ) -> None:
        settings = BatchSettings(
            num_envs=num_envs, protocol=protocol, sensors=sensors, semantic_ids=semantic_ids, camera=camera,
            agents_per_world=agents_per_world, bodies=bodies, sensor_noise=sensor_noise,
            sensor_timing=sensor_timing, renderer=renderer, autoreset_mode=autoreset_mode,
            max_episode_steps=max_episode_steps, episode_order=episode_order, episode_file=episode_file,
            num_episodes=num_episodes, floors=floors, navmesh_settings=navmesh_settings, actions=actions,
            actuation_noise=actuation_noise, forward_step=forward_step, turn_angle_deg=turn_angle_deg,
            sliding=sliding, geodesic=geodesic, reuse_buffers=reuse_buffers, buffers=buffers, obs_device=obs_device,
            render_mode=render_mode, resident_scenes=resident_scenes, rotate_every=rotate_every,
            deterministic_rotation=deterministic_rotation, max_scene_bytes=max_scene_bytes, cache_dir=cache_dir,
            texture_size=texture_size, max_triangles=max_triangles,
        )  # fmt: skip
        self.components = Components(
            PointNav() if task is None else task, settings.other_sensors, measures, settings.action_kind.space
        )
        self.settings = settings = replace(settings, picture_cameras=self.components.picture_cameras)
        delays = settings.delays(self.components)
        settings.check_images(self.components.images)
        check_memory(settings, self.components)
        preparer = settings.preparer(self.components.task.sampler)
        library = settings.library(scenes, library, preparer)
        self.simulator = Simulator(
            library,
            num_envs,
            preparer,
            episode_order,
            {**self.components.memory(num_envs), **delays.memory(num_envs)},
            actions=settings.action_kind,
            actuation_noise=settings.noise,
            sliding=sliding,
            geodesic=geodesic,
            team=settings.team,
            bodies=settings.bodies,
            check_memory=self.components.check_memory,
        )
        ids = SemanticIds.of(semantic_ids)
        worlds = self.simulator.worlds
        self.cameras = AgentCameras(
            library,
            settings.renderer_name if isinstance(renderer, str) else renderer,
            settings.rig(),
            num_envs,
            self.simulator.navmeshes,
            reuse_buffers=reuse_buffers,
            buffers=buffers,
            device=obs_device,
            semantic_ids=ids,
            bodies=None if worlds is None else WorldViews(worlds, self.simulator.navmeshes, ids),
            episode_keys=self.simulator.episodes.noise,
        )
        self.num_envs = num_envs
        self.autoreset_mode = autoreset_mode_of(autoreset_mode)
        self.render_mode = render_mode
        self.metadata = {**self.metadata, "autoreset_mode": self.autoreset_mode}
        self._claim = Claim("this environment")
        observer = Observer(self.cameras, self.components, delays)
        self.stepper = Stepper(
            self.simulator, self.cameras, self.components, observer, self.autoreset_mode, max_episode_steps
        )
        self.single_observation_space = Dict({**self.cameras.rig.spaces, **self.components.spaces})
        self.single_action_space = settings.action_kind.space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.closed = False

    def __repr__(self) -> str:
        """Return one line with the number of environments, their scenes and their task."""
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

        return batch_bundle(self, self.stepper.in_flight, include, exclude)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Raise TypeError, because scenes, lookup tables and renderers cannot be copied or pickled."""
        raise TypeError(
            f"{type(self).__name__} cannot be copied or pickled: make another one with the same arguments and pass the "
            "result of this one's get_state() to its set_state()"
        )

    # Gymnasium's vector API

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode in every environment, or in those of a mask.

        Args:
            seed: Environment i is seeded with ``seed + i``, or with ``seed[i]`` of a sequence. Seeding restarts the
                sequence of scenes and episodes of an environment; None continues it.
            options: ``reset_mask``: [N] bool, the environments to reset (as in Gymnasium), in every autoreset mode.
                ``episode_index``: [N] int, the episode for each environment, numbered as in the info of that name.
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
            rows = episodes_of(rows, self.num_envs, self.num_episodes)[mask]
        if order is not None:
            check_choice("episode_order", order, EPISODE_ORDERS)
        if chosen is not None:
            if order != "once":
                raise ValueError("options={'episodes': ...}: also pass 'episode_order': 'once'")
            chosen = chosen_of(chosen, self.num_episodes)
        if self.worlds is not None:
            self.worlds.of_rows(np.nonzero(mask)[0])
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
        if not self.stepper.in_flight:
            raise RuntimeError("recv() without send(): no step is in progress")
        self.check_open("step")
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
            ValueError: An index is not from 0 to N - 1, or there is no such camera.
        """
        self.check_ready("pictures")
        check_counts(size=size)
        indices = np.arange(self.num_envs) if indices is None else indices_of(indices, self.num_envs)
        if camera is not None:
            check_choice("camera", camera, tuple(self.cameras.rig.cameras))
        shown = self.cameras.camera if camera is None else self.cameras.rig.cameras[camera]
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
            ValueError: Scenes rotate at times that are not the same in every run, or there is no such kind of arrays.
            MissingExtraError: torch is not installed.
        """
        return FunctionalBatch(self, arrays)
