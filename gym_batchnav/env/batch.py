"""NavBatch: environments that step together, the one path of a step."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from gymnasium.spaces import Dict, Discrete
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from gym_batchnav.env.arguments import actions_of, check_choice, episodes_of, mask_of, seeds_of
from gym_batchnav.env.cameras import AgentCameras, picture_spaces, spread
from gym_batchnav.env.simulator import BatchSimulator
from gym_batchnav.episodes.sampling import EpisodeSet
from gym_batchnav.episodes.schedule import EPISODE_ORDERS
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.render.api import Renderer
from gym_batchnav.state import Action, AgentState, EpisodeState, read_only
from gym_batchnav.system.process import claim_process
from gym_batchnav.task.api import Task, TaskState
from gym_batchnav.task.components import Components, Measured

PARTS = ("move", "measure", "episodes", "render", "observe")

Observation = dict[str, Any]  # by sensor: an array, or with obs_device="cuda" a torch tensor


class NavBatch(VectorEnv):
    """Environments behind Gymnasium's vector API: all of a BatchNavEnv, or those of a part that it was split into.

    Args:
        simulator: Moves the agents and keeps their episodes.
        cameras: Draws what the agents see.
        components: What is asked, perceived and measured.
        autoreset_mode: When the next episode begins.
        max_episode_steps: An episode that has not ended after so many actions is truncated.
        render_mode: None or ``"rgb_array"``.
        timings: Where seconds are counted, by part of the step; from zero if not given.

    Attributes:
        components: The task with all sensors and measures.
        parts: What it was split into; it does not step itself before these are closed.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 - Gymnasium's own form

    def __init__(
        self,
        simulator: BatchSimulator,
        cameras: AgentCameras,
        *,
        components: Components,
        autoreset_mode: AutoresetMode,
        max_episode_steps: int,
        render_mode: str | None,
        timings: dict[str, float] | None = None,
    ) -> None:
        self.num_envs = simulator.num_agents
        self.simulator, self.cameras, self.components = simulator, cameras, components
        self.autoreset_mode, self.max_episode_steps, self.render_mode = autoreset_mode, max_episode_steps, render_mode
        self.metadata = {**self.metadata, "autoreset_mode": autoreset_mode}
        self.single_observation_space = Dict({**picture_spaces(cameras.camera, cameras.sensors), **components.spaces})
        self.single_action_space = Discrete(len(Action))
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._agents_read, self._episodes_read = read_only(simulator.agents), read_only(simulator.episodes)
        self.timings = dict.fromkeys(PARTS, 0.0) if timings is None else timings
        self.parts: tuple[NavBatch, ...] = ()
        self._sent: tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, Any]] | None = None

    def __repr__(self) -> str:
        """How many environments in what, and what is asked, in a line."""
        scenes = [self.library.name(slot) for slot in self.library.active[:2].tolist()]
        more = ", ..." if len(self.library.names) > len(scenes) else ""
        return (
            f"{type(self).__name__}(num_envs={self.num_envs}, scenes=[{', '.join(map(repr, scenes))}{more}], "
            f"sensors={self.cameras.sensors}, task={self.task!r}, autoreset_mode={self.autoreset_mode.name.lower()!r})"
        )

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        """How notebooks show it: what the agents see, beside a table of its settings."""
        from gym_batchnav.viz.portraits import batch_bundle

        under_way = any(one._sent is not None for one in (self, *self.parts))
        return batch_bundle(self, under_way, include, exclude)

    # Gymnasium's vector API

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode in every environment, or in those of a mask.

        Args:
            seed: Environment i is seeded with ``seed + i``, or with ``seed[i]`` of a sequence; in a part of a batch, i
                counts from the batch's first for ``seed + i``. Seeding starts an environment's plan of scenes and
                episodes again. None goes on with the present plan.
            options: ``reset_mask``: [N] bool, the environments to reset (Gymnasium's). ``episode_index``: [N] int,
                the episode that each environment runs now, numbered as in the info of that name. ``episode_order``:
                ``"random"`` or ``"once"``, to change the order and begin anew.

        Returns:
            Observations and infos of all environments; those that are not reset keep theirs.
        """
        self._check_open("reset")
        self._check_whole("reset")
        options = options or {}
        if set(options) - {"reset_mask", "episode_index", "episode_order"}:
            raise ValueError(
                f"reset options {sorted(options)}: known are 'reset_mask', 'episode_index' and 'episode_order'"
            )
        mask = mask_of("reset_mask", options.get("reset_mask"), self.num_envs)
        if not (self.simulator.begun | mask).all():
            raise RuntimeError("the first reset must be of all environments: call reset() without 'reset_mask'")
        if isinstance(seed, (int, np.integer)):
            seed = int(seed) + self.simulator.first
        seeds = seeds_of(seed, self.num_envs)
        wanted, rows = options.get("episode_index"), None
        if wanted is not None:
            rows = episodes_of(wanted, self.num_envs, self.num_episodes)[mask]
        order = options.get("episode_order")
        if order is not None:
            check_choice("episode_order", order, EPISODE_ORDERS)
            self.simulator.change_order(order)
        self._abandon_step()
        self.simulator.seed(seeds, mask)
        self._begin_episodes(mask, rows)
        return self._observe(), self._info(self._measured())

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
        self._check_whole("step")
        actions = actions_of(actions, self.num_envs)
        beginning = self._beginning()
        active = self.episodes.valid & ~beginning
        clock = time.perf_counter()
        self.simulator.advance()
        clock = self._tick("episodes", clock)
        self.simulator.move(actions, active)
        clock = self._tick("move", clock)
        state = self.task_state
        self.components.update(state, actions, active)
        measures = self.components.measure(state)
        reward, terminated = self.components.score(state, measures, active)
        truncated = active & state.timed_out & ~terminated
        self.episodes.done[:] = terminated | truncated
        clock = self._tick("measure", clock)
        info = self._autoreset(beginning, measures)
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
        """Release what was drawn into, and let go of a step under way."""
        self._abandon_step()
        self.cameras.close()

    # Beyond Gymnasium

    @property
    def library(self) -> SceneLibrary:
        """The scenes."""
        return self.simulator.world.library

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

    @property
    def task(self) -> Task:
        """What is asked."""
        return self.components.task

    @property
    def task_state(self) -> TaskState:
        """What tasks, sensors and measures read."""
        return TaskState(
            agents=self._agents_read,
            episodes=self._episodes_read,
            memory=self.simulator.memory,
            navmesh=self.navmesh,
            max_episode_steps=self.max_episode_steps,
            success_distance=self.task.success_distance,
        )

    def episode_set(self, slot: int) -> EpisodeSet:
        """The episodes of the scene in a slot."""
        return self.simulator.world.episode_set(slot)

    def navmesh(self, slot: int) -> NavMesh:
        """The navmesh of the scene in a slot."""
        return self.simulator.world.navmesh(slot)

    def scene_name(self, index: int) -> str:
        """Name of the scene that environment ``index`` is in."""
        return self.library.name(int(self.agents.slot[index]))

    def episode_name(self, index: int) -> str:
        """Name of the episode that environment ``index`` runs, as its file has it."""
        return self.episode_set(int(self.agents.slot[index])).ids[int(self.episodes.episode[index])]

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
        self._check_whole("set_pose")
        mask = mask_of("mask", mask, self.num_envs)
        position = np.asarray(position, np.float32).reshape(self.num_envs, 3)
        heading = np.asarray(heading, np.float32).reshape(self.num_envs)
        self.simulator.set_pose(np.nonzero(mask)[0], position[mask], heading[mask])
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

    def _begin_episodes(self, mask: np.ndarray, wanted: np.ndarray | None = None) -> None:
        """Begin the next episodes, or those ``wanted`` [M] int, in the M environments of a mask [N] bool."""
        indices = self.simulator.begin_episodes(np.nonzero(mask)[0], wanted)
        self.components.begin(self.task_state, indices)

    def _autoreset(self, beginning: np.ndarray, measures: Measured) -> dict[str, Any]:
        """Begin the episodes that the autoreset mode begins in this step; returns the step's infos."""
        clock, done = time.perf_counter(), self.episodes.done.copy()
        ends = self._end_info(done, measures)
        if self.autoreset_mode != AutoresetMode.SAME_STEP or not done.any():
            if beginning.any():
                self._begin_episodes(beginning)
                measures = self._measured()
            info = {**self._info(measures), **ends}
            self._tick("episodes", clock)
            return info
        clock = self._tick("episodes", clock)
        final_obs = self._observe_some(np.nonzero(done)[0])  # in their old scene, before they move on
        clock = self._tick("render", clock)
        final_info = {**self._info(measures), **ends}
        self._begin_episodes(done | beginning)
        info = self._info(self._measured())
        self._tick("episodes", clock)
        info.update({"final_obs": final_obs, "_final_obs": done, "final_info": final_info, "_final_info": done.copy()})
        return info

    def _abandon_step(self) -> None:
        """Let go of a step that was sent and not received."""
        self._sent = None

    def _observe(self) -> Observation:
        """Read everything, and draw what has changed."""
        clock = time.perf_counter()
        images = self.cameras.refresh(self.agents)
        self._tick("render", clock)
        return self._observation(images)

    def _observation(self, images: dict[str, Any]) -> Observation:
        """What the agents see, given, and feel."""
        clock = time.perf_counter()
        felt = self.components.observe(self.task_state)
        observation = {**images, **{name: self.cameras.to_device(values) for name, values in felt.items()}}
        self._tick("observe", clock)
        return observation

    def _observe_some(self, indices: np.ndarray) -> Observation:
        """Dense observations of which only the rows ``indices`` [M] are filled; the others are zero."""
        felt = self.components.observe(self.task_state)
        dense = {name: spread(values[indices], indices, self.num_envs) for name, values in felt.items()}
        return {
            **self.cameras.of_some(self.agents, indices),
            **{name: self.cameras.to_device(values) for name, values in dense.items()},
        }

    def _measured(self) -> Measured:
        """The measures of the present state."""
        return self.components.measure(self.task_state)

    def _info(self, measures: Measured) -> dict[str, Any]:
        """Gymnasium's infos of any step: an array a key and its mask."""
        scene, episodes = self.agents.slot, self.episodes
        info: dict[str, Any] = {
            "scene_index": self.library.source_index[scene],
            "episode_index": self.simulator.schedule.index(scene, episodes.episode),
            **{name: measures[name].copy() for name in self.components.step_measures},
        }
        if self.simulator.schedule.order == "once":
            info["episode_valid"] = episodes.valid.copy()
        info.update({f"_{name}": np.ones(self.num_envs, bool) for name in tuple(info)})
        return info

    def _end_info(self, ended: np.ndarray, measures: Measured) -> dict[str, Any]:
        """Infos of the environments ``ended`` [N] bool, and their masks; none if there are none."""
        info: dict[str, Any] = {}
        for name in self.components.end_measures if ended.any() else ():
            values = measures[name]
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
        if not self.simulator.begun.all():
            raise RuntimeError(f"{what} before reset: call reset() first")
        if any(one._sent is not None for one in (self, *self.parts)):
            raise RuntimeError(f"{what} between send() and recv(): call recv() first")

    def _check_whole(self, what: str) -> None:
        """Refuse what is for the parts to do."""
        if any(not part.closed for part in self.parts):
            raise RuntimeError(f"{what} of a batch that is split: call it on its parts, or close() them first")

    def _tick(self, part: str, since: float) -> float:
        """Count the time since ``since`` towards a part of the step; returns the present time."""
        now = time.perf_counter()
        self.timings[part] += now - since
        return now
